"""Following a run: everything that became durable, once, in order, whenever one joins.

Events are a projection of the journal. A follower first subscribes, then folds the journal up to now, then goes on
with what it receives. What it receives is a hint: after a gap, a silence, or falling behind it reads the journal again.
"""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Final

from msgspec.structs import replace

from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.kernel.json_readers import as_object
from wfcore.domain.run.events import Event, EventKind
from wfcore.ports.journal import Execution, JournalDamaged
from wfcore.ports.providers import Lagged
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.execution.pasts import PastReader, Pasts
from wfcore.runtime.execution.poison_runs import damage

SOONEST, LATEST = 0.5, 5.0
"""Seconds of silence after which a follower looks at the journal: another process may drive the run."""

MISSED: Final = 0.1
"""The same, at first, for a run that began here: another process may have gone on before the follower subscribed."""


async def follow(
    ports: Ports, pasts: Pasts, execution: Execution, run_id: str, after: int, pace: float = 0.0
) -> AsyncGenerator[list[Event], None]:
    """The events of one run with a `seq` greater than `after`, to the terminal one, in batches of what is there.

    Batches of a live run are `pace` seconds apart; the one with the terminal event comes at once. Raises NotFound when
    the execution is deleted, as by an erasure.
    """
    turn = _Turn(run_id, after, is_stored=pasts.begun(execution.ref) is None)
    with pasts.reader(execution) as past:
        async with aclosing(_follow(ports, past, execution, turn, pace)) as batches:
            async for batch in batches:
                yield batch


async def _follow(
    ports: Ports, past: PastReader, execution: Execution, turn: "_Turn", pace: float
) -> AsyncGenerator[list[Event], None]:
    listening = ports.events.subscribe(execution.ref, pace)
    patience, can_have_missed = SOONEST, past.can_have_missed
    try:
        while True:
            try:
                found = await past.read()
            except JournalDamaged:
                yield [turn.broken(ports.clock.now())]
                return
            if news := turn.take(found):
                yield news
            elif not turn.ended:
                await turn.look(ports, execution)
            patience = SOONEST if news else min(patience * 1.5, LATEST)
            wait, can_have_missed = MISSED if can_have_missed else patience, False
            try:
                while not turn.ended and (received := await listening.next(wait)) is not None:
                    news = turn.take(received)
                    if news:
                        yield news
                    if turn.gap:
                        break
            except Lagged:
                listening.close()
                listening = ports.events.subscribe(execution.ref, pace)
            if turn.ended:
                return
    finally:
        listening.close()


async def outline(batches: AsyncGenerator[list[Event], None], after: int) -> AsyncGenerator[list[Event], None]:
    """The outline of the turn that these batches show."""
    async with aclosing(batches):
        async for events in batches:
            if news := [event for event in outlined(events) if event.seq > after]:
                yield news


def outlined(events: Iterable[Event]) -> list[Event]:
    """What one sees of a turn who began it but may not read it: that it began, and how it ended. The two count by
    themselves, from 1 without gaps.
    """
    return [_outlined(event) for event in events if event.terminal or event.kind is EventKind.run_started]


def _outlined(event: Event) -> Event:
    """The event without what came of the run."""
    match event.kind:
        case EventKind.run_started:
            return event
        case EventKind.done:
            return replace(event, seq=2, data={"status": event.data["status"], "output": None})
        case EventKind.error:
            error = {**as_object(event.data["error"]), "message": "the run ended in error", "info": {}}
            return replace(event, seq=2, data={"error": error})
        case _:
            return replace(event, seq=2)


class _Turn:
    """How far a follower of one run has come."""

    def __init__(self, run_id: str, seen: int, *, is_stored: bool) -> None:
        """`is_stored`: whether the execution was read from the store, and not begun in a transaction that goes on."""
        self._run_id = run_id
        self._seen = seen
        self._is_stored = is_stored
        self.gap = False
        self.ended = False

    async def look(self, ports: Ports, execution: Execution) -> None:
        """Raises NotFound when the execution was stored, and is not any more."""
        try:
            await ports.journal.execution(execution.ref)
        except NotFound:
            if self._is_stored:
                raise
        else:
            self._is_stored = True

    def broken(self, at: int) -> Event:
        """The last event of a run whose journal is damaged."""
        return Event(EventKind.error, self._run_id, self._seen + 1, at, {"error": damage(self._run_id)})

    def take(self, events: list[Event]) -> list[Event]:
        """Those that follow, without a gap, on what was seen."""
        news = []
        self.gap = False
        for event in events:
            if event.run_id != self._run_id:
                continue
            if event.seq > self._seen + 1:
                self.gap = True
                break
            if event.seq > self._seen:
                self._seen = event.seq
                news.append(event)
            self.ended = event.terminal
        return news
