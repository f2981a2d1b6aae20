"""The names of tables in constructed statements on PostgreSQL."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql.psycopg import dialect as PostgresPsycopg  # noqa: N812

from wfcore.adapters.sql.postgres.names import TableNames
from wfcore.adapters.sql.schema.names import VERSION_TABLE
from wfcore.adapters.sql.schema.tables import organizations, runs


def test_constructed_statements_name_tables_in_the_schema() -> None:
    """Only tables of wfcore: the version table and those of others keep their names and schemas; so do aliases."""
    dialect: Any = PostgresPsycopg()
    dialect.identifier_preparer = TableNames(dialect, "s")
    version = sa.table(VERSION_TABLE, sa.column("version_num"), schema="v")
    alias = runs.alias("wf")
    found = sa.select(organizations.c.key, alias.c.id, version.c.version_num).where(alias.c.org == organizations.c.key)
    assert " ".join(str(found.compile(dialect=dialect)).split()) == (
        "SELECT s.organizations.key, wf.id, v.wfcore_version.version_num"
        " FROM s.organizations, s.runs AS wf, v.wfcore_version WHERE wf.org = s.organizations.key"
    )
    removed = str(runs.delete().where(runs.c.id == "a").compile(dialect=dialect))
    assert removed.startswith("DELETE FROM s.runs WHERE s.runs.id = ")
