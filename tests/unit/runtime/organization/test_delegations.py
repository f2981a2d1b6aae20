"""Delegations through the library: who makes them, and what a delegate can decide."""

from datetime import timedelta
from typing import Any

import pytest
from bench import Bench, act, ask, graph, one, private

from wfcore.domain.json.codec import from_ms
from wfcore.domain.kernel.errors import Forbidden, Invalid, Malformed, NotFound, WfcoreError
from wfcore.domain.kernel.ids import iso
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.resource import Kind
from wfcore.runtime.runs.inbox import Inbox

pytestmark = pytest.mark.anyio

BOSS = ask(approvers={"emails": ["boss@x.org"]})


class Team:
    """`boss` approves, `bob` is the delegate, `ann` and `root`, an admin, are others. `me` starts runs."""

    def __init__(self, bench: Bench, people: dict[str, Principal]) -> None:
        self.bench = bench
        self.delegations = bench.core.delegations
        self.people = people

    def __getattr__(self, name: str) -> Principal:
        return self.people[name]

    async def inbox(self, who: Principal) -> list[tuple[str, str | None]]:
        items = (await Inbox(self.bench.core.ports, self.bench.core.runs).page(who)).items
        return [(item.to_wire()["interruptId"], item.to_wire()["onBehalfOf"]) for item in items]


@pytest.fixture
async def team(bench: Bench) -> Team:
    people = {name: await bench.joined(name) for name in ("boss", "bob", "ann", "me")}
    return Team(bench, people | {"root": await bench.joined("root", "admin")})


def errors(error: WfcoreError) -> list[tuple[str, str]]:
    return [(issue["path"], issue["rule"]) for issue in error.info["errors"]]


class TestRecords:
    """Create, read, list, change, delete."""

    async def test_a_delegation_from_create_to_delete(self, team: Team) -> None:
        """By default it is the caller's; both sides and admins see it, and the giver and admins change it."""
        until = team.bench.clock.now() + 60_000
        for name in ("one", "two"):
            await team.bench.core.workflows.create(team.me, name=name)
        made = await team.delegations.create(team.boss, to="bob", until=iso(from_ms(until)), workflow_ids=[2])
        shown = {"id": made.id, "from": "boss", "to": "bob", "until": iso(from_ms(until)), "workflowIds": [2]}
        assert made.to_wire() == shown
        for who, expected in ((team.boss, [made]), (team.bob, [made]), (team.root, [made]), (team.ann, [])):
            assert await team.delegations.page(who) == expected
        assert await team.delegations.get(team.bob, made.id) == made
        for call in (team.delegations.get, team.delegations.delete):
            with pytest.raises(NotFound):
                await call(team.ann, made.id)
        for call in (team.delegations.delete(team.bob, made.id), team.delegations.patch(team.bob, made.id, to="ann")):
            with pytest.raises(Forbidden):
                await call
        changed = await team.delegations.patch(team.root, made.id, to="ann", until=None, workflow_ids=None)
        assert changed.to_wire() == {**shown, "to": "ann", "until": None, "workflowIds": None}
        assert await team.delegations.patch(team.boss, made.id, to="ann") == changed
        narrowed = await team.delegations.patch(team.boss, made.id, workflow_ids=[1, 2])
        assert narrowed.workflow_ids == (1, 2)
        assert await team.delegations.delete(team.boss, made.id) == narrowed
        assert await team.delegations.page(team.root) == []
        rows = [row.to_wire() for row in await team.bench.core.audit.page(team.root, limit=9)]
        about = [row for row in rows if row["action"].startswith("delegation.")]
        assert [row["action"] for row in about] == [
            "delegation.delete", "delegation.update", "delegation.update", "delegation.create"
        ]  # fmt: skip
        assert about[-1]["details"]["to"] == "bob"

    async def test_for_somebody_else(self, team: Team) -> None:
        """Only admins; a repeated create with one key makes one."""
        with pytest.raises(Forbidden):
            await team.delegations.create(team.bob, from_user="boss", to="bob")
        made = [await team.delegations.create(team.root, from_user="boss", to="bob", key="k") for _ in range(2)]
        assert made[0] == made[1]
        assert made[0].from_user == "boss"
        assert await team.delegations.page(team.boss) == made[:1]

    async def test_a_create_is_repeated_when_its_end_is_over_or_a_member_left(self, team: Team) -> None:
        """It returns the first response; another key is checked."""
        until = iso(from_ms(team.bench.clock.now() + 60_000))
        for who, body in ((team.boss, {"to": "bob", "until": until}), (team.root, {"from": "boss", "to": "ann"})):
            made = await team.delegations.create(who, body, key="k")
            team.bench.clock.advance(61)
            await team.bench.core.members.delete(team.root, body["to"])
            assert await team.delegations.create(who, body, key="k") == made
            with pytest.raises(Invalid):
                await team.delegations.create(who, body, key="other")

    @pytest.mark.parametrize(
        ("body", "fault", "expected"),
        [
            ({}, Malformed, [("to", "required")]),
            ({"to": 1}, Malformed, [("to", "type")]),
            ({"to": "zed"}, Invalid, [("to", "reference")]),
            ({"to": "boss"}, Invalid, [("to", "reference")]),
            ({"to": "bob", "until": "soon"}, Invalid, [("until", "format")]),
            ({"to": "bob", "until": "2020-01-01T00:00:00Z"}, Invalid, [("until", "range")]),
            ({"to": "bob", "workflowIds": []}, Invalid, [("workflowIds", "minItems")]),
            ({"to": "bob", "workflowIds": [1, 1]}, Invalid, [("workflowIds[1]", "unique")]),
            ({"to": "bob", "workflowIds": [9]}, Invalid, [("workflowIds[0]", "reference")]),
            ({"to": "bob", "id": "x"}, Invalid, [("id", "unknown")]),
        ],
    )
    async def test_bad_bodies(self, team: Team, body: Any, fault: type[WfcoreError], expected: Any) -> None:
        """The fault names the field; nothing is written."""
        with pytest.raises(fault) as caught:
            await team.delegations.create(team.boss, body)
        assert errors(caught.value) == expected
        assert await team.delegations.page(team.root) == []

    async def test_a_change_is_checked_too(self, team: Team) -> None:
        """A delegation to oneself, into the past or for an unknown workflow is refused, and the old one stays."""
        made = await team.delegations.create(team.boss, to="bob")
        for fields in ({"to": "boss"}, {"until": "2020-01-01T00:00:00Z"}, {"workflow_ids": [9]}):
            with pytest.raises(Invalid):
                await team.delegations.patch(team.boss, made.id, **fields)
        assert await team.delegations.page(team.boss) == [made]

    async def test_a_workflow_that_is_removed_stops_no_change_of_the_rest(self, team: Team) -> None:
        """A deleted one counts as there, as it can be restored."""
        flows, core = team.bench.core.workflows, team.bench.core
        number = (await flows.create(team.me, name="one")).id
        await flows.delete(team.me, number)
        made = await team.delegations.create(team.boss, to="bob", workflow_ids=[number])
        await core.ports.storage.maintenance.remove_resource(team.bench.org, Kind.WORKFLOW, number)
        changed = await team.delegations.patch(team.boss, made.id, to="ann", workflow_ids=[number])
        assert (changed.to_user, changed.workflow_ids) == ("ann", (number,))

    async def test_a_member_who_leaves(self, team: Team) -> None:
        """The delegations from and to this member end."""
        await team.delegations.create(team.boss, to="bob")
        await team.delegations.create(team.bob, to="ann")
        kept = await team.delegations.create(team.boss, to="ann")
        await team.bench.core.members.delete(team.root, "bob")
        assert await team.delegations.page(team.root) == [kept]


class TestDecisions:
    """Interrupts that a delegate sees and decides."""

    async def hidden_run(self, team: Team, node: Any = BOSS) -> tuple[int, Any]:
        """A run of a private workflow, which waits."""
        number = await team.bench.deployed(graph("s>h h:approved>a", h=node, a=act("echo")), access=private())
        run = await team.bench.core.runs.start(team.me, workflow=number, input={})
        return number, await team.bench.ended(run)

    async def test_a_delegate_decides(self, team: Team) -> None:
        """The inbox shows it with `onBehalfOf`; so do the decision, its audit and the decided inbox."""
        _, run = await self.hidden_run(team)
        name = run.interrupts[0].id
        assert await team.inbox(team.bob) == []
        with pytest.raises(NotFound):
            await team.bench.core.runs.get(team.bob, run.id)
        await team.delegations.create(team.boss, to="bob")
        assert await team.inbox(team.bob) == [(name, "boss")]
        seen = await team.bench.core.runs.get(team.bob, run.id)
        assert (seen.is_outline, [one.id for one in seen.interrupts]) == (True, [name])
        turn = await team.bench.core.runs.resume(team.bob, run.id, decision="approve")
        ended = await team.bench.ended(turn)
        assert (ended.status, turn.is_outline) == ("done", True)
        assert (await team.bench.core.runs.get(team.bob, turn.id)).is_outline
        page = await Inbox(team.bench.core.ports, team.bench.core.runs).page(team.boss, decided=True)
        (decided,) = page.items[0].to_wire()["decidedBy"]
        assert (decided["userId"], decided["onBehalfOf"]) == ("bob", "boss")
        (row,) = [row for row in await team.bench.core.audit.page(team.root) if row.row.action == "run.resume"]
        assert row.row.details["decisions"] == [{"interruptId": name, "decision": "approve", "onBehalfOf": "boss"}]

    async def test_only_as_long_and_as_far_as_it_holds(self, team: Team) -> None:
        """Not after its end, not for other workflows, and not any more once it is deleted."""
        number, run = await self.hidden_run(team)
        soon = iso(team.bench.core.ports.now() + timedelta(seconds=60))
        another = await team.bench.core.workflows.create(team.me, name="another")
        other = await team.delegations.create(team.boss, to="bob", workflow_ids=[another.id])
        assert await team.inbox(team.bob) == []
        await team.delegations.patch(team.boss, other.id, workflow_ids=[number], until=soon)
        assert len(await team.inbox(team.bob)) == 1
        team.bench.clock.advance(60)
        assert await team.inbox(team.bob) == []
        with pytest.raises(NotFound):
            await team.bench.core.runs.resume(team.bob, run.id, decision="approve")
        await team.delegations.patch(team.boss, other.id, until=None)
        assert len(await team.inbox(team.bob)) == 1
        await team.delegations.delete(team.boss, other.id)
        assert await team.inbox(team.bob) == []

    async def test_it_is_not_passed_on(self, team: Team) -> None:
        """A delegate of a delegate sees nothing."""
        await self.hidden_run(team)
        await team.delegations.create(team.boss, to="bob")
        await team.delegations.create(team.bob, to="ann")
        assert len(await team.inbox(team.bob)) == 1
        assert await team.inbox(team.ann) == []

    async def test_the_use_of_the_delegator_counts(self, team: Team) -> None:
        """Without named approvers a delegate decides for who can use the workflow, and cannot use it itself."""
        number, run = await self.hidden_run(team, ask())
        await team.delegations.create(team.boss, to="bob")
        assert await team.inbox(team.bob) == []
        await team.delegations.create(team.me, to="bob")
        assert await team.inbox(team.bob) == [(run.interrupts[0].id, "me")]
        with pytest.raises(NotFound):
            await team.bench.core.runs.start(team.bob, workflow=number, input={})
        with pytest.raises(Forbidden):
            await team.bench.core.runs.events(team.bob, run.id)
        outcomes = await Inbox(team.bench.core.ports, team.bench.core.runs).decide(
            team.bob, decisions=[{"interruptId": run.interrupts[0].id, "decision": "deny"}]
        )
        assert [one.status for one in outcomes] == ["done"]

    async def test_a_person_counts_once(self, team: Team) -> None:
        """Two approvals by one delegate, for two people, are refused; both people can still be needed."""
        node = ask(approvers={"emails": ["boss@x.org", "ann@x.org", "bob@x.org"]}, requiredApprovals=2)
        run = await team.bench.ran(one(node))
        for giver in (team.boss, team.ann):
            await team.delegations.create(giver, to="bob")
        assert await team.inbox(team.bob) == [(run.interrupts[0].id, None)]
        turn = await team.bench.ended(await team.bench.core.runs.resume(team.bob, run.id, decision="approve"))
        assert turn.status == "interrupted"
        assert await team.inbox(team.bob) == []
        with pytest.raises(Forbidden) as caught:
            await team.bench.core.runs.resume(team.bob, turn.id, decision="approve")
        assert caught.value.info == {"reason": "already_decided"}
        last = await team.bench.core.runs.resume(team.ann, turn.id, decision="approve")
        assert (await team.bench.ended(last)).status == "done"
