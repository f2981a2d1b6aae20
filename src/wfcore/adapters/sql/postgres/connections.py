"""Connections to a PostgreSQL server, and what it says in the words of the domain."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

import attrs
import psycopg
import sqlalchemy as sa
from psycopg import AsyncConnection

from wfcore.adapters.sql.store import Synchronous
from wfcore.domain.kernel.errors import Invalid, Unavailable

CONNECT_SECONDS: Final = 10

_WALKS: Final = "SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off"
"""Lists are walks along an index that end with the page. The planner overrates what it takes to look rows up on the
way, and would rather join whole tables first, or compile the statement.
"""

_ROLLED_BACK: Final = "40"
_NO_TABLE: Final = "42P01"
"""Classes and codes of errors (PostgreSQL, appendix A)."""


class GivenUp(Unavailable):
    """The database gave a transaction up in favour of another one. Nothing was written, and it can be done again."""


@attrs.frozen
class PostgresAddress:
    """How a database is reached. Raises ValueError, without the password, for no `postgresql://host/name`."""

    url: str = attrs.field(repr=False)
    synchronous: Synchronous

    def __attrs_post_init__(self) -> None:
        try:
            scheme = sa.make_url(self.url).drivername
        except (sa.exc.ArgumentError, ValueError):
            scheme = ""
        if scheme != "postgresql":
            raise ValueError("the database URL is not the `postgresql://host/name` of a database")

    async def connect(self, *, autocommit: bool = False, also: str = "") -> AsyncConnection[Any]:
        """`also`: statements that the connection begins with."""
        haste = "" if self.synchronous == "FULL" else "SET synchronous_commit = off"
        connection = await AsyncConnection.connect(self.url, connect_timeout=CONNECT_SECONDS, autocommit=True)
        try:
            await connection.execute(f"{_WALKS}; {haste}; {also}")
            await connection.set_autocommit(autocommit)
        except BaseException:
            await connection.close()
            raise
        return connection


def refuse_ended(_: Any, record: sa.pool.ConnectionPoolEntry, __: Any) -> None:
    """Before a pool lends a connection: when the server has ended it meanwhile, the pool makes all of them anew.

    Nothing is asked. What the server said last is taken up first, and then that it has hung up.
    """
    inner = cast("AsyncConnection[Any]", record.driver_connection).pgconn
    try:
        inner.consume_input()
        inner.consume_input()
    except psycopg.OperationalError as error:
        raise sa.exc.InvalidatePoolError(str(error)) from error


@contextmanager
def translated() -> Iterator[None]:
    """What the driver says of a database that does not work, as the domain says it."""
    try:
        yield
    except (sa.exc.DBAPIError, psycopg.Error) as error:
        refused = _refusal(error.orig if isinstance(error, sa.exc.DBAPIError) else error)
        if refused is None:
            raise
        raise refused from error
    except UnicodeEncodeError as error:
        raise Invalid("the database cannot keep a value: text has half of a surrogate pair") from error


def _refusal(error: BaseException | None) -> Unavailable | Invalid | None:
    """What is wrong with the database, or with a value that it cannot keep; None for what is neither."""
    told = str(error).partition("\n")[0]
    code = getattr(error, "sqlstate", None) or ""
    if isinstance(error, psycopg.DataError):
        return Invalid(f"the database cannot keep a value: {told}")
    if code.startswith(_ROLLED_BACK):
        return GivenUp(f"the database gave a transaction up: {told}")
    if code == _NO_TABLE or isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return Unavailable(f"the database does not answer: {told}")
    return None
