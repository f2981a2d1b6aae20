"""The product's environment of Alembic. All that wfcore needs in it is `include_name`, on SQLite."""

import os

import sqlalchemy as sa
from alembic import context
from shop_tables import metadata

from wfcore.contrib.alembic import include_name

engine = sa.create_engine(os.environ["SHOP_DATABASE"].replace("postgresql:", "postgresql+psycopg:", 1))
with engine.begin() as connection:
    context.configure(connection=connection, target_metadata=metadata, include_name=include_name, render_as_batch=True)
    context.run_migrations()
engine.dispose()
