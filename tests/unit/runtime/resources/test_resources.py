"""Workflows and skills through the library: access, the order of checks, and the effects of each call."""

from typing import Any
from uuid import uuid4

import attrs
import pytest
from bench import Bench, act, deployed_skill, one, paths, private, shared

from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid, Malformed, NotFound, WfcoreError
from wfcore.domain.resources.resource import FIELDS, Kind
from wfcore.runtime.common.authorization import scopes_of

pytestmark = pytest.mark.anyio

PLAIN = one(act("echo", value=1))


def only(me: Any, *scopes: str) -> Any:
    return attrs.evolve(me, scopes=frozenset(scopes))


class TestScopes:
    """Interface, Authentication 4."""

    @pytest.mark.parametrize(
        ("call", "scope"),
        [
            (lambda c, me: c.workflows.create(me, {}), "workflows:write"),
            (lambda c, me: c.workflows.get(me, 999), "workflows:read"),
            (lambda c, me: c.workflows.patch(me, 999, {"x": 1}), "workflows:write"),
            (lambda c, me: c.workflows.deploy(me, 999), "workflows:write"),
            (lambda c, me: c.workflows.toggle(me, 999), "workflows:write"),
            (lambda c, me: c.workflows.page(me), "workflows:read"),
            (lambda c, me: c.workflows.validate(me, {}), "workflows:read"),
            (lambda c, me: c.skills.create(me, {}), "skills:write"),
            (lambda c, me: c.skills.get(me, 999), "skills:read"),
            (lambda c, me: c.runs.start(me, {}), "workflows:invoke"),
            (lambda c, me: c.runs.resume(me, "none", {}), "workflows:invoke"),
            (lambda c, me: c.runs.get(me, "none"), "workflows:read"),
        ],
    )
    async def test_scopes_are_checked_first(self, bench: Bench, call: Any, scope: str) -> None:
        """The scope is checked before body and resource, and `info.missing` and the message name it."""
        with pytest.raises(Forbidden) as error:
            await call(bench.core, only(bench.me, "members:read"))
        assert error.value.info == {"missing": [scope]}
        assert error.value.message == f"the token lacks the scope `{scope}`"

    async def test_write_implies_read_but_not_invoke(self, bench: Bench) -> None:
        """`workflows:write` allows reading, but not starting a run."""
        writer = only(bench.me, "workflows:write")
        number = await bench.deployed(PLAIN)
        assert (await bench.core.workflows.get(writer, number)).id == number
        with pytest.raises(Forbidden):
            await bench.core.runs.start(writer, workflow=number, input={})

    async def test_adapters_can_read_the_scopes(self, bench: Bench) -> None:
        """`scopes_of` gives an adapter the scopes to check before it reads a body."""
        assert scopes_of(bench.core.workflows.create) == ("workflows:write",)
        assert scopes_of(bench.core.skills.get) == ("skills:read",)
        assert scopes_of(bench.core.runs.start) == ("workflows:invoke",)


class TestAccess:
    """Interface, AccessConfig."""

    async def test_hidden_resources_do_not_exist(self, bench: Bench) -> None:
        """Every call on a hidden resource gives exactly the error of an unknown id."""
        number = (await bench.core.workflows.create(bench.me, name="mine", access=private())).id
        flows, runs, other = bench.core.workflows, bench.core.runs, bench.other
        for call in (
            lambda n: flows.get(other, n),
            lambda n: flows.get(other, n, "draft"),
            lambda n: flows.patch(other, n, name="x"),
            lambda n: flows.deploy(other, n),
            lambda n: flows.delete(other, n),
            lambda n: flows.restore(other, n),
            lambda n: flows.discard_draft(other, n),
            lambda n: flows.toggle(other, n),
            lambda n: flows.validate_saved(other, n),
            lambda n: runs.start(other, workflow=n, input={}),
        ):
            answers = []
            for asked in (number, 999):
                with pytest.raises(NotFound) as error:
                    await call(asked)
                answers.append((error.value.message, error.value.info))
            assert answers[0] == answers[1]
        assert await flows.page(other) == []

    async def test_users_cannot_manage(self, bench: Bench) -> None:
        """Visible but not manageable: 403 with `manageDenial`, for shared and private alike."""
        team = (await bench.core.directory.create_group(bench.org, "team")).id
        mine = bench.person("me", groups=[team])
        access = shared(**{bench.org: (True, False), team: (True, True)})
        flows = bench.core.workflows
        for config, denial in ((access, "needs_group_manage"), (private("other@x.org"), "not_owner")):
            number = (await flows.create(mine, name="f", access=config)).id
            seen = (await flows.get(bench.other, number)).to_wire()
            assert (seen["canUse"], seen["canManage"], seen["manageDenial"]) == (True, False, denial)
            for call in (flows.deploy, flows.delete, flows.restore, flows.toggle, flows.discard_draft):
                with pytest.raises(Forbidden) as error:
                    await call(bench.other, number)
                assert error.value.info == {"manageDenial": denial}
            with pytest.raises(Forbidden):
                await flows.get(bench.other, number, "draft")

    async def test_managers_without_use_cannot_run(self, bench: Bench) -> None:
        """Use and manage are independent: a manager without use gets 403 at a start."""
        team = (await bench.core.directory.create_group(bench.org, "team")).id
        mine = bench.person("me", groups=[team])
        config = shared(**{team: (False, True), bench.org: (True, False)})
        number = (await bench.core.workflows.create(mine, name="f", structure=PLAIN, access=config)).id
        await bench.core.workflows.deploy(mine, number)
        only_manages = shared(**{team: (False, True)})
        await bench.core.workflows.patch(mine, number, access=only_manages)
        with pytest.raises(Forbidden) as error:
            await bench.core.runs.start(mine, workflow=number, input={})
        assert error.value.info == {"canUse": False}

    async def test_by_default_the_organization_uses_and_manages(self, bench: Bench) -> None:
        """The default access is shared with the organization's implicit group; the creator is the owner."""
        view = await bench.core.workflows.create(bench.me, name="f")
        assert view.to_wire()["accessConfig"] == {
            "visibility": "shared",
            "groupPermissions": {bench.org: {"use": True, "manage": True}},
            "sharedWith": [],
            "ownerUserId": "me",
            "ownerEmail": "me@x.org",
        }
        assert (await bench.core.workflows.get(bench.other, view.id)).access.can_manage

    async def test_a_caller_cannot_revoke_its_own_management(self, bench: Bench) -> None:
        """An update, or a create, after which the caller could not manage is 422 and changes nothing."""
        view = await bench.core.workflows.create(bench.me, name="f", structure=PLAIN)
        locked = shared(**{bench.org: (True, False)})
        for body in ({"accessConfig": locked}, {"accessConfig": locked, "name": "new", "workflowStructure": {}}):
            with pytest.raises(Invalid) as error:
                await bench.core.workflows.patch(bench.me, view.id, body)
            assert paths(error) == {("accessConfig", "self_revoking")}
        assert (await bench.core.workflows.get(bench.me, view.id)).etag == view.etag
        with pytest.raises(Invalid):
            await bench.core.workflows.create(bench.me, name="g", access=locked)
        assert len(await bench.core.workflows.page(bench.me)) == 1

    async def test_access_can_be_written_back_as_read(self, bench: Bench) -> None:
        """The read value can be sent again; the server's own values stay, and nothing changes."""
        view = await bench.core.workflows.create(bench.me, name="f", access=private("a@x.org"))
        read = view.to_wire()["accessConfig"]
        bench.clock.advance(5)
        again = await bench.core.workflows.patch(bench.me, view.id, access=read)
        assert again.to_wire()["accessConfig"] == read
        assert again.etag == view.etag
        with pytest.raises(Invalid):
            await bench.core.workflows.patch(bench.me, view.id, access={**read, "ownerUserId": "other"})

    async def test_groups_must_exist(self, bench: Bench) -> None:
        """A group that the organization does not have is 422."""
        ghost = "00000000-0000-4000-8000-00000000dead"
        with pytest.raises(Invalid) as error:
            await bench.core.workflows.create(
                bench.me, name="f", access=shared(**{bench.org: (True, True), ghost: (True, True)})
            )
        assert paths(error) == {(f"accessConfig.groupPermissions.{ghost}", "group")}

    async def test_ids_that_are_no_texts(self, bench: Bench) -> None:
        """A UUID of Python in place of a text is refused with its place, also where nothing is saved."""
        access: Any = {"visibility": "shared", "groupPermissions": {uuid4(): {"use": True, "manage": True}}}
        with pytest.raises(Malformed, match=r"`accessConfig\.groupPermissions`: must have keys of type `str`, not"):
            await bench.core.workflows.create(bench.me, name="x", type="workflow", access_config=access)
        body: Any = uuid4()
        issues = await bench.core.workflows.validate(bench.me, body)
        assert [issue.message for issue in issues] == [
            "must be a `dict`, `list`, `str`, `int`, `float`, `bool` or None, not `UUID`"
        ]

    async def test_faults_of_sharing_are_reported_with_all_others(self, bench: Bench) -> None:
        """Those of its shape, of a group that does not exist, and of another field are one response."""
        ghost = "00000000-0000-4000-8000-00000000dead"
        sharing = {"visibility": "secret", "groupPermissions": {ghost: {"use": True, "manage": False}}}
        with pytest.raises(Malformed) as error:
            await bench.core.workflows.create(bench.me, {"name": "\t", "type": 7, "accessConfig": sharing})
        found = {path for path, _ in paths(error)}
        assert found == {"name", "type", "accessConfig.visibility", f"accessConfig.groupPermissions.{ghost}"}

    async def test_letters_that_fold_to_ascii_grant_nothing(self, bench: Bench) -> None:
        """An embedded user whose address only looks like the owner's is another user."""
        kelvin = bench.person("stranger", email="o\u212a@x.org")
        owner = bench.person("owner", email="ok@x.org")
        number = (await bench.core.workflows.create(owner, name="f", access=private())).id
        with pytest.raises(NotFound):
            await bench.core.workflows.get(kelvin, number)


class TestCreate:
    """Interface, Create-workflow request."""

    async def test_the_response_has_the_fields_of_the_interface(self, bench: Bench) -> None:
        """A new workflow is a draft of the caller's organization, with every field of the table."""
        wire = (await bench.core.workflows.create(bench.me, name="Refunds", description="d")).to_wire()
        assert set(FIELDS[Kind.WORKFLOW]) - set(wire) == {"pendingOwnershipTransfer"}
        assert (wire["status"], wire["type"], wire["orgUuid"]) == ("draft", "workflow", bench.org)
        assert (wire["activeVariationId"], wire["hasUnpublishedChanges"], wire["isEnabled"]) == (None, True, False)
        assert wire["draftVariationId"] is not None
        assert wire["variation"] == {"trigger": None, "workflowStructure": None, "agentSelection": None}

    async def test_slugs_are_unique_and_survive_a_rename(self, bench: Bench) -> None:
        """A taken slug, also of another member's private resource, gets a number; a rename keeps the slug."""
        flows = bench.core.workflows
        views = [
            await flows.create(bench.other, name="Über Refunds!", access=private()),
            await flows.create(bench.me, name="Uber refunds"),
            await flows.create(bench.me, name="???"),
        ]
        assert [view.resource.slug for view in views] == ["uber-refunds", "uber-refunds-2", "workflow-3"]
        renamed = await flows.patch(bench.me, views[1].id, name="Other")
        assert (renamed.resource.name, renamed.resource.slug) == ("Other", "uber-refunds-2")

    async def test_a_slug_can_be_chosen(self, bench: Bench) -> None:
        """A create takes a free slug; a taken one, also of another's private or a deleted resource, is a 409."""
        for kind in (bench.core.workflows, bench.core.skills):
            made = await kind.create(bench.other, name="Über", slug="refunds-2", access=private())
            assert made.slug == "refunds-2"
            await kind.delete(bench.other, made.id)
            with pytest.raises(Conflict, match="`refunds-2` is taken") as refused:
                await kind.create(bench.me, name="Refunds", slug="refunds-2")
            assert refused.value.info == {"reason": "slug_taken", "slug": "refunds-2"}
            assert (await kind.create(bench.me, name="Refunds", slug="refunds-3")).id == made.id + 1
            assert "slug" not in {issue.path for issue in await kind.validate(bench.me, {"name": "R", "slug": "a"})}
            assert "slug" in {issue.path for issue in await kind.validate(bench.me, {"name": "R", "slug": "A"})}

    @pytest.mark.parametrize("slug", ["", "A", "a_b", "-a", "a-", "a" * 81, "a\n"])
    async def test_a_slug_has_letters_digits_and_hyphens(self, bench: Bench, slug: str) -> None:
        """Another form is a 422 that names the field."""
        with pytest.raises(Invalid) as refused:
            await bench.core.workflows.create(bench.me, name="R", slug=slug)
        assert {issue["path"] for issue in refused.value.info["errors"]} == {"slug"}

    async def test_a_key_creates_once(self, bench: Bench) -> None:
        """The same key and body: the same workflow. Another body: 409. Another principal's key is independent."""
        flows = bench.core.workflows
        first = await flows.create(bench.me, name="f", key="k")
        again = await flows.create(bench.me, name="f", key="k")
        assert again.to_wire() == first.to_wire()
        with pytest.raises(Conflict) as error:
            await flows.create(bench.me, name="g", key="k")
        assert error.value.info == {"reason": "key_reused"}
        assert (await flows.create(bench.other, name="g", key="k")).id != first.id
        assert len(await flows.page(bench.me)) == 2

    @pytest.mark.parametrize("given", ["x", 1, None, {}])
    async def test_the_organization_of_a_body_is_not_compared(self, bench: Bench, given: Any) -> None:
        """It has no effect, whatever it is: with it and without it, a body is the same, of a create and of a run."""
        flows, runs, ignored = bench.core.workflows, bench.core.runs, {"organizationId": given}
        plain = {"name": "f", "type": "workflow"}
        first, again = [await flows.create(bench.me, body, key="k") for body in (plain, {**plain, **ignored})]
        assert again.to_wire() == first.to_wire()
        start = {"workflowId": await bench.deployed(one(act("echo"))), "input": {}}
        begun, joined = [await runs.start(bench.me, body, key="r") for body in ({**start, **ignored}, start)]
        assert begun.id == joined.id == "r"
        assert await flows.validate(bench.me, {**plain, **ignored}) == await flows.validate(bench.me, plain)

    @pytest.mark.parametrize("area", ["workflows", "skills"])
    async def test_a_create_is_repeated_after_a_group_is_gone(self, bench: Bench, area: str) -> None:
        """It returns the first response. Another body with the key is a conflict, another key is checked."""
        cases, boss = getattr(bench.core, area), await bench.joined("boss", "owner")
        group = (await bench.core.groups.create(boss, name="G")).id
        grants = {key: {"use": True, "manage": True} for key in (bench.org, group)}
        access = {"visibility": "shared", "groupPermissions": grants}
        first = await cases.create(bench.me, name="f", access=access, key="k")
        await bench.core.groups.delete(boss, group)
        assert (await cases.create(bench.me, name="f", access=access, key="k")).to_wire() == first.to_wire()
        with pytest.raises(Conflict):
            await cases.create(bench.me, name="g", access=access, key="k")
        for key, name in (("other", "f"), ("k", "")):
            with pytest.raises(Invalid):
                await cases.create(bench.me, name=name, access=access, key=key)

    @pytest.mark.parametrize("key", ["", "a b", "x" * 256, "é"])
    async def test_a_key_is_visible_ascii(self, bench: Bench, key: str) -> None:
        """Any other Idempotency-Key is refused, and nothing is created."""
        with pytest.raises(Malformed):
            await bench.core.workflows.create(bench.me, name="f", key=key)
        assert await bench.core.workflows.page(bench.me) == []

    @pytest.mark.parametrize("given", [float("nan"), {1}, "\ud83d", {1: 2}, 2**80])
    async def test_a_structure_that_is_not_json(self, bench: Bench, given: Any) -> None:
        """Every use case that takes one names its path; so does a start with such an input. Nothing is stored."""
        flows, structure = bench.core.workflows, {"nodes": [{"id": "s", "type": "start", "data": {"x": given}}]}
        number = await bench.deployed(one(act("echo")))
        for call, place in (
            (flows.create(bench.me, name="f", structure=structure), "workflowStructure.nodes[0].data.x"),
            (flows.patch(bench.me, number, structure=structure), "workflowStructure.nodes[0].data.x"),
            (bench.core.runs.start(bench.me, workflow=number, input={"x": given}), "input.x"),
        ):
            with pytest.raises(Malformed) as error:
                await call
            assert [(fault["path"], fault["rule"]) for fault in error.value.info["errors"]] == [(place, "json")]
        issues = await flows.validate(bench.me, {"workflowStructure": structure})
        assert [(issue.path, issue.rule) for issue in issues] == [("workflowStructure.nodes[0].data.x", "json")]
        assert len(await flows.page(bench.me)) == 1
        assert await bench.core.runs.page(bench.me) == []

    async def test_task_is_upgraded(self, bench: Bench) -> None:
        """`type: task` is stored as `workflow`; its agents become a graph in the order of priority."""
        skills = [(await deployed_skill(bench)) for _ in range(2)]
        selection = {
            "agents": [
                {"agent_id": float(skills[0]), "priority_order": 2, "instructions": "b"},
                {"agent_id": skills[1], "priority_order": 1},
            ],
            "model": "m",
        }
        made = await bench.core.workflows.create(
            bench.me, {"name": "t", "type": "task", "agentSelection": selection, "organizationId": "ignored"}
        )
        content = (await bench.core.workflows.get(bench.me, made.id, "draft")).to_wire()["variation"]
        assert made.to_wire()["type"] == "workflow"
        assert content["agentSelection"] is None
        agents = [node["data"]["agent_id"] for node in content["workflowStructure"]["nodes"][1:]]
        assert agents == [skills[1], skills[0]]
        assert (await bench.core.workflows.deploy(bench.me, made.id)).resource.status == "active"

    async def test_selection_and_graph_exclude_each_other(self, bench: Bench) -> None:
        """An `agentSelection` with a graph that has nodes, and two equal priorities, are 422."""
        entry = {"agent_id": 1, "priority_order": 1}
        with pytest.raises(Invalid) as error:
            await bench.core.workflows.create(
                bench.me, name="t", structure=PLAIN, agent_selection={"agents": [entry, entry]}
            )
        assert {rule for _, rule in paths(error)} >= {"exclusive", "unique"}

    @pytest.mark.parametrize(
        ("body", "error", "path", "rule"),
        [
            ({"type": "workflow"}, Malformed, "name", "required"),
            ({"name": 1, "type": "workflow"}, Malformed, "name", "type"),
            ({"name": "", "type": "workflow"}, Invalid, "name", "minLength"),
            ({"name": "n", "type": "other"}, Invalid, "type", "enum"),
            ({"name": "n", "type": "workflow", "status": "active"}, Invalid, "status", "unknown"),
            ({"name": "n", "type": "workflow", "id": 7}, Invalid, "id", "unknown"),
            ({"name": "n", "type": "workflow", "trigger": {"trigger_type": "schedule"}}, Invalid,
             "trigger.schedule", "required_if"),
            ({"name": "n", "type": "workflow", "workflowStructure": {"nodes": [{"id": "a", "type": "b"}]}}, Invalid,
             "workflowStructure.nodes[0].type", "enum"),
        ],
    )  # fmt: skip
    async def test_invalid_bodies(
        self, bench: Bench, body: dict[str, Any], error: type[WfcoreError], path: str, rule: str
    ) -> None:
        """400 for the shape, 422 for a rule; each issue has path and rule. Nothing is written."""
        with pytest.raises(error) as found:
            await bench.core.workflows.create(bench.me, body)
        assert type(found.value) is error
        assert (path, rule) in paths(found)
        assert await bench.core.workflows.page(bench.me) == []
