"""A third step, for a rehearsal, that contracts the schema: what only the second release uses is removed."""

from alembic import op

from wfcore.adapters.sql.migrations.names import own

revision = "0003"
down_revision = "0002_0001"


def upgrade() -> None:
    """Remove the labels of runs."""
    op.drop_index(own("runs_label"), own("runs"))
    op.drop_column(own("runs"), "label")
