"""Three PostgreSQL databases as the shards of one installation."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from postgres_server import new_database

from wfcore.adapters.sql.shards import moving
from wfcore.adapters.sql.shards.moving import ShardDatabases
from wfcore.ports.shards import MAIN

CLEAN = """
DROP TABLE IF EXISTS wfcore.shards, wfcore.placements, wfcore.placement_changes;
DO $$
DECLARE name regclass;
BEGIN
    FOR name IN SELECT oid FROM pg_class WHERE relkind = 'S' LOOP
        EXECUTE format('ALTER SEQUENCE %s INCREMENT BY 1', name);
    END LOOP;
END $$"""
"""Leave nothing of shards in a database: other tests use it again."""

END_OTHERS = """
SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()"""
"""The server learns late that a process was killed, which keeps its locks until then."""


@contextmanager
def installation() -> Iterator[ShardDatabases]:
    """The shards `main`, `b` and `c`, empty. At the end nothing of them is left in the databases."""
    found = ShardDatabases({name: new_database() for name in (MAIN, "b", "c")}, "wfcore")
    try:
        for name in ("b", "c"):
            moving.add(found, name)
        yield found
    finally:
        for url in found.urls.values():
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(END_OTHERS)
                connection.execute("SET client_min_messages = warning")
                connection.execute("DROP SCHEMA IF EXISTS wfcore_moving CASCADE")
                connection.execute(CLEAN)
