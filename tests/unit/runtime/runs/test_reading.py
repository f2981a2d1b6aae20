"""Lists of runs show their open interrupts (interface, Runs; `GET /agent/v1/runs`, `/workflows/{id}/runs`)."""

from typing import Any

import pytest
from bench import Bench, act, ask, graph, one

pytestmark = pytest.mark.anyio


async def test_open_interrupts_are_in_the_lists(bench: Bench) -> None:
    """Both lists show the same as each record: the open interrupts of waiting and active runs, the former ones of a
    resumed run, none of an ended one. One query reads them for the whole page.
    """
    number = await bench.deployed(graph("s>h s>g", h=ask(), g=ask()))
    runs = [await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={})) for _ in range(3)]
    first = runs[0].to_wire()["interrupts"][0]["interruptId"]
    runs.append(await bench.ended(await bench.core.runs.resume(
        bench.me, runs[0].id, decision="approve", interruptId=first)))  # fmt: skip
    runs.append(await bench.ran(one(act("echo", value=1))))
    alone = {run.id: (await bench.core.runs.get(bench.me, run.id)).to_wire()["interrupts"] for run in runs}
    assert [len(alone[run.id]) for run in runs] == [2, 2, 2, 1, 0]
    asked = counted(bench)
    listed = await bench.core.runs.page(bench.me)
    assert {view.id: view.to_wire()["interrupts"] for view in listed} == alone
    assert len(asked) == 1
    history = await bench.core.workflows.runs(bench.me, number)
    assert {view.id: view.to_wire()["interrupts"] for view in history} == {run.id: alone[run.id] for run in runs[:4]}
    assert len(asked) == 2


def counted(bench: Bench) -> list[Any]:
    """A line for each query of open interrupts."""
    journal, asked = bench.core.ports.journal, list[Any]()
    ask_for = journal.open_interrupts

    async def asking(*args: Any, **more: Any) -> Any:
        asked.append(more)
        return await ask_for(*args, **more)

    journal.open_interrupts = asking  # type: ignore[method-assign]
    return asked
