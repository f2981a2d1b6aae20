"""Write what a new database of each kind has: for `wfcore db check` to compare with, and the statements of a new SQLite
file. Run it after adding a step.
"""

import json
import sys
from pathlib import Path

import sqlalchemy as sa

from wfcore.adapters.sql import migrations
from wfcore.adapters.sql.migrations.fingerprint import fingerprint
from wfcore.adapters.sql.schema.names import VERSION_TABLE
from wfcore.adapters.sql.schema.tables import metadata

OWN_TABLES = "sqlite_%"
"""The names of tables that SQLite itself creates."""


def made(url: str) -> dict[str, str]:
    """The files for an empty database: their texts by name, once the steps have run."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        migrations.upgrade(connection)
        schema = fingerprint(connection, metadata.tables)
        files = {f"{engine.dialect.name}.json": json.dumps(schema, indent=1) + "\n"}
        if engine.dialect.name == "sqlite":
            files["sqlite.sql"] = script(connection)
    engine.dispose()
    return files


def script(connection: sa.Connection) -> str:
    """The statements that have made everything in the file, in their order."""
    made = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE ? ORDER BY rowid"
    statements = [_plain(statement) for (statement,) in connection.exec_driver_sql(made, (OWN_TABLES,))]
    (revision,) = connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalars()
    statements.append(f"INSERT INTO {VERSION_TABLE} VALUES ('{revision}')")
    return migrations.SEPARATOR.join(statements) + ";\n"


def _plain(statement: str) -> str:
    """Without spaces at the ends of lines, and indented as other files are."""
    return "\n".join(line.rstrip().replace("\t", "    ") for line in statement.strip().splitlines())


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[3]))
    from postgres_server import without_schema

    for url in ("sqlite://", without_schema().replace("postgresql:", "postgresql+psycopg:", 1)):
        for name, text in made(url).items():
            (Path(migrations.__file__).with_name("schemas") / name).write_text(text)
