"""Policies through the library: who changes them, and what they do at a deploy, a rollback and a validation."""

from typing import Any

import attrs
import pytest
from bench import Bench, act, agent, ask, deployed_skill, graph, paths, private

from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid, Malformed, NotFound
from wfcore.domain.resources.access import Principal
from wfcore.domain.rules.policies import MOST_POLICIES
from wfcore.runtime.resources import policy_checks

pytestmark = pytest.mark.anyio

RETRIED: Any = {"when": {"tool": "echo"}, "require": {"retry": True}}


@pytest.fixture
async def admin(bench: Bench) -> Principal:
    return await bench.joined("admin", "admin")


async def finance(bench: Bench, admin: Principal, severity: str = "error") -> str:
    """A policy: calls of `echo` are approved by two of a group. Returns the group."""
    group = (await bench.core.groups.create(admin, name="Finance")).id
    require: Any = {"approval": {"groups": [group], "requiredApprovals": 2}}
    fields: Any = {"name": "Money", "when": {"tool": "echo"}, "require": require, "severity": severity}
    await bench.core.policies.create(admin, fields)
    return group


def asking(group: str, **data: Any) -> dict[str, Any]:
    node = ask(approvers={"groups": [group]}, requiredApprovals=2, **data)
    return graph("s>ask ask:approved>pay", ask=node, pay=act("echo", value=1))


BARE = graph("s>pay", pay=act("echo", value=1))


class TestRecords:
    """Create, read, change, delete."""

    async def test_admins_write_and_members_read(self, bench: Bench, admin: Principal) -> None:
        """Every change is in the audit; a change without a difference is none."""
        policies = bench.core.policies
        made = await policies.create(admin, name="P", **RETRIED)
        assert made.to_wire() == {"id": made.id, "name": "P", "severity": "error", **RETRIED}
        assert await policies.get(bench.me, made.id) == made
        changed = await policies.patch(admin, made.id, severity="warning")
        assert changed == attrs.evolve(made, severity="warning")
        assert await policies.patch(admin, made.id, {"name": "P"}) == changed
        moved = await policies.patch(admin, made.id, name="Q", when={"agent": True}, require={"timeout": True})
        assert (moved.when, moved.require, moved.severity) == ({"agent": True}, {"timeout": True}, "warning")
        assert await policies.page(bench.other) == [moved]
        assert await policies.delete(admin, made.id) == moved
        for again in (policies.get, policies.patch, policies.delete):
            with pytest.raises(NotFound):
                await again(admin, made.id)
        actions = [row.row.action for row in await bench.core.audit.page(admin)]
        assert [one for one in actions if one.startswith("policy")] == [
            "policy.delete", "policy.update", "policy.update", "policy.create",
        ]  # fmt: skip

    async def test_members_change_nothing(self, bench: Bench, admin: Principal) -> None:
        """Forbidden, whatever the body."""
        policies = bench.core.policies
        made = await policies.create(admin, name="P", **RETRIED)
        for call in (
            policies.create(bench.me, name="P", **RETRIED),
            policies.patch(bench.me, made.id, {"nope": 1}),
            policies.delete(bench.me, made.id),
        ):
            with pytest.raises(Forbidden):
                await call
        assert await policies.page(bench.me) == [made]

    async def test_a_deleted_group_does_not_stop_a_change_of_the_rest(self, bench: Bench, admin: Principal) -> None:
        """Its policy can become a warning; a new requirement that names it is refused."""
        group = await finance(bench, admin)
        await bench.core.groups.delete(admin, group)
        policies = bench.core.policies
        [kept] = await policies.page(admin)
        changed = await policies.patch(admin, kept.id, severity="warning", require=dict(kept.require))
        assert changed == attrs.evolve(kept, severity="warning")
        with pytest.raises(Invalid, match="there is no group"):
            await policies.patch(admin, kept.id, {"require": {"approval": {"groups": [group]}}})

    async def test_a_key_creates_once_and_an_etag_protects(self, bench: Bench, admin: Principal) -> None:
        """The same key and body return the same policy; an outdated ETag is a conflict."""
        policies = bench.core.policies
        made = await policies.create(admin, name="P", key="k", **RETRIED)
        assert await policies.create(admin, name="P", key="k", **RETRIED) == made
        with pytest.raises(Conflict):
            await policies.create(admin, name="Q", key="k", **RETRIED)
        for call in (policies.patch, policies.delete):
            with pytest.raises(Conflict):
                await call(admin, made.id, if_match='"old"')

    @pytest.mark.parametrize(
        ("fields", "error", "path"),
        [
            ({"when": {"agent": True}, "require": {"retry": True}}, Malformed, "name"),
            ({"name": "P", "require": {"retry": True}}, Malformed, "when"),
            ({"name": "P", "when": {}, "require": {"retry": True}}, Invalid, "when"),
            ({"name": "P", "when": {"agent": True, "tool": "x"}, "require": {"retry": True}}, Invalid, "when"),
            ({"name": "P", "when": {"agent": False}, "require": {"retry": True}}, Invalid, "when.agent"),
            ({"name": "P", "when": {"agent": 1}, "require": {"retry": True}}, Malformed, "when.agent"),
            ({"name": "P", "when": {"tool": ""}, "require": {"retry": True}}, Invalid, "when.tool"),
            ({"name": "P", "when": {"model": "x"}, "require": {"retry": True}}, Invalid, "when.model"),
            ({"name": "P", "when": {"agent": True}, "require": {"notTogether": ["x"]}}, Invalid, "require.notTogether"),
            (
                {"name": "P", "when": {"agent": True}, "require": {"approval": {"groups": ["nobody"]}}},
                Invalid, "require.approval.groups[0]",
            ),
            ({"name": "P", **RETRIED, "severity": "low"}, Invalid, "severity"),
        ],
    )  # fmt: skip
    async def test_bad_bodies(self, bench: Bench, admin: Principal, fields: Any, error: Any, path: str) -> None:
        """Each error has its path; nothing is written."""
        with pytest.raises(error) as caught:
            await bench.core.policies.create(admin, fields)
        assert next(issue["path"] for issue in caught.value.info["errors"]) == path
        assert await bench.core.policies.page(admin) == []

    async def test_there_is_a_limit(self, bench: Bench, admin: Principal) -> None:
        """Each deploy checks all of them."""
        for _ in range(MOST_POLICIES):
            await bench.core.policies.create(admin, name="P", **RETRIED)
        with pytest.raises(Conflict, match="at most 100 policies"):
            await bench.core.policies.create(admin, name="P", **RETRIED)


class TestRetries:
    """What people have to decide is not decided by hand."""

    async def test_an_output_cannot_stand_for_an_approval(self, bench: Bench, admin: Principal) -> None:
        """Of a node on which a policy rests: it can be denied by hand, or asked again; other approvals can be given."""
        group = await finance(bench, admin)
        more = {"approvers": {"groups": [group]}, "requiredApprovals": 2}
        structure = graph(
            "s>first first:approved>ask ask:approved>pay", first=ask(), ask=ask(**more), pay=act("echo", value=1)
        )
        number = await bench.deployed(structure)
        runs = bench.core.runs
        run = await bench.ended(await runs.start(bench.me, workflow=number, input={}))
        await runs.cancel(bench.me, run.id)
        for version in ("pinned", "published"):
            with pytest.raises(Invalid) as error:
                await runs.retry(bench.me, run.id, outputs={"first": "approve", "ask": "approve"}, version=version)
            assert paths(error) == {("outputs.ask", "policy")}
        parked = await bench.ended(await runs.retry(bench.me, run.id, outputs={"first": "approve"}))
        assert (parked.status, [one.node_id for one in parked.interrupts]) == ("interrupted", ["ask"])
        await runs.cancel(bench.me, parked.id)
        denied = await bench.ended(await runs.retry(bench.me, parked.id, outputs={"ask": {"decision": "deny"}}))
        assert (denied.status, bench.tools.calls) == ("done", [])

    @pytest.mark.parametrize("case", ["warning", "broken before"])
    async def test_where_no_policy_is_lost(self, bench: Bench, admin: Principal, case: str) -> None:
        """A policy that only warns, or that the deployed graph does not keep anyway, prevents nothing."""
        group = await finance(bench, admin, "warning")
        structure = asking(group)
        if case == "broken before":
            structure["edges"].append({"id": "x", "source": "s", "target": "pay"})
        number = await bench.deployed(structure)
        if case == "broken before":
            (policy,) = await bench.core.policies.page(admin)
            await bench.core.policies.patch(admin, policy.id, severity="error")
        runs = bench.core.runs
        run = await bench.ended(await runs.start(bench.me, workflow=number, input={}))
        await runs.cancel(bench.me, run.id)
        done = await bench.ended(await runs.retry(bench.me, run.id, outputs={"ask": "approve"}))
        assert (done.status, bench.tools.count("echo")) == ("done", 1)


class TestDeploys:
    """What is deployed keeps the policies."""

    async def test_a_broken_policy_prevents_a_deploy(self, bench: Bench, admin: Principal) -> None:
        """With the path around the approval; what keeps it is deployed, and stays so when a policy is added."""
        before = await bench.deployed(BARE)
        group = await finance(bench, admin)
        flows = bench.core.workflows
        number = (await flows.create(bench.me, name="w", structure=BARE)).id
        with pytest.raises(Invalid) as error:
            await flows.deploy(bench.me, number)
        assert paths(error) == {("workflowStructure.nodes[1]", "policy")}
        assert error.value.info["path"] == ["s", "pay"]
        issue: Any = error.value.info["errors"]
        assert issue[0]["counterExample"] == ["s", "pay"]
        assert (await flows.get(bench.me, number)).resource.active_variation_id is None
        await flows.patch(bench.me, number, structure=asking(group))
        assert (await flows.deploy(bench.me, number)).resource.status == "active"
        assert (await flows.get(bench.me, before)).resource.status == "active"

    async def test_each_broken_policy_is_an_error(self, bench: Bench, admin: Principal) -> None:
        """The path of the first is that of the response."""
        await finance(bench, admin)
        await bench.core.policies.create(admin, name="R", **RETRIED)
        number = (await bench.core.workflows.create(bench.me, name="w", structure=BARE)).id
        with pytest.raises(Invalid) as error:
            await bench.core.workflows.deploy(bench.me, number)
        errors: Any = error.value.info["errors"]
        assert [issue["message"].partition(":")[0] for issue in errors] == ["policy `Money`", "policy `R`"]

    async def test_a_rollback_is_checked_too(self, bench: Bench, admin: Principal) -> None:
        """An earlier variation has to keep the policies of now."""
        flows, number = bench.core.workflows, await bench.deployed(BARE)
        old = (await flows.get(bench.me, number)).resource.active_variation_id
        group = await finance(bench, admin)
        await flows.patch(bench.me, number, structure=asking(group))
        await flows.deploy(bench.me, number)
        with pytest.raises(Invalid) as error:
            await flows.rollback(bench.me, number, variation_id=old)
        assert paths(error) == {("workflowStructure.nodes[1]", "policy")}

    async def test_a_warning_is_shown_and_prevents_nothing(self, bench: Bench, admin: Principal) -> None:
        """A validation lists errors and warnings, of what is saved and of what is not."""
        await finance(bench, admin, "warning")
        flows, number = bench.core.workflows, await bench.deployed(BARE)
        found = await flows.validate_saved(bench.me, number, "active")
        assert [(issue.rule, issue.severity, issue.counter_example) for issue in found] == [
            ("policy", "warning", ("s", "pay"))
        ]
        body = {"name": "w", "type": "workflow", "workflowStructure": BARE}
        assert [issue.rule for issue in await flows.validate(bench.me, body)] == ["policy"]

    async def test_a_graph_that_cannot_run_is_not_checked(self, bench: Bench, admin: Principal) -> None:
        """Its own errors come first."""
        await finance(bench, admin)
        broken = graph("s>pay s>x", pay=act("echo", value=1), x=act("nope"))
        number = (await bench.core.workflows.create(bench.me, name="w", structure=broken)).id
        with pytest.raises(Invalid) as error:
            await bench.core.workflows.deploy(bench.me, number)
        assert {rule for _, rule in paths(error)} == {"reference"}

    async def test_children_and_agents_count(self, bench: Bench, admin: Principal) -> None:
        """Workflows by a literal id, skills of agents and those below them, whatever level they are at."""
        skill = await deployed_skill(bench, toolset={"echo": {"enabled": True}})
        above = await deployed_skill(bench, supervisionSubordinateIds=[str(skill)])
        inner = await bench.deployed(graph("s>a", a=agent(agent_id=above, message="hi")))
        outer = await bench.deployed(graph("s>b", b=act("core.workflow", workflowId=inner)))
        await finance(bench, admin)
        flows = bench.core.workflows
        calling = graph("s>c", c=act("core.workflow", workflowId=outer))
        number = (await flows.create(bench.me, name="w", structure=calling)).id
        with pytest.raises(Invalid) as error:
            await flows.deploy(bench.me, number)
        assert error.value.info["path"] == ["s", "c", "c/s", "c/b", "c/b/s", "c/b/a"]
        await bench.core.skills.delete(bench.me, above)
        assert (await flows.deploy(bench.me, number)).resource.status == "active"

    async def test_a_counter_example_shows_nothing_of_a_hidden_workflow(self, bench: Bench, admin: Principal) -> None:
        """A workflow that the deployer cannot use, which another one calls, is not named from inside."""
        inner = await bench.deployed(BARE)
        outer = await bench.deployed(graph("s>b", b=act("core.workflow", workflowId=inner)))
        await bench.core.workflows.patch(bench.me, inner, access_config=private())
        await finance(bench, admin)
        calling = graph("s>c", c=act("core.workflow", workflowId=outer))
        number = (await bench.core.workflows.create(bench.other, name="w", structure=calling)).id
        with pytest.raises(Invalid) as error:
            await bench.core.workflows.deploy(bench.other, number)
        assert error.value.info["path"] == ["s", "c", "c/s", "c/b"]

    async def test_a_draft_is_not_looked_into(self, bench: Bench, admin: Principal) -> None:
        """What is not deployed does not run."""
        inner = (await bench.core.workflows.create(bench.me, name="w", structure=BARE)).id
        await finance(bench, admin)
        calling = graph("s>c", c=act("core.workflow", workflowId=inner))
        assert await bench.deployed(calling)

    async def test_tools_of_a_skill_are_not_together(self, bench: Bench, admin: Principal) -> None:
        """Checked when the skill is deployed; what depends on a workflow is checked with the workflow."""
        await finance(bench, admin)
        together: Any = {"notTogether": ["echo", "hold"]}
        await bench.core.policies.create(admin, name="T", when={"agent": True}, require=together)
        assert await deployed_skill(bench, toolset={"echo": {"enabled": True}})
        both = {"echo": {"enabled": True}, "hold": {"enabled": True}}
        skill = (await bench.core.skills.create(bench.me, name="s", toolset=both)).id
        with pytest.raises(Invalid) as error:
            await bench.core.skills.deploy(bench.me, skill)
        assert paths(error) == {("toolset", "policy")}
        assert error.value.info["path"] == ["start", "agent"]

    async def test_verdicts_are_those_of_the_transaction(
        self, bench: Bench, admin: Principal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """They are prepared before it; a policy that is added meanwhile is checked all the same."""
        prepared, read = list[Any](), policy_checks.check_inputs
        number = (await bench.core.workflows.create(bench.me, name="w", structure=BARE)).id
        await bench.core.policies.create(admin, name="R", **RETRIED, severity="warning")

        async def check(inputs: Any, known: Any = None) -> Any:
            found = await read(inputs, known)
            prepared.append((known is not None, found is known))
            if known is None:
                await finance(bench, admin)
            return found

        monkeypatch.setattr("wfcore.runtime.resources.resources.check_inputs", check)
        with pytest.raises(Invalid):
            await bench.core.workflows.deploy(bench.me, number)
        assert prepared == [(False, False), (True, False)]
