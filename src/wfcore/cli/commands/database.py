"""`wfcore db`: the database's schema."""

from wfcore.adapters.sealing import file_of
from wfcore.cli.common import DATABASE, Config, Database, open_core


async def upgrade(*, database: Database = DATABASE, config: Config = None) -> None:
    """Upgrade the schema to this release. Creates the database if it does not exist."""
    async with open_core(database, config):
        print("the schema is that of this release")  # noqa: T201


async def check(*, database: Database = DATABASE, config: Config = None) -> None:
    """Check that the schema is that of this release; fails and prints the differences if not. Changes nothing."""
    from wfcore.domain.kernel.errors import Unavailable

    file = file_of(database)
    if file is not None and not file.exists():
        raise Unavailable(f"database `{file}` does not exist: run `wfcore db upgrade`")
    async with open_core(database, config, migrate=False) as core:
        if found := await core.ports.storage.schema_differences():
            raise Unavailable(f"the schema is not that of this release: {'; '.join(found)}")
        print("the schema is that of this release")  # noqa: T201
