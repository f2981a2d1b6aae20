"""Code of an embedding product, as type checkers see it.

A comment `E: code` marks the lines that they must refuse, with the code of mypy.
"""

from collections.abc import AsyncIterator, Mapping

import wfcore
from wfcore.api.runs import CreateRun
from wfcore.testing import Cassette, ScriptedModel, run_until_idle, sketch


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


class Shop:
    """What the tools of the product need."""

    def price(self, item: str) -> float:
        return float(len(item))


@wfcore.tool(idempotent=True)
async def price(item: str, ctx: wfcore.RunContext[Shop]) -> float:
    """The price of an item."""
    print(ctx.deps.prise(item))  # E: attr-defined
    return ctx.deps.price(item)


@wfcore.tool(idempotnet=True)  # E: call-overload  # E: untyped-decorator
async def sell(item: str, call: wfcore.ToolCall) -> str:
    """Sell an item."""
    return call.key + item


async def run() -> None:
    async with wfcore.open("sqlite:///app.db", tools=[price, sell], deps=Shop()) as core:
        await start(core, core.principal("00000000-0000-4000-8000-000000000001", "ann"))
    async with wfcore.open("sqlite:///app.db", toools=[price]) as core:  # E: call-arg
        pass
    with wfcore.open_sync("sqlite:///app.db", worker="yes"):  # E: arg-type
        pass


async def checked(core: wfcore.Core) -> None:
    model = ScriptedModel(["one", {"content": "two"}])
    await run_until_idle(core, timeout=5)
    print(model.requests[0].messages, wfcore.__version__.split("."))
    ScriptedModel(7)  # E: arg-type
    with Cassette("calls.json", record="sometimes"):  # E: arg-type
        pass


def literals() -> None:
    """What a program writes first, and passes on by its name, has the type `dict[str, object]` for mypy."""
    order = {"order": 7, "lines": [1, 2]}
    wait = {"toolId": "core.wait", "params": {"seconds": 1}}
    graph = {"nodes": [{"id": "start", "type": "start", "position": {"x": 0, "y": 0}}], "edges": []}
    wfcore.simulate(graph, order)
    wfcore.Flow("Refunds", input=order).approval("Refund?", form=order)
    sketch("start -> wait", wait=wait)


async def pages(core: wfcore.Core, me: wfcore.Principal, size: int) -> list[int]:
    return [each.id for each in await core.workflows.page(me, limit=size)]


async def names(core: wfcore.Core, me: wfcore.Principal) -> AsyncIterator[str]:
    for each in await core.workflows.page(me):
        yield each.name


def script(core: wfcore.SyncCore, me: wfcore.Principal) -> None:
    print(core.call(pages, me, 10)[0] + 1)
    print([each.upper() for each in core.call(names, me)])
    print([each.seq for each in core.call(lambda core: core.runs.follow(me, "1"))])
    core.call(pages, me, "10")  # E: call-overload
    core.call(pages, me, size=10)


def sync(core: wfcore.SyncCore, me: wfcore.Principal) -> None:
    flow = core.workflows.create(me, name="Refunds", structure={"nodes": [], "edges": []})
    core.workflows.create(me, name="Refunds", strcture={})  # E: call-arg
    run = core.runs.start(me, workflow=flow.id, input={"order": 7}, key="order-7")
    core.runs.start(me, workflow="7", input={})  # E: arg-type
    core.runs.strat(me, workflow=7)  # E: attr-defined
    print(core.workflows.interfaces.page(me, flow.id)[0].kind)
    print(core.runz)  # E: attr-defined
    print(run.id.upper(), core.runs.get(me, run.id).status)
    for event in core.runs.follow(me, run.id):
        print(event.seq + 1, event.knid)  # E: attr-defined
    changes = core.changes.follow(me)
    next(changes)[0]["kind"]
    changes.close()
    (waiting,), before = core.runs.interrupts(me)
    print(core.runs.result(core.runs.resume(me, waiting.run_id, decision="approve")), before)
    print(core.hooks.page(me)[0].urls)  # E: attr-defined
    core.on("interrupt.opened", lambda event: print(event.data["runId"]))
    core.on("interrupt.open", print)  # E: arg-type
    core.principal("00000000-0000-4000-8000-000000000001", 7)  # E: arg-type
