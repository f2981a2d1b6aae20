"""The names of wfcore's tables in a database that other software also uses.

Every statement names a table by its name on SQLite, which begins with `PREFIX`. On PostgreSQL the tables are in one
schema and have no prefix: `qualified` replaces the prefix by the schema.
"""

import re
from functools import lru_cache
from typing import Final

PREFIX: Final = "wfcore_"
VERSION_TABLE: Final = "wfcore_version"
"""The table with the revision of the schema, on both stores."""

DEFAULT_SCHEMA: Final = "wfcore"

_TABLE: Final = re.compile(rf"\b{PREFIX}(?!version)")
_SCHEMA: Final = re.compile(r"(?!pg_|information_schema\Z)[a-z_][a-z0-9_]{0,62}\Z", re.ASCII)


def check_schema(name: str) -> str:
    """The name of a PostgreSQL schema. Raises ValueError for a name that would need quotes or is the server's own."""
    if not _SCHEMA.match(name):
        allowed = "use 1 to 63 of a-z, 0-9 and _, beginning with a letter or _ and not with pg_"
        raise ValueError(f"`schema` is not valid: `{name}`: {allowed}")
    return name


@lru_cache(maxsize=1024)
def qualified(statement: str, schema: str) -> str:
    """The statement for PostgreSQL, with each table in the schema."""
    return _TABLE.sub(f'"{schema}".', statement)
