"""Statements of tests, as text for SQLite: they name tables with their prefix, and run on both stores."""

import re

import sqlalchemy as sa

from wfcore.adapters.sql.schema.names import DEFAULT_SCHEMA
from wfcore.adapters.sql.schema.statement import Dialect, Statement

_TABLE = re.compile(r"\bwfcore_(?!version)\w+")
_PARAMETER = re.compile(r"\?")


def qualified(text: str, schema: str = DEFAULT_SCHEMA) -> str:
    """The text for PostgreSQL, with each table in the schema."""
    return _TABLE.sub(lambda found: f'"{schema}".{found[0].removeprefix("wfcore_")}', text)


def statement(text: str) -> Statement:
    """A statement with parameters `?`, numbered from the first."""

    def build(d: Dialect) -> str:
        named = _TABLE.sub(lambda found: d[sa.Table(found[0], sa.MetaData())], text)
        parts = _PARAMETER.split(named)
        return "".join([part + d[number] for number, part in enumerate(parts[:-1], 1)]) + parts[-1]

    return Statement(build)


def explained(one: Statement, with_plan: str = "EXPLAIN QUERY PLAN") -> Statement:
    """The statement that returns the plan of another one."""
    return Statement(lambda d: f"{with_plan} {one._build(d)}")
