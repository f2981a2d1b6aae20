"""Alembic's environment: it runs the steps on the connection and in the transaction that it receives."""

from alembic import context

from wfcore.adapters.sql.schema.names import VERSION_TABLE
from wfcore.adapters.sql.schema.tables import metadata

_given = context.config.attributes
context.configure(
    connection=_given["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    version_table=VERSION_TABLE,
    version_table_schema=_given["schema"],
)
context.run_migrations()
