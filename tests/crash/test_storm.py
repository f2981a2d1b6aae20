"""A short storm: kills, suspensions, wrong clocks and a locked file at random. `make crash STORM=300` is a long one."""

from pathlib import Path

import pytest
from fork_server import ForkServer
from random_kills import RandomKills
from stores import Store

pytestmark = pytest.mark.xdist_group("crash")


def test_a_short_storm(tmp_path: Path, store: Store, fork_servers: tuple[ForkServer, ForkServer]) -> None:
    """Nothing acknowledged is lost, no completed step is repeated, and every run ends as without disturbances."""
    storm = RandomKills(tmp_path, store, [*fork_servers], 4)
    assert storm.run() == 0
