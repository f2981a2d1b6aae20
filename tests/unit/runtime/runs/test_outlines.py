"""What a named approver without use sees of a run: its interrupts, that the run continues, and how it ends."""

from typing import Any

import pytest
from bench import Bench, act, ask, graph, kinds

from wfcore.domain.kernel.errors import Forbidden
from wfcore.runtime.common.run_views import RunView

pytestmark = pytest.mark.anyio

SECRET = "pears"


def private(*nodes: str, **more: Any) -> dict[str, Any]:
    return graph("s>a a>g a>h g:approved>b", a=act("echo", value=SECRET), b=act("echo", value=SECRET), **more)


async def parked(bench: Bench) -> RunView:
    """A run of a private workflow that asks the boss in `g`, and the owner in `h`, once `a` gave a secret."""
    structure = private(g=ask(approvers={"emails": ["boss@x.org"]}), h=ask())
    number = await bench.deployed(structure, access={"visibility": "private"})
    return await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))


async def test_the_record_of_an_approver(bench: Bench) -> None:
    """It shows only the approver's interrupts, and no output, error or usage, before and after the end."""
    run, boss = await parked(bench), bench.person("boss")
    shown = (await bench.core.runs.get(boss, run.id)).to_wire()
    assert [one["nodeId"] for one in shown["interrupts"]] == ["g"]
    name = shown["interrupts"][0]["interruptId"]
    turn = await bench.core.runs.resume(boss, run.id, decision="approve", interrupt_id=name)
    await bench.ended(turn)
    ((item,), _) = await bench.core.runs.interrupts(bench.me)
    last = await bench.core.runs.resume(bench.me, turn.id, decision="approve", interrupt_id=item.found.interrupt.id)
    assert SECRET in str((await bench.ended(last)).to_wire())
    records = [(await bench.core.runs.get(boss, name)).to_wire() for name in (run.id, turn.id, last.id)]
    assert [record["status"] for record in records] == ["interrupted", "interrupted", "done"]
    assert all(not record[name] for record in records for name in ("output", "error", "usage", "interrupts"))
    assert SECRET not in str(records)


async def test_an_approver_reads_no_events(bench: Bench) -> None:
    """Events require use: 403 with `canUse`, read at once or live, before and after the decision."""
    run, boss = await parked(bench), bench.person("boss")
    name = (await bench.core.runs.get(boss, run.id)).interrupts[0].id
    for answered in (False, True):
        for call in (bench.core.runs.events, bench.core.runs.follow):
            with pytest.raises(Forbidden) as error:
                await call(boss, run.id)
            assert error.value.info == {"canUse": False}
        if not answered:
            await bench.core.runs.resume(boss, run.id, decision="approve", interrupt_id=name)


async def test_the_turn_that_an_approver_began(bench: Bench) -> None:
    """The approver follows it in outline: its beginning and its end, numbered without gaps, without output."""
    run, boss = await parked(bench), bench.person("boss")
    name = (await bench.core.runs.get(boss, run.id)).interrupts[0].id
    live = [event async for event in bench.core.runs.resume(boss, run.id, decision="approve", interrupt_id=name)]
    turn = live[0].run_id
    assert [(str(event.kind), event.seq) for event in live] == [("run_started", 1), ("done", 2)]
    assert (live[1].data, SECRET in str(live)) == ({"status": "interrupted", "output": None}, False)
    assert await bench.core.runs.events(boss, turn) == live
    assert [event async for event in await bench.core.runs.follow(boss, turn, after=1)] == live[1:]
    assert "node_finished" in kinds(await bench.core.runs.events(bench.me, turn))
    with pytest.raises(Forbidden):
        await bench.core.runs.cancel(boss, turn)
    assert await bench.core.runs.page(boss) == []


async def test_a_failed_turn_shows_no_details(bench: Bench) -> None:
    """The error that an approver sees has neither message nor node of the failure."""
    failing = graph("s>g g:approved>f", g=ask(approvers={"emails": ["boss@x.org"]}), f=act("core.fail", message=SECRET))
    number = await bench.deployed(failing, access={"visibility": "private"})
    run = await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
    boss = bench.person("boss")
    events = [event async for event in bench.core.runs.resume(boss, run.id, decision="approve")]
    assert (kinds(events)[-1], SECRET in str(events)) == ("error", False)
    assert SECRET in str(await bench.core.runs.events(bench.me, events[0].run_id))
