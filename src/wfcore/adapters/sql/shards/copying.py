"""The copy of an organization to another database while its rows change, and the fence at its end.

The rows are copied in one transaction of the target: first all of them, then, again and again, those that changed
meanwhile, until that takes a moment. For the last ones the writes of the organization are refused by a fence, for
`WAIT` seconds at most: a copy that is not complete by then lifts the fence, and tries again later.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import attrs
import psycopg

from wfcore.adapters.sql.maintenance.tenancy import TABLES
from wfcore.adapters.sql.shards import capture, numbers
from wfcore.adapters.sql.shards.capture import Connection, TenantRows, columns, run
from wfcore.domain.kernel.errors import Unavailable
from wfcore.ports.shards import LEASE

WAIT: Final = 2.0
"""Seconds for which writes wait at most."""

QUICK: Final = 0.25
"""Seconds within which the changed rows must be copied before writes wait for the last ones."""

ROUNDS: Final = 50
"""Rounds of copying changed rows, after which the writes are too many to catch up with."""

TRIES: Final = 8
"""Fences, after which the move fails."""

BACK_OFF: Final = 0.25
"""Seconds before the second fence; twice as many before each later one."""

OnStep = Callable[[str], None]


@attrs.frozen
class CompletedMove:
    """How many rows were copied, and for how many seconds writes had to wait: the most at a time."""

    rows: int
    waited: float


class Late(Unavailable):
    """The fence was lifted before the move was final. Nothing has moved, and a repetition can succeed."""


class Fence:
    """Refuses the writes of the organization, by a transaction of the source.

    The server ends the transaction before `WAIT` is over, also when the mover hangs, is suspended or cut off.
    """

    def __init__(self, source: Connection) -> None:
        self._source = source
        self.began = time.monotonic()

    def begin(self) -> None:
        """Wait for the transactions that write rows of the organization. Raises Late when they do not end soon."""
        self.began = time.monotonic()
        try:
            capture.refuse(self._source, WAIT)
        except psycopg.Error as error:
            raise Late("transactions of the organization do not end: try again later") from error

    def check(self, rest: float) -> None:
        """Raises Late unless there is time for the rest, which takes so many seconds, before the server ends it."""
        if time.monotonic() - self.began + rest > WAIT * capture.REFUSING:
            raise Late(f"the last rows cannot be copied within {WAIT:g} seconds: try again later")

    def make_final(self, tenant: TenantRows) -> None:
        """Refuse all writes of the organization until its rows are deleted. Raises Late when the server ended it."""
        try:
            capture.refuse_for_good(self._source, tenant)
        except psycopg.Error as error:
            raise Late("the database has let writes go on: try again later") from error

    def lift(self) -> float:
        """Returns for how many seconds writes have waited, in any case."""
        self._source.close()
        return min(time.monotonic() - self.began, WAIT)


@attrs.define
class Copy:
    """A copy of the organization from `source` to `target`, the shard with this number.

    `connect` opens a further connection to the source. `commit` makes a small commit in the target, and in the database
    of the placements. `waits` are the seconds for which writes waited, each time.
    """

    source: Connection
    target: Connection
    connect: Callable[[], Connection]
    commit: Callable[[], object]
    tenant: TenantRows
    number: int
    waits: list[float]
    on_step: OnStep
    rows: int = 0
    _commits_take: float = 0.0

    def run(self) -> Fence:
        """Returns with the rows on the target, and with the writes of the organization refused for good.

        Raises Late when that took too long once the rows were on the target, Unavailable when it takes too long again
        and again.
        """
        time.sleep(2 * LEASE)  # by now every process reads the placement before each call
        capture.stop(self.source, self.tenant)
        capture.start(self.source, self.tenant)
        self.on_step("captured")
        with self.target.transaction():
            run(self.target, "SET LOCAL idle_in_transaction_session_timeout = 0")
            self._copy_all()
            self.on_step("copied")
            fence = self._fenced()
        try:
            self._advance()
            self.on_step("committed")
            fence.check(self._commits_take)
            fence.make_final(self.tenant)
        finally:
            self.waits.append(fence.lift())
        self.on_step("final")
        return fence

    def _copy_all(self) -> None:
        with _snapshot(self.source):
            for table in TABLES:
                read: Any = f"COPY ({self.tenant.select(table)}) TO STDOUT"
                write: Any = f"COPY {self.tenant.name(table)} ({columns(table)}) FROM STDIN"
                with self.source.cursor() as out, self.target.cursor() as into:
                    with out.copy(read) as blocks, into.copy(write) as copy:
                        for block in blocks:
                            copy.write(block)
                    self.rows += into.rowcount

    def _fenced(self) -> Fence:
        """A fence, with the last rows in the open transaction of the target, and time to commit them."""
        for number in range(TRIES):
            time.sleep(BACK_OFF * 2**number if number else 0)
            self._catch_up()
            self._advance()
            self._commits_take = _seconds(self.commit)  # the replicas have all rows so far, too
            self.on_step("caught up")
            fence = Fence(self.connect())
            try:
                fence.check(2 * self._commits_take)
                fence.begin()
                self.on_step("fenced")
                self._copy_changed()
                fence.check(2 * self._commits_take)
            except Late:
                self.waits.append(fence.lift())
            except BaseException:
                fence.lift()
                raise
            else:
                return fence
        raise Unavailable(f"the last rows cannot be copied within {WAIT:g} seconds: try again later")

    def _catch_up(self) -> None:
        for _ in range(ROUNDS):
            if _seconds(self._copy_changed) <= QUICK:
                return
        raise Unavailable("the organization changes faster than it can be copied: try again later")

    def _copy_changed(self) -> None:
        with _snapshot(self.source):
            self.rows += capture.apply(self.target, self.tenant, list(capture.noted(self.source, self.tenant)))

    def _advance(self) -> None:
        """Let the target assign numbers beyond those of the source."""
        last = numbers.last_numbers(self.source, self.tenant.schema)
        numbers.advance(self.target, self.tenant.schema, self.number, last)


def _seconds(call: Callable[[], object]) -> float:
    """How long the call takes."""
    began = time.monotonic()
    call()
    return time.monotonic() - began


@contextmanager
def _snapshot(connection: Connection) -> Iterator[None]:
    with connection.transaction():
        run(connection, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield
