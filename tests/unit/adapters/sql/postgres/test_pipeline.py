"""A connection in pipeline mode: the assignment of results, and its state after failures."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from postgres_server import new_database
from sql_texts import statement

from wfcore.adapters.sql.postgres.connections import PostgresAddress
from wfcore.adapters.sql.postgres.pipeline import _PLANNED as REPLANNED
from wfcore.adapters.sql.postgres.pipeline import MOST_PREPARED, PipelineClient, PipelineConnection, StatementResult
from wfcore.adapters.sql.schema.names import DEFAULT_SCHEMA
from wfcore.adapters.sql.schema.statement import Statement
from wfcore.domain.kernel.errors import Invalid, Unavailable

pytestmark = pytest.mark.anyio

ECHO = statement("SELECT CAST(? AS text)")
ADD = statement("INSERT INTO wfcore_workers (host, pid, beats) VALUES (?, 1, ?)")
HOSTS = statement("SELECT host FROM wfcore_workers ORDER BY id")


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
    async with connection.transaction() as transaction:
        await transaction.execute([(ADD, (host, 1))])
        if then is None:
            raise KeyError
        await transaction.execute([(statement(then), ())])


async def end(connection: PipelineConnection, server: PostgresAddress) -> None:
    """As when the server was restarted; the connection has not noticed it yet."""
    async with await server.connect(autocommit=True) as other:
        await other.execute("SELECT pg_terminate_backend(%s, 5000)", (connection._inner.backend_pid,))


class TestExchanges:
    async def test_each_caller_gets_its_own_result(self, client: PipelineClient) -> None:
        """With many statements in flight, one that fails does not affect the others."""
        asked: list[Any] = [client.execute((ECHO, (f"{number}",))) for number in range(20)]
        asked.insert(7, client.execute((statement("SELECT 1 / CAST(? AS int)"), (0,))))
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(outcomes.pop(7), Invalid)
        assert [outcome.rows for outcome in outcomes] == [[(f"{number}",)] for number in range(20)]

    async def test_statements_sent_together_are_one_transaction(self, client: PipelineClient) -> None:
        """All of them are done, or none; the first error is raised."""
        async with client.exclusive() as connection:
            assert await connection.send([(ADD, ("a", 1)), (HOSTS, ()), (ADD, ("b", 2))]) == [
                StatementResult(1, []), StatementResult(1, [("a",)]), StatementResult(1, []),
            ]  # fmt: skip
            with pytest.raises(psycopg.errors.DivisionByZero):
                await connection.send([(ADD, ("c", 3)), (statement("SELECT 1 / 0"), ()), (ADD, ("d", 4))])
            assert await connection.send([]) == []
        assert await hosts(client) == ["a", "b"]

    async def test_plans_follow_the_size_of_the_tables(self, client: PipelineClient) -> None:
        """A statement that was planned for empty tables uses an index as soon as the table is large.

        Which index an empty table gets, and how large the server takes a table for, depends on what it remembers of it:
        at first, it can use no index and remembers nothing.
        """
        find = statement("SELECT key FROM wfcore_runs WHERE org = ? AND id = ?")
        fill = statement("""
            INSERT INTO wfcore_runs (org, id, execution, user_id, fingerprint, status, created_at, started_by, origin,
                target, is_draft)
            SELECT 1, 'r-' || n, n, '', '', 'done', 0, '', '', 0, false FROM generate_series(1, ?::bigint) n""")
        scans = ("enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan")
        planning = [[*(f"SET {scan} = {one}" for scan in scans), f"SET enable_seqscan = {other}"]
                    for one, other in (("off", "on"), ("on", "off"))]  # fmt: skip
        async with client.exclusive() as connection:
            await connection.send([(statement("TRUNCATE wfcore_runs CASCADE"), ())])
            await connection.send([*((statement(text), ()) for text in planning[0]), (find, (1, "r-1"))])
            await connection.send([(statement(text), ()) for text in planning[1]])
            name = connection._names[find.server(DEFAULT_SCHEMA)].decode()
            await connection.send([(fill, (2_000,))])

            async def plan() -> str:
                (found,) = await connection.send([(Statement(lambda _: f"EXPLAIN EXECUTE {name} (1, 'r-1')"), ())])
                return "".join(line for (line,) in found.rows)

            assert "Seq Scan" in await plan()
            for _ in range(REPLANNED):
                await connection.send([])
            assert "Index" in await plan()

    async def test_a_connection_keeps_so_many_statements(self, client: PipelineClient) -> None:
        """With more, the server forgets all of them, and prepares those that are used again."""
        kept = statement("SELECT count(*) FROM pg_prepared_statements")
        for number in range(MOST_PREPARED):
            assert (await client.execute((statement(f"SELECT {number}"), ()))).rows == [(number,)]
        assert (await client.execute((kept, ()))).rows == [(MOST_PREPARED + 1,)]
        assert (await client.execute((statement("SELECT 1"), ()))).rows == [(1,)]
        assert (await client.execute((kept, ()))).rows == [(2,)]

    async def test_a_statement_that_could_not_be_prepared(self, client: PipelineClient) -> None:
        """It is prepared again on the next use."""
        for _ in range(2):
            with pytest.raises(Unavailable):
                await client.execute((statement("SELECT a FROM later"), ()))
        await client.execute((statement("CREATE TEMPORARY TABLE later (a text)"), ()))
        assert (await client.execute((statement("SELECT a FROM later"), ()))).rows == []

    @pytest.mark.parametrize("values", [(1, 2**62, -1), (None, 7), (7, None), (True, None, False), (b"\0\xff", b"")])
    async def test_values_of_a_statement(self, client: PipelineClient, values: tuple[Any, ...]) -> None:
        """A statement is prepared for its first values, and accepts all others of the type."""
        kind = {int: "bigint", bool: "boolean", bytes: "bytea"}[type(values[0] or values[1] or 0)]
        for value in values:
            assert (await client.execute((statement(f"SELECT CAST(? AS {kind})"), (value,)))).rows == [(value,)]

    @pytest.mark.parametrize("text", ["nul\0", "half\ud800"])
    async def test_text_that_cannot_be_stored(self, client: PipelineClient, text: str) -> None:
        """It is refused before anything is sent, and the next statement succeeds."""
        async with client.exclusive() as connection:
            with pytest.raises((psycopg.DataError, UnicodeEncodeError)):
                connection.send([(ADD, ("a", 1)), (ADD, (text, 1))])
        with pytest.raises(Invalid):
            await client.execute((ECHO, (text,)))
        assert await hosts(client) == []

    async def test_more_than_the_socket_buffers(self, client: PipelineClient) -> None:
        """Megabytes are sent and received while other statements are in flight."""
        texts = ["x" * 5_000_000, "y", "z" * 5_000_000]
        answers = await asyncio.gather(*(client.execute((ECHO, (text,))) for text in texts))
        assert [answer.rows[0][0] == text for answer, text in zip(answers, texts, strict=True)] == [True] * 3

    async def test_a_cancelled_caller(self, client: PipelineClient) -> None:
        """The next caller gets its own result, and the cancelled statement is done."""
        await client.execute((ECHO, ("",)))
        gone = asyncio.create_task(client.execute((ADD, ("a", 1))))
        await asyncio.sleep(0)
        gone.cancel()
        assert await hosts(client) == ["a"]
        assert gone.cancelled()


class TestLookUps:
    """The first is sent at once, the others of the turn together: the connection waits for two exchanges."""

    async def test_each_caller_gets_its_own_rows(self, client: PipelineClient) -> None:
        async with client.exclusive() as connection:
            found = [connection.look_up(ECHO, (f"{number}",)) for number in range(20)]
            assert connection.waiting == 2
            assert [result.rows for result in await asyncio.gather(*found)] == [[(f"{n}",)] for n in range(20)]

    async def test_one_that_fails(self, client: PipelineClient) -> None:
        """Its caller gets its error, and the others their rows, but those that were cancelled."""
        async with client.exclusive() as connection:
            found = [connection.look_up(statement("SELECT 6 / CAST(? AS int)"), (n,)) for n in (3, 0, 2, 1)]
            found[3].cancel()
            outcomes = await asyncio.gather(*found, return_exceptions=True)
        assert [one.rows for one in (outcomes[0], outcomes[2]) if isinstance(one, StatementResult)] == [[(2,)], [(3,)]]
        assert isinstance(outcomes[1], psycopg.errors.DivisionByZero)
        assert isinstance(outcomes[3], asyncio.CancelledError)

    async def test_a_later_statement_is_sent_later(self, client: PipelineClient) -> None:
        """A look-up does not see what its caller writes after it."""
        async with client.exclusive() as connection:
            before = [connection.look_up(HOSTS, ()) for _ in range(2)]
            await connection.send([(ADD, ("a", 1))])
            assert [(await one).rows for one in before] == [[], []]

    async def test_values_that_cannot_be_stored(self, client: PipelineClient) -> None:
        """Only their caller gets an error, before anything is sent."""
        async with client.exclusive() as connection:
            found = [connection.look_up(ECHO, (text,)) for text in "ab"]
            with pytest.raises(psycopg.DataError):
                connection.look_up(ECHO, ("nul\0",))
            assert [(await one).rows for one in found] == [[("a",)], [("b",)]]

    async def test_repeated_after_a_loss(self, client: PipelineClient, server: PostgresAddress) -> None:
        """All that were on their way, on one new connection."""
        async with client.exclusive() as connection:
            await end(connection, server)
        found = await asyncio.gather(*(client.look_up((ECHO, (text,))) for text in "abc"))
        assert [result.rows for result in found] == [[("a",)], [("b",)], [("c",)]]
        assert connection.lost

    async def test_the_connection_is_closed(self, client: PipelineClient) -> None:
        """Those before it get their rows, and each one after it an error of its own."""
        async with client.exclusive() as connection:
            found = [connection.look_up(ECHO, (text,)) for text in "ab"]
            await connection.close()
            assert [(await one).rows for one in found] == [[("a",)], [("b",)]]
            late = [connection.look_up(ECHO, (text,)) for text in "cd"]
            outcomes = await asyncio.gather(*late, return_exceptions=True)
        assert all(isinstance(outcome, psycopg.OperationalError) for outcome in outcomes)
        assert outcomes[0] is not outcomes[1]


class TestTransactions:
    @pytest.mark.parametrize(("then", "error"), [("SELECT 1 / 0", psycopg.errors.DivisionByZero), (None, KeyError)])
    async def test_rolled_back(self, client: PipelineClient, then: str | None, error: type[Exception]) -> None:
        """After an error of the server or of the caller nothing is written, and the connection is kept."""
        async with client.exclusive() as connection:
            with pytest.raises(error):
                await add(connection, "a", then)
            await add(connection, "b", "SELECT 1")
        async with client.exclusive() as again:
            assert again is connection
        assert await hosts(client) == ["b"]

    @pytest.mark.parametrize("exchanges", [1, 2, 3])
    async def test_rolled_back_when_new_plans_are_due(self, client: PipelineClient, exchanges: int) -> None:
        """Whichever exchange of a failed transaction is the one with which the server should make new plans."""
        async with client.exclusive() as connection:
            for _ in range(REPLANNED - exchanges):
                await connection.send([])
            with pytest.raises(psycopg.errors.DivisionByZero):
                await add(connection, "a", "SELECT 1 / 0")
            await add(connection, "b", "SELECT 1")
        async with client.exclusive() as again:
            assert again is connection
        assert await hosts(client) == ["b"]

    async def test_a_server_that_is_gone_when_a_caller_fails(
        self, client: PipelineClient, server: PostgresAddress
    ) -> None:
        """The caller sees its own error, and the next one gets another connection."""

        async def work() -> None:
            async with client.exclusive() as connection, connection.transaction() as transaction:
                await transaction.execute([(ADD, ("a", 1))])
                with psycopg.connect(server.url) as other:  # the event loop stands still: nothing is noticed
                    other.execute("SELECT pg_terminate_backend(%s, 5000)", (connection._inner.backend_pid,))
                raise KeyError

        with pytest.raises(KeyError):
            await work()
        assert await hosts(client) == []

    async def test_a_cancelled_transaction(self, client: PipelineClient) -> None:
        """Nothing is written, and the next caller gets another connection."""
        reached = asyncio.Event()

        async def work() -> None:
            async with client.exclusive() as connection, connection.transaction() as transaction:
                await transaction.execute([(ADD, ("a", 1))])
                reached.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await hosts(client) == []

    async def test_one_at_a_time(self, client: PipelineClient) -> None:
        """A caller that needs the connection exclusively waits for the one that has it."""
        order = list[str]()

        async def work(name: str) -> None:
            async with client.exclusive() as connection, connection.transaction() as transaction:
                order.append(name)
                await transaction.execute([(ADD, (name, 1))])
                order.append(name)

        await asyncio.gather(work("a"), work("b"))
        assert order == ["a", "a", "b", "b"]


class TestLoss:
    async def test_every_waiting_caller_gets_an_error(self, client: PipelineClient, server: PostgresAddress) -> None:
        """Each gets a separate exception; then there is a new connection."""
        async with client.exclusive() as connection:
            waiting = [connection.send([(statement("SELECT pg_sleep(?)"), (60,))]) for _ in range(3)]
            await end(connection, server)
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(outcome, psycopg.OperationalError) for outcome in outcomes)
        assert len({id(outcome) for outcome in outcomes}) == 3
        assert connection.lost
        assert await hosts(client) == []

    async def test_a_statement_is_repeated_after_a_loss(self, client: PipelineClient, server: PostgresAddress) -> None:
        """Whether the loss was noticed before the statement was sent, or not."""
        assert await hosts(client) == []
        async with client.exclusive() as connection:
            await end(connection, server)
        assert await hosts(client) == []

    async def test_a_second_loss_is_an_error(
        self, client: PipelineClient, server: PostgresAddress, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with client.exclusive() as connection:
            await end(connection, server)

        async def connected() -> PipelineConnection:
            return connection

        with monkeypatch.context() as patched:
            patched.setattr(client, "_connected", connected)
            with pytest.raises(Unavailable):
                await hosts(client)

    async def test_a_connection_that_breaks_during_sending(self, client: PipelineClient) -> None:
        """The caller gets an error, and the next one another connection."""
        async with client.exclusive() as connection:
            connection._inner.finish()
            with pytest.raises(psycopg.OperationalError):
                await connection.send([(ECHO, ("a",))])
            assert connection.lost
            with pytest.raises(psycopg.OperationalError):
                await connection.send([(ECHO, ("b",))])
        assert await hosts(client) == []

    async def test_a_transaction_does_not_continue_after_a_loss(self, client: PipelineClient) -> None:
        """Half of a transaction is not sent on another connection."""

        async def work() -> None:
            async with client.exclusive() as connection, connection.transaction() as transaction:
                await transaction.execute([(ADD, ("a", 1))])
                connection.fail(psycopg.OperationalError("gone"))
                await transaction.execute([(ADD, ("b", 1))])

        with pytest.raises(Unavailable):
            await work()
        assert await hosts(client) == []

    async def test_closing_waits_for_results(self, client: PipelineClient) -> None:
        """A second call does nothing."""
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
