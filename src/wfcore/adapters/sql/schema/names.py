"""The names of wfcore's tables in a database that other software also uses.

On SQLite the name of a table begins with `PREFIX`. On PostgreSQL the tables are in one schema and have no prefix.
"""

import re
from typing import Final

PREFIX: Final = "wfcore_"
VERSION_TABLE: Final = "wfcore_version"
"""The table with the revision of the schema, on both stores."""

DEFAULT_SCHEMA: Final = "wfcore"

NO_RESOURCE: Final = 2**40
"""The targets of runs without a resource are greater."""

_SCHEMA: Final = re.compile(r"(?!pg_|information_schema\Z)[a-z_][a-z0-9_]{0,62}\Z", re.ASCII)


def check_schema(name: str) -> str:
    """The name of a PostgreSQL schema. Raises ValueError for a name that would need quotes or is the server's own."""
    if not _SCHEMA.match(name):
        allowed = "use 1 to 63 of a-z, 0-9 and _, beginning with a letter or _ and not with pg_"
        raise ValueError(f"`schema` is not valid: `{name}`: {allowed}")
    return name
