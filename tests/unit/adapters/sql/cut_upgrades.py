"""Upgrade copies of a database in processes that are killed, each before another change; print what each leaves.

Usage: cut_upgrades.py HISTORY_FOLDER DATABASE_URL, with the folders that tests import from on PYTHONPATH. Each line of
output is one process: how it ended, and whether the schema and the rows are the old or the new ones, before and after
another process upgraded the same copy to the end.
"""

import asyncio
import hashlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa
from filled import rows_of

from wfcore.adapters.sql import migrations
from wfcore.adapters.sql.migrations.fingerprint import fingerprint
from wfcore.adapters.sql.postgres.database import PostgresDatabase
from wfcore.adapters.sql.schema.tables import metadata
from wfcore.adapters.sql.sqlite.database import Database
from wfcore.adapters.sql.storage import SqlStorage

CHANGES = ("ALTER", "CREATE", "DELETE", "DROP", "INSERT", "UPDATE")
NEXT = migrations.RevisionChain("0002_0001", (*migrations.RELEASED.folders, Path(sys.argv[1])))


def copy_of(url: str, number: int) -> str:
    """A copy of a database that nobody has open."""
    parts = sa.make_url(url)
    name = f"{parts.database}_{number}"
    if parts.drivername == "sqlite":
        shutil.copy(str(parts.database), name)
    else:
        with psycopg.connect(parts.set(database="postgres").render_as_string(False), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{parts.database}"')  # type: ignore[arg-type]
    return parts.set(database=name).render_as_string(False)


def in_a_process(work: Callable[[], Any]) -> int:
    """The exit status of a process that did this; negative for the signal that ended it."""
    pid = os.fork()
    if not pid:
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def upgrade(url: str, last: int | None = None) -> None:
    """As a program does it; the process is killed before the change that follows the `last` one."""
    passed = count(1)

    def pass_one(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if last is not None and statement.split(maxsplit=1)[0] in CHANGES and next(passed) > last:
            os.kill(os.getpid(), signal.SIGKILL)

    async def run() -> None:
        database: Any = (PostgresDatabase if url.startswith("postgresql") else Database)(url, synchronous="NORMAL")
        await database.open()
        await SqlStorage(database, NEXT).upgrade()
        await database.close()

    sa.event.listen(sa.Engine, "before_cursor_execute", pass_one)
    asyncio.run(run())


def left_in(url: str) -> list[str | None]:
    """The revision, and digests of the schema and of the rows."""
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:", 1))
    with engine.connect() as connection:
        schema = fingerprint(connection, [*metadata.tables, "wfcore_labels"])
        found = [migrations.revision(connection), *map(digest, (schema, rows_of(connection)))]
    engine.dispose()
    return found


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, default=repr).encode()).hexdigest()


def main(url: str) -> None:
    old = left_in(url)
    whole = copy_of(url, 0)
    in_a_process(lambda: upgrade(whole))
    names = {json.dumps(old): "old", json.dumps(left_in(whole)): "new"}
    for number in count(1):
        copy = copy_of(url, number)
        status = in_a_process(lambda copy=copy, last=number - 1: upgrade(copy, last))  # type: ignore[misc]
        left = names.get(json.dumps(left_in(copy)), "half")
        in_a_process(lambda copy=copy: upgrade(copy))  # type: ignore[misc]
        print(status, left, names.get(json.dumps(left_in(copy)), "half"))
        if status != -signal.SIGKILL:
            return


if __name__ == "__main__":
    main(sys.argv[2])
