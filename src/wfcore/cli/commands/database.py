"""`wfcore db`: the database's schema."""

from wfcore.adapters.sealing import file_of
from wfcore.cli.common import DATABASE, Config, Database, open_core


async def upgrade(*, database: Database = DATABASE, config: Config = None) -> None:
    """Bring the schema to this release's; the database is made when there is none."""
    async with open_core(database, config):
        print("the schema is that of this release")  # noqa: T201


async def check(*, database: Database = DATABASE, config: Config = None) -> None:
    """Say whether the schema is this release's, and what differs; fails when something does. Changes nothing."""
    from wfcore.domain.kernel.errors import Unavailable

    file = file_of(database)
    if file is not None and not file.exists():
        raise Unavailable(f"there is no database `{file}` yet: run `wfcore db upgrade`")
    async with open_core(database, config, migrate=False) as core:
        if found := await core.ports.storage.schema_differences():
            raise Unavailable(f"the schema is not that of this release: {'; '.join(found)}")
        print("the schema is that of this release")  # noqa: T201
