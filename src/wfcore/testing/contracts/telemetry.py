"""The contract of `wfcore.ports.telemetry`. Inherit it, write `make_telemetry`, and inherit every test."""

import asyncio
from abc import abstractmethod
from collections.abc import Mapping
from typing import Final

import pytest

from wfcore.ports.telemetry import Counted, Ids, Labels, Level, Telemetry, Timed, WorkKind
from wfcore.testing.on_asyncio import OnAsyncio

LABELS: Final[Mapping[WorkKind, Labels]] = {WorkKind.request: {"method": "GET"}, WorkKind.effect: {"kind": "app"}}
IDS: Final[Mapping[WorkKind, Ids]] = {
    WorkKind.request: {"request": "q1", "traceparent": "no such thing"},
    WorkKind.turn: {"run": "r1", "org": "o1"},
    WorkKind.node: {"run": "r1", "node": "a"},
    WorkKind.effect: {"run": "r1", "node": "a", "tool": "t", "attempt": 1},
}
"""The ids of each kind of work."""


class TelemetryContract(OnAsyncio):
    """The contract of telemetry: it accepts every measurement and never raises."""

    @abstractmethod
    def make_telemetry(self) -> Telemetry:
        """New telemetry."""

    @pytest.mark.parametrize("kind", list(WorkKind))
    @pytest.mark.parametrize("above", [None, *WorkKind])
    def test_work_begins_and_ends(self, kind: WorkKind, above: WorkKind | None) -> None:
        """Every kind of work within every other: as a block, and with seconds that have passed."""
        telemetry = self.make_telemetry()
        parent = None if above is None else telemetry.begin(above, LABELS.get(above, {}), IDS.get(above, {}))
        span = telemetry.begin(kind, LABELS.get(kind, {}), IDS.get(kind, {}), parent=parent)
        with span as same:
            assert same is span
        route = {"route": "/x"} if kind is WorkKind.request else {}
        span.end("200" if route else "succeeded", route, seconds=0.5)

    @pytest.mark.parametrize("outcome", ["succeeded", "failed", "timeout", "broken_off"])
    def test_an_exception_goes_through_a_block(self, outcome: str) -> None:
        """The block of a span passes exceptions on, and the span can still end."""
        span = self.make_telemetry().begin(WorkKind.effect, {"kind": "model"})
        with pytest.raises(KeyError), span:
            raise KeyError
        span.end(outcome)

    async def test_tasks_have_blocks_of_their_own(self, anyio_backend: str) -> None:
        """Blocks of simultaneous tasks can end in any order."""
        telemetry = self.make_telemetry()
        ends = [asyncio.Event() for _ in range(3)]

        async def work(end: asyncio.Event) -> None:
            span = telemetry.begin(WorkKind.effect, {"kind": "core"})
            with span:
                await end.wait()
            span.end("succeeded")

        tasks = [asyncio.create_task(work(end)) for end in ends]
        for number in (1, 0, 2):
            await asyncio.sleep(0)
            ends[number].set()
        await asyncio.gather(*tasks)

    async def test_a_cancelled_block(self, anyio_backend: str) -> None:
        """The cancellation goes through, the span can still end, and others are not affected."""
        telemetry = self.make_telemetry()
        span, other = (telemetry.begin(WorkKind.effect, {"kind": "core"}) for _ in range(2))

        async def work() -> None:
            with span:
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        with other:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        for each in (span, other):
            each.end("broken_off")

    def test_measurements_without_a_span(self) -> None:
        """All durations, counters and values, with their labels."""
        telemetry = self.make_telemetry()
        for outcome in ("written", "conflict", "failed"):
            telemetry.record_duration(Timed.append, 0.001, outcome)
        telemetry.record_duration(Timed.commit, 0.001, "written")
        telemetry.count(Counted.run_started)
        telemetry.count(Counted.run_ended, {"status": "done"})
        telemetry.level(Level.dispatch_lag, 2.5)
