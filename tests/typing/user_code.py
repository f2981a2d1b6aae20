"""Code of an embedding product, as mypy sees it: a comment `E: code` marks the lines that it must refuse."""

from collections.abc import Mapping

import wfcore
from wfcore.api.runs import CreateRun


async def start(core: wfcore.Core, me: wfcore.Principal) -> None:
    order: dict[str, int] = {"order": 7}
    run = await core.runs.start(me, workflow=7, input=order)
    await core.runs.start(me, CreateRun(workflow_id=7, input={"order": 7}))
    await core.runs.start(me, {"workflowId": 7, "input": {}})
    await core.runs.start(me, workflow=7, inptu={"order": 7})  # E: call-arg
    await core.runs.start(me, workflow="7", input={})  # E: arg-type
    await core.runs.resume(me, run.id, decision="approve", data={"amount": 5})
    await core.runs.resume(me, run.id, decision="approved")  # E: arg-type
    print(run.output["total"])  # E: index  # E: call-overload
    print(run.output["total"] if isinstance(run.output, Mapping) else None)
    await core.runs.chat(me, 3, message="hello")
    await core.runs.chat(me, 3, mesage="hello")  # E: call-arg


async def build(core: wfcore.Core, me: wfcore.Principal) -> None:
    flow = await core.workflows.create(me, name="Refunds", structure={"nodes": [], "edges": []})
    await core.workflows.create(me, name="Refunds", strcture={})  # E: call-arg
    await core.workflows.patch(me, flow.id, name=7)  # E: arg-type
    await core.skills.create(me, name="Support", instructions=["Be kind."], toolset={"send": {"enabled": True}})
    await core.skills.create(me, name="Support", instructions="Be kind.")  # E: arg-type
    await core.memories.create(me, 1, memory="likes tea", user_id="u1")
    await core.members.create(me, user_id="u1", rol="member")  # E: call-arg
