"""The stores of crash tests: each creates a database once, and a copy of it for every experiment."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import psycopg
import sqlalchemy as sa

from wfcore.addresses import server_options

HOLD_LOCK = """
import contextlib, os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=2, isolation_level=None)
with contextlib.suppress(sqlite3.OperationalError):  # a suspended process can hold the lock
    connection.execute("BEGIN IMMEDIATE")
    os.kill(os.getpid(), signal.SIGSTOP)
"""

OWN = "the test"
"""The name of the connections of the test itself, which an outage leaves alone."""

_numbers = count(1)


class Store(Protocol):
    """`url` is that of the original database. `keeps_acknowledged`: an outage loses no acknowledged commit."""

    url: str
    keeps_acknowledged: bool

    def copy(self, place: Path) -> str:
        """The URL of a new copy of the original database."""
        ...

    def rows(self, url: str, question: str) -> list[tuple[Any, ...]]:
        """The rows of a query. Reading does not change what a killed process left. Of a live one, it can see a commit
        that is not finished: of a file, a copy is read.
        """
        ...

    def drop(self, url: str) -> None:
        """Delete the database."""
        ...

    def prepare_outages(self) -> None:
        """Let the store keep, through each outage, what it has acknowledged."""
        ...

    def disturb(self, url: str, choice: float, seconds: float) -> None:
        """Make the database unusable for a while. `choice`, from 0 to 1, selects how."""
        ...


class SqliteFiles:
    """Implements `Store`, for each scheme of URLs."""

    keeps_acknowledged = True

    def __init__(self, place: Path, scheme: str = "sqlite") -> None:
        self.url = f"{scheme}:///{place / 'seed.db'}"
        self._scheme = scheme

    def copy(self, place: Path) -> str:
        assert not _file(self.url).with_name("seed.db-wal").exists(), "the file must be complete without its log"
        shutil.copy(_file(self.url), place / "wfcore.db")
        return f"{self._scheme}:///{place / 'wfcore.db'}"

    def rows(self, url: str, question: str) -> list[tuple[Any, ...]]:
        with tempfile.TemporaryDirectory() as aside:
            for end in ("", "-wal"):
                file = _file(url).with_name(_file(url).name + end)
                if file.exists():
                    shutil.copy(file, Path(aside, file.name))
            connection = sqlite3.connect(Path(aside, _file(url).name))
            try:
                return connection.execute(question).fetchall()
            finally:
                connection.close()

    def prepare_outages(self) -> None:
        """Nothing: a file keeps it."""

    def disturb(self, url: str, choice: float, seconds: float) -> None:
        """Another process holds the lock for writing, stopped by SIGSTOP, until it is killed."""
        holder = subprocess.Popen([sys.executable, "-c", HOLD_LOCK, str(_file(url))])

        def end() -> None:
            holder.kill()
            holder.wait()

        threading.Timer(seconds, end).start()

    def drop(self, url: str) -> None:
        for file in _file(url).parent.glob(f"{_file(url).name}*"):
            file.unlink()


class PostgresServer:
    """Implements `Store` on the server of the other tests."""

    keeps_acknowledged = True

    def __init__(self) -> None:
        from postgres_server import without_schema  # a module that needs pytest

        self.url = without_schema()

    def copy(self, place: Path) -> str:
        seed = sa.make_url(self.url)
        name = f"{seed.database}_{next(_numbers)}"
        self._run(f"CREATE DATABASE {name} TEMPLATE {seed.database}")
        return seed.set(database=name).render_as_string(hide_password=False)

    def rows(self, url: str, question: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(**server_options(url)) as connection:
            from sql_texts import qualified

            return connection.execute(qualified(question)).fetchall()  # type: ignore[arg-type]

    def prepare_outages(self) -> None:
        for statement in ("ALTER SYSTEM SET synchronous_commit = on", "SELECT pg_reload_conf()"):
            self._run(statement)

    def disturb(self, url: str, choice: float, seconds: float) -> None:
        """Terminate all connections, or restart the server: `fast`, or `immediate`, which is a crash of the server."""
        own = "WFCORE_TEST_POSTGRES" not in os.environ
        if choice < 1 / 2 or not own:
            self._run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        else:
            from postgres_server import restart

            restart("fast" if choice < 3 / 4 else "immediate")

    def drop(self, url: str) -> None:
        self._run(f"DROP DATABASE {sa.make_url(url).database} WITH (FORCE)")

    def _run(self, statement: str) -> None:
        with self._connected() as connection:
            connection.execute(statement)  # type: ignore[arg-type]

    def _connected(self) -> psycopg.Connection[Any]:
        own = {"dbname": "postgres", "application_name": OWN}
        return psycopg.connect(**{**server_options(self.url), **own}, autocommit=True)


def _file(url: str) -> Path:
    return Path(url.partition(":///")[2])
