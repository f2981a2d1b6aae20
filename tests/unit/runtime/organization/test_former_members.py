"""Members who leave, and their addresses: nothing is inherited by accident, and nothing stays blocked."""

from typing import Any

import pytest
from bench import Bench, act, agent, deployed_skill, kinds, one, why

from wfcore.domain.kernel.errors import Conflict, Invalid, NotFound
from wfcore.domain.resources.access import Principal

pytestmark = pytest.mark.anyio

PRIVATE = {"visibility": "private"}


@pytest.fixture
async def boss(bench: Bench) -> Principal:
    """The owner of an organization of which `me` and `other` are members."""
    for name, role in (("boss", "owner"), ("me", "member"), ("other", "member")):
        await bench.core.directory.add_member(bench.org, name, f"{name}@x.org", role=role)
    return bench.person("boss", role="owner")


class TestAddresses:
    """An e-mail address that another member gets."""

    async def test_a_recycled_address_inherits_no_resource(self, bench: Bench, boss: Principal) -> None:
        """The owner keeps its resources with its new address; the new holder of the old one sees nothing of them."""
        number = (await bench.core.workflows.create(bench.me, name="Diary", access=PRIVATE)).id
        await bench.core.members.patch(boss, "me", email="married@x.org")
        await bench.core.members.patch(boss, "other", email="me@x.org")
        heir = bench.person("other", email="me@x.org")
        with pytest.raises(NotFound):
            await bench.core.workflows.get(heir, number)
        assert await bench.core.workflows.page(heir) == []
        assert (await bench.core.workflows.get(bench.person("me", email="married@x.org"), number)).access.can_manage


class TestDeployers:
    """A deployer who is not a member any more has lost all access (interface, Runs)."""

    async def test_a_removed_deployers_skills_are_used_no_more(self, bench: Bench, boss: Principal) -> None:
        """A run of the workflow ends in an `error` that names node and skill, for every starter."""
        skill = await deployed_skill(bench)
        number = await bench.deployed(one(agent(agent_id=skill, message="hi")))
        assert (await bench.ended(await bench.core.runs.start(bench.other, workflow=number, input={}))).status == "done"
        await bench.core.members.delete(boss, "me")
        run = await bench.core.runs.start(bench.other, workflow=number, input={})
        assert kinds(await bench.events(run.id)) == ["run_started", "error"]
        message = (await bench.core.runs.get(bench.other, run.id)).to_wire()["error"]["message"]
        assert f"in node `a`: skill `{skill}`" in message

    async def test_a_removed_deployers_nodes_open_no_children(self, bench: Bench, boss: Principal) -> None:
        """A workflow that all members can use is not called with the access of a former member."""
        inner = await bench.deployed(one(act("echo", value=1)))
        outer = await bench.deployed(one(act("core.workflow", workflowId=inner)))
        await bench.core.members.delete(boss, "me")
        run = await bench.ended(await bench.core.runs.start(bench.other, workflow=outer, input={}))
        assert why(run)[0] == f"workflow `{inner}` does not exist, or may not be used here"


class TestOwners:
    """Ownership when an owner or a pending owner leaves."""

    @pytest.mark.parametrize("area", ["workflows", "skills"])
    async def test_what_a_removed_owner_shared_can_become_private(
        self, bench: Bench, boss: Principal, area: str
    ) -> None:
        """A former owner does not count: the writer becomes the owner. While it is shared nothing changes."""
        cases: Any = getattr(bench.core, area)
        number = (await cases.create(bench.me, name="f")).id
        with pytest.raises(Invalid):
            await cases.patch(bench.other, number, access=PRIVATE)
        await bench.core.members.delete(boss, "me")
        config = (await cases.get(bench.other, number)).to_wire()["accessConfig"]
        assert (await cases.patch(bench.other, number, access=config)).resource.access.owner_user_id == "me"
        changed = await cases.patch(bench.other, number, access={**config, **PRIVATE})
        assert changed.resource.access.owner_user_id == "other"

    @pytest.mark.parametrize("area", ["workflows", "skills"])
    async def test_an_offer_ends_with_its_owner(self, bench: Bench, boss: Principal, area: str) -> None:
        """Nobody else could withdraw it. The former owner's resource can be managed, and has no pending offer."""
        cases: Any = getattr(bench.core, area)
        number = (await cases.create(bench.me, name="f")).id
        await cases.transfer_ownership(bench.me, number, user_id="other")
        await bench.core.members.delete(boss, "me")
        assert (await cases.get(boss, number)).resource.pending_transfer is None
        with pytest.raises(NotFound):
            await cases.accept_transfer(bench.other, number)

    @pytest.mark.parametrize("area", ["workflows", "skills"])
    async def test_an_offer_ends_with_the_member_it_names(self, bench: Bench, boss: Principal, area: str) -> None:
        """For live and deleted resources, and it is audited; offers to others stay."""
        cases: Any = getattr(bench.core, area)
        live, deleted, elses = [(await cases.create(bench.me, name="f")).id for _ in range(3)]
        for number, heir in ((live, "other"), (deleted, "other"), (elses, "boss")):
            await cases.transfer_ownership(bench.me, number, user_id=heir)
        await cases.delete(bench.me, deleted)
        await bench.core.members.delete(boss, "other")
        await cases.restore(bench.me, deleted)
        pending = [(await cases.get(bench.me, number)).resource.pending_transfer for number in (live, deleted, elses)]
        assert [one is None for one in pending] == [True, True, False]
        rows = [view.row for view in await bench.core.audit.page(boss, action=f"{cases.kind}.ownership")]
        assert [row.resource_id for row in rows if row.user_id == "boss"] == [str(deleted), str(live)]
        await cases.transfer_ownership(bench.me, live, user_id="boss")


class TestOperators:
    """The command line and the embedding program take no principal, and keep all rules."""

    async def test_what_is_not_given_is_kept(self, bench: Bench, boss: Principal) -> None:
        """A second `add_member` changes the given fields; e-mail, name, role and groups stay otherwise."""
        add, team = bench.core.directory.add_member, (await bench.core.directory.create_group(bench.org, "team")).id
        await add(bench.org, "ann", "ann@x.org", name="Ann", role="admin", groups=[team])
        member = await add(bench.org, "ann", name="Ann B.")
        assert (member.email, member.name, member.role, member.groups) == ("ann@x.org", "Ann B.", "admin", {team})
        assert (await add(bench.org, "ann", groups=[])).groups == frozenset()

    async def test_no_rule_of_members_is_broken(self, bench: Bench, boss: Principal) -> None:
        """The last owner stays one, an address has one member, and a managing group is not emptied."""
        add, team = bench.core.directory.add_member, (await bench.core.directory.create_group(bench.org, "team")).id
        await add(bench.org, "me", groups=[team])
        mine = {"visibility": "shared", "groupPermissions": {team: {"use": True, "manage": True}}}
        await bench.core.workflows.create(bench.person("me", groups=[team]), name="f", access=mine)
        for given, reason in (
            ({"user_id": "boss", "role": "member"}, "last_owner"),
            ({"user_id": "other", "email": "ME@x.org"}, "duplicate"),
            ({"user_id": "me", "groups": []}, "unmanaged"),
        ):
            with pytest.raises(Conflict) as error:
                await add(bench.org, **given)
            assert error.value.info["reason"] == reason
        rows = [view.member for view in await bench.core.members.page(boss)]
        assert [(row.user_id, row.email, row.role, row.groups) for row in rows] == [
            ("boss", "boss@x.org", "owner", frozenset()),
            ("me", "me@x.org", "member", {team}),
            ("other", "other@x.org", "member", frozenset()),
        ]
