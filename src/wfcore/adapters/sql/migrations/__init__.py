"""The schema's history. What is released never changes; a new release adds a step."""

from pathlib import Path
from typing import Final

import attrs
import sqlalchemy as sa

from wfcore.domain.kernel.errors import Unavailable

_HERE: Final = Path(__file__).parent


@attrs.frozen
class RevisionChain:
    """A line of steps. They are numbered in order, so that a greater number is of a newer release."""

    head: str
    """The last step: the schema of the release."""
    folders: tuple[Path, ...]
    """Where the modules of the steps are, one `revision` each."""


RELEASED: Final = RevisionChain("0001", (_HERE / "versions",))
"""The history of this release."""

_LOCK: Final = 7_766_070_001
"""Of several processes that upgrade a server's database at once, one does it while the others wait."""


def fault(found: str | None, history: RevisionChain = RELEASED) -> str | None:
    """What is wrong, in words, with a database whose schema is `found`; None when it is this release's."""
    if found == history.head:
        return None
    if found is None:
        return "the database has no schema yet: run `wfcore db upgrade`"
    if found < history.head:
        return f"the schema `{found}` is older than `{history.head}`: run `wfcore db upgrade`"
    return f"the schema `{found}` is of a newer release than this one, which knows `{history.head}`"


def revision(connection: sa.Connection) -> str | None:
    """The schema a database has; None when it has none."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
    return found


def upgrade(connection: sa.Connection, history: RevisionChain = RELEASED) -> None:
    """Bring the schema to that of the release, in the open transaction. Raises Unavailable for a newer one."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    found = revision(connection)
    if found == history.head:
        return
    if found is not None and found > history.head:
        raise Unavailable(str(fault(found, history)))
    _run_steps(connection, history)


def _run_steps(connection: sa.Connection, history: RevisionChain) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", _option(_HERE))
    config.set_main_option("path_separator", "newline")
    config.set_main_option("version_locations", "\n".join(map(_option, history.folders)))
    config.attributes["connection"] = connection
    command.upgrade(config, history.head)


def _option(folder: Path) -> str:
    """A path as a value of Alembic's configuration, where `%` begins an interpolation."""
    return str(folder).replace("%", "%%")
