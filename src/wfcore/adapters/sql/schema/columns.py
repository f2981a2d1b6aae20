"""The columns of the tables, and the `metadata` that has the tables."""

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Boolean, Column, ForeignKey

from wfcore.adapters.sql.schema.dialect import INT, TEXT

metadata: Final = sa.MetaData()


def text(name: str, *, null: bool = False) -> Column[Any]:
    return Column(name, TEXT, nullable=null)


def integer(name: str, *, null: bool = False) -> Column[Any]:
    return Column(name, INT, nullable=null)


def boolean(name: str) -> Column[Any]:
    return Column(name, Boolean, nullable=False)


def organization() -> Column[Any]:
    """The organization of a row, by its key."""
    return Column("org", INT, ForeignKey("wfcore_organizations.key"), nullable=False)
