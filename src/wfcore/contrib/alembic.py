"""For the `env.py` of a product whose database wfcore shares: Alembic then leaves wfcore's tables alone.

from wfcore.contrib.alembic import include_name

context.configure(connection=connection, target_metadata=metadata, include_name=include_name)
"""

from collections.abc import Mapping

from wfcore.adapters.sql.schema.names import DEFAULT_SCHEMA, PREFIX

__all__ = ["include_name"]


def include_name(name: str | None, type_: str, parent_names: Mapping[str, str | None]) -> bool:
    """Whether `alembic check` and `--autogenerate` compare an object of the database (`include_name` of `configure`).

    Tables that begin with `wfcore_` are wfcore's, and so is the schema `wfcore`, which Alembic sees with
    `include_schemas` only.
    """
    if type_ == "schema":
        return name != DEFAULT_SCHEMA
    table = name if type_ == "table" else parent_names.get("table_name")
    return table is None or not table.startswith(PREFIX)
