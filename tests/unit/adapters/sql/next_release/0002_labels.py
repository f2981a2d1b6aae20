"""A second step, for a rehearsal, that expands the schema: a filled column, a new table, and a table made anew."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Column

from wfcore.adapters.sql.migrations.names import own

revision = "0002_0001"
down_revision = "0001"

INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Label every run by what ran, and count the labels."""
    runs, labels, executions = map(own, ("runs", "labels", "executions"))
    op.add_column(runs, Column("label", TEXT, nullable=False, server_default=""))
    op.execute(f"UPDATE {runs} SET label = (SELECT e.kind FROM {executions} e WHERE e.id = {runs}.execution)")
    op.create_index(own("runs_label"), runs, ["org", "label"])
    op.create_table(
        labels,
        Column("org", INT, sa.ForeignKey(own("organizations.key")), nullable=False),
        Column("label", TEXT, nullable=False),
        Column("runs", INT, nullable=False),
        sa.PrimaryKeyConstraint("org", "label"),
    )
    op.execute(f"INSERT INTO {labels} (org, label, runs) SELECT org, label, count(*) FROM {runs} GROUP BY org, label")
    with op.batch_alter_table(own("interrupts")) as interrupts:  # SQLite makes the table anew
        interrupts.alter_column("body", existing_type=TEXT, existing_nullable=False, server_default="[]")
