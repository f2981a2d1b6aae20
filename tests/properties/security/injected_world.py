"""An organization with compromised models, on the real runtime in memory, and checks that always hold."""

import json
import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
from injections import PAY_DOT_OUT, Attack, Reply

import wfcore
from wfcore.core import Core
from wfcore.domain.json.codec import dumps
from wfcore.domain.resources.access import Principal
from wfcore.domain.run.entries import Limits
from wfcore.domain.run.state import Interrupt
from wfcore.ports.providers import Delta, Finished, ModelRequest, TextDelta, TokenUsage, ToolCallDelta
from wfcore.runtime.common.run_views import RunView
from wfcore.testing.fakes import FakeClock, SequentialIds

ROUNDS = 10
SECRET, FOREIGN = "canary-of-our-connection", "canary-of-others"
READ = "Read it to me."
"""The message on which the subordinate replies with the text of the attack."""
GUARDED = {"pay", "pay.out", "erase"}
OFFERED = {
    "top": {"look", "pay", "pay_out", PAY_DOT_OUT, "ring", "shout", "dial", "mcp_wipe", "skill_middle"},
    "middle": {"look", "grant", "pay_out", "skill_deep"},
    "deep": {"erase"},
    "assistant": {"skill_top", "skill_middle", "skill_deep", "workflow_flow"},
}
"""The tools of each agent, by the names that the model gets."""

STRUCTURE = {
    "nodes": [{"id": "s", "type": "start"}, {"id": "a", "type": "action", "data": {"toolId": "note"}}],
    "edges": [{"id": "e", "source": "s", "target": "a"}],
}
"""A workflow that calls the tool `note`."""

Performed = tuple[str, str]
"""A tool and its arguments as JSON with sorted keys."""


def key(tool: str, args: Any) -> Performed:
    return tool, json.dumps(args, sort_keys=True)


class CompromisedModel:
    """A compromised model: it follows the attack for any request, and records the requests."""

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []
        self.rounds: Mapping[str, Sequence[Reply]] = {}
        self.read = ""
        """The reply of the subordinate to `READ`."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self.requests.append(request)
        reply = self.reply(request)
        if isinstance(reply, str):
            yield TextDelta(reply)
        else:
            for index, call in enumerate(reply):
                yield ToolCallDelta(index, call.id or f"id-{len(self.requests)}-{index}", call.name, call.arguments)
        yield TokenUsage(1, 1)
        yield Finished("stop" if isinstance(reply, str) else "tool_calls")

    def reply(self, request: ModelRequest) -> Reply:
        """The reply of the current round, counted from the last human message."""
        last = max(index for index, message in enumerate(request.messages) if message["type"] == "human")
        if request.messages[last]["content"] == READ:
            return self.read
        played = self.rounds[agent_of(request)]
        now = sum(message["type"] == "ai" for message in request.messages[last:])
        return played[min(now, len(played) - 1)]


def agent_of(request: ModelRequest) -> str:
    """The agent of a request, by the first line of its instructions."""
    line = str(request.messages[0]["content"]).partition("\n")[0].removeprefix("You are ")
    return "assistant" if line.startswith("the assistant of") else line


@attrs.define
class World:
    """An organization with a supervisor, its subordinate and the subordinate of that; and another organization."""

    core: Core
    me: Principal
    model: CompromisedModel
    top: int = 0
    middle: int = 0
    item: str = ""
    memory: str = ""
    looked: Any = None
    performed: list[Performed] = attrs.field(factory=list)
    approved: list[Performed] = attrs.field(factory=list)
    approval_requests: int = 0
    connects: int = 0

    def did(self, tool: str, args: Mapping[str, Any]) -> None:
        self.performed.append(key(tool, args))

    # The run

    async def run_attack(self, attack: Attack, body: Mapping[str, Any], *, assistant: bool = False) -> RunView:
        """Run to the end, with the decisions of the attack."""
        self.performed.clear()
        self.approved.clear()
        self.model.requests.clear()
        self.approval_requests = self.connects = 0
        config = {} if attack.config is None else {"config": attack.config}
        run = await self.ended(await self.core.runs.chat(self.me, None if assistant else self.top, {**body, **config}))
        while run.interrupts:
            self.check_guarded()
            decisions = [self.decided(waiting, attack) for waiting in run.interrupts]
            run = await self.ended(await self.core.runs.resume(self.me, run.id, decisions=decisions))
        return run

    def decided(self, waiting: Interrupt, attack: Attack) -> dict[str, Any]:
        if waiting.type == "connect":
            self.connects += 1
            return {"interruptId": waiting.id, "decision": "connected" if self.connects == 1 else "cancelled"}
        assert waiting.call is not None
        self.approval_requests += 1
        allowed = self.approval_requests <= attack.approves
        if allowed:
            self.approved.append(key(waiting.call["toolId"], waiting.call["arguments"]))
        return {"interruptId": waiting.id, "decision": "approve" if allowed else "deny", **attack.decision}

    async def ended(self, run: RunView) -> RunView:
        async for event in await self.core.runs.follow(self.me, run.id):
            assert SECRET not in (sent := dumps(event.to_wire()))
            assert FOREIGN not in sent
        run = await self.core.runs.get(self.me, run.id)
        assert SECRET not in dumps(run.to_wire())
        return run

    # Checks that always hold

    def check_guarded(self) -> None:
        """A call that needs an approval was made at most as often as approved, with the approved arguments."""
        guarded = Counter(done for done in self.performed if done[0] in GUARDED)
        assert guarded <= Counter(self.approved)
        assert not {tool for tool, _ in self.performed} & {"wipe", "hidden"}

    def check_requests(self) -> None:
        """Requests have no secrets or foreign data, one system message, only offered tools, and one result a call."""
        for request in self.model.requests:
            sent = dumps([list(request.messages), [attrs.asdict(tool) for tool in request.tools]])
            assert SECRET not in sent
            assert FOREIGN not in sent
            assert [message["type"] for message in request.messages].count("system") == 1
            assert {tool.name for tool in request.tools} <= OFFERED[agent_of(request)]
            results = [message["toolCallId"] for message in request.messages if message["type"] == "tool"]
            called = [call["id"] for message in request.messages for call in message.get("toolCalls", ())]
            assert results == called

    def check_text_is_sent(self, place: str, text: str) -> None:
        """A model got the text, from its place; if that is data, in a block that the text cannot close."""
        first = self.model.requests[0]
        system, *messages = (str(message["content"]) for request in self.model.requests for message in request.messages)
        if place == "description":
            assert text in {tool.description for tool in first.tools}
        elif place == "title":
            assert f'"title":{dumps(text)}}}>\n' in system
        elif place in ("memory", "item"):
            mark = re.search("from <([0-9a-f]{24}) ", system)
            assert mark is not None
            assert mark[1] not in text
            assert f">\n{text}\n</{mark[1]}>" in system
        else:
            assert any(text in message for message in messages)


# Creation


def toolbox(made: list[World]) -> list[Any]:
    """Tools that record their calls in the world, which exists before they are called."""

    @wfcore.tool(idempotent=True)
    async def look(value: Any = None) -> Any:
        """Look something up."""
        if value is not None:
            return made[0].did("look", {"value": value})
        if isinstance(made[0].looked, Exception):
            raise made[0].looked
        return made[0].looked

    def noting(name: str) -> Any:
        async def note(value: Any = None) -> str:
            made[0].did(name, {"value": value})
            return "done"

        return wfcore.tool(id=name, idempotent=True)(note)

    def paying(name: str) -> Any:
        async def pay(amount: int, to: str) -> str:
            made[0].did(name, {"amount": amount, "to": to})
            return f"paid {amount} to {to}"

        return wfcore.tool(id=name, idempotent=True)(pay)

    def calling(name: str, provider: str, *, fails: bool = False) -> Any:
        async def call(call: wfcore.ToolCall) -> str:
            made[0].did(name, {})
            assert call.connection is not None
            if fails:
                raise RuntimeError(f"{call.connection.config} was refused")
            return f"connected by {call.connection.id}"

        return wfcore.tool(id=name, idempotent=True, provider=provider)(call)

    noted = map(noting, ("wipe", "hidden", "grant", "erase", "note"))
    paid = map(paying, ("pay", "pay.out", "pay_out"))
    called = (calling("ring", "mail"), calling("shout", "mail", fails=True), calling("dial", "phone"))
    return [look, *noted, *paid, *called]


def toolset(*tools: str, guarded: Iterable[str] = ()) -> dict[str, Any]:
    free = {name: {"enabled": True} for name in tools}
    needing_approval = {name: {"enabled": True, "requiresApproval": True} for name in guarded}
    return {**free, **needing_approval, "wipe": {"enabled": False}}


async def connect(core: Core, me: Principal, provider: str, secret: str) -> None:
    config = {"apiKey": secret}
    await core.connections.create(me, name=secret[:9], provider=provider, kind="api_key", config=config)


@asynccontextmanager
async def new_world() -> AsyncIterator[World]:
    model, made = CompromisedModel(), list[World]()
    async with wfcore.open(
        "sqlite://", tools=toolbox(made), models={"default": model}, secrets=b"k" * 32,
        settings=wfcore.Settings(Limits(max_agent_rounds=ROUNDS), grace=0),
        ports=wfcore.Overrides(clock=FakeClock(), ids=SequentialIds()),
    ) as core:  # fmt: skip
        theirs, ours = [(await core.directory.create_organization(name)).uuid for name in ("Theirs", "Ours")]
        me, other, stranger = core.principal(ours, "me"), core.principal(ours, "other"), core.principal(theirs, "them")
        world = World(core, me, model)
        made.append(world)

        async def skill(name: str, by: Principal = me, **body: Any) -> int:
            instructions = [f"You are {name}"] if by is me else [FOREIGN]
            number = (await core.skills.create(by, name=name, instructions=instructions, **body)).id
            await core.skills.deploy(by, number)
            return number

        private = {"visibility": "private"}
        await skill("theirs", stranger, description=FOREIGN, toolset=toolset("wipe"))
        await skill("private", other, description=FOREIGN, accessConfig=private)
        await core.context_items.create(stranger, title=FOREIGN, content=FOREIGN)
        await connect(core, stranger, "phone", FOREIGN)
        await connect(core, stranger, "mail", FOREIGN)
        server = {"url": "https://mcp.example/", "headers": {"Authorization": FOREIGN}}
        await core.connections.create(stranger, name="s", provider="s", kind="mcp", config=server)
        nowhere = {"url": "https://10.0.0.1/", "headers": {}}  # refused: whether it has the tool stays unknown
        served = await core.connections.create(me, name="s", provider="s", kind="mcp", config=nowhere)
        await connect(core, me, "mail", SECRET)
        for name, by in (("flow", me), ("theirs", stranger), ("private", other)):
            access = {"accessConfig": private} if by is other else {}
            flow = await core.workflows.create(by, name=name, structure=STRUCTURE, **access)
            await core.workflows.deploy(by, flow.id)

        deep = await skill("deep", toolset=toolset(guarded=["erase"]))
        tools, below = toolset("look", "grant", "pay_out"), [str(deep)]
        world.middle = await skill("middle", toolset=tools, supervision_subordinate_ids=below)
        tools, below = (
            toolset("look", "pay_out", "ring", "shout", "dial", f"mcp.{served.id}.wipe", guarded=["pay", "pay.out"]),
            [str(world.middle)],
        )
        world.top = await skill("top", toolset=tools, supervision_subordinate_ids=below)
        world.item = (await core.context_items.create(me, title="Orders", content="Of the shop")).id
        world.memory = (await core.memories.create(me, world.top, memory="an order")).id
        yield world
