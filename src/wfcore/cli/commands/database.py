"""`wfcore db`: the database's schema."""

from typing import TYPE_CHECKING

from wfcore.adapters.sealing import file_of
from wfcore.cli.common import DATABASE, Config, Database, Flag, Schema, open_core

if TYPE_CHECKING:
    from wfcore.core import Core


async def upgrade(*, database: Database = DATABASE, config: Config = None, schema: Schema = None) -> None:
    """Upgrade the schema to this release. Creates the database if it does not exist."""
    async with open_core(database, config, schema):
        print("the schema is that of this release")  # noqa: T201


async def check(
    *, deep: Flag = False, database: Database = DATABASE, config: Config = None, schema: Schema = None
) -> None:
    """Check that the schema is that of this release; fails and prints the differences if not. Changes nothing.

    Parameters
    ----------
    deep
        Also read the journals of all runs and verify their checksums; prints the id of each damaged run.
    """
    from wfcore.domain.kernel.errors import Unavailable

    file = file_of(database)
    if file is not None and not file.exists():
        raise Unavailable(f"database `{file}` does not exist: run `wfcore db upgrade`")
    async with open_core(database, config, schema, migrate=False) as core:
        if found := await core.ports.storage.schema_differences():
            raise Unavailable(f"the schema is not that of this release: {'; '.join(found)}")
        print("the schema is that of this release")  # noqa: T201
        if deep:
            await _check_journals(core)


async def _check_journals(core: "Core") -> None:
    """Print the id of each damaged run. Raises Unavailable when there are any."""
    from wfcore.domain.kernel.errors import Unavailable

    damaged = 0
    async for run_id in core.ports.journal.damaged():
        damaged += 1
        print(run_id)  # noqa: T201
    if damaged:
        raise Unavailable(f"the journals of {damaged} runs are damaged")
    print("all journals are intact")  # noqa: T201
