"""Every sort of write of a journal under adversity. A scope is the id of a run, and of its user."""

from abc import abstractmethod
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.projections.messages import message_rows
from wfcore.domain.run.records import MessageRecord
from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import Append, ExecutionRef, Journal, JournalConflict, RunChange, RunExists
from wfcore.testing.contracts.interrupted.calls import (
    COPIES,
    PortCall,
    check_at_once,
    check_cancelled,
    check_killed,
    each_of,
    each_with_a_step,
)
from wfcore.testing.contracts.journal_values import NOW, ORG, begin, due, find, interrupt, steps

HOLDER: Final = 9


async def _begin(journal: Journal, run: str) -> ExecutionRef:
    return await begin(journal, run, user_id=run)


async def _held(journal: Journal, run: str) -> None:
    await begin(journal, run, claimed_by=HOLDER)


async def _beating(journal: Journal, run: str) -> None:
    await begin(journal, run, claimed_by=await journal.register(run, 1))


async def _append(journal: Journal, run: str, append: Append) -> None:
    await journal.append((await find(journal, run)).execution, append)


async def _end(journal: Journal, run: str) -> None:
    await _append(journal, run, Append(1, steps(1, 1), changes=[RunChange(run, RunStatus.done, NOW)]))


async def _say(journal: Journal, run: str) -> None:
    rows = message_rows([MessageRecord("human", "m-1", "hi", at=NOW)])
    await _append(journal, run, Append(1, steps(1, 1), messages=rows))


async def _delete(journal: Journal, run: str) -> None:
    row = await journal.find_run(ORG, run)
    if row is None:
        raise NotFound
    await journal.delete(row.execution, 1)


async def _heartbeat(journal: Journal, run: str) -> None:
    holder = (await journal.execution((await find(journal, run)).execution)).claimed_by
    await journal.heartbeat(holder or 0)


async def _run(journal: Journal, run: str) -> object:
    row = await journal.find_run(ORG, run)
    if row is None:
        return await journal.is_deleted(ORG, run)
    return row.status, await journal.lengths([row.execution]) == {row.execution: 1}


async def _entries(journal: Journal, run: str) -> object:
    return await journal.read((await find(journal, run)).execution)


async def _interrupts(journal: Journal, run: str) -> object:
    of = [(await find(journal, run)).execution]
    return len(await journal.open_interrupts(ORG, limit=9, of=of))


async def _holder(journal: Journal, run: str) -> object:
    return (await journal.execution((await find(journal, run)).execution)).claimed_by


async def _messages(journal: Journal, run: str) -> object:
    thread = await journal.conversations.own(ORG, "t-1", run)
    found = [] if thread is None else await journal.conversations.messages([thread], after=0, up_to=2**62)
    return [message.content for message in found]


async def _beats(journal: Journal, run: str) -> object:
    return [holder.beats for holder in await journal.holders() if holder.host == run]


def _appending(**fields: Any) -> Any:
    return partial(_append, append=Append(1, **fields))


CONFLICT: Final = (JournalConflict,)
CALLS: Final = (
    PortCall("begin", _begin, _run, refused=(RunExists,)),
    PortCall("append", _appending(entries=steps(3, 1)), _entries, _begin, CONFLICT),
    PortCall("end of a run", _end, _run, _begin, CONFLICT),
    PortCall("interrupts", _appending(entries=steps(1, 1), interrupts=[interrupt("i")]), _interrupts, _begin, CONFLICT),
    PortCall("messages", _say, _messages, _begin, CONFLICT),
    PortCall("claim", _appending(entries=(), updates_claim=True, claimed_by=7), _holder, _begin),
    PortCall("release of a claim", _appending(entries=(), updates_claim=True, holder=HOLDER), _holder, _held, CONFLICT),
    PortCall("claim of what is due", lambda journal, _: journal.claim_due(7, NOW, 1_000), _holder,
         lambda journal, run: due(journal, run, NOW)),
    PortCall("release of a dead worker", lambda journal, _: journal.release(HOLDER), _holder, _held),
    PortCall("heartbeat", _heartbeat, _beats, _beating, together=[COPIES]),
    PortCall("delete", _delete, _run, _begin, (NotFound, JournalConflict)),
)  # fmt: skip


class InterruptedJournal:
    """Inherit `JournalContract`, not this class."""

    @each_of(CALLS)
    async def test_a_cancelled_write_is_whole_or_nothing(self, journal: Journal, call: PortCall) -> None:
        """For every sort of write, whichever await is cancelled."""
        await check_cancelled(journal, call)

    @each_of(CALLS)
    async def test_writes_at_once(self, journal: Journal, call: PortCall) -> None:
        """For every sort of write: of those that compare the length or the holder, one succeeds."""
        await check_at_once(journal, call)


class JournalCrashContract:
    """Inherit it beside `JournalContract` if what is written outlives the process."""

    @abstractmethod
    def open_journal(self, place: Path) -> AbstractAsyncContextManager[Journal]:
        """The journal in this directory: a new one, or what a process has left there."""

    @pytest.fixture(scope="class")
    @classmethod
    def crash_place(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.mktemp("crash")

    @each_with_a_step(CALLS)
    def test_a_killed_process_leaves_all_or_nothing(self, crash_place: Path, call: PortCall, step: int) -> None:
        """For every sort of write; what a write that had returned wrote is there."""
        check_killed(partial(self.open_journal, crash_place), call, step)
