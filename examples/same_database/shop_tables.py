"""The tables of the product. Some have the names that wfcore's have without a prefix or schema."""

import sqlalchemy as sa

metadata = sa.MetaData()

groups = sa.Table("groups", metadata, sa.Column("id", sa.Integer, primary_key=True), sa.Column("name", sa.Text))

runs = sa.Table("runs", metadata, sa.Column("id", sa.Integer, primary_key=True), sa.Column("miles", sa.Integer))

orders = sa.Table(
    "orders",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("amount", sa.Integer, nullable=False),
    sa.Column("run_id", sa.Text, index=True),
)
