"""Who and what started a run, the filters of lists, and the counts (interface, Runs)."""

from collections.abc import Sequence

import attrs
import pytest
from bench import Bench, act, ask, deployed_skill, graph, one, private

from wfcore.adapters.sql.journal import run_lists
from wfcore.domain.kernel.errors import Forbidden, Malformed, NotFound
from wfcore.ports.journal import OpenInterrupt
from wfcore.runtime.runs.inbox import Inbox, ListedItem

pytestmark = pytest.mark.anyio

ECHO = one(act("echo", value=1))


async def test_who_started_a_turn(bench: Bench) -> None:
    """A resumed turn names who decided, and who started the execution; an origin that was left out is `api`."""
    number = await bench.deployed(graph("s>g", g=ask()))
    run = await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}, origin="chatapp"))
    turn = await bench.ended(await bench.core.runs.resume(bench.other, run.id, decision="approve"))
    first, second = run.to_wire(), turn.to_wire()
    me, other = ({"userId": name, "kind": "person"} for name in ("me", "other"))
    assert (first["startedBy"], first["executionStartedBy"], first["origin"]) == (me, me, "chatapp")
    assert (second["startedBy"], second["executionStartedBy"], second["origin"]) == (other, me, "api")
    variation = (await bench.core.workflows.get(bench.me, number)).resource.active_variation_id
    assert [(wire["version"], wire["variationId"]) for wire in (first, second)] == [("published", variation)] * 2


async def test_a_turn_of_a_deadline_has_no_user(bench: Bench) -> None:
    """It is started by the system, and no filter by user finds it."""
    run = await bench.ran(graph("s>g", g=ask(timeoutSeconds=5)))
    bench.clock.advance(6)
    turn = (await bench.core.runs.get(bench.me, await bench.resumed_by(run))).to_wire()
    assert turn["startedBy"] == {"userId": None, "kind": "system"}
    assert turn["executionStartedBy"] == {"userId": "me", "kind": "person"}
    assert [view.id for view in await bench.core.runs.page(bench.me, started_by="me")] == [run.id]


async def test_lists_are_filtered(bench: Bench) -> None:
    """Every filter leaves out the runs that do not match it."""
    first = await bench.ran(ECHO, file_thread_id="t", origin="other")
    bench.clock.advance(1)
    second = await bench.ran(ECHO)
    for filters in (
        {"workflow": 1}, {"thread_id": "t"}, {"origin": "other"}, {"variation_id": first.row.variation_id},
        {"until": second.row.created_at, "workflow": 1},
    ):  # fmt: skip
        found = await bench.core.runs.page(bench.me, **filters)  # type: ignore[arg-type]
        assert first.id in {view.id for view in found}, filters
        assert second.id not in {view.id for view in found}, filters
    assert await bench.core.runs.page(bench.me, assistant=True) == []
    assert await bench.core.runs.page(bench.me, started_by="other") == []


async def test_runs_are_counted(bench: Bench) -> None:
    """By status, workflow and hour, of the runs that the caller sees in the period."""
    await bench.ran(ECHO)
    await bench.ran(graph("s>g", g=ask()))
    found = (await bench.core.runs.stats(bench.me)).to_wire()
    assert (found["total"], found["byStatus"]["done"], found["byStatus"]["interrupted"]) == (2, 1, 1)
    assert [(row["workflowId"], row["total"]) for row in found["byWorkflow"]] == [(1, 1), (2, 1)]
    assert sum(row["total"] for row in found["byHour"]) == 2
    assert (await bench.core.runs.stats(bench.me, since=0, until=1)).to_wire()["total"] == 0
    with pytest.raises(Malformed):
        await bench.core.runs.stats(bench.me, since=2, until=1)


@pytest.mark.parametrize("recent", [run_lists.RECENT, 1])
async def test_lists_have_nothing_of_a_deleted_workflow_that_users_cannot_read(
    bench: Bench, recent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It exists only for its managers, and so do its runs and what waits in them; a restore brings both back."""
    monkeypatch.setattr(run_lists, "RECENT", recent)
    number = await bench.deployed(graph("s>g", g=ask()), access=private("other@x.org"))
    run = await bench.ended(await bench.core.runs.start(bench.other, workflow=number, input={}))
    await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
    inbox = Inbox(bench.core.ports, bench.core.runs)
    for change, seen in ((None, 2), (bench.core.workflows.delete, 0), (bench.core.workflows.restore, 2)):
        if change is not None:
            await change(bench.me, number)
        for who, expected in ((bench.other, seen), (bench.me, 2)):
            assert len(await bench.core.runs.page(who)) == expected
            assert len(await bench.core.runs.page(who, status="interrupted")) == expected
            assert (await bench.core.runs.stats(who)).to_wire()["total"] == expected
            assert await inbox.count(who) == expected
    await bench.core.workflows.delete(bench.me, number)
    with pytest.raises(NotFound):
        await bench.core.runs.get(bench.other, run.id)


async def test_users_of_a_deleted_skill_read_only_conversations_that_they_started(bench: Bench) -> None:
    """Its managers read those of others too."""
    number = await deployed_skill(bench, access=private("other@x.org"))
    for who, thread in ((bench.me, "mine"), (bench.other, "others")):
        await bench.ended(await bench.core.runs.start(who, skill=number, message="hi", file_thread_id=thread))
    both = {"mine", "others"}
    for deleted, of_other in ((False, both), (True, {"others"})):
        if deleted:
            await bench.core.skills.delete(bench.me, number)
        for who, expected in ((bench.me, both), (bench.other, of_other)):
            assert {one.id for one in await bench.core.conversations.page(who, 0)} == expected


async def test_a_manager_without_use_reads_no_run(bench: Bench) -> None:
    """403 with `canUse` false on the run and its events."""
    group = (await bench.core.directory.create_group(bench.org, "auditors")).id
    boss = await bench.joined("boss", "member", group)
    number = await bench.deployed(ECHO)
    run = await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
    groups = {group: {"use": False, "manage": True}}
    await bench.core.workflows.patch(boss, number, access={"visibility": "shared", "groupPermissions": groups})
    for call in (bench.core.runs.get, bench.core.runs.events):
        with pytest.raises(Forbidden) as error:
            await call(boss, run.id)
        assert error.value.info == {"canUse": False}
        with pytest.raises(NotFound):
            await call(bench.me, run.id)


async def test_a_credential_that_is_limited_to_some_workflows(bench: Bench) -> None:
    """It lists and counts the runs of these workflows only, newest first, also under a filter."""
    first, second, third = [await bench.deployed(ECHO) for _ in range(3)]
    for number in (first, second, third, first):
        await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
    limited = attrs.evolve(bench.me, workflows=frozenset({first, second}))
    runs = bench.core.runs
    assert [view.row.resource_id for view in await runs.page(limited)] == [first, second, first]
    assert [view.row.resource_id for view in await runs.page(limited, limit=2)] == [first, second]
    assert [view.row.resource_id for view in await runs.page(limited, workflow=second)] == [second]
    assert await runs.page(limited, workflow=third) == []
    assert {one.resource_id for one in (await runs.stats(limited)).counts} == {first, second}
    with pytest.raises(NotFound):
        await runs.get(limited, (await runs.page(bench.me, workflow=third))[0].id)


async def test_the_inbox_reads_the_interrupts_of_a_page_alone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many wait, in each order; a count reads none."""
    number = await bench.deployed(graph("s>g", g=ask()))
    timed = await bench.deployed(graph("s>g", g=ask(timeoutSeconds=60)))
    for workflow in (timed, number, timed, number, number):
        bench.clock.advance(1)
        await bench.ended(await bench.core.runs.start(bench.me, workflow=workflow, input={}))
    journal, inbox, read = bench.core.ports.journal, Inbox(bench.core.ports, bench.core.runs), list[int]()
    interrupts_at = journal.interrupts_at

    async def noted(org: str, keys: Sequence[int], *, decided: bool = False) -> list[OpenInterrupt]:
        read.append(len(keys))
        return await interrupts_at(org, keys, decided=decided)

    monkeypatch.setattr(journal, "interrupts_at", noted)
    assert await inbox.count(bench.me) == 5
    assert read == []
    for order in ("newest", "deadline"):
        found, after = list[ListedItem](), None
        while page := await inbox.page(bench.me, order=order, limit=2, after=after):  # type: ignore[arg-type]
            found += page.items
            assert page.total == 5
            if (after := page.following) is None:  # type: ignore[assignment]
                break
        times = [(item.item.found.interrupt.expires_at, -item.item.found.key) for item in found]
        expected = [(at or 2**62, key) if order == "deadline" else (0, key) for at, key in times]
        assert expected == sorted(expected)
    assert read == [2, 2, 1] * 2
    items, following = await bench.core.runs.interrupts(bench.me, limit=4)
    (last,), end = await bench.core.runs.interrupts(bench.me, before=following or 0)
    assert (len(items), last.node_id, end) == (4, "g", None)
    assert read[6:] == [4, 1]
    (named,) = await bench.core.ports.journal.inbox(bench.me, limit=1)
    assert named == items[0].found.key


async def test_an_interrupt_is_found_by_its_id_alone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The open one that the caller can decide, one that it has decided, one that it can only see, and none: nothing
    else of the inbox is read, however many wait.
    """
    inbox, found = Inbox(bench.core.ports, bench.core.runs), dict[str, str]()
    for name in ("inbox", "interrupts_at"):
        monkeypatch.setattr(bench.core.ports.journal, name, None)
    for number, data in enumerate(({}, {"requiredApprovals": 2}, {"allowSelfApproval": False}, {})):
        run = await bench.ran(graph("s>g", g=ask(**data)))
        found[run.interrupts[0].id] = run.id
        if number == 1:
            await inbox.decide(bench.me, decisions=[{"interruptId": run.interrupts[0].id, "decision": "approve"}])
    first, voted, own, last = found
    for name, can_decide in ((first, True), (voted, False), (own, False), (last, True)):
        assert (await inbox.item(bench.me, name)).can_decide is can_decide
    outcomes = await inbox.decide(bench.me, decisions=[{"interruptId": name, "decision": "deny"} for name in found])
    assert [one.error is None for one in outcomes] == [True, False, False, True]
    assert (await inbox.item(bench.me, first)).to_wire()["decision"] == "deny"
    with pytest.raises(NotFound):
        await inbox.item(bench.me, "int_none")
