"""A connection as a pipeline: what comes back to whom, and what is left of it when something fails."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from postgres_server import new_database

from wfcore.adapters.sql.postgres.connections import PostgresAddress
from wfcore.adapters.sql.postgres.pipeline import Done, Line, Wire
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
async def line(server: PostgresAddress, anyio_backend: str) -> AsyncIterator[Line]:
    line = Line(server)
    yield line
    await line.close()


async def hosts(line: Line) -> list[str]:
    return [host for (host,) in (await line.ask((HOSTS, ()))).rows]


async def add(wire: Wire, host: str, then: str | None) -> None:
    """A transaction that adds a host, and then asks something, or has nothing to ask and fails."""
    async with wire.transaction() as ask:
        await ask([(ADD, (host, 1))])
        if then is None:
            raise KeyError
        await ask([(then, ())])


class TestExchanges:
    async def test_each_gets_its_own(self, line: Line) -> None:
        """However many ask before the first is answered; one that fails disturbs nobody."""
        asked: list[Any] = [line.ask((ECHO, (f"{number}",))) for number in range(20)]
        asked.insert(7, line.ask(("SELECT 1 / CAST($1 AS int)", (0,))))
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(outcomes.pop(7), Invalid)
        assert [outcome.rows for outcome in outcomes] == [[(f"{number}",)] for number in range(20)]

    async def test_what_is_asked_together_is_one_transaction(self, line: Line) -> None:
        """All of it is done, or nothing; the first error is told."""
        async with line.alone() as wire:
            assert await wire.send([(ADD, ("a", 1)), (HOSTS, ()), (ADD, ("b", 2))]) == [
                Done(1, []), Done(1, [("a",)]), Done(1, []),
            ]  # fmt: skip
            with pytest.raises(psycopg.errors.DivisionByZero):
                await wire.send([(ADD, ("c", 3)), ("SELECT 1 / 0", ()), (ADD, ("d", 4))])
            assert await wire.send([]) == []
        assert await hosts(line) == ["a", "b"]

    async def test_a_statement_that_could_not_be_prepared(self, line: Line) -> None:
        """Is prepared once it can be."""
        for _ in range(2):
            with pytest.raises(Unavailable):
                await line.ask(("SELECT a FROM later", ()))
        await line.ask(("CREATE TABLE later (a text)", ()))
        assert (await line.ask(("SELECT a FROM later", ()))).rows == []

    @pytest.mark.parametrize("values", [(1, 2**62, -1), (None, 7), (7, None), (True, None, False), (b"\0\xff", b"")])
    async def test_values_of_a_statement(self, line: Line, values: tuple[Any, ...]) -> None:
        """It is prepared for the first ones, and takes all others of the type."""
        kind = {int: "bigint", bool: "boolean", bytes: "bytea"}[type(values[0] or values[1] or 0)]
        for value in values:
            assert (await line.ask((f"SELECT CAST($1 AS {kind})", (value,)))).rows == [(value,)]

    @pytest.mark.parametrize("text", ["nul\0", "half\ud800"])
    async def test_text_that_cannot_be_kept(self, line: Line, text: str) -> None:
        """Is refused before anything goes out, and what comes next is none the worse."""
        async with line.alone() as wire:
            with pytest.raises((psycopg.DataError, UnicodeEncodeError)):
                wire.send([(ADD, ("a", 1)), (ADD, (text, 1))])
        with pytest.raises(Invalid):
            await line.ask((ECHO, (text,)))
        assert await hosts(line) == []

    async def test_more_than_the_socket_takes(self, line: Line) -> None:
        """Megabytes go out and come in while others ask."""
        texts = ["x" * 5_000_000, "y", "z" * 5_000_000]
        answers = await asyncio.gather(*(line.ask((ECHO, (text,))) for text in texts))
        assert [answer.rows[0][0] == text for answer, text in zip(answers, texts, strict=True)] == [True] * 3

    async def test_who_stops_waiting(self, line: Line) -> None:
        """Does not take the next one's answer, and what he asked is done."""
        await line.ask((ECHO, ("",)))
        gone = asyncio.create_task(line.ask((ADD, ("a", 1))))
        await asyncio.sleep(0)
        gone.cancel()
        assert await hosts(line) == ["a"]
        assert gone.cancelled()


class TestTransactions:
    @pytest.mark.parametrize(("then", "error"), [("SELECT 1 / 0", psycopg.errors.DivisionByZero), (None, KeyError)])
    async def test_rolled_back(self, line: Line, then: str | None, error: type[Exception]) -> None:
        """Whoever refuses, the server or the caller, nothing is written, and the wire stays."""
        async with line.alone() as wire:
            with pytest.raises(error):
                await add(wire, "a", then)
            await add(wire, "b", "SELECT 1")
        async with line.alone() as again:
            assert again is wire
        assert await hosts(line) == ["b"]

    async def test_one_that_is_broken_off(self, line: Line) -> None:
        """Leaves nothing, and the next one has another connection."""
        reached = asyncio.Event()

        async def work() -> None:
            async with line.alone() as wire, wire.transaction() as ask:
                await ask([(ADD, ("a", 1))])
                reached.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await hosts(line) == []

    async def test_one_at_a_time(self, line: Line) -> None:
        """Whoever wants the wire alone waits for whoever has it."""
        order = list[str]()

        async def work(name: str) -> None:
            async with line.alone() as wire, wire.transaction() as ask:
                order.append(name)
                await ask([(ADD, (name, 1))])
                order.append(name)

        await asyncio.gather(work("a"), work("b"))
        assert order == ["a", "a", "b", "b"]


class TestLoss:
    async def test_everybody_who_waits_is_told(self, line: Line, server: PostgresAddress) -> None:
        """By an exception of his own; then there is a new connection."""
        async with line.alone() as wire:
            ((pid,),) = (await wire.send([("SELECT pg_backend_pid()", ())]))[0].rows
        waiting = [asyncio.create_task(line.ask(("SELECT pg_sleep($1)", (60,)))) for _ in range(3)]
        await asyncio.sleep(0)
        async with await server.connect(autocommit=True) as other:
            await other.execute("SELECT pg_terminate_backend(%s)", (pid,))
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [Unavailable] * 3
        assert len({id(outcome) for outcome in outcomes}) == 3
        assert wire.lost
        assert await hosts(line) == []

    async def test_a_connection_that_breaks_as_one_asks(self, line: Line) -> None:
        """Is told to who asked, and the next one has another."""
        async with line.alone() as wire:
            wire._inner.finish()
            with pytest.raises(psycopg.OperationalError):
                await wire.send([(ECHO, ("a",))])
            assert wire.lost
            with pytest.raises(psycopg.OperationalError):
                await wire.send([(ECHO, ("b",))])
        assert await hosts(line) == []

    async def test_nothing_goes_out_on_a_lost_wire(self, line: Line) -> None:
        """Half of a transaction is not begun again on another connection."""

        async def work() -> None:
            async with line.alone() as wire, wire.transaction() as ask:
                await ask([(ADD, ("a", 1))])
                wire.lose(psycopg.OperationalError("gone"))
                await ask([(ADD, ("b", 1))])

        with pytest.raises(Unavailable):
            await work()
        assert await hosts(line) == []

    async def test_closing_waits_for_what_was_asked(self, line: Line) -> None:
        """And a second time there is nothing to do."""
        asked = asyncio.create_task(line.ask((ECHO, ("a",))))
        async with line.alone() as wire:
            pass
        while not wire._waiting:  # noqa: ASYNC110  (its turn comes)
            await asyncio.sleep(0)
        await line.close()
        await line.close()
        assert (await asked).rows == [("a",)]
        assert isinstance(wire, Wire)
        assert wire.lost
