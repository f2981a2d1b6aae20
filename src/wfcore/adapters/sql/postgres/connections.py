"""Connections to a PostgreSQL server, and its errors as those of the domain."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

import attrs
import psycopg
import sqlalchemy as sa
from psycopg import AsyncConnection

from wfcore.adapters.sql.schema.names import DEFAULT_SCHEMA, check_schema
from wfcore.adapters.sql.store import Synchronous
from wfcore.addresses import server_options
from wfcore.domain.kernel.errors import Invalid, Unavailable
from wfcore.ports.shards import Moving

_ISOLATION: Final = "SET default_transaction_isolation = 'read committed'"
"""Writers rely on it; a database or a role can have another default."""

_PLANNER_SETTINGS: Final = "SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off"
"""A list scans an index until its page is full. The planner overestimates the cost of the look-ups on the way; without
these settings it joins whole tables first, or compiles the statement.
"""

IDLE_SECONDS: Final = 20
"""How long a transaction can wait for its next statement. A process that is suspended keeps its connections and its
locks, and others would wait for them until it continues.
"""

_IDLE_LIMIT: Final = (
    f"SELECT set_config('idle_in_transaction_session_timeout', '{IDLE_SECONDS}s', false)"
    " WHERE current_setting('idle_in_transaction_session_timeout') = '0'"
)
"""A limit of the operator or of the URL stays."""

_NO_CONNECTION: Final = "This connection is closed"
"""The error of SQLAlchemy's pool when the server has closed each connection that it tried."""

_ROLLED_BACK: Final = "40"
_NO_TABLE: Final = "42P01"
_READ_ONLY: Final = "25006"
_NO_RIGHT: Final = "42501"
_TIMEOUTS: Final = ("25P03", "25P04")
_DAMAGED: Final = "XX"
_OWN_LIMIT: Final = "53400"
_MOVING: Final = "WF001"
"""Classes and codes of errors (PostgreSQL, appendix A). `_TIMEOUTS` are those of transactions, which an operator sets;
`_MOVING` is raised by the triggers of `shards.capture`.
"""


class RolledBack(Unavailable):
    """The database rolled a transaction back because of another one. Nothing was written; a retry can succeed."""


@attrs.frozen
class PostgresAddress:
    """The address of a database. Raises ValueError, without the password, unless it is `postgresql://host/name`.

    Of several hosts (libpq, "Specifying Multiple Hosts") it is the first that accepts writes.
    """

    url: str = attrs.field(repr=False)
    synchronous: Synchronous
    schema: str = attrs.field(default=DEFAULT_SCHEMA, converter=check_schema)

    def __attrs_post_init__(self) -> None:
        server_options(self.url)

    async def connect(self, *, autocommit: bool = False, also: str = "") -> AsyncConnection[Any]:
        """A new connection. `also`: further statements that initialize it."""
        commit_mode = "" if self.synchronous == "FULL" else "SET synchronous_commit = off"
        connection = await AsyncConnection.connect(**server_options(self.url), autocommit=True)
        try:
            await connection.execute(f"{_ISOLATION}; {_PLANNER_SETTINGS}; {_IDLE_LIMIT}; {commit_mode}; {also}")
            await connection.set_autocommit(autocommit)
        except BaseException:
            await connection.close()
            raise
        return connection


def check_alive(_: Any, record: sa.pool.ConnectionPoolEntry, __: Any) -> None:
    """A check at the checkout of a pool: if the server has closed the connection, the pool replaces all connections.

    It sends nothing. The first read consumes the server's last message, the second one detects the closed socket.
    """
    inner = cast("AsyncConnection[Any]", record.driver_connection).pgconn
    try:
        inner.consume_input()
        inner.consume_input()
    except psycopg.OperationalError as error:
        raise sa.exc.InvalidatePoolError(str(error)) from error


@contextmanager
def domain_errors() -> Iterator[None]:
    """Convert errors of the driver to those of the domain."""
    try:
        yield
    except (sa.exc.DBAPIError, psycopg.Error) as error:
        refused = _refusal(error.orig if isinstance(error, sa.exc.DBAPIError) else error)
        if refused is None:
            raise
        raise refused from error
    except sa.exc.InvalidRequestError as error:
        if str(error) != _NO_CONNECTION:
            raise
        raise Unavailable("the database does not answer: it closes its connections") from error
    except UnicodeEncodeError as error:
        raise Invalid("the database cannot store a value: the text has an unpaired surrogate") from error


def is_own_limit(error: Unavailable) -> bool:
    """Whether the server refused to go beyond a limit of its configuration, such as `temp_file_limit`."""
    cause = error.__cause__
    return _code_of(cause.orig if isinstance(cause, sa.exc.DBAPIError) else cause) == _OWN_LIMIT


def _code_of(error: BaseException | None) -> str:
    return getattr(error, "sqlstate", None) or ""


def _refusal(error: BaseException | None) -> Unavailable | Invalid | None:
    """The domain's error for a failed database or for a value that it cannot store; None for other errors."""
    message = str(error).partition("\n")[0]
    code = _code_of(error)
    if isinstance(error, psycopg.DataError):
        return Invalid(f"the database cannot store a value: {message}")
    if isinstance(error, psycopg.Error) and code == _MOVING:
        key = int(error.diag.message_detail or 0)
        return Moving("the organization is being moved to another database: try again", key)
    if code.startswith(_ROLLED_BACK):
        return RolledBack(f"the database rolled a transaction back: {message}")
    if code.startswith(_DAMAGED):
        return Unavailable(f"the database is damaged: {message}")
    if code in (_NO_TABLE, _NO_RIGHT, _READ_ONLY, *_TIMEOUTS) or isinstance(
        error, psycopg.OperationalError | psycopg.InterfaceError
    ):
        return Unavailable(f"the database does not answer: {message}")
    return None
