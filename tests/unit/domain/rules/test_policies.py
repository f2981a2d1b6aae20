"""Policies: what selects a tool, what qualifies, and the counter-examples in workflows, children and agents."""

from typing import Any

import pytest

from wfcore.domain.kernel.errors import Invalid, refuse
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.content import SkillContent, WorkflowContent, as_skill, content_of
from wfcore.domain.rules.policies import Policy, policy_body_issues
from wfcore.domain.rules.policy_check import (
    Parts,
    PolicyVerdict,
    check_policies,
    check_skill_policies,
    references,
)
from wfcore.testing.histories import sketch

FINANCE, LEGAL = "f1", "l1"
REFUND: Any = {"toolId": "send_refund"}
TWICE: Any = {"approval": {"groups": [FINANCE], "requiredApprovals": 2}}


def asks(*groups: str, count: int = 2, **data: Any) -> dict[str, JSON]:
    return {"type": "humanApproval", "approvers": {"groups": [*groups]}, "requiredApprovals": count, **data}


def policy(when: Any, require: Any, severity: Any = "error") -> Policy:
    return Policy("p", "Money", when, require, severity)


def verdict(one: Policy, *edges: str, parts: Parts | None = None, **data: Any) -> PolicyVerdict:
    content = WorkflowContent(workflow_structure=sketch(*edges, **data))
    return check_policies(content, [one], parts or Parts())[0]


def path(one: Policy, *edges: str, parts: Parts | None = None, **data: Any) -> tuple[str, ...]:
    return verdict(one, *edges, parts=parts, **data).path


MONEY = policy({"tool": "send_*"}, TWICE)
ASKED = "s -> ask", "ask -approved-> pay"


def test_an_approval_that_qualifies_keeps_the_policy() -> None:
    """By two of the group, left by `approved`; more approvers of the group or of several required ones do too."""
    assert verdict(MONEY, *ASKED, ask=asks(FINANCE), pay=REFUND).is_kept
    assert verdict(MONEY, *ASKED, ask=asks(FINANCE, count=3), pay=REFUND).is_kept
    both = policy({"tool": "send_refund"}, {"approval": {"groups": [FINANCE, LEGAL]}})
    assert verdict(both, *ASKED, ask=asks(LEGAL, count=1), pay=REFUND).is_kept
    assert verdict(MONEY, "s -> other").is_kept


@pytest.mark.parametrize(
    "ask",
    [
        asks(FINANCE, count=1),
        asks(LEGAL),
        asks(FINANCE, LEGAL),
        asks(FINANCE, timeoutSeconds=9, onTimeout="approve"),
        asks(FINANCE, approvers={"groups": [FINANCE], "emails": ["a@x.org"]}),
        asks(FINANCE, approvers={"emails": ["a@x.org"]}),
        asks(FINANCE, escalateAfterSeconds=9, escalateTo={"groups": [LEGAL]}),
        {"type": "humanApproval", "requiredApprovals": 2},
        {"toolId": "tool", "requiresApproval": True},
    ],
)
def test_another_approval_does_not_qualify(ask: Any) -> None:
    """Too few, others, by e-mail, by the deadline, by those it is escalated to, by everybody, of a call."""
    edge = "ask -> pay" if "toolId" in ask else "ask -approved-> pay"
    assert path(MONEY, "s -> ask", edge, ask=ask, pay=REFUND) == ("s", "ask", "pay")


def test_the_counter_example_is_a_path_around_the_approval() -> None:
    """Of the ways to the tool, one that no approval is on; the issue names it and the node."""
    found = verdict(MONEY, *ASKED, "s -> c", "c -else-> pay", ask=asks(FINANCE), pay=REFUND, c={
        "type": "condition", "branches": [{"handle": "big", "when": "input.n > 10"}]})  # fmt: skip
    assert found.path == ("s", "c", "pay")
    assert found.fault == "`send_refund` is called without an approval by 2 people of group `f1`"
    assert found.issue().to_wire() == {
        "path": "workflowStructure.nodes[2]",
        "message": f"policy `Money`: {found.fault}: s -> c -> pay",
        "rule": "policy",
        "counterExample": ["s", "c", "pay"],
    }
    assert found.to_wire() == {
        "policyId": "p", "name": "Money", "severity": "error", "status": "broken", "counterExample": ["s", "c", "pay"],
    }  # fmt: skip
    with pytest.raises(Invalid) as raised:
        refuse([found.issue()], as_invalid=True)
    assert raised.value.info["path"] == ["s", "c", "pay"]
    refuse([verdict(policy(MONEY.when, TWICE, "warning"), "s -> pay", pay=REFUND).issue()], as_invalid=True)
    assert verdict(MONEY, "s -> a").to_wire()["counterExample"] is None
    long = verdict(Policy("p", "x" * 200, MONEY.when, TWICE), "s -> pay", pay=REFUND).issue()
    assert "x" * 100 + "...`" in long.message


def test_a_denial_that_ends_the_run_is_not_a_way_around() -> None:
    """Where edges alone show a path, the simulation knows that no run takes it."""
    data: Any = {"ask": asks(FINANCE), "pay": REFUND, "stop": {"toolId": "core.fail", "params": {}}}
    edges = *ASKED, "ask -denied-> stop", "ask -denied-> b", "b -> pay"
    assert verdict(MONEY, *edges, **data).is_kept


def test_of_too_many_states_the_edges_decide() -> None:
    """A path of the edges is a counter-example then, even if no run may take it."""
    rest = [edge for n in range(9) for edge in (f"h -> a{n}", f"a{n} -> b{n}", f"b{n} -> c")]
    again: Any = {"type": "condition", "branches": [{"handle": "again", "when": "input.x"}]}
    edges = "s -> h", *rest, "c -again-> h", "c -else-> pay"
    assert path(MONEY, *edges, c=again, pay=REFUND) == ("s", "h", "a0", "b0", "c", "pay")
    content = WorkflowContent(workflow_structure=sketch(*edges, c=again, pay=REFUND))
    found = check_policies(content, [MONEY] * 12, Parts())
    assert {one.path for one in found} == {("s", "h", "a0", "b0", "c", "pay")}


ANYBODY = policy({"tool": "send_refund"}, {"approval": {}})


def test_without_groups_anybody_may_approve() -> None:
    """A humanApproval of any approvers, or the approval of the call itself, unless several are required."""
    assert verdict(ANYBODY, *ASKED, ask={"type": "humanApproval"}, pay=REFUND).is_kept
    assert verdict(ANYBODY, "s -> pay", pay={**REFUND, "requiresApproval": True}).is_kept
    two = policy(ANYBODY.when, {"approval": {"requiredApprovals": 2}})
    assert path(two, "s -> pay", pay={**REFUND, "requiresApproval": True}) == ("s", "pay")
    assert "without an approval by 2 people" in verdict(two, "s -> pay", pay=REFUND).fault


def call(number: Any, **data: Any) -> dict[str, JSON]:
    return {"toolId": "core.workflow", "params": {"workflowId": number}, **data}


def parts(*edges: str, skills: Any = None, hidden: Any = (), **data: Any) -> Parts:
    return Parts({7: WorkflowContent(workflow_structure=sketch(*edges, **data))}, skills or {}, frozenset(hidden))


def test_tools_in_children_count() -> None:
    """An approval before the call protects the child, and so does one in it; the path leads into the child."""
    bare = parts("t -> pay", pay=REFUND)
    assert path(MONEY, "s -> child", parts=bare, child=call(7)) == ("s", "child", "child/t", "child/pay")
    assert verdict(MONEY, "s -> ask", "ask -approved-> child", parts=bare, ask=asks(FINANCE), child=call(7)).is_kept
    kept = parts("t -> ask", "ask -approved-> pay", ask=asks(FINANCE), pay=REFUND)
    assert verdict(MONEY, "s -> child", parts=kept, child=call(7.0)).is_kept
    for number in ("{{ 7 }}", "{{ 3 + 4 }}", "{{7.0}}"):  # they read nothing: the graph has the id
        assert path(MONEY, "s -> child", parts=bare, child=call(number)) == ("s", "child", "child/t", "child/pay")
    for number in ("7", " {{ 7 }}", "{{ has(input.n) ? 1 : 7 }}", "{{ 7 / 0 }}", "{{ 'a' }}", 7.5, 0):
        assert verdict(MONEY, "s -> child", parts=bare, child=call(number)).is_kept
    assert verdict(MONEY, "s -> child", parts=bare, child=call(8)).is_kept
    assert verdict(MONEY, "s -> child", parts=bare, child=call("{{ input.n }}")).is_kept
    assert verdict(MONEY, "s -> child", parts=bare, child=call(True)).is_kept
    found = verdict(MONEY, "s -> child", parts=parts("t -> pay", pay=REFUND, hidden=[7]), child=call(7))
    assert (found.path, found.fault) == (("s", "child"), "a workflow is called that does not keep it")


def test_a_workflow_can_call_itself() -> None:
    """What it calls is looked at once; two calls of one workflow have the same verdict."""
    looped = parts("t -> again", "again -> pay", again=call(7), pay=REFUND)
    found = path(MONEY, "s -> a", "a -> child", parts=looped, a=call(9), child=call(7))
    assert found == ("s", "a", "child", "child/t", "child/again", "child/pay")
    endless = parts("t -> again", again=call(7))
    assert verdict(MONEY, "s -> child", "child -> twice", parts=endless, child=call(7), twice=call(7)).is_kept
    deep = Parts({n: WorkflowContent(workflow_structure=sketch("t -> next", next=call(n + 1))) for n in range(1, 12)})
    assert verdict(MONEY, "s -> child", parts=deep, child=call(1)).is_kept


def test_workflows_can_call_each_other() -> None:
    """7 and 8 call each other, and 7 pays. That 8 keeps the policy inside the circle does not hold for a call of 8.

    The first call of 7 is behind a denial that ends the run; the edges alone do not know.
    """
    both = {7: WorkflowContent(workflow_structure=sketch("t -> b", "b -> pay", b=call(8), pay=REFUND)),
            8: WorkflowContent(workflow_structure=sketch("t -> a", a=call(7)))}  # fmt: skip
    data: Any = {"ask": asks(FINANCE), "stop": {"toolId": "core.fail", "params": {}}, "a": call(7), "z": call(8)}
    found = path(
        MONEY, "s -> ask", "ask -denied-> stop", "ask -denied-> b", "b -> a", "s -> z", parts=Parts(both), **data
    )
    assert found == ("s", "z", "z/t", "z/a", "z/a/t", "z/a/b", "z/a/pay")
    many = {n: WorkflowContent(workflow_structure=sketch(*(f"t -> c{m}" for m in range(1, 8)), **{
        f"c{m}": call(m) for m in range(1, 8)})) for n in range(1, 8)}  # fmt: skip
    assert verdict(MONEY, "s -> z", parts=Parts(many), z=call(1)).is_kept


def test_time_outs_and_retries() -> None:
    """Of each selected node; the time-out of a call limits all that the child does."""
    external = policy({"external": True}, {"timeout": True})
    assert path(external, "s -> a", a={"toolId": "core.http"}) == ("s", "a")
    assert path(external, "s -> a", a={"toolId": "mcp.desk.add"}) == ("s", "a")
    assert verdict(external, "s -> a", a={"toolId": "core.http", "timeoutSeconds": 5}).is_kept
    assert verdict(external, "s -> a").is_kept
    bare = parts("t -> get", get={"toolId": "core.http"})
    assert path(external, "s -> child", parts=bare, child=call(7)) == ("s", "child", "child/t", "child/get")
    assert verdict(external, "s -> child", parts=bare, child=call(7, timeoutSeconds=9)).is_kept
    retry = policy({"tool": "core.http"}, {"retry": True})
    assert path(retry, "s -> a", a={"toolId": "core.http", "retry": {"maxAttempts": 1}}) == ("s", "a")
    assert path(retry, "s -> a", a={"toolId": "core.http"}) == ("s", "a")
    assert verdict(retry, "s -> a", a={"toolId": "core.http", "retry": {"maxAttempts": 2}}).is_kept


ON: Any = {"enabled": True}


def skill(*below: int, **tools: Any) -> SkillContent:
    tree: dict[str, JSON] = {"toolset": tools, "supervisionSubordinateIds": [str(number) for number in below]}
    return as_skill(content_of(SkillContent, tree))


def agent(number: int = 1, **data: Any) -> dict[str, JSON]:
    return {"type": "agent", "agent_id": number, **data}


def test_tools_of_agents_count() -> None:
    """Those that its skill may use, less the node's restrictions; and those of the skills below it."""
    armed = Parts({}, {1: skill(send_refund=ON), 2: skill(1, 2), 3: skill(send_refund={"enabled": False})})
    found = verdict(MONEY, "s -> a", parts=armed, a=agent())
    assert (found.path, found.fault) == (
        ("s", "a"), "`send_refund` can be called by an agent without an approval by 2 people of group `f1`",
    )  # fmt: skip
    assert verdict(MONEY, "s -> a", parts=armed, a=agent(tool_restrictions=["echo"])).is_kept
    assert not verdict(MONEY, "s -> a", parts=armed, a=agent(tool_restrictions=["send_refund"])).is_kept
    assert not verdict(MONEY, "s -> a", parts=armed, a=agent(2)).is_kept
    assert verdict(MONEY, "s -> a", parts=armed, a=agent(3)).is_kept
    assert verdict(MONEY, "s -> a", parts=armed, a=agent(9)).is_kept
    assert verdict(MONEY, "s -> a", parts=armed, a={"type": "agent", "message": "hi"}).is_kept
    assert verdict(MONEY, "s -> ask", "ask -approved-> a", parts=armed, ask=asks(FINANCE), a=agent()).is_kept
    assert verdict(policy({"tool": "send_refund"}, {"timeout": True}), "s -> a", parts=armed,
                   a=agent(timeoutSeconds=5)).is_kept  # fmt: skip


def test_subordinates_that_cannot_be_called_do_not_count() -> None:
    """Disabled in the toolset, or left out by the restrictions of the node."""
    off, open_ = {"skill:1": {"enabled": False}}, {"skill:1": ON}
    armed = Parts({}, {1: skill(send_refund=ON), 2: skill(1), 3: skill(1, **off), 4: skill(1, **open_), 5: skill(3, 2)})
    assert verdict(MONEY, "s -> a", parts=armed, a=agent(3)).is_kept
    assert not verdict(MONEY, "s -> a", parts=armed, a=agent(4)).is_kept
    assert not verdict(MONEY, "s -> a", parts=armed, a=agent(5)).is_kept
    assert verdict(MONEY, "s -> a", parts=armed, a=agent(5, tool_restrictions=["skill:3"])).is_kept
    for restrictions in ([], ["echo"], ["send_refund"], ["skill:9"]):
        assert verdict(MONEY, "s -> a", parts=armed, a=agent(2, tool_restrictions=restrictions)).is_kept
    assert not verdict(MONEY, "s -> a", parts=armed, a=agent(2, tool_restrictions=["skill:1"])).is_kept


def test_an_agent_may_need_approval_of_each_call() -> None:
    """Where anybody can approve, the approval of the call is enough, of every selected tool; not a key of the node."""
    asked, bare = (
        Parts({}, {1: skill(send_refund={**ON, "requiresApproval": True})}),
        Parts({}, {1: skill(send_refund=ON)}),
    )
    assert verdict(ANYBODY, "s -> a", parts=asked, a=agent()).is_kept
    assert not verdict(ANYBODY, "s -> a", parts=bare, a=agent()).is_kept
    assert not verdict(ANYBODY, "s -> a", parts=bare, a=agent(requiresApproval=True)).is_kept
    assert not verdict(MONEY, "s -> a", parts=asked, a=agent()).is_kept


def test_agents_themselves_can_be_selected() -> None:
    """Every agent, with a skill or without."""
    limits = policy({"agent": True}, {"timeout": True})
    assert verdict(limits, "s -> a", a=agent()).fault == "an agent runs without `timeoutSeconds`"
    assert verdict(limits, "s -> a", a=agent(timeoutSeconds=9)).is_kept
    assert verdict(limits, "s -> pay", pay=REFUND).is_kept


def test_tools_that_must_not_be_together() -> None:
    """Over the tools of one skill; two agents may have one each, and one tool is not together with itself."""
    apart = policy({"agent": True}, {"notTogether": ["crm.*", "send_*"]})
    both = Parts(
        {}, {1: skill(**{"crm.read": ON, "send_refund": ON}), 2: skill(**{"crm.read": ON}), 3: skill(send_refund=ON)}
    )
    found = verdict(apart, "s -> a", parts=both, a=agent())
    assert (found.path, found.fault) == (("s", "a"), "an agent has `crm.read` and `send_refund` together")
    assert verdict(apart, "s -> a", "a -> b", parts=both, a=agent(2), b=agent(3)).is_kept
    assert verdict(apart, "s -> a", parts=both, a=agent(tool_restrictions=["crm.read"])).is_kept
    assert verdict(apart, "s -> pay", pay=REFUND).is_kept
    same = policy({"agent": True}, {"notTogether": ["send_*", "send_*"]})
    assert verdict(same, "s -> a", parts=both, a=agent(3)).is_kept
    assert verdict(policy({"tool": "other"}, apart.require), "s -> a", parts=both, a=agent()).is_kept
    crm = policy({"tool": "crm.*"}, apart.require)
    assert not verdict(crm, "s -> a", parts=both, a=agent()).is_kept
    assert verdict(crm, "s -> a", parts=both, a={"toolId": "crm.read"}).is_kept


def test_a_skill_is_checked_for_tools_together() -> None:
    """Its own and those of the skills below it; other policies depend on the workflows that use it."""
    apart = policy({"agent": True}, {"notTogether": ["crm.*", "send_*"]})
    below = Parts({}, {5: skill(**{"crm.read": ON, "send_refund": ON})})
    kept = check_skill_policies(skill(send_refund=ON), [apart, MONEY], below)
    assert [one.is_kept for one in kept] == [True]
    assert [one.is_kept for one in check_skill_policies(skill(5), [apart, MONEY], below)] == [False]


def test_references_are_literal_ids() -> None:
    """Workflows that nodes call and skills of agents."""
    content = WorkflowContent(workflow_structure=sketch(
        "s -> a", "a -> b", "b -> c", "c -> d", a=call(7), b=call("{{ input.n }}"), c=agent(4),
        d={"type": "agent", "message": "x"},
    ))  # fmt: skip
    assert references(content) == ({7}, {4})
    assert references(WorkflowContent()) == (set(), set())


@pytest.mark.parametrize(
    ("when", "require", "faults"),
    [
        ({"tool": "x"}, {"timeout": True}, set()),
        ({}, {}, {"when", "require"}),
        ({"tool": "x", "agent": True}, {"timeout": True, "retry": True}, {"when", "require"}),
        ({"agent": False}, {"timeout": False}, set()),
        (7, None, set()),
    ],
)
def test_bodies_have_one_key_each(when: Any, require: Any, faults: set[str]) -> None:
    """The shape itself is checked elsewhere."""
    assert {issue.path for issue in policy_body_issues({"when": when, "require": require})} == faults


def test_a_policy_on_the_wire() -> None:
    """Its conditions are objects with one key."""
    policy = Policy("p", "Pay with care", {"tool": "pay"}, {"approval": True}, "warning")
    assert policy.to_wire() == {
        "id": "p", "name": "Pay with care", "when": {"tool": "pay"}, "require": {"approval": True},
        "severity": "warning",
    }  # fmt: skip
