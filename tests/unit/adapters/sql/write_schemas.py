"""Write what a new database of each kind has, for `wfcore db check` to compare with. Run it after adding a step."""

import json
import sys
from pathlib import Path

import sqlalchemy as sa

from wfcore.adapters.sql import migrations
from wfcore.adapters.sql.migrations.fingerprint import fingerprint
from wfcore.adapters.sql.schema.tables import metadata


def made(url: str) -> tuple[str, str]:
    """The name of the file for an empty database, and its text once the steps have run."""
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        migrations.upgrade(connection)
        schema = fingerprint(connection, metadata.tables)
    engine.dispose()
    return f"{engine.dialect.name}.json", json.dumps(schema, indent=1) + "\n"


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[3]))
    from postgres_server import without_schema

    for url in ("sqlite://", without_schema().replace("postgresql:", "postgresql+psycopg:", 1)):
        name, text = made(url)
        (Path(migrations.__file__).with_name("schemas") / name).write_text(text)
