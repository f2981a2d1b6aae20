"""For the `env.py` of a product whose database wfcore shares: Alembic then leaves wfcore's tables alone.

from wfcore.contrib.alembic import include_name

context.configure(connection=connection, target_metadata=metadata, include_name=include_name)
"""

from collections.abc import Callable, Mapping
from typing import Any

from wfcore.adapters.sql.migrations.fingerprint import released
from wfcore.adapters.sql.schema.names import DEFAULT_SCHEMA, PREFIX, VERSION_TABLE

__all__ = ["include_name", "include_name_beside"]


def include_name(name: str | None, type_: str, parent_names: Mapping[Any, str | None]) -> bool:
    """Whether `alembic check` and `--autogenerate` compare an object of the database (`include_name` of `configure`).

    Tables that begin with `wfcore_` are wfcore's, and so is the schema `wfcore`, which Alembic sees with
    `include_schemas` only.
    """
    if type_ == "schema":
        return name != DEFAULT_SCHEMA
    table = name if type_ == "table" else parent_names.get("table_name")
    return table is None or not table.startswith(PREFIX)


def include_name_beside(schema: str) -> Callable[[str | None, str, Mapping[Any, str | None]], bool]:
    """The `include_name` of a product on PostgreSQL with wfcore in this schema, which can be its own, such as `public`.

    There the tables with the names of wfcore's are left out: no other ones can have them.
    """
    names = {*released("postgresql"), VERSION_TABLE}

    def include(name: str | None, type_: str, parent_names: Mapping[Any, str | None]) -> bool:
        table = name if type_ == "table" else parent_names.get("table_name")
        is_there = (parent_names.get("schema_name") or "public") == schema
        return type_ == "schema" or not is_there or table not in names

    return include
