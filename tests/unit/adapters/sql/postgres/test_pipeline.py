"""A connection as a pipeline: what comes back to whom, and what is left of it when something fails."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from postgres_server import new_database

from wfcore.adapters.sql.postgres.connections import PostgresAddress
from wfcore.adapters.sql.postgres.pipeline import PipelineClient, PipelineConnection, StatementResult
from wfcore.domain.kernel.errors import Invalid, Unavailable

pytestmark = pytest.mark.anyio

ECHO = "SELECT CAST($1 AS text)"
ADD = "INSERT INTO workers (host, pid, seen_at) VALUES ($1, 1, $2)"
HOSTS = "SELECT host FROM workers ORDER BY id"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def server() -> PostgresAddress:
    return PostgresAddress(new_database(), "NORMAL")


@pytest.fixture
async def client(server: PostgresAddress, anyio_backend: str) -> AsyncIterator[PipelineClient]:
    client = PipelineClient(server)
    yield client
    await client.close()


async def hosts(client: PipelineClient) -> list[str]:
    return [host for (host,) in (await client.execute((HOSTS, ()))).rows]


async def add(connection: PipelineConnection, host: str, then: str | None) -> None:
    """A transaction that adds a host, and then asks something, or has nothing to ask and fails."""
    async with connection.transaction() as execute:
        await execute([(ADD, (host, 1))])
        if then is None:
            raise KeyError
        await execute([(then, ())])


class TestExchanges:
    async def test_each_gets_its_own(self, client: PipelineClient) -> None:
        """However many ask before the first is answered; one that fails disturbs nobody."""
        asked: list[Any] = [client.execute((ECHO, (f"{number}",))) for number in range(20)]
        asked.insert(7, client.execute(("SELECT 1 / CAST($1 AS int)", (0,))))
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(outcomes.pop(7), Invalid)
        assert [outcome.rows for outcome in outcomes] == [[(f"{number}",)] for number in range(20)]

    async def test_what_is_asked_together_is_one_transaction(self, client: PipelineClient) -> None:
        """All of it is done, or nothing; the first error is told."""
        async with client.exclusive() as connection:
            assert await connection.send([(ADD, ("a", 1)), (HOSTS, ()), (ADD, ("b", 2))]) == [
                StatementResult(1, []), StatementResult(1, [("a",)]), StatementResult(1, []),
            ]  # fmt: skip
            with pytest.raises(psycopg.errors.DivisionByZero):
                await connection.send([(ADD, ("c", 3)), ("SELECT 1 / 0", ()), (ADD, ("d", 4))])
            assert await connection.send([]) == []
        assert await hosts(client) == ["a", "b"]

    async def test_a_statement_that_could_not_be_prepared(self, client: PipelineClient) -> None:
        """Is prepared once it can be."""
        for _ in range(2):
            with pytest.raises(Unavailable):
                await client.execute(("SELECT a FROM later", ()))
        await client.execute(("CREATE TABLE later (a text)", ()))
        assert (await client.execute(("SELECT a FROM later", ()))).rows == []

    @pytest.mark.parametrize("values", [(1, 2**62, -1), (None, 7), (7, None), (True, None, False), (b"\0\xff", b"")])
    async def test_values_of_a_statement(self, client: PipelineClient, values: tuple[Any, ...]) -> None:
        """It is prepared for the first ones, and takes all others of the type."""
        kind = {int: "bigint", bool: "boolean", bytes: "bytea"}[type(values[0] or values[1] or 0)]
        for value in values:
            assert (await client.execute((f"SELECT CAST($1 AS {kind})", (value,)))).rows == [(value,)]

    @pytest.mark.parametrize("text", ["nul\0", "half\ud800"])
    async def test_text_that_cannot_be_kept(self, client: PipelineClient, text: str) -> None:
        """Is refused before anything goes out, and what comes next is none the worse."""
        async with client.exclusive() as connection:
            with pytest.raises((psycopg.DataError, UnicodeEncodeError)):
                connection.send([(ADD, ("a", 1)), (ADD, (text, 1))])
        with pytest.raises(Invalid):
            await client.execute((ECHO, (text,)))
        assert await hosts(client) == []

    async def test_more_than_the_socket_takes(self, client: PipelineClient) -> None:
        """Megabytes go out and come in while others ask."""
        texts = ["x" * 5_000_000, "y", "z" * 5_000_000]
        answers = await asyncio.gather(*(client.execute((ECHO, (text,))) for text in texts))
        assert [answer.rows[0][0] == text for answer, text in zip(answers, texts, strict=True)] == [True] * 3

    async def test_who_stops_waiting(self, client: PipelineClient) -> None:
        """Does not take the next one's answer, and what he asked is done."""
        await client.execute((ECHO, ("",)))
        gone = asyncio.create_task(client.execute((ADD, ("a", 1))))
        await asyncio.sleep(0)
        gone.cancel()
        assert await hosts(client) == ["a"]
        assert gone.cancelled()


class TestTransactions:
    @pytest.mark.parametrize(("then", "error"), [("SELECT 1 / 0", psycopg.errors.DivisionByZero), (None, KeyError)])
    async def test_rolled_back(self, client: PipelineClient, then: str | None, error: type[Exception]) -> None:
        """Whoever refuses, the server or the caller, nothing is written, and the connection stays."""
        async with client.exclusive() as connection:
            with pytest.raises(error):
                await add(connection, "a", then)
            await add(connection, "b", "SELECT 1")
        async with client.exclusive() as again:
            assert again is connection
        assert await hosts(client) == ["b"]

    async def test_one_that_is_broken_off(self, client: PipelineClient) -> None:
        """Leaves nothing, and the next one has another connection."""
        reached = asyncio.Event()

        async def work() -> None:
            async with client.exclusive() as connection, connection.transaction() as execute:
                await execute([(ADD, ("a", 1))])
                reached.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await hosts(client) == []

    async def test_one_at_a_time(self, client: PipelineClient) -> None:
        """Whoever wants the connection alone waits for whoever has it."""
        order = list[str]()

        async def work(name: str) -> None:
            async with client.exclusive() as connection, connection.transaction() as execute:
                order.append(name)
                await execute([(ADD, (name, 1))])
                order.append(name)

        await asyncio.gather(work("a"), work("b"))
        assert order == ["a", "a", "b", "b"]


class TestLoss:
    async def test_everybody_who_waits_is_told(self, client: PipelineClient, server: PostgresAddress) -> None:
        """By an exception of his own; then there is a new connection."""
        async with client.exclusive() as connection:
            ((pid,),) = (await connection.send([("SELECT pg_backend_pid()", ())]))[0].rows
        waiting = [asyncio.create_task(client.execute(("SELECT pg_sleep($1)", (60,)))) for _ in range(3)]
        await asyncio.sleep(0)
        async with await server.connect(autocommit=True) as other:
            await other.execute("SELECT pg_terminate_backend(%s)", (pid,))
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [Unavailable] * 3
        assert len({id(outcome) for outcome in outcomes}) == 3
        assert connection.lost
        assert await hosts(client) == []

    async def test_a_connection_that_breaks_as_one_asks(self, client: PipelineClient) -> None:
        """Is told to who asked, and the next one has another."""
        async with client.exclusive() as connection:
            connection._inner.finish()
            with pytest.raises(psycopg.OperationalError):
                await connection.send([(ECHO, ("a",))])
            assert connection.lost
            with pytest.raises(psycopg.OperationalError):
                await connection.send([(ECHO, ("b",))])
        assert await hosts(client) == []

    async def test_nothing_goes_out_on_a_lost_wire(self, client: PipelineClient) -> None:
        """Half of a transaction is not begun again on another connection."""

        async def work() -> None:
            async with client.exclusive() as connection, connection.transaction() as execute:
                await execute([(ADD, ("a", 1))])
                connection.fail(psycopg.OperationalError("gone"))
                await execute([(ADD, ("b", 1))])

        with pytest.raises(Unavailable):
            await work()
        assert await hosts(client) == []

    async def test_closing_waits_for_what_was_asked(self, client: PipelineClient) -> None:
        """And a second time there is nothing to do."""
        asked = asyncio.create_task(client.execute((ECHO, ("a",))))
        async with client.exclusive() as connection:
            pass
        while not connection._waiting:  # noqa: ASYNC110  (its turn comes)
            await asyncio.sleep(0)
        await client.close()
        await client.close()
        assert (await asked).rows == [("a",)]
        assert isinstance(connection, PipelineConnection)
        assert connection.lost
