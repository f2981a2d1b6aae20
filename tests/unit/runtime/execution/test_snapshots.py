"""A long run that is parked is continued from a snapshot: with the same result, and without its entries."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from bench import Bench, act, ask, graph, one

from wfcore.domain.run.machine.states import snapshots
from wfcore.ports.journal import ExecutionRef
from wfcore.runtime.common.run_views import RunView

pytestmark = pytest.mark.anyio

STEPS = snapshots.INTERVAL
NAMES = [f"n{number}" for number in range(STEPS)]
LONG = graph(
    " ".join(f"{a}>{b}" for a, b in zip(["s", *NAMES], [*NAMES, "h"], strict=True)) + " h:approved>b b>i i:approved>c",
    **{name: act("echo", value=f"{name} of {{{{ input.who }}}}") for name in NAMES},
    h=ask(requiredApprovals=2),
    b=act("echo", value="{{ nodes.n3.output }} for {{ run.userId }}"),
    i=ask(),
    c=act("echo", value="{{ nodes.b.output }} again"),
)


class Reads:
    """How many entries each decision has read."""

    def __init__(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        self._bench = bench
        self._counts: list[int] = []
        self._read = bench.core.ports.journal.read
        monkeypatch.setattr(bench.core.ports.journal, "read", self.read)

    async def read(self, execution: ExecutionRef, after: int = 0) -> Any:
        found = await self._read(execution, after)
        self._counts.append(len(found))
        return found

    async def approved(self, run: RunView, by: str = "me") -> tuple[RunView, int]:
        """The run that follows a decision, and how many entries that took."""
        self._counts.clear()
        turn = await self._bench.core.runs.resume(self._bench.person(by), run.id, decision="approve")
        count = sum(self._counts)
        return await self._bench.ended(turn), count


async def of(bench: Bench, run: RunView) -> tuple[int, bytes] | None:
    return await bench.core.ports.journal.snapshot(run.row.execution)


async def test_a_resume_reads_what_came_since(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Votes and a second approval find the first snapshot; the end removes it."""
    run = await bench.ran(LONG, {"who": "ann"})
    found = await of(bench, run)
    assert found is not None
    assert found[0] == STEPS + 1
    reads = Reads(bench, monkeypatch)
    run, first = await reads.approved(run)
    run, second = await reads.approved(run, "other")
    assert await of(bench, run) == found
    run, third = await reads.approved(run)
    assert (run.status, run.output) == ("done", "n3 of ann for me again")
    assert [first, second, third] == [0, 1, 3]
    assert await of(bench, run) is None


async def test_a_short_run_gets_none(bench: Bench) -> None:
    """Its entries are folded as fast."""
    run = await bench.ran(one(ask()))
    assert await of(bench, run) is None


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "no snapshot at all": lambda body: b"no snapshot",
    "cut off": lambda body: body[: len(body) // 2],
    "of another layout": lambda body: body.replace(_layout(), _layout(1), 1),
    "another type": lambda body: body.replace(b"\xabinterrupted", b"\xabunheard-of-", 1),
}


def _layout(more: int = 0) -> bytes:
    return msgspec.msgpack.encode(snapshots.layout() + more)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
async def test_what_cannot_be_read_counts_as_none(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, damage: Callable[[bytes], bytes]
) -> None:
    """The entries are folded, and the run goes on."""
    run = await bench.ran(LONG, {"who": "ann"})
    found = await of(bench, run)
    assert found is not None
    changed = found[0], damage(found[1])
    assert changed != found

    async def damaged(execution: ExecutionRef) -> tuple[int, bytes]:
        return changed

    monkeypatch.setattr(bench.core.ports.journal, "snapshot", damaged)
    run, count = await Reads(bench, monkeypatch).approved(run)
    assert (run.status, len(run.interrupts), count) == ("interrupted", 1, STEPS + 1)
