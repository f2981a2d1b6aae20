"""What Alembic runs: the steps, on the connection and in the transaction it was given."""

from alembic import context

from wfcore.adapters.sql.schema.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
context.run_migrations()
