"""A product with its own connections to the database of wfcore: one of each kind, with a transaction of its own."""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager
from typing import Any, Final

import attrs
import psycopg
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from wfcore.adapters.sql import migrations

ORDERS: Final = "CREATE TABLE orders (id text)"


@attrs.frozen
class Product:
    """One open transaction."""

    connection: Any
    execute: Callable[[str], Awaitable[Any]]
    commit: Callable[[], Awaitable[Any]]
    rollback: Callable[[], Awaitable[Any]]


Kind = Callable[[str], AbstractAsyncContextManager[Product]]


def later(work: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    async def done(*args: Any) -> Any:
        return work(*args)

    return done


def in_sql(work: Callable[[Any], Any]) -> Callable[[str], Any]:
    return lambda statement: work(sa.text(statement))


@asynccontextmanager
async def plain_sqlite(url: str) -> AsyncIterator[Product]:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    connection.row_factory = sqlite3.Row
    try:
        yield Product(connection, later(connection.execute), later(connection.commit), later(connection.rollback))
    finally:
        connection.close()


@asynccontextmanager
async def plain_psycopg(url: str) -> AsyncIterator[Product]:
    connection = psycopg.connect(url, row_factory=psycopg.rows.dict_row)
    try:
        yield Product(connection, later(connection.execute), later(connection.commit), later(connection.rollback))
    finally:
        connection.close()


@asynccontextmanager
async def async_psycopg(url: str) -> AsyncIterator[Product]:
    connection = await psycopg.AsyncConnection.connect(url, row_factory=psycopg.rows.dict_row)
    execute: Any = connection.execute
    try:
        yield Product(connection, execute, connection.commit, connection.rollback)
    finally:
        await connection.close()


def engine_url(url: str, sqlite: str = "sqlite", server: str = "psycopg") -> str:
    return url.replace("postgresql:", f"postgresql+{server}:", 1).replace("sqlite:", f"{sqlite}:", 1)


@contextmanager
def engine_on(url: str, server: str = "psycopg") -> Iterator[sa.Engine]:
    engine = sa.create_engine(engine_url(url, server=server))
    try:
        yield engine
    finally:
        engine.dispose()


@asynccontextmanager
async def async_engine_on(url: str, server: str = "psycopg") -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(engine_url(url, "sqlite+aiosqlite", server))
    try:
        yield engine
    finally:
        await engine.dispose()


@asynccontextmanager
async def connection(url: str) -> AsyncIterator[Product]:
    with engine_on(url) as engine, engine.connect() as opened:
        yield Product(opened, later(in_sql(opened.execute)), later(opened.commit), later(opened.rollback))


@asynccontextmanager
async def session(url: str) -> AsyncIterator[Product]:
    with engine_on(url) as engine, Session(engine) as opened:
        yield Product(opened, later(in_sql(opened.execute)), later(opened.commit), later(opened.rollback))


@asynccontextmanager
async def async_connection(url: str) -> AsyncIterator[Product]:
    async with async_engine_on(url) as engine, engine.connect() as opened:
        yield Product(opened, in_sql(opened.execute), opened.commit, opened.rollback)


@asynccontextmanager
async def async_session(url: str) -> AsyncIterator[Product]:
    async with async_engine_on(url) as engine, AsyncSession(engine) as opened:
        yield Product(opened, in_sql(opened.execute), opened.commit, opened.rollback)


@asynccontextmanager
async def connection_of_psycopg2(url: str) -> AsyncIterator[Product]:
    with engine_on(url, "psycopg2") as engine, engine.connect() as opened:
        yield Product(opened, later(in_sql(opened.execute)), later(opened.commit), later(opened.rollback))


@asynccontextmanager
async def session_of_asyncpg(url: str) -> AsyncIterator[Product]:
    async with async_engine_on(url, "asyncpg") as engine, AsyncSession(engine) as opened:
        yield Product(opened, in_sql(opened.execute), opened.commit, opened.rollback)


ON_BOTH: Final[list[Kind]] = [connection, session, async_connection, async_session]
KINDS: Final[dict[str, list[Kind]]] = {
    "sqlite": [plain_sqlite, *ON_BOTH],
    "postgresql": [plain_psycopg, async_psycopg, *ON_BOTH, connection_of_psycopg2, session_of_asyncpg],
}
"""The kinds of connections to each store."""


def orders_of(url: str) -> list[str]:
    """The orders that the product committed."""
    engine = sa.create_engine(engine_url(url))
    with engine.begin() as opened:
        found = list(opened.scalars(sa.text("SELECT id FROM orders ORDER BY id")))
    engine.dispose()
    return found


def create_orders(url: str) -> None:
    """Create the product's table beside those of wfcore, which a new file has too.

    In a file that has other tables already, wfcore runs each step of the schema: the work of several short tests.
    """
    if url.startswith("sqlite:"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
            file.executescript(";\n".join(["BEGIN", *migrations.new_file(), ORDERS, "COMMIT"]))
    else:
        with psycopg.connect(url, autocommit=True) as server:
            server.execute(ORDERS)
