"""The shared fixture of the runtime tests: an open core, its users, and tools that a test controls."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

import attrs
import pytest
from waiting import HANG

from wfcore import bootstrap
from wfcore.adapters.tools.catalog import tool
from wfcore.core import Core
from wfcore.domain.kernel.errors import Conflict
from wfcore.domain.resources.access import Principal
from wfcore.domain.run.events import Event
from wfcore.ports.providers import ToolCall
from wfcore.runtime.common.installation import Settings
from wfcore.runtime.common.ports import Overrides
from wfcore.runtime.common.run_views import RunView
from wfcore.testing.contracts.dispatcher import eventually
from wfcore.testing.fakes import FakeClock, SequentialIds

Json = dict[str, Any]

PORTS: Final = frozenset(field.name for field in attrs.fields(Overrides))


class Toolbox:
    """Tools that record their calls and can be called again."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any, str, int]] = []
        self.began: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.free: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.broken_off: list[str] = []

    def all(self) -> list[Any]:
        return [self.echo, self.hold, self.flaky]

    @tool(idempotent=True)
    async def echo(self, call: ToolCall, value: Any = None) -> Any:
        """Return the value."""
        self._note("echo", value, call)
        return value

    @tool(idempotent=True)
    async def hold(self, call: ToolCall, name: str = "it") -> str:
        """Wait until the test releases `name`."""
        self._note("hold", name, call)
        self.began[name].set()
        try:
            await self.free[name].wait()
        except asyncio.CancelledError:
            for _ in range(10):
                await asyncio.sleep(0)
            self.broken_off.append(name)
            raise
        return name

    @tool(idempotent=True)
    async def flaky(self, call: ToolCall, fails: int = 1) -> int:
        """Fail this many times."""
        self._note("flaky", fails, call)
        if call.attempt <= fails:
            raise RuntimeError(f"attempt {call.attempt} fails")
        return call.attempt

    def _note(self, name: str, value: Any, call: ToolCall) -> None:
        self.calls.append((name, value, call.key, call.attempt))

    def count(self, name: str) -> int:
        return sum(called == name for called, *_ in self.calls)


@attrs.define
class Bench:
    """An open core. `me` has every scope, `other` is a colleague."""

    core: Core
    org: str
    tools: Toolbox
    clock: FakeClock
    me: Principal
    other: Principal

    def person(self, user: str, **more: Any) -> Principal:
        return self.core.principal(self.org, user, email=more.pop("email", f"{user}@x.org"), **more)

    async def joined(self, name: str, role: str = "member", *groups: str) -> Principal:
        """The principal of a new member, as its token gives it."""
        await self.core.directory.add_member(self.org, name, f"{name}@x.org", role=role, groups=groups)
        return self.person(name, role=role, groups=groups)

    async def deployed(self, structure: Json, **fields: Any) -> int:
        """A new deployed workflow with this graph."""
        view = await self.core.workflows.create(self.me, name="A flow", structure=structure, **fields)
        await self.core.workflows.deploy(self.me, view.id)
        return view.id

    async def started(self, structure: Json, given: Json | None = None, **fields: Any) -> RunView:
        number = await self.deployed(structure)
        return await self.core.runs.start(self.me, workflow=number, input=given or {}, **fields)

    async def events(self, run_id: str, after: int = 0) -> list[Event]:
        """All events until the end of the turn."""
        row = (await self.core.runs.get(self.me, run_id)) if run_id else None
        assert row is not None
        async with asyncio.timeout(HANG):
            return [event async for batch in self.core.runs.batches(row, after=after) for event in batch]

    async def seen(self, run: RunView, kind: str) -> Event:
        """The run's first event of this kind, when it exists."""
        async with asyncio.timeout(HANG), aclosing(self.core.runs.batches(run)) as batches:
            async for batch in batches:
                for event in batch:
                    if event.kind == kind:
                        return event
        raise AssertionError(f"the turn ended without `{kind}`")

    async def ended(self, run: RunView | str) -> RunView:
        """The record when the turn has ended."""
        run_id = run if isinstance(run, str) else run.id
        await self.events(run_id)
        return await self.core.runs.get(self.me, run_id)

    async def resumed_by(self, run: RunView) -> str:
        """The id of the turn that resumes the run, when it exists."""

        async def link() -> str | None:
            return (await self.core.runs.get(self.me, run.id)).row.resumed_by

        return str(await eventually(link))

    async def ran(self, structure: Json, given: Json | None = None, **fields: Any) -> RunView:
        return await self.ended(await self.started(structure, given, **fields))

    async def until(self, name: str) -> None:
        """Wait until the tool `hold` was called with this name."""
        async with asyncio.timeout(HANG):
            await self.tools.began[name].wait()


def stop_polls(core: Core) -> None:
    """Let a process that has just opened not poll each second: what is due is served when the test says so.

    A poll of the process itself would serve some of it at the same time, sooner or later than the test.
    """
    for part in (core.scheduler, core.poster, core.notifier):
        poller = part._poller
        if poller._task is not None:
            poller._task.cancel()  # before its first step
        poller.start = lambda: None  # type: ignore[method-assign]  # it starts late if modules have to be imported


@asynccontextmanager
async def opened(
    database: str, toolbox: Toolbox | None = None, *, org: str | None = None, polls: bool = False, **more: Any
) -> AsyncIterator[Bench]:
    """A bench with this database; `org` is an existing organization. `more`: arguments of `open`, and ports by name.

    With `polls` it serves schedules and deliveries by itself, once a second of its clock.
    """
    toolbox, clock = toolbox or Toolbox(), more.pop("clock", None) or FakeClock()
    more.setdefault("tools", toolbox.all())
    more.setdefault("ids", SequentialIds())
    settings = attrs.evolve(more.pop("settings", None) or Settings(), synchronous="NORMAL", grace=0)
    ports = Overrides(clock=clock, **{name: more.pop(name) for name in PORTS & more.keys()})
    async with bootstrap.open(database, settings=settings, ports=ports, **more) as core:
        if not polls:
            stop_polls(core)
        org = org or (await core.directory.create_organization("Acme")).uuid
        people = [core.principal(org, name, email=f"{name}@x.org") for name in ("me", "other")]
        yield Bench(core, org, toolbox, clock, *people)


class Disk:
    """While the disk is full nothing can be appended to the bench's journal."""

    def __init__(self, bench: Bench, *, full: bool) -> None:
        journal = bench.core.ports.journal
        self.full = full
        self._append = journal.append
        journal.append = self._try  # type: ignore[method-assign]

    async def _try(self, *args: Any) -> None:
        if self.full:
            raise OSError("no space left on device")
        await self._append(*args)


async def reason(call: Awaitable[Any]) -> Any:
    """The `info.reason` of the conflict that the call raises."""
    with pytest.raises(Conflict) as error:
        await call
    return error.value.info["reason"]


def graph(edges: str, **nodes: Json) -> Json:
    """A graph with a start `s`; edges as `s>a a>b h:approved>c`."""
    rows = []
    for number, edge in enumerate(edges.split()):
        source, target = edge.split(">")
        source, _, handle = source.partition(":")
        rows.append(
            {"id": f"e{number}", "source": source, "target": target} | ({"sourceHandle": handle} if handle else {})
        )
    drawn = [{"id": name, **node} for name, node in nodes.items()]
    if "s" not in nodes:
        drawn.insert(0, {"id": "s", "type": "start"})
    return {"nodes": drawn, "edges": rows}


def start(**schema: Any) -> Json:
    return {"type": "start", "data": {"inputSchema": schema}}


def act(tool_id: str, /, *, more: Json | None = None, **params: Any) -> Json:
    return {"type": "action", "data": {"toolId": tool_id, "params": params, **(more or {})}}


def ask(**data: Any) -> Json:
    return {"type": "humanApproval", "data": {"message": "may it?", **data}}


def agent(**data: Any) -> Json:
    return {"type": "agent", "data": data}


def one(node: Json) -> Json:
    """A graph with one node after its start."""
    return graph("s>a", a=node)


def kinds(events: Iterable[Event]) -> list[str]:
    return [str(event.kind) for event in events]


def paths(error: Any) -> set[tuple[str, str]]:
    """Path and rule of every issue of an error."""
    return {(issue["path"], issue["rule"]) for issue in error.value.info["errors"]}


def why(run: RunView) -> tuple[str, Any]:
    """Message of a run that ended in error, and the cause, or the reason where no cause says more."""
    assert run.status == "error"
    info = run.error["info"]
    return run.error["message"], info.get("cause", info["reason"])


def private(*shared: str) -> dict[str, Any]:
    return {"visibility": "private", "sharedWith": [{"email": email} for email in shared]}


def shared(**groups: tuple[bool, bool]) -> dict[str, Any]:
    bits = {uuid.replace("_", "-"): {"use": use, "manage": manage} for uuid, (use, manage) in groups.items()}
    return {"visibility": "shared", "groupPermissions": bits}


async def deployed_skill(bench: Bench, by: Any = None, **fields: Any) -> int:
    view = await bench.core.skills.create(by or bench.me, name="skill", **fields)
    await bench.core.skills.deploy(by or bench.me, view.id)
    return view.id
