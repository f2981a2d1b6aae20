"""The names of tables and indexes in the steps of the schema's history."""

from alembic import op

from wfcore.adapters.sql.schema.names import PREFIX


def own(name: str) -> str:
    """The name of a table, of a column as `table.column`, or of an index, in the database that is upgraded.

    SQLite has one namespace for all, so the name gets a prefix. On PostgreSQL the schema of wfcore is the first of the
    search path.
    """
    return name if op.get_bind().dialect.name == "postgresql" else f"{PREFIX}{name}"
