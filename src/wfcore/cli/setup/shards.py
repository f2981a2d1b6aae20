"""`wfcore shard`: the databases of an installation, and the organizations on them."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from wfcore.addresses import address_of
from wfcore.cli.client import Json
from wfcore.cli.common import DATABASE, Config, Database, Schema, open_core, print_message

if TYPE_CHECKING:
    from wfcore.adapters.sql.shards.moving import ShardDatabases

Shard = Annotated[str, Parameter(help="The name of the shard in `[shards]`; `main` is the database itself.")]


async def add(shard: Shard, /, *, database: Database = DATABASE, config: Config = None, schema: Schema = None) -> None:
    """Place new organizations on a shard too. All processes must have it in `[shards]` by now."""
    from wfcore.adapters.sql.shards import moving

    installation = _installation(database, config, schema)
    async with open_core(database, config, schema, migrate=True):  # creates the schema in every database
        moving.add(installation, shard)
    print_message(f"new organizations are placed on shard `{shard}` too")


def list_shards(
    *, json: Json = False, database: Database = DATABASE, config: Config = None, schema: Schema = None
) -> None:
    """List the shards, and how many organizations are on each."""
    from wfcore.adapters.sql.shards import moving
    from wfcore.cli.output import print_rows

    rows = moving.listed(_installation(database, config, schema))
    columns = {"name": "SHARD", "organizations": "ORGANIZATIONS"}
    print_rows([{"name": row.name, "organizations": row.organizations} for row in rows], columns, as_json=json)


def move(
    organization: Annotated[str, Parameter(help="The organization's UUID.")],
    shard: Shard,
    /,
    *,
    database: Database = DATABASE,
    config: Config = None,
    schema: Schema = None,
) -> None:
    """Move an organization to a shard. Its runs and streams go on; its writes wait a moment at the end.

    When it was killed, call it again: it completes or undoes what is left.
    """
    from wfcore.adapters.sql.shards import moving

    steps = list[str]()
    try:
        moved = moving.move(_installation(database, config, schema), organization, shard, steps.append)
    except KeyboardInterrupt:
        ended = f"the organization is on shard `{shard}`: a server or worker deletes its old rows, or the next move"
        print_message(ended if "final" in steps else "nothing has moved")
        raise
    print_message(f"moved {moved.rows} rows to shard `{shard}`; writes waited {moved.waited:.3f} seconds")


def _installation(database: str, config: str | None, schema: str | None) -> "ShardDatabases":
    """Raises BadSettings without shards."""
    from wfcore.adapters.sql.schema.names import DEFAULT_SCHEMA
    from wfcore.adapters.sql.shards.moving import ShardDatabases
    from wfcore.ports.shards import MAIN
    from wfcore.settings.installation import load
    from wfcore.settings.models import BadSettings

    shards = load(config).shards
    if not shards:
        raise BadSettings("`shards`: there are none: add `[shards]` with a name and the URL of a database")
    return ShardDatabases({MAIN: address_of(database), **shards}, schema or DEFAULT_SCHEMA)
