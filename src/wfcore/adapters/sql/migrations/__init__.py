"""The schema's history. What is released never changes; a new release adds a step."""

from pathlib import Path
from typing import Final

import sqlalchemy as sa

from wfcore.domain.kernel.errors import Unavailable

REVISION: Final = "0001"
"""The schema of this release. Steps are numbered in order, so a greater one is of a newer release."""


_LOCK: Final = 7_766_070_001
"""Of several processes that upgrade a server's database at once, one does it while the others wait."""


def fault(found: str | None) -> str | None:
    """What is wrong, in words, with a database whose schema is `found`; None when it is this release's."""
    if found == REVISION:
        return None
    if found is None:
        return "the database has no schema yet: run `wfcore db upgrade`"
    if found < REVISION:
        return f"the schema `{found}` is older than `{REVISION}`: run `wfcore db upgrade`"
    return f"the schema `{found}` is of a newer release than this one, which knows `{REVISION}`"


def revision(connection: sa.Connection) -> str | None:
    """The schema a database has; None when it has none."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
    return found


def upgrade(connection: sa.Connection) -> None:
    """Bring the schema to this release's, in the open transaction. Raises Unavailable for a newer one."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    found = revision(connection)
    if found == REVISION:
        return
    if found is not None and found > REVISION:
        raise Unavailable(str(fault(found)))
    _run_steps(connection)


def _run_steps(connection: sa.Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, REVISION)
