"""Every call of the store and of the journal fails, in every way, under every use case that makes it."""

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress
from itertools import count, pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import attrs
import pytest
from faults import WAYS, Faults, Watched, every_call
from slices import slice_of

from wfcore import bootstrap
from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.adapters.sql.journal.conversion import to_entry
from wfcore.adapters.sql.journal.journal import SqlJournal
from wfcore.adapters.sql.repositories.memories import SqlMemories
from wfcore.adapters.sql.sqlite.database import Database
from wfcore.adapters.sql.storage import SqlStorage
from wfcore.core import Core
from wfcore.domain.kernel.errors import Invalid, Unavailable, WfcoreError
from wfcore.domain.resources.access import Principal
from wfcore.domain.run.entries import Failed, Said
from wfcore.domain.run.machine.requests import BROKEN_OFF
from wfcore.domain.run.state import RunStatus
from wfcore.domain.triggers.webhooks import sign
from wfcore.ports.journal import Journal
from wfcore.ports.repositories.postings import Posting
from wfcore.ports.storage import Storage
from wfcore.runtime.common.installation import Retention, Settings
from wfcore.runtime.common.ports import Overrides
from wfcore.runtime.resources.interfaces import SignedInterface
from wfcore.runtime.runs.inbox import Inbox
from wfcore.testing.fakes import FakeClock, SequentialIds

pytestmark = pytest.mark.anyio

ORG = "00000000-0000-4000-8000-000000000001"
GROUP = "00000000-0000-7000-8000-000000000001"
INTERFACE = "00000000-0000-7000-8000-00000000000c"
ITEM = "00000000-0000-7000-8000-00000000000e"
PREFIX = "aaaaaaad"
TOKEN = f"svc_{ORG}_{PREFIX}_{'c':a>43}"
"""What the ids that count have made of the furniture."""

RANDOM = {"sealed"}
"""Columns that hold what was made at random."""

ASIDE = {
    "Storage.upgrade", "Storage.check", "Storage.schema_differences", "Storage.close",  # opening and closing
    "Storage.check_writes",  # of the readiness: see `test_readiness`
    "Journal.register", "Journal.heartbeat", "Journal.holders", "Journal.release", "Journal.claim_due",
    "Journal.claim", "Journal.progress",  # of engines that deliver executions
    "Journal.due_since",  # of the metrics
    "Journal.snapshot",  # of long runs: see `test_snapshots`
    "Journal.take_slot",  # of calls with a key: see `test_call_slots`
    "DeliveryRepository.add",  # of a schedule that is paused: see `test_scheduler`
    "Journal.next_wake", "Journal.lengths", "Journal.held_by",  # the dispatcher's: see `test_an_active_run`
    "Journal.with_entries",  # after a claim: see `test_what_a_round_has_claimed_is_read_together`
    "Maintenance.executions_of", "Maintenance.remove_execution", "Maintenance.remove_resource",
    "Maintenance.forget_user", "Maintenance.numbers", "Maintenance.conversations", "Maintenance.rewrite",
    "Maintenance.rewrite_execution", "Maintenance.scrub",
    "Maintenance.sizes", "Maintenance.erasures",  # of erasures and exports: see `test_erasure`
    "Journal.within", "Storage.within",  # of the product's transaction: see `test_within`, `test_hooks_within`
}  # fmt: skip
"""What no use case calls by itself."""

NO_KEY = {
    "hooks.patch",
    "hooks.rotate",
    "hooks.redeliver",
    "delegations.patch",
    "groups.create",
    "tokens.create",
    "workflows.rotate_webhook",
    "interfaces.patch",
}
"""What takes no Idempotency-Key, and is done, or at least noted, once more when it is asked for again."""

IN_STEPS = {
    "scheduler.fire",
    "retention.prune",
    "poster.poll",
    "notifier.poll",
    "team_chats.receive",
    "team_chats.refused",
}
"""What goes on from wherever it was: by itself, or when its message comes again."""

ASKING = {"nodes": [{"id": "begin", "type": "start"}, {"id": "ask", "type": "humanApproval", "data": {}}],
          "edges": [{"id": "1", "source": "begin", "target": "ask"}]}  # fmt: skip
WORKING = {
    "nodes": [
        {"id": "begin", "type": "start"},
        {"id": "pause", "type": "action", "data": {"toolId": "core.wait", "params": {"seconds": 2}}},
        {"id": "nap", "type": "action", "data": {"toolId": "core.wait", "params": {"seconds": 5}}},
        {"id": "end", "type": "agent", "data": {"message": "say hello"}},
    ],
    "edges": [{"id": end, "source": start, "target": end} for start, end in pairwise(["begin", "pause", "nap", "end"])],
}
"""A worker holds on to it for the first pause, and gives it back for the second."""
NEEDY = {"nodes": [{"id": "begin", "type": "start", "data": {"inputSchema": {"required": ["n"]}}}], "edges": []}
"""No chat can give it what it needs."""

OLD = Retention(runs=1e-9, conversations=1e-9, audit=1e-9, deleted=1e-9)

DAILY = {"trigger_type": "schedule", "schedule": {"frequency": "daily", "timezone": "UTC", "time_of_day": "11:30"}}
BY_HAND = {"trigger_type": "manual"}

CASE = {"id": "a", "input": {"message": "hello"}, "checks": [{"kind": "contains", "value": "hello"}]}

ENDS = {"Storage.transaction", "Journal.begin", "Journal.append"}
OFTEN = 1
"""Use cases under which the same method goes wrong, where it is not the end of a transaction."""

UseCase = Callable[[Core, Principal], Any]
USE_CASES: dict[str, UseCase] = {
    "workflows.create": lambda core, me: core.workflows.create(me, name="New", structure=ASKING, key="k"),
    "workflows.patch": lambda core, me: core.workflows.patch(me, 1, structure=WORKING),
    "workflows.deploy": lambda core, me: core.workflows.deploy(me, 2),
    "workflows.discard_draft": lambda core, me: core.workflows.discard_draft(me, 2),
    "workflows.toggle": lambda core, me: core.workflows.toggle(me, 1, is_enabled=False),
    "workflows.delete": lambda core, me: core.workflows.delete(me, 1),
    "workflows.restore": lambda core, me: core.workflows.restore(me, 3),
    "workflows.webhook": lambda core, me: core.workflows.webhook(me, 2),
    "workflows.rotate_webhook": lambda core, me: core.workflows.rotate_webhook(me, 1),
    "workflows.get": lambda core, me: core.workflows.get(me, 1),
    "workflows.page": lambda core, me: core.workflows.page(me),
    "workflows.variations": lambda core, me: core.workflows.variations(me, 1),
    "workflows.transfer": lambda core, me: core.workflows.transfer_ownership(me, 4, email="bob@x.org"),
    "evaluations.run": lambda core, me: core.evaluations.run(me, 1, key="k"),
    "evaluations.results": lambda core, me: core.evaluations.results(me, 1),
    "skills.create": lambda core, me: core.skills.create(me, name="New", key="k"),
    "skills.deploy": lambda core, me: core.skills.deploy(me, 2),
    "interfaces.create": lambda core, me: core.workflows.interfaces.create(me, 1, kind="mcp", key="k"),
    "interfaces.patch": lambda core, me: core.workflows.interfaces.patch(me, 1, INTERFACE, config={"a": 1}),
    "interfaces.delete": lambda core, me: core.workflows.interfaces.delete(me, 1, INTERFACE),
    "interfaces.clear": lambda core, me: core.workflows.interfaces.clear(me, 1),
    "interfaces.page": lambda core, me: core.workflows.interfaces.page(me, 1),
    "members.create": lambda core, me: core.members.create(me, user_id="carl", email="carl@x.org", role="member"),
    "members.patch": lambda core, me: core.members.patch(me, "bob", email="b@x.org"),
    "members.delete": lambda core, me: core.members.delete(me, "bob"),
    "members.page": lambda core, me: core.members.page(me),
    "groups.create": lambda core, me: core.groups.create(me, name="New"),
    "groups.patch": lambda core, me: core.groups.patch(me, GROUP, name="Renamed"),
    "groups.delete": lambda core, me: core.groups.delete(me, GROUP),
    "groups.page": lambda core, me: core.groups.page(me),
    "tokens.create": lambda core, me: core.tokens.create(me, name="t", scopes=["workflows:read"]),
    "tokens.revoke": lambda core, me: core.tokens.revoke(me, PREFIX),
    "tokens.page": lambda core, me: core.tokens.page(me),
    "connections.create": lambda core, me: core.connections.create(
        me, name="c", provider="p", kind="api_key", config={"apiKey": "s", "header": "x"}, key="k"),
    "connections.page": lambda core, me: core.connections.page(me),
    "connections.delete": lambda core, me: core.connections.delete(me, granted["own"]),
    "hooks.create": lambda core, me: core.hooks.create(me, url="http://127.0.0.1:9/", events=["run.failed"], key="k"),
    "hooks.patch": lambda core, me: core.hooks.patch(me, hooks["own"], is_enabled=False),
    "secrets.reencrypt": lambda core, me: core.secrets.reencrypt(dry_run=True),
    "retention.count": lambda core, me: core.retention.prune(OLD, dry_run=True),
    "retention.prune": lambda core, me: core.retention.prune(OLD),
    "retention.delete_organization": lambda core, me: core.retention.delete_organization(me.org_uuid),
    "hooks.rotate": lambda core, me: core.hooks.rotate(me, hooks["own"]),
    "hooks.delete": lambda core, me: core.hooks.delete(me, hooks["own"]),
    "hooks.redeliver": lambda core, me: core.hooks.redeliver(me, hooks["own"], hooks["delivery"]),
    "hooks.deliveries": lambda core, me: core.hooks.deliveries(me, hooks["own"]),
    "delegations.create": lambda core, me: core.delegations.create(me, to="bob", key="k"),
    "delegations.patch": lambda core, me: core.delegations.patch(me, hooks["delegation"], workflow_ids=[1]),
    "delegations.delete": lambda core, me: core.delegations.delete(me, hooks["delegation"]),
    "delegations.page": lambda core, me: core.delegations.page(me),
    "directory.ensure_organization": lambda core, me: core.directory.ensure_organization("Acme Ltd", id=ORG),
    "directory.limit_runs": lambda core, me: core.directory.limit_runs(ORG, 2),
    "directory.run_limits": lambda core, me: core.directory.run_limits(ORG),
    "core.off": lambda core, me: core.off("mail"),
    "context_items.create": lambda core, me: core.context_items.create(me, title="t", content="c", key="k"),
    "context_items.page": lambda core, me: core.context_items.page(me),
    "policies.create": lambda core, me: core.policies.create(
        me, name="P", when={"agent": True}, require={"timeout": True}, key="k"),
    "policies.page": lambda core, me: core.policies.page(me),
    "audit.page": lambda core, me: core.audit.page(me),
    "usage.report": lambda core, me: core.usage.report(me),
    "runs.start": lambda core, me: core.runs.start(me, workflow=1, input={}, key="k"),
    "runs.chat": lambda core, me: core.runs.chat(me, 1, message="hello", file_thread_id="talk", key="k"),
    "runs.resume": lambda core, me: core.runs.resume(me, "parked", decision="approve", key="k"),
    "runs.cancel": lambda core, me: core.runs.cancel(me, "parked"),
    "runs.delete": lambda core, me: core.runs.delete(me, "talk-1"),
    "journal.is_deleted": lambda core, me: core.ports.journal.is_deleted(ORG, "talk-1"),
    "runs.page": lambda core, me: core.runs.page(me),
    "runs.interrupts": lambda core, me: core.runs.interrupts(me),
    "inbox.page": lambda core, me: Inbox(core.ports, core.runs).page(me, order="deadline"),
    "inbox.decide": lambda core, me: Inbox(core.ports, core.runs).decide(
        me, decisions=[{"interruptId": "none", "decision": "deny"}]),
    "runs.stats": lambda core, me: core.runs.stats(me),
    "runs.graph": lambda core, me: core.runs.graph(me, "parked"),
    "runs.events": lambda core, me: core.runs.events(me, "parked"),
    "runs.record": lambda core, me: core.runs.record(me, "parked"),
    "conversations.page": lambda core, me: core.conversations.page(me, 1),
    "conversations.get": lambda core, me: core.conversations.get(me, 1, "talk"),
    "conversations.delete": lambda core, me: core.conversations.delete(me, 1, "talk"),
    "contexts.compose": lambda core, me: core.contexts.compose(me, 1, message="hello", file_thread_id="talk"),
    "context_items.patch": lambda core, me: core.context_items.patch(me, ITEM, title="u"),
    "context_items.delete": lambda core, me: core.context_items.delete(me, ITEM),
    "workflows.enable": lambda core, me: core.workflows.toggle(me, 5, is_enabled=True),
    "directory.authenticate": lambda core, me: core.directory.authenticate(TOKEN),
    "storage.find_webhook": lambda core, me: core.ports.storage.find_webhook("none"),
    "storage.organization": lambda core, me: core.ports.storage.organization(ORG),
    "storage.organizations": lambda core, me: core.ports.storage.organizations(limit=9),
    "directory.create_organization": lambda core, me: core.directory.create_organization("New", id=GROUP),
    "scheduler.fire": lambda core, me: core.scheduler.fire_due(),
    "poster.poll": lambda core, me: posted(core),
    "notifier.poll": lambda core, me: notified(core),
    "team_chats.receive": lambda core, me: team_chat_message(core, 1),
    "team_chats.refused": lambda core, me: refused(team_chat_message(core, 7)),
}  # fmt: skip

chats: dict[int, SignedInterface] = {}
hooks: dict[str, str] = {}
granted: dict[str, str] = {}
"""The team chats of the furniture, by workflow."""


async def notified(core: Core) -> None:
    """Deliver the events that are due."""
    await asyncio.gather(*await core.notifier.poll())


async def posted(core: Core) -> None:
    await asyncio.gather(*await core.poster.poll())


async def team_chat_message(core: Core, workflow: int) -> None:
    """A message arrives from the team chat of this workflow."""
    body, at, chat = b'{"type": "message", "channel": "c", "text": "hi"}', FakeClock().now() // 1000, chats[workflow]

    async def read() -> bytes:
        return body

    headers = {"webhook-id": "m", "webhook-timestamp": str(at), "webhook-signature": sign(chat.secret, "m", at, body)}
    await core.team_chats.receive(chat.row.id, headers.items(), read)


async def refused(message: Awaitable[None]) -> None:
    with pytest.raises(Invalid):
        await message


class Ids(SequentialIds):
    """Ids that count from the one after `made`."""

    def __init__(self, made: int) -> None:
        self._made = made
        self.start_over()

    def start_over(self) -> None:
        self._numbers = count(self._made + 1)


@asynccontextmanager
async def opened(file: Path, faults: Faults, *, worker: bool = False, clock: FakeClock | None = None,
                 made: int = 500) -> AsyncIterator[tuple[Core, Principal]]:  # fmt: skip
    """A core whose store and journal are watched; `made`: the number of ids already assigned."""
    database = Database(f"sqlite:///{file}", synchronous="NORMAL")
    await database.open()
    storage: Any = Watched(SqlStorage(database), Storage, faults)
    journal: Any = Watched(SqlJournal(database), Journal, faults)
    async with bootstrap.open(
        models={"default": ScriptedModel("hello to you")},
        settings=Settings(grace=0),
        worker=worker,
        migrate=made == 0,
        secrets=bytes(32),
        ports=Overrides(
            storage=storage,
            journal=journal,
            memories=SqlMemories(database),
            clock=clock or FakeClock(),
            ids=Ids(made),
        ),
    ) as core:
        yield core, core.principal(ORG, "ann", email="ann@x.org", role="owner")


@pytest.fixture(scope="module")
async def furnished(anyio_backend: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that has one object of every kind."""
    file = tmp_path_factory.mktemp("furnished") / "app.db"
    async with opened(file, Faults(), worker=True, made=0) as (core, me):
        await core.directory.create_organization("Acme", id=ORG)
        group = await core.directory.create_group(ORG, "Readers")
        assert group.id == GROUP
        await core.directory.add_member(ORG, "ann", "ann@x.org", role="owner")
        await core.directory.add_member(ORG, "bob", "bob@x.org", groups=[GROUP])
        await core.directory.create_token(ORG, "bob", scopes=["workflows:read"])
        for trigger in (DAILY, BY_HAND, BY_HAND, BY_HAND, DAILY):
            made = await core.workflows.create(me, name="Flow", structure=ASKING, trigger=trigger)
            await core.workflows.deploy(me, made.id)
        await core.workflows.toggle(me, 1, is_enabled=True)
        await core.workflows.webhook(me, 1)
        await core.workflows.patch(me, 2, structure=WORKING)
        await core.workflows.delete(me, 3)
        await core.workflows.patch(me, 4, access_config={"visibility": "private", "groupPermissions": {}})
        await core.workflows.interfaces.create(me, 1, kind="mcp")
        skill = await core.skills.create(me, name="Talker", evaluations=[CASE])
        await core.skills.deploy(me, skill.id)
        await core.context_items.create(me, title="t", content="c")
        await core.policies.create(
            me, name="P", when={"tool": "core.wait"}, require={"timeout": True}, severity="warning"
        )
        await core.connections.create(me, name="c", provider="p", kind="api_key", config={"apiKey": "s", "header": "x"})
        config = {"clientId": "c", "tokenUrl": "http://127.0.0.1:9/", "authorizeUrl": "http://127.0.0.1:9/"}
        oauth = await core.connections.create(me, name="o", provider="o", kind="oauth2", config=config)
        granted["own"] = oauth.id
        begun = await core.connections.authorize(me, oauth.id, address="http://127.0.0.1:9")
        await core.connects.finish(parse_qs(urlsplit(begun).query)["state"][0], None, "access_denied", None)
        stranger = attrs.evolve(me, user_id="zed", email=None)
        for name, maker in (("own", me), ("lost", stranger)):
            made_hook = await core.hooks.create(maker, url="http://127.0.0.1:9/", events=["run.finished"])
            hooks[name] = made_hook.id
        hooks["delegation"] = (await core.delegations.create(me, to="bob")).id
        await core.runs.start(me, workflow=1, input={}, key="parked")
        async for _ in core.runs.chat(me, 1, message="hello", file_thread_id="talk", key="talk-1"):
            pass
        hooks["delivery"] = (await core.hooks.deliveries(me, hooks["own"]))[0].id
        working = await core.workflows.create(me, name="Working", structure=WORKING)
        await core.workflows.deploy(me, working.id)
        await core.skills.create(me, name="Helper", interfaces=[{"kind": "mcp"}])
        async with core.ports.storage.transaction(ORG) as work:
            timer = await work.schedules.get(1)
            assert timer
            await work.schedules.put(attrs.evolve(timer, next_at=FakeClock().now() - 1_800_000))
        needy = await core.workflows.create(me, name="Needy", structure=NEEDY)
        await core.workflows.deploy(me, needy.id)
        for number in (1, needy.id):
            config = {"postUrl": "http://127.0.0.1:9/"}
            row = await core.workflows.interfaces.create(me, number, kind="teamchat", config=config)
            chats[number] = await core.workflows.interfaces.secret(me, number, row.id)
        async with core.ports.storage.transaction(ORG) as work:
            await work.postings.put(Posting("owed", chats[1].row.id, "", {}, "parked", FakeClock().now()))
    return file


class Trials:
    """One use case on one core; each trial starts with a fresh copy of the database."""

    def __init__(self, name: str, furnished: Path, file: Path, core: Core, me: Principal, faults: Faults) -> None:
        self.name = name
        self._furnished = furnished
        self._file = file
        self._core = core
        self._me = me
        self._faults = faults

    async def undisturbed(self) -> list[str]:
        """The calls that it makes without a failure. Its changes are remembered."""
        self._start_over()
        self.before = dump(self._file)
        assert await self._outcome() is None, self.name
        self.after = dump(self._file)
        return list(self._faults.calls)

    async def disturbed(self, number: int, way: str) -> str:
        """The problem after call `number` failed; "" for none."""
        self._start_over()
        error, state = await self._outcome(number, way), dump(self._file)
        if state not in (self.before, self.after) and self.name not in IN_STEPS:
            return f"half written: {difference(state, self.after)}"
        if error is None and state != self.after and self.name not in IN_STEPS:
            return "acknowledged, and not written"
        if error is not None and not isinstance(error, Unavailable | TimeoutError | asyncio.CancelledError):
            return f"no clear error: {error!r}"
        again, state = await self._outcome(), dump(self._file)
        if again is not None and not isinstance(again, WfcoreError):
            return f"asked again: {again!r}"
        if sizes(state) != sizes(self.after) and self.name not in NO_KEY:
            return f"asked again: {difference(state, self.after)}"
        return ""

    def _start_over(self) -> None:
        with closing(sqlite3.connect(self._furnished)) as source, closing(sqlite3.connect(self._file)) as target:
            target.execute("PRAGMA synchronous = OFF")
            source.backup(target)
        self._core.ports.ids.start_over()  # type: ignore[attr-defined]

    async def _outcome(self, number: int = 0, way: str = "") -> BaseException | None:
        """How the use case ended when this call failed."""

        async def asking() -> None:
            async with asyncio.timeout(None) as patience:
                self._faults.arm(number, way, patience)
                await USE_CASES[self.name](self._core, self._me)

        (outcome,) = await asyncio.gather(asyncio.create_task(asking()), return_exceptions=True)
        return outcome if isinstance(outcome, BaseException) else None


Dump = dict[str, list[Any]]


def dump(file: Path) -> Dump:
    """All rows of all tables, without random values."""
    with closing(sqlite3.connect(file)) as connection:
        connection.row_factory = sqlite3.Row
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {table: sorted(map(_legible, connection.execute(f"SELECT * FROM {table}"))) for table in tables}


def _legible(row: sqlite3.Row) -> str:
    return repr([row[name] for name in row.keys() if name not in RANDOM])  # noqa: SIM118  (a Row is no mapping)


def sizes(state: Dump) -> dict[str, int]:
    return {table: len(rows) for table, rows in state.items()}


def difference(one: Dump, other: Dump) -> list[Any]:
    return [(table, one[table], other[table]) for table in one if one[table] != other[table]]


@pytest.fixture(scope="module")
async def trials(furnished: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Callable[[str], Trials]]:
    file, faults = tmp_path_factory.mktemp("trials") / "app.db", Faults()
    shutil.copy(furnished, file)
    async with opened(file, faults) as (core, me):
        yield lambda name: Trials(name, furnished, file, core, me, faults)


@pytest.fixture(scope="module")
async def calls(trials: Callable[[str], Trials]) -> dict[str, list[str]]:
    """The calls that each use case makes; some are made only in the first run."""
    return {name: [await trials(name).undisturbed() for _ in range(2)][-1] for name in USE_CASES}


def chosen(name: str, calls: dict[str, list[str]]) -> list[int]:
    """The numbers of the calls that fail: the end of a transaction, methods that this use case is one of the first to
    call, and the last call of each method.
    """
    numbers = {call: number for number, call in enumerate(calls[name], 1)}
    users = {call: [user for user, made in calls.items() if call in made] for call in numbers}
    return [number for call, number in numbers.items() if call in ENDS or name in users[call][:OFTEN]]


@pytest.mark.parametrize("name", USE_CASES)
async def test_a_failed_call_leaves_nothing_half_done(
    name: str, trials: Callable[[str], Trials], calls: dict[str, list[str]]
) -> None:
    """The use case is done, or it is not done and raises. An acknowledged write is durable. A repeated request is done
    once.
    """
    tried = trials(name)
    made = await tried.undisturbed()
    wrong = {(made[number - 1], way): await tried.disturbed(number, way)
             for number in chosen(name, calls) for way in WAYS}  # fmt: skip
    assert {where: what for where, what in wrong.items() if what} == {}


def test_no_call_is_left_out(calls: dict[str, list[str]]) -> None:
    """Every method of the storage ports is called by one of these use cases: a new one needs a use case here."""
    called = set().union(*calls.values())
    assert called | ASIDE == every_call()
    assert called & ASIDE == set()


LONG = 200
"""Seconds of the clock in which a run of seven is done, whatever fails once."""


async def carried_out(file: Path, faults: Faults) -> None:
    """Open the database, start the run or join it, and advance the clock until it is done."""
    clock = FakeClock()
    async with opened(file, faults, worker=True, clock=clock) as (core, me):
        await core.runs.start(me, workflow=6, input={}, key="working")
        await done(core, me, clock, faults)


async def done(core: Core, me: Principal, clock: FakeClock, faults: Faults) -> None:
    for _ in range(LONG):
        view = await core.runs.get(me, "working")
        if view.status is RunStatus.done:
            break
        for _ in range(10):
            await asyncio.sleep(0)
            while faults.under_way:  # noqa: ASYNC110  (a thread's end, which no clock of the test moves)
                await asyncio.sleep(0)
        clock.advance(1)
    assert view.status is RunStatus.done, "stranded"
    events = await core.runs.events(me, view.id)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


@pytest.mark.parametrize("way", ["error before", "done, then error"])
async def test_an_active_run(way: str, furnished: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If any call fails from opening to closing, either an error is raised and the next process finishes the run, or
    the worker retries; every step is in the journal once.
    """
    caplog.set_level("CRITICAL")
    file, faults = tmp_path / "whole.db", Faults()
    shutil.copy(furnished, file)
    await carried_out(file, faults)
    calls, whole = list(faults.calls), journal_of(file)
    assert whole == ["Started", "TimePassed", "TimePassed", "Succeeded"]
    numbers = {call: number for number, call in reversed(list(enumerate(calls, 1)))}
    aside = {"Storage.upgrade", "Storage.schema_differences", "Storage.check_writes", "Journal.due_since",
             "Journal.snapshot",
             "Maintenance.executions_of", "Maintenance.remove_execution", "Maintenance.remove_resource",
    "Maintenance.forget_user", "Maintenance.numbers", "Maintenance.conversations", "Maintenance.rewrite",
    "Maintenance.rewrite_execution", "Maintenance.scrub",
    "Maintenance.sizes",  # of erasures and exports: see `test_erasure`
    "Journal.within", "Storage.within", "Journal.claim", "Journal.progress", "Journal.take_slot",
    "DeliveryRepository.add"}  # fmt: skip
    assert numbers.keys() >= ASIDE - aside
    del numbers["Storage.close"]
    for number in slice_of(numbers.values(), 2, WAYS.index(way)):
        file = tmp_path / f"{number}.db"
        shutil.copy(furnished, file)
        faults.arm(number, way)
        try:
            await carried_out(file, faults)
        except Unavailable:
            faults.arm(0, "")
            await carried_out(file, faults)
        assert journal_of(file) == whole, calls[number - 1]


@pytest.mark.parametrize("call", ["Journal.begin", "Journal.claim_due"])
async def test_a_claim_whose_response_is_lost(
    call: str, furnished: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker that has claimed a run without knowing it still drives the run while it lives."""
    caplog.set_level("CRITICAL")
    shutil.copy(furnished, tmp_path / "app.db")
    faults, clock = Faults(), FakeClock()
    async with opened(tmp_path / "app.db", faults, worker=True, clock=clock) as (core, me):
        faults.lose(call)
        with suppress(Unavailable):
            await core.runs.start(me, workflow=6, input={}, key="working")
        await done(core, me, clock, faults)


def journal_of(file: Path) -> list[str]:
    """The entries of the run, without times, without the partition of streamed text, and without the calls of a model
    that broke off in the middle of it, which the next process repeats.
    """
    with closing(sqlite3.connect(file)) as connection:
        texts = connection.execute(
            "SELECT entry FROM wfcore_journal JOIN wfcore_runs USING (execution) WHERE id = 'working' ORDER BY pos"
        ).fetchall()
    entries = [to_entry(text) for (text,) in texts]
    broken_off = [entry for entry in entries if isinstance(entry, Failed) and entry.reason == BROKEN_OFF]
    return [type(entry).__name__ for entry in entries if not isinstance(entry, Said) and entry not in broken_off]
