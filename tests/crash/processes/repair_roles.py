"""The roles of processes that repair runs: some prepare runs and mend their workflows, others retry or move them."""

import asyncio
from typing import Any, Final

from graphs import graph, node, record
from process_roles import INPUT, ROLES, Spec, follow, opened, write_line
from waiting import HANG

from wfcore.core import Core
from wfcore.domain.resources.access import Principal

FAILED: Final = "failed-1"
WAITING: Final = ("waiting-1", "waiting-2")

ASK: Final = node("ask", "humanApproval", message="go on?")
BROKEN: Final = graph(record("first", "{{ input.n }}"), node("stop", toolId="core.fail", params={"message": "no"}))
MENDED: Final = graph(record("first", "{{ input.n }}"), record("stop", "mended {{ nodes.first.output.seen }}"))
BEFORE: Final = graph(record("first", "{{ input.n }}"), ASK, record("end", "before"), ask="approved")
AFTER: Final = graph(
    record("first", "{{ input.n }}"), ASK, record("new", "new"), record("end", "after {{ nodes.new.output.seen }}"),
    ask="approved",
)  # fmt: skip


async def prepare(spec: Spec) -> None:
    """A run that has failed and two that wait, of workflows that were mended since."""
    async with opened(spec) as (core, me):
        broken = await _deployed(core, me, BROKEN)
        await _started(core, me, broken, FAILED, spec)
        waiting = await _deployed(core, me, BEFORE)
        for run in WAITING:
            await _started(core, me, waiting, run, spec)
        for number, structure in ((broken, MENDED), (waiting, AFTER)):
            await core.workflows.patch(me, number, structure=structure)
            await core.workflows.deploy(me, number)
        write_line(spec["acks"], {"broken": broken, "waiting": waiting})


async def _deployed(core: Core, me: Principal, structure: Any) -> int:
    made = await core.workflows.create(me, name="Repaired", structure=structure)
    await core.workflows.deploy(me, made.id)
    return made.id


async def _started(core: Core, me: Principal, number: int, run: str, spec: Spec) -> None:
    await core.runs.start(me, workflow=number, input=INPUT, key=run)
    await follow(core, me, run, spec["steps"] + ".events")


async def retry(spec: Spec) -> None:
    """Retry the failed run on the mended workflow, or join that retry, and follow it to its end."""
    async with asyncio.timeout(HANG), opened(spec) as (core, me):
        again = await core.runs.retry(me, FAILED, version="published", key="again")
        await follow(core, me, again.id, spec["acks"])
        write_line(spec["acks"], {"output": (await core.runs.get(me, again.id)).output})


async def move(spec: Spec) -> None:
    """Move all waiting runs to the mended workflow, then answer each, and follow it to its end."""
    async with asyncio.timeout(HANG), opened(spec) as (core, me):
        await core.workflows.move_runs(me, spec["workflow"], all=True)
        for run in WAITING:
            turn = await core.runs.resume(me, run, decision="approve", key=f"{run}-on")
            await follow(core, me, turn.id, spec["acks"])
            write_line(spec["acks"], {"output": (await core.runs.get(me, turn.id)).output})


ROLES |= {"prepare_repairs": prepare, "retry": retry, "move": move}
