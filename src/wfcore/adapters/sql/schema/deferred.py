"""SQLAlchemy and the tables declared with it, imported with the first statement that SQLAlchemy constructs.

A statement in text needs only the names of its tables. A file is opened, and its runs are driven, with such statements.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

from wfcore.imports import without_collections

if TYPE_CHECKING:
    import sqlalchemy as sa

    from wfcore.adapters.sql.schema import dialect

__all__ = ["MODULES", "dialect", "sa", "table"]

MODULES: Final = ("sqlalchemy", "sqlalchemy.dialects.sqlite", "wfcore.adapters.sql.schema.tables")
"""What the first constructed statement imports on a file.

The package comes first: an import of one of its modules locks that module and then waits for the package. Another
thread that is importing the package needs that module, and Python gives it an incomplete one.
"""


class _Module:
    """A module that is imported when one of its names is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        with without_collections():
            found = getattr(import_module(self._name), name)
        setattr(self, name, found)
        return found


if not TYPE_CHECKING:
    sa: Final = _Module("sqlalchemy")
    dialect: Final = _Module("wfcore.adapters.sql.schema.dialect")

_tables: Final[Any] = _Module("wfcore.adapters.sql.schema.tables")


class _Table:
    """The table of a name. In constructed statements, and in all but its name, it is SQLAlchemy's table."""

    is_clause_element = False
    """SQLAlchemy then calls `__clause_element__`."""

    def __init__(self, name: str) -> None:
        self.name: Final = name

    def __clause_element__(self) -> "sa.Table":
        found: sa.Table = _tables.metadata.tables[self.name]
        return found

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.__clause_element__(), name)
        setattr(self, name, found)
        return found


def table(name: str) -> "sa.Table":
    """The table of this name, which `schema.tables` declares."""
    return cast("sa.Table", _Table(name))
