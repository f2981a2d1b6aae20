"""The database that an installation uses: its URL, in the forms that Python products have, or an SQLAlchemy engine."""

from typing import Any, Final

IN_MEMORY: Final = ("sqlite://", "sqlite:///:memory:")

_SCHEMES: Final = {
    "postgres": "postgresql",
    "postgresql+psycopg": "postgresql",
    "postgresql+psycopg2": "postgresql",
    "postgresql+asyncpg": "postgresql",
    "sqlite+pysqlite": "sqlite",
    "sqlite+aiosqlite": "sqlite",
}
"""Names of the same databases that SQLAlchemy and hosting providers use. The driver is always wfcore's own."""


def address_of(database: Any) -> str:
    """The URL as `postgresql://...` or `sqlite://...`, from a URL or from an SQLAlchemy engine, sync or async.

    Of an engine only its URL is used: wfcore connects by itself. Raises ValueError for an engine on a database in the
    memory of one connection, TypeError for any other value.
    """
    if isinstance(database, str):
        scheme, separator, rest = database.partition("://")
        return f"{_SCHEMES.get(scheme, scheme)}{separator}{rest}"
    url: Any = getattr(database, "url", None)
    if not hasattr(url, "render_as_string"):
        raise TypeError("`database` must be a URL or an SQLAlchemy engine")
    address = address_of(url.render_as_string(hide_password=False))
    if address in IN_MEMORY:
        raise ValueError("an engine in memory is not shared with wfcore: use a file, or the URL `sqlite://`")
    return address


def is_server(database: str) -> bool:
    """Whether a URL names a database server, which several machines can share."""
    return address_of(database).startswith("postgresql:")
