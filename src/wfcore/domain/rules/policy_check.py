"""The verdicts on the policies of an organization for the content of a workflow.

A tool is reached by the action that calls it, by an agent whose skill may use it (less the node's restrictions, and
with the skills below it), and by a node that calls a workflow in which it is reached, by an id that the graph itself
has. An approval protects what follows it by `approved`, in the workflow itself and in the workflows that it calls. A
workflow that is only known when it is called is not looked into.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

import attrs

from wfcore.domain.graph.checks import subordinate_of, workflow_of
from wfcore.domain.graph.node_types import NodeType
from wfcore.domain.graph.structure import Graph, Node, parse_graph, structure_of
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.json_readers import as_list, as_number, as_object, as_text, as_texts, optional_object
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.content import SkillContent, WorkflowContent
from wfcore.domain.resources.supervision import subordinates
from wfcore.domain.rules.checking import Checker
from wfcore.domain.rules.policies import Policy
from wfcore.domain.rules.rules import Never, Outcome, approved
from wfcore.domain.run.effects import WORKFLOW

STATES: Final = 500
"""States of one search. In more the edges alone decide, which can find a path that no run takes."""

ALL_STATES: Final = 4_000
"""States of all searches for one content."""

MAX_DEPTH: Final = 8
"""How deep workflows call each other (docs/guides/graphs.md)."""

MOST_VISITS: Final = 500
"""Looks into called workflows for one policy, before circles of calls count as looked into."""


@attrs.frozen
class Parts:
    """What a content refers to: the active contents of workflows and skills, by id.

    `hidden` are the workflows of which a counter-example shows nothing, since its reader cannot use them.
    """

    workflows: Mapping[int, WorkflowContent] = attrs.field(factory=dict)
    skills: Mapping[int, SkillContent] = attrs.field(factory=dict)
    hidden: frozenset[int] = frozenset()


@attrs.frozen
class PolicyVerdict:
    """Whether a content keeps a policy. If it does not, `path` are the ids of nodes from the start to the one that
    breaks it; those of a called workflow are named as in `call/pay`. `node` is the position of the first of them in the
    content that is not just passed, `fault` says what is wrong there.
    """

    policy: Policy
    path: tuple[str, ...] = ()
    node: int = 0
    fault: str = ""

    @property
    def is_kept(self) -> bool:
        return not self.path

    def to_wire(self) -> dict[str, JSON]:
        """As a part of an impact."""
        return {
            "policyId": self.policy.id,
            "name": self.policy.name,
            "severity": self.policy.severity,
            "status": "kept" if self.is_kept else "broken",
            "counterExample": list(self.path) or None,
        }

    def issue(self) -> Issue:
        """The issue of a broken policy."""
        name = self.policy.name if len(self.policy.name) <= 100 else f"{self.policy.name[:100]}..."
        message = f"policy `{name}`: {self.fault}: {' -> '.join(self.path)}"
        path = f"workflowStructure.nodes[{self.node}]"
        return Issue(path, message, "policy", self.policy.severity, counter_example=self.path)


def check_policies(
    content: WorkflowContent, policies: Sequence[Policy], parts: Parts, by_hand: Collection[str] = ()
) -> list[PolicyVerdict]:
    """The verdict on each policy, for a content that can be deployed. `parts` has what it refers to.

    The approvals of the nodes `by_hand` do not count: people did not decide them.
    """
    graphs = _Graphs()
    return [_Check(policy, parts, graphs, by_hand).verdict(content) for policy in policies]


def lost_by_hand(
    content: WorkflowContent, policies: Sequence[Policy], parts: Parts, by_hand: Collection[str]
) -> list[tuple[Policy, str]]:
    """The policies that the content keeps only with the approvals of the nodes `by_hand`, each with such a node that
    it counts.
    """
    kept = [one.policy for one in check_policies(content, policies, parts) if one.is_kept]
    lost = [one.policy for one in check_policies(content, kept, parts, by_hand) if not one.is_kept]
    nodes = [node for node in parse_graph(structure_of(content)).nodes if node.id in by_hand]
    return [(policy, node.id) for policy in lost for node in nodes if _qualifies(policy, node)]


def check_skill_policies(content: SkillContent, policies: Sequence[Policy], parts: Parts) -> list[PolicyVerdict]:
    """The same for a skill's content: whether tools are together. What is required of nodes depends on workflows."""
    skill = attrs.evolve(parts, skills={**parts.skills, 0: content})
    node: dict[str, JSON] = {"id": "agent", "type": "agent", "data": {"agent_id": 0}}
    edge = {"id": "edge", "source": "start", "target": "agent"}
    structure: dict[str, JSON] = {"nodes": [{"id": "start", "type": "start"}, node], "edges": [edge]}
    chosen = [policy for policy in policies if "notTogether" in policy.require]
    return check_policies(WorkflowContent(workflow_structure=structure), chosen, skill)


def references(content: WorkflowContent) -> tuple[set[int], set[int]]:
    """The ids of the workflows and of the skills that the nodes of a workflow's content name."""
    nodes = parse_graph(structure_of(content)).nodes
    workflows = {number for node in nodes if (number := _called(node)) is not None}
    return workflows, {number for node in nodes if (number := _skill(node)) is not None}


def _called(node: Node) -> int | None:
    return workflow_of(node.data.get("params")) if node.data.get("toolId") == WORKFLOW else None


def _skill(node: Node) -> int | None:
    number = node.data.get("agent_id") if node.type is NodeType.AGENT else None
    return int(number) if isinstance(number, int | float) and not isinstance(number, bool) else None


class _Graphs:
    """The graphs of contents, each prepared once, and the states that can still be visited."""

    def __init__(self) -> None:
        self.left = ALL_STATES
        self._known: dict[int, tuple[WorkflowContent, Graph, Checker]] = {}

    def of(self, content: WorkflowContent) -> tuple[Graph, Checker]:
        if id(content) not in self._known:
            structure = structure_of(content)
            self._known[id(content)] = content, parse_graph(structure), Checker(structure)
        _, graph, checker = self._known[id(content)]
        return graph, checker


@attrs.frozen
class _Break:
    """Where a policy is broken: the path within one content, and what is wrong at its end."""

    path: tuple[str, ...]
    node: int
    fault: str


class _Check:
    """Checks one policy."""

    def __init__(self, policy: Policy, parts: Parts, graphs: _Graphs, by_hand: Collection[str]) -> None:
        self._policy, self._parts, self._graphs, self._by_hand = policy, parts, graphs, by_hand
        self._known: dict[int, _Break | None] = {}
        self._open, self._cut, self._visited = set[int](), set[int](), 0

    def verdict(self, content: WorkflowContent) -> PolicyVerdict:
        found = self._first_break(content, 0)
        return (
            PolicyVerdict(self._policy, found.path, found.node, found.fault) if found else PolicyVerdict(self._policy)
        )

    def _first_break(self, content: WorkflowContent, depth: int) -> _Break | None:
        """The first node, in the order of the graph, that breaks the policy and can be reached."""
        graph, checker = self._graphs.of(content)
        by_hand = () if depth else self._by_hand
        unless = [
            approved(node.id) for node in graph.nodes if node.id not in by_hand and _qualifies(self._policy, node)
        ]
        reached = checker.reached(unless)
        for index, node in enumerate(graph.nodes):
            inner = self._within(node, depth) if node.id in reached else None
            if inner is not None and (path := self._path(checker, node, unless)):
                return _Break((*path, *(f"{node.id}/{name}" for name in inner.path)), index, inner.fault)
        return None

    def _path(self, checker: Checker, node: Node, unless: Sequence[Outcome]) -> tuple[str, ...]:
        """The nodes from the start to this one; empty if no run reaches it before these outcomes."""
        checker.most_states = min(STATES, self._graphs.left)
        verdict = checker.verdict(Never(node.id, tuple(unless)))
        self._graphs.left = max(self._graphs.left - verdict.states, 0)
        return verdict.counter_example.path if verdict.counter_example else ()

    # What is wrong at one node

    def _within(self, node: Node, depth: int) -> _Break | None:
        """Why the node breaks the policy, or the workflow that it calls does; the path is that within the latter."""
        if node.type is NodeType.AGENT:
            return self._at_agent(node)
        if node.type is not NodeType.ACTION:
            return None
        tool_id = as_text(node.data["toolId"])
        if self._policy.selects(tool_id) and (fault := self._fault(node, f"`{tool_id}` is called")):
            return _Break((), 0, fault)
        number = _called(node)
        is_limited = "timeout" in self._policy.require and "timeoutSeconds" in node.data  # with all that a child does
        return None if number is None or is_limited else self._in_child(number, depth + 1)

    def _in_child(self, number: int, depth: int) -> _Break | None:
        """Where the workflow breaks the policy. Workflows that call each other in a circle are looked into once on each
        way there: what is kept then holds only inside the circle, and is not remembered.
        """
        if number in self._known:
            return self._known[number]
        if number in self._open:
            self._cut.add(number)
            return None
        if depth > MAX_DEPTH or number not in self._parts.workflows:
            return None
        before, self._cut = self._cut, set()
        self._open.add(number)
        found = self._first_break(self._parts.workflows[number], depth)
        self._open.remove(number)
        if found is not None and number in self._parts.hidden:
            found = _Break((), 0, "a workflow is called that does not keep it")
        self._visited += 1
        cut = self._cut - {number}
        self._cut = before | cut
        if found is not None or not cut or self._visited > MOST_VISITS:
            self._known[number] = found
        return found

    def _at_agent(self, node: Node) -> _Break | None:
        tools = [one for one in self._skills(node) if one]
        if "notTogether" in self._policy.require:
            fault = next(filter(None, map(self._together, tools)), None) if self._is_about(tools) else None
            return _Break((), 0, fault) if fault else None
        reached = sorted(tool for one in tools for tool in one if self._policy.selects(tool))
        if "agent" in self._policy.when:
            fault = self._fault(node, "an agent runs")
        elif reached and not all(self._approves(one.get(tool)) for one in tools for tool in reached if tool in one):
            fault = self._fault(node, f"`{reached[0]}` can be called by an agent")
        else:
            fault = None
        return _Break((), 0, fault) if fault else None

    def _is_about(self, tools: Sequence[Mapping[str, bool]]) -> bool:
        return "agent" in self._policy.when or any(self._policy.selects(tool) for one in tools for tool in one)

    def _skills(self, node: Node) -> Iterator[Mapping[str, bool]]:
        """The tools of the node's skill, and of each skill that can be called below it, with whether each call needs an
        approval. Subordinates that a toolset disables, or the node's restrictions leave out, cannot be called.
        """
        allowed, waiting, known = node.data.get("tool_restrictions"), [_skill(node)], set[int | None]()
        while waiting:
            number = waiting.pop()
            content = self._parts.skills.get(number) if number is not None and number not in known else None
            if content is None:
                continue
            tools = {name: setting.requires_approval is True for name, setting in content.enabled_tools.items()}
            below = subordinates(content) - set(map(subordinate_of, content.toolset.keys() - content.enabled_tools))
            if not known and allowed is not None:
                tools = {name: has_approval for name, has_approval in tools.items() if name in as_list(allowed)}
                below &= set(map(subordinate_of, as_texts(allowed)))
            known.add(number)
            waiting += sorted(below)
            yield tools

    def _approves(self, has_approval: bool | None) -> bool:
        """Whether an approval of the call itself is enough: by anybody, so not by a group or by several."""
        required = optional_object(self._policy.require.get("approval"))
        by_anybody = required is not None and not required.get("groups")
        return by_anybody and bool(has_approval) and as_number((required or {}).get("requiredApprovals", 1)) <= 1

    def _fault(self, node: Node, what: str) -> str | None:
        """What the policy requires and the node itself does not have."""
        match next(iter(self._policy.require)):
            case "approval":
                has_approval = node.type is NodeType.ACTION and node.data.get("requiresApproval") is True
                return None if self._approves(has_approval) else f"{what} without {_approval(self._policy.require)}"
            case "timeout":
                return None if "timeoutSeconds" in node.data else f"{what} without `timeoutSeconds`"
            case "retry":
                retry = optional_object(node.data.get("retry")) or {}
                return None if as_number(retry.get("maxAttempts", 1)) > 1 else f"{what} without a `retry`"
        return None  # tools that are not together: of agents only

    def _together(self, tools: Mapping[str, bool]) -> str | None:
        """The two tools of one skill that must not be together."""
        globs = as_texts(self._policy.require["notTogether"])
        one, other = ([tool for tool in sorted(tools) if fnmatchcase(tool, glob)] for glob in globs)
        pair = next(((first, second) for first in one for second in other if first != second), None)
        return pair and f"an agent has `{pair[0]}` and `{pair[1]}` together"


def _qualifies(policy: Policy, node: Node) -> bool:
    """Whether this humanApproval is one that the policy requires."""
    required = optional_object(policy.require.get("approval"))
    if required is None or node.type is not NodeType.HUMAN_APPROVAL or node.data.get("onTimeout") == "approve":
        return False
    if as_number(node.data.get("requiredApprovals", 1)) < as_number(required.get("requiredApprovals", 1)):
        return False
    groups = frozenset(as_texts(required.get("groups") or ()))
    return not groups or (
        "approvers" in node.data
        and all(_only_of(node.data[key], groups) for key in ("approvers", "escalateTo") if key in node.data)
    )


def _only_of(approvers: JSON, groups: frozenset[str]) -> bool:
    named = as_object(approvers)
    return not named.get("emails") and bool(named.get("groups")) and groups.issuperset(as_texts(named["groups"]))


def _approval(require: Mapping[str, JSON]) -> str:
    required = as_object(require["approval"])
    count = int(as_number(required.get("requiredApprovals", 1)))
    groups = " or ".join(f"`{group}`" for group in as_texts(required.get("groups") or ()))
    by = f" by {count} people" if count > 1 else ""
    return f"an approval{by}{f' of group {groups}' if groups else ''}"
