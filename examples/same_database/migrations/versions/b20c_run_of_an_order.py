"""The run of an order."""

import sqlalchemy as sa
from alembic import op

revision = "b20c77e1f0aa"
down_revision = "9f3a21c0de44"


def upgrade() -> None:
    """Add the column and its index."""
    with op.batch_alter_table("orders") as orders:
        orders.add_column(sa.Column("run_id", sa.Text))
        orders.create_index("ix_orders_run_id", ["run_id"])


def downgrade() -> None:
    """Drop them."""
    with op.batch_alter_table("orders") as orders:
        orders.drop_index("ix_orders_run_id")
        orders.drop_column("run_id")
