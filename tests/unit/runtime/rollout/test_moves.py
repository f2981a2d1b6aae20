"""Moving waiting runs to the active variation (interface, Move-runs)."""

from typing import Any

import pytest
from bench import Bench, act, agent, ask, deployed_skill, graph, opened, reason
from msgspec import structs

from wfcore.domain.kernel.errors import Forbidden, Invalid, NotFound
from wfcore.ports.journal import JournalConflict

pytestmark = pytest.mark.anyio


def line(**nodes: Any) -> Any:
    known = {"a": act("echo", value=1), "w": ask(), "b": act("echo", value=2)} | nodes
    return graph("s>a a>w w:approved>b", **known)


MENDED = graph(
    "s>a a>w w:approved>n n>b", b=act("echo", value=9), n=act("echo", value=5), w=ask(message="really?"),
    a=act("echo", value=1),
)  # fmt: skip


async def redeploy(bench: Bench, number: int, structure: Any) -> str:
    """Deploy this graph as the workflow; the id of the variation."""
    await bench.core.workflows.patch(bench.me, number, structure=structure)
    return (await bench.core.workflows.deploy(bench.me, number)).active_variation_id or ""


async def parked(bench: Bench, number: int, **fields: Any) -> Any:
    return await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}, **fields))


async def moves(bench: Bench, number: int, *names: str) -> Any:
    """The outcomes, as tuples."""
    workflows = bench.core.workflows
    found = await (workflows.move_runs(bench.me, number, runs=list(names)) if names
                   else workflows.move_runs(bench.me, number, all=True))  # fmt: skip
    return [(one.run_id, one.moved, one.reason) for one in found]


async def test_a_run_goes_on_with_the_mended_workflow(bench: Bench) -> None:
    """Its record has the new variation; ids of run and interrupt stay; the audit names both."""
    number = await bench.deployed(line())
    run = await parked(bench, number)
    (before,), events = run.interrupts, await bench.events(run.id)
    active = await redeploy(bench, number, MENDED)
    assert await moves(bench, number, run.id) == [(run.id, True, None)]
    moved = await bench.core.runs.get(bench.me, run.id)
    assert (moved.row.variation_id, moved.status, moved.row.is_draft) == (active, "interrupted", False)
    assert [(one.id, one.message) for one in moved.interrupts] == [(before.id, "really?")]
    assert await bench.events(run.id) == events
    (item,), _ = await bench.core.runs.interrupts(bench.me)
    assert item.found.interrupt.message == "really?"
    done = await bench.ended(await bench.core.runs.resume(bench.me, run.id, decision="approve"))
    assert (done.output, done.row.variation_id, bench.tools.count("echo")) == (9, active, 3)
    (row,) = await bench.core.audit.page(await bench.joined("auditor", "admin"), action="run.move")
    details = {"target": {"type": "workflow", "id": 1}, "variationId": active}
    assert (row.row.user_id, row.row.resource_id, row.row.details) == ("me", run.id, details)


async def test_all_of_them(bench: Bench) -> None:
    """Newest first; those that are on the variation, run, have ended or were resumed are left out."""
    number = await bench.deployed(line())
    first, second = [await parked(bench, number) for _ in range(2)]
    resumed = await parked(bench, number)
    await bench.ended(await bench.core.runs.resume(bench.me, resumed.id, decision="approve"))
    await bench.started(line())
    await redeploy(bench, number, MENDED)
    await parked(bench, number)
    assert await moves(bench, number) == [(second.id, True, None), (first.id, True, None)]
    assert await moves(bench, number) == []


async def test_a_run_of_a_draft(bench: Bench) -> None:
    """It becomes one of the deployed variation."""
    number = await bench.deployed(line())
    await bench.core.workflows.patch(bench.me, number, structure=line(b=act("echo", value=3)))
    run = await parked(bench, number, version="draft")
    active = (await bench.core.workflows.deploy(bench.me, number)).active_variation_id
    assert await moves(bench, number, run.id) == [(run.id, False, "already_active")]
    await redeploy(bench, number, MENDED)
    assert active == run.row.variation_id
    assert await moves(bench, number, run.id) == [(run.id, True, None)]


async def test_what_does_not_fit_stays(bench: Bench) -> None:
    """Every difference is reported, and nothing is written."""
    pay = {"more": {"requiresApproval": True}}
    number = await bench.deployed(graph("s>a a>p", a=act("echo", value=1), p=act("echo", value=7, **pay)))
    run = await parked(bench, number)
    await redeploy(bench, number, graph("s>p", p=act("echo", value=8, **pay)))
    (outcome,) = await bench.core.workflows.move_runs(bench.me, number, {"all": True})
    assert (outcome.moved, outcome.reason) == (False, "incompatible")
    assert [(one["nodeId"], one["what"]) for one in outcome.to_wire()["differences"]] == [("a", "removed")]  # type: ignore[index, union-attr, call-overload]
    await redeploy(bench, number, graph("s>a a>p", a=act("echo", value=1), p=act("echo", value=8, **pay)))
    (outcome,) = await bench.core.workflows.move_runs(bench.me, number, {"all": True})
    assert [(one["nodeId"], one["what"]) for one in outcome.to_wire()["differences"]] == [("p", "arguments")]  # type: ignore[index, union-attr, call-overload]
    assert (await bench.core.runs.get(bench.me, run.id)) == run
    done = await bench.ended(await bench.core.runs.resume(bench.me, run.id, decision="approve"))
    assert done.output == 7


async def test_runs_that_cannot_move(bench: Bench) -> None:
    """Each has its reason."""
    number, other = await bench.deployed(line()), await bench.deployed(line())
    foreign = await parked(bench, other)
    resumed = await parked(bench, number)
    done = await bench.ended(await bench.core.runs.resume(bench.me, resumed.id, decision="approve"))
    await redeploy(bench, number, graph("s>a", a=act("flaky", fails=1)))
    failed = await parked(bench, number)
    retried = await bench.ended(await bench.core.runs.retry(bench.me, failed.id))
    await redeploy(bench, number, graph("s>h", h=act("hold")))
    running = await bench.core.runs.start(bench.me, workflow=number, input={})
    await bench.until("it")
    await redeploy(bench, number, MENDED)
    names = [foreign.id, resumed.id, done.id, failed.id, retried.id, running.id, "unknown", "é"]
    reasons = ["not_found", "already_resumed", "ended", "already_retried", "ended", "not_waiting", *2 * ["not_found"]]
    found = await bench.core.workflows.move_runs(bench.me, number, {"runIds": [*names[:-1]]})
    assert [(one.run_id, one.moved, one.reason) for one in found] == [
        (name, False, why) for name, why in zip(names[:-1], reasons, strict=False)
    ]
    bench.tools.free["it"].set()


async def test_a_paused_run(bench: Bench) -> None:
    """It moves too, and stays paused."""
    number = await bench.deployed(graph("s>h h>b", h=act("hold"), b=act("echo", value=1)))
    run = await bench.core.runs.start(bench.me, workflow=number, input={})
    await bench.until("it")
    await bench.core.runs.interrupt(bench.me, run.id)
    bench.tools.free["it"].set()
    await bench.ended(run)
    await redeploy(bench, number, graph("s>h h>n n>b", h=act("hold"), n=act("echo"), b=act("echo", value=4)))
    assert await moves(bench, number) == [(run.id, True, None)]
    done = await bench.ended(await bench.core.runs.resume(bench.me, run.id))
    assert (done.output, bench.tools.count("echo")) == (4, 2)


async def test_the_deadline_is_that_of_the_node_now(bench: Bench) -> None:
    """The run ends when it has passed, without another request."""
    number = await bench.deployed(line())
    run = await parked(bench, number)
    expiring = ask(timeoutSeconds=60, onTimeout="approve")
    await redeploy(bench, number, line(w=expiring))
    await moves(bench, number)
    bench.clock.advance(61)
    assert (await bench.ended(await bench.resumed_by(run))).output == 2


async def test_the_config_of_a_turn_after_a_move(bench: Bench) -> None:
    """It is held against the skills of the variation that the run is on."""
    number = await bench.deployed(line())
    run = await parked(bench, number)
    skill = await deployed_skill(bench, toolset={"echo": {"enabled": True, "requiresApproval": False}})
    await redeploy(bench, number, graph("s>a a>w w:denied>g", a=act("echo", value=1), w=ask(), g=agent(agent_id=skill)))
    assert await moves(bench, number) == [(run.id, True, None)]
    config = {"toolset": {"echo": {"enabled": False, "requiresApproval": False}}}
    turn = await bench.core.runs.resume(bench.me, run.id, decision="approve", config=config)
    assert (await bench.ended(turn)).status == "done"


async def test_a_deployer_who_lost_access(bench: Bench) -> None:
    """Nothing moves to a variation that cannot start a run either."""
    number = await bench.deployed(line())
    run = await parked(bench, number)
    skill = await deployed_skill(bench)
    await redeploy(bench, number, graph("s>a a>w w:denied>g", a=act("echo", value=1), w=ask(), g=agent(agent_id=skill)))
    await bench.joined("me")
    await bench.core.skills.delete(bench.me, skill)
    assert await moves(bench, number) == [(run.id, False, "access")]


async def test_one_who_decides_meanwhile(bench: Bench) -> None:
    """The move reads the run again, and after many conflicts gives up."""
    number = await bench.deployed(line())
    run = await parked(bench, number)
    await redeploy(bench, number, MENDED)
    journal = bench.core.ports.journal
    append, tries = journal.append, list[int]()

    async def conflicting(*args: Any) -> None:
        tries.append(1)
        if len(tries) == 1:
            journal.append = append  # type: ignore[method-assign]
            await bench.core.runs.cancel(bench.me, run.id)
        raise JournalConflict

    journal.append = conflicting  # type: ignore[method-assign]
    assert await moves(bench, number, run.id) == [(run.id, False, "ended")]
    again = await parked(bench, number)
    await redeploy(bench, number, line())
    journal.append = conflicting  # type: ignore[method-assign]
    assert await moves(bench, number, again.id) == [(again.id, False, "busy")]
    assert len(tries) == 11


async def test_who_may(bench: Bench) -> None:
    """Managers; nobody else, and only of what is deployed."""
    number = await bench.deployed(line(), access_config={"visibility": "private", "sharedWith": []})
    shared = {"visibility": "private", "sharedWith": [{"email": "other@x.org"}]}
    with pytest.raises(NotFound):
        await bench.core.workflows.move_runs(bench.other, number, all=True)
    await bench.core.workflows.patch(bench.me, number, access_config=shared)
    with pytest.raises(Forbidden):
        await bench.core.workflows.move_runs(bench.other, number, all=True)
    draft = await bench.core.workflows.create(bench.me, name="New", structure=line())
    assert await reason(bench.core.workflows.move_runs(bench.me, draft.id, all=True)) == "not_deployed"
    for body in ({}, {"all": True, "runIds": ["r"]}, {"all": False}, {"runIds": []}):
        with pytest.raises(Invalid):
            await bench.core.workflows.move_runs(bench.me, number, body)  # type: ignore[arg-type]


async def test_runs_of_a_database_move(tmp_path: Any) -> None:
    """A process that opens it later goes on with the moved run."""
    database = f"sqlite:///{tmp_path / 'moved.db'}"
    async with opened(database) as bench:
        number = await bench.deployed(line())
        run = await parked(bench, number)
        active = await redeploy(bench, number, MENDED)
        assert await moves(bench, number) == [(run.id, True, None)]
    async with opened(database, bench.tools, org=bench.org) as later:
        found = await later.core.runs.get(later.me, run.id)
        assert (found.row.variation_id, found.interrupts[0].id) == (active, run.interrupts[0].id)
        assert structs.replace(found.interrupts[0], message="may it?", node=run.interrupts[0].node) == run.interrupts[0]
        done = await later.ended(await later.core.runs.resume(later.me, run.id, decision="approve"))
        assert done.output == 9


async def test_an_approval_that_nobody_can_decide(bench: Bench) -> None:
    """Its only group was deleted: a manager names somebody else, deploys, and moves the run that waits."""
    boss = await bench.joined("boss", "owner")
    group = (await bench.core.groups.create(boss, name="finance")).id
    await bench.joined("ann", "member", group)
    number = await bench.deployed(line(w=ask(approvers={"groups": [group]})))
    run = await parked(bench, number)
    await bench.core.groups.delete(boss, group)
    ann = bench.person("ann")
    for person in (ann, boss, bench.me):
        with pytest.raises(Forbidden) as error:
            await bench.core.runs.resume(person, run.id, decision="approve")
        assert error.value.info["reason"] == "not_an_approver"
    await redeploy(bench, number, line(w=ask(approvers={"emails": ["ann@x.org"]})))
    assert await moves(bench, number, run.id) == [(run.id, True, None)]
    assert (await bench.ended(await bench.core.runs.resume(ann, run.id, decision="approve"))).status == "done"
