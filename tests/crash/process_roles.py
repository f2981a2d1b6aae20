"""The roles of the processes of the crash tests.

Each function in `ROLES` runs in a separate process, forked by `fork_server.py`. It reports to files, with one write for
each line, so that lines from before a kill are complete.
"""

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import attrs
import shifted_clock
from graphs import CROWD, GRAPHS, NUMBERS
from points import Points
from waiting import HANG

from wfcore import addresses, bootstrap
from wfcore.adapters.dispatch import embedded
from wfcore.adapters.dispatch.event_hub import EventHub
from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.adapters.sql.journal.journal import SqlJournal
from wfcore.adapters.sql.storage import SqlStorage
from wfcore.adapters.tools.catalog import tool
from wfcore.core import Core
from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.resources.access import Principal
from wfcore.domain.run.state import RunStatus
from wfcore.domain.triggers.webhooks import sign
from wfcore.ports.providers import ModelRequest, ToolCall
from wfcore.runtime.common.installation import Dispatch, Settings
from wfcore.runtime.common.ports import Overrides
from wfcore.runtime.common.run_views import RunView
from wfcore.runtime.execution.outcomes import address_of
from wfcore.runtime.execution.performer import Performer

ORG = "00000000-0000-4000-8000-000000000001"
FIRST = "turn-1"
INPUT = {"n": 5, "items": ["a", "b", "c"]}
DEAD_AFTER = 1.5
"""Seconds of silence after which a process on another pretended machine counts as dead."""

PERFORM = Performer.perform

Spec = dict[str, Any]


def write_line(path: str, value: Any) -> None:
    """Append one line, which a later kill of this process cannot affect."""
    line = (json.dumps(value) + "\n").encode()
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        assert os.write(file, line) == len(line)
    finally:
        os.close(file)


def now() -> int:
    """Milliseconds since the Unix epoch, by the clock that wfcore uses."""
    return time.time_ns() // 1_000_000


class Recorder:
    """The tools: each call writes a line with the time outside wfcore. `seconds` is the duration of a call."""

    def __init__(self, path: str, points: Points, seconds: float = 0.0, who: str = "", calls: str = "") -> None:
        """`calls`: a folder, where begin and end of each call are recorded for all processes."""
        self._path = path
        self._points = points
        self._seconds = seconds
        self._who = who
        self._calls = calls

    @property
    def tools(self) -> list[Any]:
        return [self.record, self.flaky, self.slow, self.charge]

    @tool(idempotent=True)
    async def record(self, what: Any, call: ToolCall) -> dict[str, object]:
        """Record that this step was performed."""
        return await self.charge(what, call)

    @tool(idempotent=True)
    async def flaky(self, what: Any, call: ToolCall) -> dict[str, object]:
        """As `record`, but the first two attempts fail after the record."""
        noted = await self.charge(what, call)
        if call.attempt < 3:
            raise ConnectionError("not yet")
        return noted

    @tool(idempotent=True)
    async def slow(self, what: Any, call: ToolCall) -> dict[str, object]:
        """As `record`, but the first attempt never ends."""
        noted = await self.charge(what, call)
        if call.attempt < 2:
            await asyncio.Event().wait()
        return noted

    async def charge(self, what: Any, call: ToolCall) -> dict[str, object]:
        """As `record`, but it must not be repeated."""
        with under_way(self._calls, self._who):
            await asyncio.sleep(self._seconds)
        write_line(self._path, [readable(call.key), call.attempt, now(), self._who])
        self._points.reach("effect", "amid")
        return {"seen": what}


@contextmanager
def under_way(folder: str, who: str) -> Iterator[None]:
    """Record that a call begins and ends; a killed process records no end."""
    if not folder:
        yield
        return
    write_line(f"{folder}/calls", [who, 1])
    try:
        yield
    finally:
        write_line(f"{folder}/calls", [who, -1])


def note_kill(folder: Path, who: str) -> None:
    """Called before a process is killed: its calls end here."""
    write_line(f"{folder}/calls", [who, 0])


def most_at_once(folder: Path) -> int:
    """The most calls that were under way at once. Each line stands within its call, so it is never too many."""
    now, most, killed = Counter[str](), 0, set[str]()
    for who, change in lines(folder / "calls"):
        if change == 0:
            killed.add(who)
            del now[who]
        elif who not in killed:
            now[who] += change
        most = max(most, now.total())
    return most


class TwoCallsModel(ScriptedModel):
    """Makes two tool calls, one after the other, then streams four words. It records a line for each completion."""

    def __init__(self, path: str, points: Points, who: str = "") -> None:
        super().__init__(self._reply, delay=0.002)
        self._path = path
        self._points = points
        self._who = who

    def _reply(self, request: ModelRequest) -> Any:
        write_line(self._path, [readable(request.key), 1, now(), self._who])
        self._points.reach("effect", "amid")
        if not request.tools:
            return "four words were said"
        answered = sum(message["type"] == "tool" for message in request.messages)
        calls = [{"id": f"call-{answered}", "name": "record", "args": {"what": answered}}]
        return {"content": "", "toolCalls": calls} if answered < 2 else "I have noted both"


ROOTS: dict[str, str] = {}
"""The first run of each execution with an effect in this process, by the prefix of the keys of its effects."""


def readable(key: str) -> str:
    """The key with the run id instead of the UUID, which differs between experiments."""
    execution, _, step = key.partition(":")
    return f"{ROOTS[execution]}:{step}"


def watch_effects(points: Points, path: str) -> None:
    """Add points before and after each effect, and record the address of its outcome in the journal, with the time."""

    async def performed(self: Performer, execution: Any, effect: Any, stream: Any, at: Any) -> Any:
        ROOTS[effect.key.partition(":")[0]] = execution.root_run_id
        points.reach("effect", "before")
        outcome = await PERFORM(self, execution, effect, stream, at)
        write_line(path, [execution.ref.id, address_of(outcome), outcome.at, readable(effect.key), now()])
        points.reach("effect", "after")
        return outcome

    Performer.perform = performed  # type: ignore[method-assign]


def dispatch_of(spec: Spec) -> Dispatch:
    if "temporal" in spec:
        return Dispatch("temporal", [spec["temporal"]])
    return Dispatch("nats", spec["nats"], replicas=spec["replicas"]) if "nats" in spec else Dispatch()


@asynccontextmanager
async def opened(spec: Spec) -> AsyncIterator[tuple[Core, Principal]]:
    """wfcore on the database of the test, with the points at which this process can be killed."""
    points, who = Points(spec.get("kill")), spec.get("name", "")
    if "clock" in spec:
        shifted_clock.follow(Path(spec["clock"]), of_servers=True)
    if "machine" in spec:
        embedded.this_machine = lambda: spec["machine"]
        embedded.DEAD_AFTER = DEAD_AFTER
    url, *shards = spec["url"].split("\n")
    if bootstrap.is_server(url):
        points.watch_postgres()
    else:
        points.watch_sqlite()
    watch_effects(points, spec["steps"])
    embedded.HEARTBEAT = spec.get("beat", embedded.HEARTBEAT)
    embedded.STUCK_AFTER = spec.get("stuck", embedded.STUCK_AFTER)
    own = Overrides() if shards else await watched(points, spec)
    async with bootstrap.open(
        url,
        tools=Recorder(spec["log"], points, spec.get("seconds", 0.0), who, spec.get("calls", "")).tools,
        models={"default": TwoCallsModel(spec["log"], points, who)},
        settings=Settings(
            delta_interval=0,
            hold_for=0,
            catch_up=spec.get("catch_up", 3_600.0),
            grace=0,
            dispatch=dispatch_of(spec),
            shards={f"s{number}": shard for number, shard in enumerate(shards, 1)},
        ),
        worker=spec.get("worker", True),
        secrets=bytes(32),
        ports=own,
    ) as core:
        yield core, core.principal(spec.get("org", ORG), user="ann")
    write_line(spec["points"], points.passed)


async def watched(points: Points, spec: Spec) -> Overrides:
    """The stores of one database with the points of the journal."""
    settings, off_loop = Settings(synchronous=spec.get("synchronous", "FULL")), addresses.is_off_loop(spec["url"])
    database, _ = await bootstrap._database(addresses.address_of(spec["url"]), None, settings, off_loop=off_loop)
    events, journal = EventHub(), SqlJournal(database)
    points.watch_journal(journal)
    events.publish = points.around("publish", events.publish)  # type: ignore[method-assign]
    return Overrides(storage=SqlStorage(database), journal=journal, events=None if "nats" in spec else events)


async def seed(spec: Spec) -> None:
    """Create the database: tables, the organizations, all workflows of each."""
    async with opened({**spec, "worker": False}) as (core, _):
        for org in spec.get("orgs", [ORG]):
            await fill(core, org)


async def fill(core: Core, org: str) -> None:
    await core.directory.create_organization("Acme", id=org)
    me = core.principal(org, user="ann")
    skill = await core.skills.create(me, name="TwoCallsModel", toolset={"record": {"enabled": True}})
    await core.skills.deploy(me, skill.id)
    for name, structure in GRAPHS.items():
        trigger = {"trigger_type": "webhook" if name == "webhook" else "api"}
        made = await core.workflows.create(me, name=name, structure=structure, trigger=trigger)
        await core.workflows.deploy(me, made.id)
    await core.workflows.webhook(me, NUMBERS["webhook"])


async def follow(core: Core, me: Principal, run: str, path: str) -> None:
    """Follow a run to its end, and acknowledge each event on arrival."""
    async for event in await core.runs.follow(me, run):
        write_line(path, event.to_wire())


async def play(spec: Spec) -> None:
    """Start a run or join it, respond to its interrupts or join the response, and follow every turn to its end."""
    async with asyncio.timeout(HANG), opened(spec) as (core, me):
        run = await STARTERS.get(spec["scenario"], begin)(core, me, spec)
        for turn in count(2):
            write_line(spec["acks"], {"kind": "accepted", "runId": run})
            await follow(core, me, run, spec["acks"])
            view = await core.runs.get(me, run)
            if view.status is not RunStatus.interrupted:
                break
            run = await next_turn(core, view, turn, spec)
        write_line(spec["acks"], {"kind": "ended", "status": view.status, "output": view.output})


async def begin(core: Core, me: Principal, spec: Spec) -> str:
    number = NUMBERS[spec["scenario"]]
    return (await core.runs.start(me, workflow=number, input=INPUT, key=spec.get("key", FIRST))).id


async def deliver(core: Core, me: Principal, spec: Spec) -> str:
    """Send the message to the webhook, as a sender repeats it without a response."""
    webhook = await core.workflows.webhook(me, NUMBERS[spec["scenario"]])
    body, at = json.dumps(INPUT).encode(), now() // 1000
    signature = sign(webhook.secret, "message-1", at, body)
    headers = {"webhook-id": "message-1", "webhook-timestamp": str(at), "webhook-signature": signature}

    async def read() -> bytes:
        return body

    return (await core.webhooks.receive(webhook.id, headers.items(), read)).id


async def wait_for_slot(core: Core, me: Principal, spec: Spec) -> str:
    run: str = spec["run"]
    while True:
        try:
            return (await core.runs.get(me, run)).id
        except NotFound:
            await asyncio.sleep(0.01)


async def next_turn(core: Core, view: RunView, turn: int, spec: Spec) -> str:
    """The next turn: after a deadline that of the system, else the response of one of two persons."""
    person = core.principal(spec.get("org", ORG), user=("ann", "bob")[turn % 2])
    key = spec.get("answer", f"turn-{turn}")
    if spec["scenario"] != "deadline":
        return (await core.runs.resume(person, view.id, decision="approve", key=key)).id
    while (next_run := view.row.resumed_by) is None:
        await asyncio.sleep(0.01)
        view = await core.runs.get(person, view.id)
    return next_run


STARTERS: dict[str, Callable[..., Any]] = {"webhook": deliver, "schedule": wait_for_slot}


async def crowd(spec: Spec) -> None:
    """Start some of many runs, acknowledge them, and work until all are done, also those of other processes."""
    async with opened(spec) as (core, me):
        names = [f"{spec['name']}-{number}" for number in range(spec["starts"])]
        number = NUMBERS[spec.get("graph", "crowd")]
        for run in await asyncio.gather(
            *(core.runs.start(me, workflow=number, input=INPUT, key=name) for name in names)
        ):
            write_line(spec["acks"], run.id)
        while len(await core.runs.page(me, limit=100, status=RunStatus.done)) < spec["runs"]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def limit(spec: Spec) -> None:
    """Limit the concurrent runs of the organization, or of one of its workflows."""
    async with opened({**spec, "worker": False}) as (core, _):
        await core.directory.limit_runs(ORG, spec["most"], workflow=spec["workflow"])


async def schedule(spec: Spec) -> None:
    """Enable the schedules of some workflows whose slot, the last first of January, is due."""
    yearly = {"frequency": "custom", "timezone": "UTC", "cron_expressions": ["0 0 1 1 *"], "cron_description": "yearly"}
    trigger = {"trigger_type": "schedule", "schedule": yearly}
    async with opened({**spec, "worker": False}) as (core, me):
        for _ in range(spec["schedules"]):
            made = await core.workflows.create(me, name="Yearly", structure=CROWD, trigger=trigger)
            await core.workflows.deploy(me, made.id)
            await core.workflows.toggle(me, made.id, is_enabled=True)
            async with core.ports.storage.transaction(ORG) as work:
                timer = await work.schedules.get(made.id)
                assert timer
                await work.schedules.put(attrs.evolve(timer, next_at=spec["slot"]))


async def fire(spec: Spec) -> None:
    """Start the runs of due schedules, and work until `runs` are done."""
    async with opened(spec) as (core, me):
        while len(await core.runs.page(me, limit=100, status=RunStatus.done)) < spec["runs"]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


ROLES: dict[str, Callable[[Spec], Any]] = {role.__name__: role for role in (seed, play, crowd, limit, schedule, fire)}


def run(spec: Spec) -> None:
    asyncio.run(ROLES[spec["role"]](spec))


def lines(path: Path) -> list[Any]:
    """The values that `write_line` wrote."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
