"""The names of tables in statements that SQLAlchemy compiles."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql.base import PGIdentifierPreparer

from wfcore.adapters.sql.schema.statement import own_name
from wfcore.adapters.sql.schema.tables import metadata


class TableNames(PGIdentifierPreparer):
    """Names in constructed statements on PostgreSQL: wfcore's tables are in the schema, without the prefix."""

    def __init__(self, dialect: sa.Dialect, schema: str) -> None:
        super().__init__(dialect)
        self._schema = schema
        self.schema_for_object = self._schema_of
        self._own = {table.name: own_name(table) for table in metadata.tables.values()}

    def _schema_of(self, of: Any) -> str:
        return self._schema if of.name in self._own else of.schema

    def quote(self, ident: str) -> str:
        """The identifier, in quotes where it needs them."""
        return super().quote(self._own.get(ident, ident))
