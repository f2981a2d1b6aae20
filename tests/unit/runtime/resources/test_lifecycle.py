"""Editing, deploying, deleting and restoring workflows and skills (interface, States and transitions)."""

from typing import Any

import pytest
from bench import Bench, act, agent, ask, deployed_skill, graph, one, opened, paths, private, shared

from wfcore.domain.graph.limits import GraphLimits
from wfcore.domain.kernel.errors import Conflict, Invalid, Malformed, NotFound
from wfcore.domain.resources.resource import FIELDS, Kind
from wfcore.runtime.common.installation import Settings

pytestmark = pytest.mark.anyio

PLAIN = one(act("echo", value=1))


class TestEdit:
    """Interface, States and transitions; editing, deploying, discarding."""

    async def test_content_and_details_change_the_etag_once(self, bench: Bench) -> None:
        """A PATCH of both is one visible change: the old ETag is outdated, the new one valid."""
        view = await bench.core.workflows.create(bench.me, name="f", structure=PLAIN)
        body = {"name": "new", "workflowStructure": {"nodes": [], "edges": []}}
        changed = await bench.core.workflows.patch(bench.me, view.id, body, if_match=view.etag)
        with pytest.raises(Conflict) as error:
            await bench.core.workflows.patch(bench.me, view.id, name="late", if_match=view.etag)
        assert error.value.info == {"reason": "stale", "etag": changed.etag}
        assert (await bench.core.workflows.get(bench.me, view.id)).etag == changed.etag
        await bench.core.workflows.patch(bench.me, view.id, name="ok", if_match=f'"x", {changed.etag}')
        await bench.core.workflows.patch(bench.me, view.id, name="ok too", if_match="*")

    async def test_null_clears(self, bench: Bench) -> None:
        """null clears trigger, description, selection and graph, but not the name."""
        flows = bench.core.workflows
        view = await flows.create(
            bench.me, name="f", description="d", trigger={"trigger_type": "manual", "x": 1}, structure=PLAIN
        )
        body = {"trigger": None, "description": None, "agentSelection": None, "workflowStructure": None}
        cleared = await flows.patch(bench.me, view.id, body)
        assert cleared.resource.description is None
        assert cleared.to_wire()["variation"] == dict.fromkeys(["trigger", "workflowStructure", "agentSelection"])
        with pytest.raises(Malformed):
            await flows.patch(bench.me, view.id, {"name": None})
        with pytest.raises(Invalid) as error:
            await flows.deploy(bench.me, view.id)
        assert ("workflowStructure.nodes", "start") in paths(error)

    async def test_null_within_the_content_is_absent(self, bench: Bench) -> None:
        """In a create, a PATCH and `validate`; equal requests have one fingerprint. Free objects keep their nulls."""
        flows = bench.core.workflows
        daily = {"frequency": "daily", "timezone": "UTC", "time_of_day": "09:30"}
        edge = {"id": "e", "source": "s", "target": "a"}
        act = {"toolId": "echo", "params": {"value": None}, "note": None}
        body = {
            "trigger": {"trigger_type": "schedule", "schedule": daily, "x": None},
            "workflowStructure": {
                "nodes": [{"id": "s", "type": "start"}, {"id": "a", "type": "action", "data": act}],
                "edges": [edge], "x": None,
            },
            "accessConfig": {"visibility": "private", "sharedWith": [{"email": "eve@x.org"}]},
        }  # fmt: skip
        nulls = {
            "trigger": {"trigger_type": "schedule", "overlap": None, "x": None,
                        "schedule": {**daily, "cron_expressions": None, "weekdays": None, "day_of_month": None}},
            "workflowStructure": {
                "nodes": [{"id": "s", "type": "start", "data": None, "position": None},
                          {"id": "a", "type": "action", "data": act, "position": None}],
                "edges": [{**edge, "sourceHandle": None}], "x": None,
            },
            "accessConfig": {"visibility": "private", "groupPermissions": None, "guardrails": None,
                             "sharedWith": [{"email": "eve@x.org", "userId": None, "addedAt": None, "addedBy": None}]},
        }  # fmt: skip
        made = await flows.create(bench.me, {"name": "f", "type": "workflow", **body}, key="k")
        assert made.to_wire()["variation"] == {**{k: body[k] for k in ("trigger", "workflowStructure")},
                                               "agentSelection": None}  # fmt: skip
        assert await flows.create(bench.me, {"name": "f", "type": "workflow", **nulls}, key="k") == made
        assert await flows.patch(bench.me, made.id, nulls, if_match=made.etag) == made
        assert [one for one in await flows.validate(bench.me, {"name": "f", **nulls}) if one.severity == "error"] == []

    @pytest.mark.parametrize(
        ("body", "path"),
        [
            ({"workflowStructure": {"nodes": [{"id": None, "type": "start"}]}}, "workflowStructure.nodes[0].id"),
            ({"workflowStructure": {"nodes": [{"id": "s", "type": "start", "position": {"x": 1, "y": None}}]}},
             "workflowStructure.nodes[0].position.y"),
            ({"agentSelection": {"agents": None}}, "agentSelection.agents"),
            ({"trigger": {"trigger_type": "schedule", "schedule": None}}, "trigger.schedule"),
            ({"accessConfig": {"visibility": None}}, "accessConfig.visibility"),
            ({"accessConfig": {"visibility": "private", "ownerUserId": None}}, "accessConfig.ownerUserId"),
        ],
    )  # fmt: skip
    async def test_null_of_what_is_required_is_an_error(self, bench: Bench, body: Any, path: str) -> None:
        """So is null for the owner, which is a value: the server keeps the owner."""
        number = (await bench.core.workflows.create(bench.me, name="f")).id
        with pytest.raises((Malformed, Invalid)) as error:
            await bench.core.workflows.patch(bench.me, number, body)
        assert [one["path"] for one in error.value.info["errors"]] == [path]

    async def test_null_in_the_data_of_a_node_is_stored_and_means_absence(self, bench: Bench) -> None:
        """For keys that wfcore declares: the draft is valid, and is deployed, tried and run as without them."""
        nulls = {"params": None, "retry": None, "timeoutSeconds": None, "requiresApproval": None, "forEach": None}
        data = {"toolId": "echo", **nulls, "note": None}
        structure = graph("s>a", s={"type": "start", "data": {"inputSchema": None}}, a={"type": "action", "data": data})
        flows, runs = bench.core.workflows, bench.core.runs
        made = await flows.create(bench.me, name="f", structure=structure)
        assert made.to_wire()["variation"]["workflowStructure"] == structure  # type: ignore[index,call-overload]
        assert await flows.validate(bench.me, {"name": "f", "workflowStructure": structure}) == []
        tried = await flows.test_node(bench.me, made.id, "a", perform=True)
        assert (tried.error, bench.tools.count("echo")) == (None, 1)
        await flows.deploy(bench.me, made.id)
        run = await bench.ended(await runs.start(bench.me, workflow=made.id, input={}))
        assert (run.row.status, bench.tools.count("echo")) == ("done", 2)

    async def test_required_parameters_are_missing_in_null(self, bench: Bench) -> None:
        data = {"toolId": "core.http", "params": None}
        made = await bench.core.workflows.create(bench.me, name="f", structure=one({"type": "action", "data": data}))
        with pytest.raises(Invalid) as error:
            await bench.core.workflows.deploy(bench.me, made.id)
        assert ("workflowStructure.nodes[1].data.params.url", "required") in paths(error)

    async def test_an_opaque_trigger_keeps_its_nulls(self, bench: Bench) -> None:
        """Only a schedule is checked (interface, Trigger)."""
        trigger = {"trigger_type": "api", "schedule": None, "overlap": None}
        made = await bench.core.workflows.create(bench.me, name="f", trigger=trigger)
        assert made.to_wire()["variation"]["trigger"] == trigger

    async def test_a_draft_equal_to_the_active_content_is_discarded(self, bench: Bench) -> None:
        """Editing back to the deployed content discards the draft; so does `discard_draft`."""
        flows, number = bench.core.workflows, await bench.deployed(PLAIN)
        edited = await flows.patch(bench.me, number, structure=one(act("echo", value=2)))
        assert edited.resource.has_unpublished_changes
        assert not (await flows.patch(bench.me, number, structure=PLAIN)).resource.has_unpublished_changes
        await flows.patch(bench.me, number, trigger={"trigger_type": "api"})
        discarded = await flows.discard_draft(bench.me, number)
        assert discarded.resource.draft_variation_id is None
        assert (await flows.get(bench.me, number, "draft")).variation == (await flows.get(bench.me, number)).variation

    async def test_deploy_publishes_and_records_who(self, bench: Bench) -> None:
        """The draft becomes active; the deployer is recorded; a second deploy changes nothing."""
        flows = bench.core.workflows
        draft = await flows.create(bench.other, name="f", structure=PLAIN)
        deployed = await flows.deploy(bench.me, draft.id)
        resource = deployed.resource
        assert (resource.status, resource.draft_variation_id) == ("active", None)
        assert resource.active_variation_id == draft.resource.draft_variation_id
        assert deployed.variation is not None
        assert (deployed.variation.created_by, deployed.variation.deployed_by) == ("other", "me")
        assert (await flows.deploy(bench.other, draft.id)).etag == deployed.etag

    async def test_a_graph_that_cannot_run_is_not_deployed(self, bench: Bench) -> None:
        """Every issue is listed with its node; the workflow stays unchanged."""
        broken = graph("s>a", a=act("no.such.tool"), b=act("echo"), c=agent(agent_id=[7]), d=agent(agent_id=99.0))
        view = await bench.core.workflows.create(bench.me, name="f", structure=broken)
        with pytest.raises(Invalid) as error:
            await bench.core.workflows.deploy(bench.me, view.id)
        assert {
            ("workflowStructure.nodes[1].data.toolId", "reference"),
            ("workflowStructure.nodes[2]", "reachable"),
            ("workflowStructure.nodes[3].data.agent_id", "type"),
            ("workflowStructure.nodes[4].data.agent_id", "reference"),
        } <= paths(error)
        assert (await bench.core.workflows.get(bench.me, view.id)).etag == view.etag

    async def test_whole_floats_are_ids(self, bench: Bench) -> None:
        """JSON has one number type: `1.0` is skill 1, at the deploy and in a run."""
        skill = await deployed_skill(bench, instructions=["be kind"])
        run = await bench.ran(one(agent(agent_id=float(skill), message="hi")))
        assert run.status == "done"

    async def test_a_skill_the_deployer_cannot_use_is_an_issue(self, bench: Bench) -> None:
        """Hidden, undeployed and unknown skills give the same issue."""
        hidden = await deployed_skill(bench, bench.other, access=private())
        undeployed = (await bench.core.skills.create(bench.me, name="s")).id
        for number in (hidden, undeployed, 99):
            view = await bench.core.workflows.create(bench.me, name="f", structure=one(agent(agent_id=number)))
            with pytest.raises(Invalid) as error:
                await bench.core.workflows.deploy(bench.me, view.id)
            assert paths(error) == {("workflowStructure.nodes[1].data.agent_id", "reference")}

    async def test_validate_writes_nothing(self, bench: Bench) -> None:
        """It lists what a create or a deploy would refuse, and stores nothing."""
        flows = bench.core.workflows
        assert [i.rule for i in await flows.validate(bench.me, {"workflowStructure": {"nodes": 1}})] == ["type"]
        issues = await flows.validate(bench.me, {"workflowStructure": one(act("nope"))})
        assert [(i.path, i.rule) for i in issues] == [("workflowStructure.nodes[1].data.toolId", "reference")]
        assert await flows.validate(bench.me, {"name": "f", "workflowStructure": PLAIN}) == []
        assert await flows.page(bench.me) == []
        view = await flows.create(bench.me, name="f", structure=one(ask(onTimeout="deny")))
        assert [i.severity for i in await flows.validate_saved(bench.me, view.id)] == ["warning"]
        assert (await flows.get(bench.me, view.id)).etag == view.etag

    async def test_validate_lists_everything(self, bench: Bench) -> None:
        """Errors of the name or the access hide none of the graph; a present owner is not an error."""
        access = private("not an address") | {"ownerUserId": "somebody"}
        body = {"name": "", "accessConfig": access, "workflowStructure": one(act("nope"))}
        assert [issue.path for issue in await bench.core.workflows.validate(bench.me, body)] == [
            "name", "accessConfig.sharedWith[0].email", "workflowStructure.nodes[1].data.toolId",
        ]  # fmt: skip

    async def test_validate_checks_what_is_sound(self, bench: Bench) -> None:
        """Faults of the form hide no unknown tool of another node, and no unknown model of a skill."""
        structure = one(act("nope"))
        structure["nodes"] += [{"id": "x", "type": "nothing"}, {"id": "y", "typ": 1, **act("gone")}, 7]
        body = {"name": "n", "workflowStructure": structure, "trigger": {"trigger_type": "schedule"}}
        assert {(issue.path, issue.rule) for issue in await bench.core.workflows.validate(bench.me, body)} == {
            ("workflowStructure.nodes[1].data.toolId", "reference"), ("workflowStructure.nodes[2].type", "enum"),
            ("workflowStructure.nodes[3].typ", "unknown"), ("workflowStructure.nodes[3].data.toolId", "reference"),
            ("workflowStructure.nodes[4]", "type"), ("trigger.schedule", "required_if"),
        }  # fmt: skip
        both = {"agentSelection": {"agents": []}}
        assert {issue.path for issue in await bench.core.workflows.validate(bench.me, both)} == {
            "agentSelection.agents"
        }
        skill = {"instructions": 1, "toolset": {"nope": {"enabled": True}}}
        assert {issue.path for issue in await bench.core.skills.validate(bench.me, skill)} == {
            "instructions", "toolset.nope",
        }  # fmt: skip

    async def test_a_graph_has_both_its_lists(self, bench: Bench) -> None:
        """Absent `nodes` and `edges` are read back as empty lists."""
        flows = bench.core.workflows
        made = await flows.create(bench.me, name="f", structure=PLAIN)
        for given in ({"viewport": 1}, {"edges": []}, {"nodes": PLAIN["nodes"]}, {}):
            changed = (await flows.patch(bench.me, made.id, structure=given)).to_wire()
            assert changed["variation"]["workflowStructure"] == {"nodes": [], "edges": []} | given

    async def test_limits_of_graphs(self, database: str) -> None:
        """`Settings.graph` applies to creates and edits; a graph at the limit passes."""
        two = Settings(graph=GraphLimits(nodes=2, edges=1))
        async with opened(database, settings=two) as small:
            flows = small.core.workflows
            made = await flows.create(small.me, name="f", structure=PLAIN)
            with pytest.raises(Invalid) as error:
                await flows.patch(small.me, made.id, structure=graph("s>a a>b", a=act("echo"), b=act("echo")))
            assert paths(error) == {("workflowStructure.nodes", "maxItems"), ("workflowStructure.edges", "maxItems")}


class TestLife:
    """Interface, States and transitions."""

    async def test_the_table_of_states(self, bench: Bench) -> None:
        """Draft, active and deleted; an illegal operation is 409 with the state and the legal operations."""
        flows, me = bench.core.workflows, bench.me
        number = (await flows.create(me, name="f", structure=PLAIN)).id
        for call in (flows.toggle, flows.discard_draft):
            with pytest.raises(Conflict) as error:
                await call(me, number)
            assert (error.value.info["state"], error.value.info["reason"]) == ("draft", "not_deployed")
        assert (await flows.restore(me, number)).resource.status == "draft"
        gone = await flows.delete(me, number)
        assert (gone.resource.status, gone.resource.deleted_at is None) == ("deleted", False)
        bench.clock.advance(1)
        assert (await flows.delete(me, number)).to_wire() == gone.to_wire()
        for refused in (
            flows.deploy(me, number),
            flows.patch(me, number, name="x"),
            flows.patch(me, number, structure=PLAIN),
            flows.toggle(me, number),
            flows.discard_draft(me, number),
        ):
            with pytest.raises(Conflict) as error:
                await refused
            assert error.value.info["reason"] == "deleted"
            assert set(error.value.info["legal"]) == {"delete", "restore"}
        assert (await flows.restore(me, number)).resource.status == "draft"
        await flows.deploy(me, number)
        await flows.delete(me, number)
        assert (await flows.restore(me, number)).resource.status == "active"

    async def test_deleted_resources_exist_only_for_managers(self, bench: Bench) -> None:
        """Users get 404 and do not see them in lists; managers find them with `status=deleted`."""
        team = (await bench.core.directory.create_group(bench.org, "team")).id
        mine = bench.person("me", groups=[team])
        flows = bench.core.workflows
        access = shared(**{bench.org: (True, False), team: (True, True)})
        number = (await flows.create(mine, name="f", access=access)).id
        await flows.delete(mine, number)
        with pytest.raises(NotFound):
            await flows.get(bench.other, number)
        assert [view.id for view in await flows.page(mine, status="deleted")] == [number]
        assert await flows.page(mine) == await flows.page(bench.other, status="deleted") == []

    async def test_toggling_the_schedule(self, bench: Bench) -> None:
        """Toggle flips or sets; without a schedule it is 422; delete and restore leave it disabled."""
        flows, me = bench.core.workflows, bench.me
        schedule = {"frequency": "daily", "timezone": "Europe/Berlin", "time_of_day": "09:30"}
        number = await bench.deployed(PLAIN, trigger={"trigger_type": "schedule", "schedule": schedule})
        assert (await flows.toggle(me, number)).resource.is_enabled
        assert (await flows.toggle(me, number, {"isEnabled": True})).resource.is_enabled
        assert not (await flows.toggle(me, number)).resource.is_enabled
        await flows.toggle(me, number)
        await flows.delete(me, number)
        assert not (await flows.restore(me, number)).resource.is_enabled
        await flows.toggle(me, number, is_enabled=True)
        await flows.patch(me, number, trigger=None)
        assert not (await flows.deploy(me, number)).resource.is_enabled
        with pytest.raises(Invalid):
            await flows.toggle(me, number)
        assert not (await flows.toggle(me, number, is_enabled=False)).resource.is_enabled

    async def test_skills_have_the_same_lifecycle(self, bench: Bench) -> None:
        """A skill's content is at the top level; it is created, edited, deployed and deleted like a workflow."""
        skills, me = bench.core.skills, bench.me
        view = await skills.create(me, name="Writer", instructions=["write"], toolset={"echo": {"enabled": True}})
        assert set(FIELDS[Kind.SKILL]) - set(view.to_wire()) == {"pendingOwnershipTransfer"}
        await skills.patch(me, view.id, model="default", description="d")
        deployed = (await skills.deploy(me, view.id)).to_wire()
        assert deployed["variation"]["instructions"] == ["write"]
        assert (deployed["variation"]["model"], deployed["status"]) == ("default", "active")
        assert (await skills.delete(me, view.id)).resource.status == "deleted"

    async def test_bad_view(self, bench: Bench) -> None:
        """An unknown `view` is 400."""
        with pytest.raises(Malformed):
            await bench.core.workflows.get(bench.me, 1, "other")
