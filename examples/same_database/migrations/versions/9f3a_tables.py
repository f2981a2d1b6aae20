"""The product's tables."""

import sqlalchemy as sa
from alembic import op

revision = "9f3a21c0de44"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table("groups", sa.Column("id", sa.Integer, primary_key=True), sa.Column("name", sa.Text))
    op.create_table("runs", sa.Column("id", sa.Integer, primary_key=True), sa.Column("miles", sa.Integer))
    op.create_table(
        "orders", sa.Column("id", sa.Text, primary_key=True), sa.Column("amount", sa.Integer, nullable=False)
    )


def downgrade() -> None:
    """Drop the tables."""
    for name in ("orders", "runs", "groups"):
        op.drop_table(name)
