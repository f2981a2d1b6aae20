"""The erasure of a member: no trace of name, address and text is left, and others keep what is theirs."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, act, ask, eventually, graph, one, opened, private
from chatting import REACHING
from leaving import EMAIL, PLANTED, SECRET, TEXT, USER, planted
from postgres_server import new_database

from wfcore.adapters.blobs import LocalBlobs
from wfcore.adapters.dispatch.embedded import EmbeddedDispatcher
from wfcore.adapters.inmemory.maintenance import texts_in
from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid, NotFound
from wfcore.domain.resources.resource import Kind
from wfcore.ports.journal import ExecutionRef
from wfcore.runtime.data import erasure, erasure_steps
from wfcore.runtime.data.erasure_steps import OUTDATED
from wfcore.runtime.execution.session import Session

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.service)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return {"memory": "sqlite://", "sqlite": f"sqlite:///{tmp_path}/a.db"}.get(request.param) or new_database()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other process has plans, except in one test."""
    monkeypatch.setattr(erasure_steps, "OUTDATED", 0)


@pytest.fixture
async def bench(url: str, tmp_path: Path) -> AsyncIterator[Bench]:
    async with opened(url, settings=REACHING, secrets=SECRET, blobs=LocalBlobs(tmp_path / "blobs")) as bench:
        yield bench


def traces(texts: Any) -> list[str]:
    return sorted({name for name in PLANTED for text in texts if name.lower() in text.lower()})


async def stored_texts(bench: Bench) -> list[str]:
    found = bench.core.ports.storage.maintenance.texts(bench.org)
    return [text async for texts in found for text in texts]


def files(place: Path) -> list[str]:
    """The bytes of every file, as text."""
    return [file.read_bytes().decode("utf-8", "replace") for file in place.rglob("*") if file.is_file()]


async def test_no_trace_is_left(bench: Bench, url: str, tmp_path: Path) -> None:
    """Not in any row, index, log or attachment; the files are searched byte by byte. Runs of others have a pseudonym,
    and can be read and continued."""
    _, named = await planted(bench)
    core, me = bench.core, bench.person("me", role="owner")
    assert traces(await stored_texts(bench)) == sorted(PLANTED)
    before = await core.runs.get(me, named["decided"])
    erased = await core.erasures.erase(me, USER)
    assert erased.status == "done"
    with pytest.raises(NotFound):
        await core.members.get(me, USER)
    assert traces(await stored_texts(bench)) == []
    if url.startswith("sqlite:///"):
        assert traces(files(tmp_path)) == []
    elif url == "sqlite://":
        assert traces(texts_in(core.ports.memories._memories)) == []  # type: ignore[attr-defined]
    for name in ("own", "parked", "fork", "chat"):
        with pytest.raises(NotFound):
            await core.runs.get(me, named[name])
    decided = await core.runs.get(me, named["decided"])
    assert (decided.status, before.status) == ("done", "done")
    assert decided.to_wire()["startedBy"]["userId"] == erased.id  # type: ignore[index,call-overload]
    events = await core.runs.events(me, named["decided"])
    assert [event.kind for event in events][-1] == "done"
    about = await core.runs.get(me, named["about"])
    assert about.output == f"ask {erased.id} <{erased.id}@erased.invalid>"
    assert [row.row.user_id for row in await core.audit.page(me, action="member.erase")] == ["me"]
    (memory,) = await core.memories.page(me, named["skill"])
    assert memory.to_wire()["memory"] == f"{erased.id} likes tea"
    again = await bench.ended(await core.runs.start(me, workflow=1, input={}))
    assert (await bench.ended(await core.runs.resume(me, again.id, decision="approve"))).status == "done"
    assert [one async for one in core.ports.journal.damaged()] == []


async def test_a_later_run_leaves_no_trace(bench: Bench) -> None:
    """Of a workflow that names the member: the plan that is kept from its earlier runs names the pseudonym too."""
    core, me = bench.core, await bench.joined("me", "owner")
    await core.directory.add_member(bench.org, USER, EMAIL)
    flow = await bench.deployed(one(ask(approvers={"emails": [EMAIL]}, message=f"write to {EMAIL}")))
    await bench.ended(await core.runs.start(me, workflow=flow, input={}))
    erased = await core.erasures.erase(me, USER)
    run = await bench.ended(await core.runs.start(me, workflow=flow, input={}))
    assert [one.message for one in run.interrupts] == [f"write to {erased.id}@erased.invalid"]
    assert traces(await stored_texts(bench)) == []


async def test_another_process_leaves_no_trace(
    bench: Bench, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a plan with the address, and runs it until the plan is compared with what is stored: the erasure waits."""
    if url == "sqlite://":
        pytest.skip("a store in memory belongs to one process")
    monkeypatch.setattr(erasure_steps, "OUTDATED", OUTDATED)
    core, me = bench.core, await bench.joined("me", "owner")
    await core.directory.add_member(bench.org, USER, EMAIL)
    flow = await bench.deployed(one(ask(message=f"write to {EMAIL}")))
    blobs = LocalBlobs(tmp_path / "blobs")
    async with opened(url, settings=REACHING, secrets=SECRET, blobs=blobs, org=bench.org, clock=bench.clock) as other:
        await other.ended(await other.core.runs.start(me, workflow=flow, input={}))
        erasing = asyncio.create_task(core.erasures.erase(me, USER))
        await eventually(lambda: _is_gone(bench))
        early = await other.ended(await other.core.runs.start(me, workflow=flow, input={}))
        assert [one.message for one in early.interrupts] == [f"write to {EMAIL}"]
        assert not erasing.done()
        bench.clock.advance(OUTDATED)
        erased = await erasing
        late = await other.ended(await other.core.runs.start(me, workflow=flow, input={}))
        assert [one.message for one in late.interrupts] == [f"write to {erased.id}@erased.invalid"]
    assert traces(await stored_texts(bench)) == []


async def _is_gone(bench: Bench) -> bool:
    async with bench.core.ports.storage.reading(bench.org) as work:
        return await work.directory.member(USER) is None


async def test_a_recycled_address_inherits_nothing(bench: Bench) -> None:
    """Not even the start of a run, which reads the access of a workflow without reading the workflow again."""
    core, me = bench.core, await bench.joined("me", "owner")
    await core.directory.add_member(bench.org, USER, EMAIL)
    flow = await bench.deployed(one(act("echo")), access=private(EMAIL))
    await bench.ended(await core.runs.start(core.principal(bench.org, USER, email=EMAIL), workflow=flow, input={}))
    await core.erasures.erase(me, USER)
    await core.directory.add_member(bench.org, "other", EMAIL)
    with pytest.raises(NotFound):
        await core.runs.start(core.principal(bench.org, "other", email=EMAIL), workflow=flow, input={})


async def test_the_tags_of_what_is_rewritten_change(bench: Bench) -> None:
    """A client with the member's name in its copy receives another one; other workflows keep their tags."""
    core, me = bench.core, await bench.joined("me", "owner")
    await core.directory.add_member(bench.org, USER, EMAIL)
    described = await bench.deployed(one(act("echo")), description=f"of {EMAIL}")
    content = await bench.deployed(one(act("echo", value=EMAIL)))
    other = await bench.deployed(one(act("echo")))
    before = [(await core.workflows.get(me, number)).etag for number in (described, content, other)]
    await core.erasures.erase(me, USER)
    after = [(await core.workflows.get(me, number)).etag for number in (described, content, other)]
    assert [old == new for old, new in zip(before, after, strict=True)] == [False, False, True]


async def test_a_vote_leaves_no_trace(bench: Bench, url: str) -> None:
    """Nor does the index of what the member cannot decide again; a short user id is replaced as a whole value alone."""
    me, bob = await bench.joined("me", "owner"), await bench.joined("bob")
    run = await bench.ran(graph("s>g", g=ask(requiredApprovals=2)))
    await bench.ended(await bench.core.runs.resume(bob, run.id, decision="approve"))
    assert ("x:bob" in await stored_texts(bench)) is (url != "sqlite://")
    await bench.core.erasures.erase(me, "bob")
    assert not {text for text in await stored_texts(bench) if text.removeprefix("x:").removeprefix("u:") == "bob"}


async def test_a_member_erases_itself(bench: Bench) -> None:
    """The audit names the pseudonym; an ordinary member cannot erase somebody else."""
    core = bench.core
    await bench.joined("me", "owner")
    bob = await bench.joined("bob")
    await bench.joined("eve")
    with pytest.raises(Forbidden):
        await core.erasures.erase(bob, "eve")
    erased = await core.erasures.erase(bob, "bob")
    (row,) = await core.audit.page(bench.person("me", role="owner"), action="member.erase")
    assert (row.row.user_id, row.row.resource_id) == (erased.id, erased.id)


async def test_what_is_refused_changes_nothing(bench: Bench) -> None:
    """The last owner, an unknown member, an unknown heir, oneself as the heir, and resources without a manager."""
    core, me = bench.core, await bench.joined("me", "owner")
    boss = await bench.joined("boss", "admin")
    group = (await core.groups.create(me, name="Solo")).id
    sole = await bench.joined("sole", "member", group)
    access = {"visibility": "shared", "groupPermissions": {group: {"use": True, "manage": True}}}
    flow = await core.workflows.create(sole, name="Alone", access=access)
    for who, user, error, reason in (
        (me, "me", Conflict, "last_owner"),
        (boss, "me", Forbidden, None),
        (me, "nobody", NotFound, None),
        (me, "sole", Conflict, "unmanaged"),
    ):
        with pytest.raises(error) as refused:
            await core.erasures.erase(who, user)
        assert refused.value.info.get("reason") == reason
    for heir in ("nobody", "sole"):
        with pytest.raises(Invalid, match="another member"):
            await core.erasures.erase(me, "sole", transfer_to=heir)
    assert (await core.members.get(me, "sole")).member.user_id == "sole"
    assert (await core.workflows.get(sole, flow.id)).id == flow.id


async def test_resources_are_transferred(bench: Bench) -> None:
    """With an heir, a private workflow has another owner and keeps runs of others; without one it is deleted."""
    core, me = bench.core, await bench.joined("me", "owner")
    await bench.joined("bob")
    for name in ("one", "two"):
        ann = await bench.joined(name)
        flow = await core.workflows.create(ann, name=name, access=private(f"{name}@x.org"), structure=one(act("echo")))
        await core.workflows.deploy(ann, flow.id)
        await core.erasures.erase(me, name, transfer_to="bob" if name == "one" else "me")
        heir = bench.person("bob" if name == "one" else "me", role="owner")
        assert (await core.workflows.get(heir, flow.id)).resource.access.owner_user_id == heir.user_id
    numbers = await core.ports.storage.maintenance.numbers(bench.org, Kind.WORKFLOW)
    assert len(numbers) == 2


@pytest.mark.parametrize("area", ["workflows", "skills"])
async def test_offers_and_delegations_end(bench: Bench, area: str) -> None:
    """Offers to the member and by it, and delegations from and to it; those of others stay."""
    core, me, bob = bench.core, await bench.joined("me", "owner"), await bench.joined("bob")
    ann, cases = await bench.joined("ann"), getattr(core, area)
    offers = ((bob, "ann"), (ann, "bob"), (bob, "me"))
    numbers = [(await cases.create(giver, name="f")).id for giver, _ in offers]
    for number, (giver, heir) in zip(numbers, offers, strict=True):
        await cases.transfer_ownership(giver, number, user_id=heir)
    for giver, other in ((ann, "bob"), (bob, "ann"), (bob, "me")):
        await core.delegations.create(giver, to=other)
    await core.erasures.erase(me, "ann")
    pending = [(await cases.get(me, number)).resource.pending_transfer for number in numbers]
    assert [one is None for one in pending] == [True, True, False]
    assert [one.to_user for one in await core.delegations.page(me)] == ["me"]
    await cases.transfer_ownership(bob, numbers[0], user_id="me")


async def test_a_run_that_depends_on_an_erased_text_is_deleted(bench: Bench) -> None:
    """A branch that compares what the member wrote could not be taken again."""
    core, me = bench.core, await bench.joined("me", "owner")
    ann = await bench.joined("ann", "admin")
    branches = {"branches": [{"handle": "hit", "when": "nodes.h.output.data.why.contains('giraffes')"}]}
    structure = graph("s>h h:approved>c c:hit>a", h=ask(), c={"type": "condition", "data": branches}, a=act("echo"))
    run = await bench.ran(structure)
    turn = await core.runs.resume(ann, run.id, decision="approve", data={"why": TEXT})
    assert (await bench.ended(turn)).status == "done"
    assert bench.tools.count("echo") == 1
    await core.erasures.erase(me, "ann")
    with pytest.raises(NotFound):
        await core.runs.get(me, turn.id)


@pytest.mark.parametrize("is_private", [False, True])
async def test_a_worker_lets_go_of_erased_runs(
    bench: Bench, caplog: pytest.LogCaptureFixture, is_private: bool
) -> None:
    """The erased member's own run is being driven: that is no failure, and the worker does not try it again."""
    caplog.set_level("INFO")
    core, me = bench.core, await bench.joined("me", "owner")
    ann = await bench.joined("ann", "admin")
    access: Any = {"access": private()} if is_private else {}
    structure = graph("s>a a>b", a=act("hold"), b=act("echo"))
    held = await core.workflows.create(ann, name="held", structure=structure, **access)
    await core.workflows.deploy(ann, held.id)
    await core.runs.start(ann, workflow=held.id, input={})
    await bench.until("it")
    await core.erasures.erase(me, "ann")
    bench.tools.free["it"].set()
    ends = ("execution does not exist any more", "an execution could not be driven")
    await eventually(lambda: any(end in caplog.text for end in ends))
    assert ends[1] not in caplog.text


async def test_an_erased_run_is_not_tried_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A run that could not be driven, and whose member is erased before the next attempt, is left."""
    tries: list[str] = []

    async def fail(session: Session) -> None:
        tries.append("drive")
        raise ConnectionError("no store")

    async def look(dispatcher: EmbeddedDispatcher, execution: ExecutionRef) -> None:
        tries.append("look")
        await handle(dispatcher, execution)
        tries.append("left")

    handle = EmbeddedDispatcher._handle_if_mine
    core, me = bench.core, await bench.joined("me", "owner")
    ann = await bench.joined("ann", "admin")
    held = await bench.deployed(one(act("echo")))
    with monkeypatch.context() as patch:
        patch.setattr(Session, "drive", fail)
        patch.setattr(EmbeddedDispatcher, "_handle_if_mine", look)
        await core.runs.start(ann, workflow=held, input={})
        await eventually(lambda: "an execution could not be driven" in caplog.text)
        await core.erasures.erase(me, "ann")
        bench.clock.advance(10)
        await eventually(lambda: len(tries) > 2 or caplog.text.count("an execution could not be driven") > 1)
    assert tries == ["drive", "look", "left"]


async def test_it_waits_for_workers(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal that a worker holds is rewritten after its release; `start` goes on meanwhile, and is joined."""
    monkeypatch.setattr(erasure, "PROMPT", 60)
    core, me = bench.core, await bench.joined("me", "owner")
    ann = await bench.joined("ann", "admin")
    held = await bench.deployed(graph("s>h h:approved>a", h=ask(), a=act("hold")))
    run = await bench.ended(await core.runs.start(me, workflow=held, input={}))
    turn = await core.runs.resume(ann, run.id, decision="approve", data={"why": TEXT})
    await bench.until("it")
    starting = asyncio.create_task(core.erasures.start(me, "ann"))
    joining = asyncio.create_task(core.erasures.start(me, "ann"))
    for _ in range(20):
        await asyncio.sleep(0.01)
        bench.clock.advance(0.5)
    assert not starting.done()
    bench.tools.free["it"].set()
    await bench.ended(turn)
    while not starting.done():
        await asyncio.sleep(0.01)
        bench.clock.advance(0.5)
    first, second = await starting, await joining
    assert (first, first.status) == (second, "done")
    assert traces(await stored_texts(bench)) == []
    assert [one async for one in core.ports.journal.damaged()] == []
