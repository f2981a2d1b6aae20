"""Code of an embedding product, as mypy sees it: a comment `E: code` marks the lines that it must refuse."""

import wfcore
from wfcore.api.runs import CreateRun


async def start(core: wfcore.Core, me: wfcore.Principal) -> None:
    run = await core.runs.start(me, workflow=7, input={"order": 7})
    await core.runs.start(me, CreateRun(workflow_id=7, input={"order": 7}))
    await core.runs.start(me, {"workflowId": 7, "input": {}})
    await core.runs.start(me, workflow=7, inptu={"order": 7})  # E: call-arg
    await core.runs.start(me, workflow="7", input={})  # E: arg-type
    await core.runs.resume(me, run.id, decision="approve", data={"amount": 5})
    await core.runs.resume(me, run.id, decision="approved")  # E: arg-type
    await core.runs.chat(me, 3, message="hello")
    await core.runs.chat(me, 3, mesage="hello")  # E: call-arg
