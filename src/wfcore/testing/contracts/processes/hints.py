"""The contract of the port `Hints`: what one process sends, the others receive.

    class TestMine(HintsContract):
        def make(self, place): ...

`eventually` bounds every wait: nothing here depends on the speed of the adapter.
"""

from abc import abstractmethod
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path

import pytest

from wfcore.domain.run.events import Event
from wfcore.ports.changes import FeedChange
from wfcore.ports.hints import Hints
from wfcore.ports.journal import ExecutionRef
from wfcore.testing.contracts.dispatcher import eventually
from wfcore.testing.contracts.events import FOREIGN, ONE, OTHER, events
from wfcore.testing.on_asyncio import OnAsyncio

CHANGE = FeedChange("workflow", 7, "changed")


class HintedProcess:
    """One process with its hints, and what it has received."""

    def __init__(self, hints: Hints) -> None:
        self.hints = hints
        self.due: list[ExecutionRef] = []
        self.lengths: list[int | None] = []
        self.news: list[tuple[ExecutionRef, Sequence[Event]]] = []
        self.changes: list[tuple[str, FeedChange]] = []

    async def open(self) -> None:
        await self.hints.open(self._take_due, lambda execution, found: self.news.append((execution, found)))
        self.hints.start_receiving(self._take_changes, lambda: None)

    def _take_due(self, execution: ExecutionRef, length: int | None) -> None:
        self.due.append(execution)
        self.lengths.append(length)

    def _take_changes(self, org: str, changes: Iterable[FeedChange]) -> None:
        self.changes += [(org, change) for change in changes]

    def events_of(self, execution: ExecutionRef) -> list[Event]:
        return [event for ref, found in self.news for event in found if ref == execution]


class HintsContract(OnAsyncio):
    """Inherit, name the class `Test...`, and write `make`."""

    @abstractmethod
    def make(self, place: Path) -> Hints:
        """The hints of one more process of the same installation, before `open`."""

    @pytest.fixture
    async def processes(self, tmp_path: Path, anyio_backend: str) -> AsyncIterator[list[HintedProcess]]:
        made = [HintedProcess(self.make(tmp_path)) for _ in range(3)]
        for one in made:
            await one.open()
        await eventually(lambda: all(one.hints.has_peers() for one in made))
        try:
            yield made
        finally:
            for one in made:
                await one.hints.close()

    async def test_others_receive(self, processes: list[HintedProcess]) -> None:
        """A hint for followers reaches every process that follows, but not its sender."""
        sender, *others = processes
        for each in processes:
            each.hints.follow(ONE)
        for other in others:

            def is_received(other: HintedProcess = other) -> bool:
                sender.hints.notify_followers(ONE, events(1))
                return any(ref == ONE for ref, _ in other.news)

            await eventually(is_received)
        assert sender.news == []

    async def test_a_worker_receives(self, processes: list[HintedProcess]) -> None:
        """A hint for workers reaches another process, not its sender."""
        sender, *others = processes
        for ref, length in ((ONE, None), (OTHER, 7), (FOREIGN, 7)):
            sender.hints.notify_workers(ref, length)
        await eventually(lambda: {ref for other in others for ref in other.due} == {ONE, OTHER, FOREIGN})
        assert sender.due == []
        found = [pair for other in others for pair in zip(other.due, other.lengths, strict=True)]
        assert all(length in {None, 7} if ref != ONE else length is None for ref, length in found)

    async def test_events_are_those_of_the_execution(self, processes: list[HintedProcess]) -> None:
        """The events that a hint carries are those that were sent, in order, and of the execution that it names."""
        sender, other, _ = processes
        for ref in (ONE, OTHER):
            other.hints.follow(ref)
        sent = events(40)

        def is_received() -> bool:
            sender.hints.notify_followers(OTHER, sent[:1])
            return any(ref == OTHER for ref, _ in other.news)

        await eventually(is_received)
        for event in sent:
            sender.hints.notify_followers(ONE, [event])
        await eventually(lambda: any(ref == ONE for ref, _ in other.news))
        found = other.events_of(ONE)
        assert found == sent[: len(found)]

    async def test_changes_are_carried(self, processes: list[HintedProcess]) -> None:
        """Changes reach the other processes with their organization, unless they have no subscriber any more."""
        sender, other, former = processes
        former.hints.stop_receiving()

        def is_received() -> bool:
            sender.hints.send_changes(ONE.org, [CHANGE])
            return bool(other.changes)

        await eventually(is_received)
        assert {*other.changes} == {(ONE.org, CHANGE)}
        assert sender.changes == former.changes == []

    async def test_closing_sends_what_is_queued(self, processes: list[HintedProcess]) -> None:
        """After it nothing is sent, and nothing is raised."""
        sender, *others = processes
        sender.hints.notify_workers(ONE)
        await sender.hints.close()
        await sender.hints.close()
        sender.hints.notify_workers(OTHER)
        sender.hints.notify_followers(OTHER, events(1))
        await eventually(lambda: any(other.due for other in others))
        assert {ref for other in others for ref in other.due} == {ONE}
