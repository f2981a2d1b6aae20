"""Recordings of runs as the store has them: every kind of execution is replayed without a difference."""

from typing import Any

import pytest
from bench import Bench, act, ask, graph, one

from wfcore.domain.kernel.errors import Forbidden, NotFound

pytestmark = pytest.mark.anyio


async def difference(bench: Bench, run_id: str) -> Any:
    recording = await bench.core.runs.record(bench.me, run_id)
    return recording.difference()


async def test_a_run_of_a_workflow(bench: Bench) -> None:
    """Through its turns, by the id of any of them: while it waits, and after its end."""
    structure = graph("s>h h:approved>a", h=ask(), a=act("echo", value=1))
    waiting = await bench.ran(structure)
    assert await difference(bench, waiting.id) is None
    last = await bench.ended(await bench.core.runs.resume(bench.me, waiting.id, decision="approve"))
    for run in (waiting, last):
        recording = await bench.core.runs.record(bench.me, run.id)
        assert recording.difference() is None
        assert [turn["status"] for turn in recording.turns] == ["interrupted", "done"]
        assert recording.turns[1]["output"] == 1
        assert recording.execution["structure"] == structure


async def test_retries_forks_and_children(bench: Bench) -> None:
    """A failed run, its retry with a changed draft, a fork, and a run with children have all their variations."""
    failing = one(act("core.fail", message="no"))
    number = await bench.deployed(failing)
    run = await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
    await bench.core.workflows.patch(bench.me, number, structure=one(act("echo", value=2)))
    retried = await bench.ended(await bench.core.runs.retry(bench.me, run.id, version="draft"))
    forked = await bench.ended(await bench.core.runs.fork(bench.me, retried.id, before="a"))
    parent = await bench.ran(one(act("core.workflow", workflowId=await bench.deployed(one(act("echo", value=3))))))
    recordings = [await bench.core.runs.record(bench.me, one.id) for one in (run, forked, parent)]
    assert [recording.difference() for recording in recordings] == [None] * 3
    assert [len(recording.children) for recording in recordings] == [1, 1, 1]
    assert [[turn["status"] for turn in recording.turns] for recording in recordings] == [
        ["error", "done"], ["done"], ["done"],
    ]  # fmt: skip


async def test_runs_without_a_workflow(bench: Bench) -> None:
    """The assistant, a skill, and a single action."""
    skill = await bench.core.skills.create(bench.me, name="Support")
    await bench.core.skills.deploy(bench.me, skill.id)
    for run in (
        await bench.core.runs.chat(bench.me, message="hi"),
        await bench.core.runs.chat(bench.me, skill.id, message="hi"),
        await bench.core.runs.act(bench.me, {"action": {"toolId": "echo", "params": {"value": 4}}}),
    ):
        assert await difference(bench, (await bench.ended(run)).id) is None


async def test_access(bench: Bench) -> None:
    """As for events: use is needed, and another organization's run does not exist."""
    run = await bench.ran(one(act("echo", value=1)))
    stranger = bench.core.principal((await bench.core.directory.create_organization("Other")).uuid, "me")
    with pytest.raises(NotFound):
        await bench.core.runs.record(stranger, run.id)
    approvers = {"emails": ["jo@x.org"], "groups": []}
    private = {"visibility": "private", "groupPermissions": {}, "sharedWith": []}
    number = await bench.deployed(one(ask(approvers=approvers)), access_config=private)
    waiting = await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
    with pytest.raises(Forbidden, match="use of the run's target"):
        await bench.core.runs.record(bench.person("jo", email="jo@x.org"), waiting.id)
