"""How signals end the processes of `wfcore`."""

import signal
from pathlib import Path

from commands import ended_by, serving, working


def test_a_hangup_ends_a_server_as_sigterm_does(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, _):
        ended_by(server, signal.SIGHUP)


def test_a_hangup_ends_a_worker_as_sigterm_does(tmp_path: Path) -> None:
    with working(tmp_path) as worker:
        ended_by(worker, signal.SIGHUP)
