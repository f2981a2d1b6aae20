"""What the processes on one PostgreSQL database tell each other: LISTEN and NOTIFY (PostgreSQL, SQL commands).

A hint names executions, and whether they are to be looked at by a worker or by those who follow them; what has happened
stands in the journal. A hint is sent after the commit that it is about, and may be lost: everybody looks by himself
after a while. Sending does not wait for the disk, and is done a bounded number of times a second.

Processes greet each other when they come, and say goodbye: one that is alone tells nothing.
"""

import asyncio
import logging
import os
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from wfcore.ports.journal import ExecutionRef

if TYPE_CHECKING:
    from psycopg import AsyncConnection

log = logging.getLogger("wfcore.hints")

Hear = Callable[[ExecutionRef], None]

CHANNEL: Final = "wfcore"

PAUSE: Final = 0.01
"""Seconds between two sendings."""

AT_ONCE: Final = 100
"""Hints of one notification: of at most 60 bytes each, where PostgreSQL takes fewer than 8,000."""

UNSENT: Final = 10_000
"""Hints that wait while the server does not answer; more are dropped."""

CONNECT_SECONDS: Final = 10

AGAIN: Final = 1.0
"""Seconds before another try at a connection that broke."""

SILENCE: Final = 30.0
"""Seconds of silence after which the connection is asked whether it still is one."""

GREETING: Final = 1.0
"""Seconds in which whoever is there answers a greeting."""

HELLO, HERE, BYE = "hello", "here", "bye"
"""What is said beside hints: by who comes, by those who hear of it, and by who goes."""

FAREWELL: Final = 1.0
"""Seconds that hints have to go out at the end."""

_NOTIFY: Final = "SELECT pg_notify(%s, text) FROM unnest(%s::text[]) text"


class PostgresHints:
    """Two connections of a process: one that hears and one that tells.

    Each is made again when it breaks, for as long as this is open. Errors are never the caller's: they are logged.
    `url` is that of the database, without a pooler between that shares connections out by the transaction.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._me = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._unsent: asyncio.Queue[str] = asyncio.Queue(UNSENT)
        self._tasks: list[asyncio.Task[None]] = []
        self._ears: dict[str, Hear] = {}
        self._hears = asyncio.Event()
        self._company: set[str] = set()

    def in_company(self) -> bool:
        """Whether another process might hear: one that was killed is counted until this one connects anew."""
        return bool(self._company)

    def tell_workers(self, execution: ExecutionRef) -> None:
        """The execution is due, or was written to by somebody else than the one that drives it."""
        self._tell("w", execution)

    def tell_followers(self, execution: ExecutionRef) -> None:
        """The execution has new events."""
        self._tell("f", execution)

    async def open(self, worker: Hear, follower: Hear) -> None:
        """Hear and tell from now on: `worker` and `follower` are called with what other processes told.

        Returns when it hears, or has tried for a while: then it goes on trying.
        """
        self._ears = {"w": worker, "f": follower}
        self._tasks = [asyncio.create_task(self._for_ever(work)) for work in (self._listen, self._send)]
        with suppress(TimeoutError):
            await asyncio.wait_for(self._hears.wait(), CONNECT_SECONDS)

    async def close(self) -> None:
        """What was told goes out, then nothing more is heard."""
        if not self._tasks:
            return
        self._say(BYE)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._unsent.join(), FAREWELL)
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _tell(self, whom: str, execution: ExecutionRef) -> None:
        if self._tasks and self.in_company():
            self._say(f"{whom}/{execution.org}/{execution.id}")

    def _say(self, hint: str) -> None:
        with suppress(asyncio.QueueFull):
            self._unsent.put_nowait(hint)

    async def _for_ever(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - whatever it is, the work goes on without hints
                log.warning("hints between processes are interrupted: %s", error)
            await asyncio.sleep(AGAIN)

    async def _send(self) -> None:
        async with self._connected() as connection:
            self._greet()  # once more: the first greeting may have been what found the connection broken
            while True:
                hints = [await self._unsent.get()]
                while not self._unsent.empty():
                    hints.append(self._unsent.get_nowait())
                try:
                    await connection.execute(_NOTIFY, (CHANNEL, list(self._texts(dict.fromkeys(hints)))))
                finally:
                    for _ in hints:
                        self._unsent.task_done()
                await asyncio.sleep(PAUSE)

    def _texts(self, hints: Iterable[str]) -> Iterator[str]:
        left = iter(hints)
        while some := list(islice(left, AT_ONCE)):
            yield " ".join([self._me, *some])

    async def _listen(self) -> None:
        async with self._connected() as connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            self._greet()
            self._hears.set()
            while True:
                async for note in connection.notifies(timeout=SILENCE):
                    self._hear(note.payload)
                await connection.execute("SELECT 1")

    def _greet(self) -> None:
        """Until the others have answered, this process is company enough for itself."""
        self._company = {self._me}
        asyncio.get_running_loop().call_later(GREETING, self._company.discard, self._me)
        self._say(HELLO)

    def _hear(self, text: str) -> None:
        sender, *hints = text.split(" ")
        if sender == self._me:
            return
        for hint in hints:
            whom, _, rest = hint.partition("/")
            org, _, number = rest.partition("/")
            if whom in self._ears and number.isdecimal():
                self._ears[whom](ExecutionRef(org, int(number)))
            elif hint in (HELLO, HERE):
                self._company.add(sender)
                if hint == HELLO:
                    self._say(HERE)
            elif hint == BYE:
                self._company.discard(sender)

    @asynccontextmanager
    async def _connected(self) -> "AsyncIterator[AsyncConnection[Any]]":
        """A connection of its own, whose commits do not wait for the disk: they write nothing."""
        from psycopg import AsyncConnection

        connecting = AsyncConnection.connect(
            self._url,
            autocommit=True,
            connect_timeout=CONNECT_SECONDS,
            keepalives_idle=int(SILENCE),
            application_name="wfcore hints",
        )
        async with await connecting as connection:
            await connection.execute("SET synchronous_commit = off")
            yield connection
