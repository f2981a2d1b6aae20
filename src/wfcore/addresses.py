"""The database that an installation uses: its URL, in the forms that Python products have, or an SQLAlchemy engine."""

from collections.abc import Mapping
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

_CONNECTING: Final[Mapping[str, Any]] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""Options of libpq for what a URL leaves open. A server that vanishes without closing its connections, as a machine
without power does, is noticed within 25 seconds. Linux waits 15 minutes for one in use, and 2 hours for an idle one.
"""

_ENCODING: Final[Mapping[str, Any]] = {"client_encoding": "UTF8"}
"""Of every connection, whatever the URL, `PGCLIENTENCODING` and the role say: any text can be stored."""


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
        kind = type(database).__name__
        raise TypeError(f"`database` must be a URL, such as `sqlite:///app.db`, or an SQLAlchemy engine, not `{kind}`")
    address = address_of(url.render_as_string(hide_password=False))
    if address in IN_MEMORY:
        raise ValueError("an engine in memory is not shared with wfcore: use a file, or the URL `sqlite://`")
    return address


def is_off_loop(database: Any) -> bool:
    """Whether the URL, or that of the engine, has the driver `aiosqlite`: no call of SQLite runs on the event loop."""
    return str(getattr(database, "url", database)).startswith("sqlite+aiosqlite:")


def is_server(database: str) -> bool:
    """Whether a URL names a database server, which several machines can share."""
    return address_of(database).startswith("postgresql:")


def shown(url: str) -> str:
    """The URL of a database as messages show it: without the user, the password and the options."""
    if not is_server(url):
        return url
    options = server_options(address_of(url))
    return f"postgresql://{options.get('host', '')}/{options.get('dbname', '')}"


def server_options(url: str) -> dict[str, Any]:
    """The options of libpq for a URL of PostgreSQL. Of several hosts it uses the first that accepts writes.

    Raises ValueError, without the password, for a URL that is not valid. Needs the extra `postgres`.
    """
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        options = conninfo_to_dict(url) if url.startswith("postgresql://") else None
        _ = [int(port) for port in str((options or {}).get("port", "")).split(",") if port]
        _ = float(str((options or {}).get("connect_timeout", 0)))
    except (ProgrammingError, ValueError):
        options = None
    hosts = "" if options is None else f"{options.get('host')}{options.get('hostaddr')}"
    if options is None or "@" in hosts:  # libpq takes what follows the first `@` of a password as the host
        raise ValueError(
            "the database URL is not valid: use `postgresql://host/name`, write `@` in a password as `%40`, and use"
            " options of libpq as in `?sslmode=require&connect_timeout=10`"
        )
    several = "," in hosts
    return {**_CONNECTING, **({"target_session_attrs": "read-write"} if several else {}), **options, **_ENCODING}
