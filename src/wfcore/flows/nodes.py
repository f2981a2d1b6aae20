"""The nodes of a flow, and their handles as attributes: `ask.denied`, `pay.failed`, `check["large"]`."""

from collections.abc import Callable

import attrs

from wfcore.flows.expressions import Expr
from wfcore.flows.origins import refused


@attrs.frozen(eq=False)
class Exit:
    """A handle of a node, where edges begin; None is the unnamed handle."""

    node: "FlowNode"
    handle: str | None

    def to(self, *targets: "FlowNode") -> "FlowNode":
        """Draw an edge to each node, also back to an earlier one. Returns the last of them."""
        if not targets:
            raise refused("`to` needs a node")
        for target in targets:
            self.node.connect(self, target)
        return targets[-1]


@attrs.frozen(eq=False)
class FlowNode:
    """A node of a flow."""

    id: str
    connect: Callable[[Exit, "FlowNode"], None] = attrs.field(repr=False)

    @property
    def output(self) -> Expr:
        """The output of the node, in expressions."""
        return Expr("nodes")[self.id].output

    @property
    def done(self) -> Exit:
        """The handle that a following node leaves from by default."""
        return Exit(self, None)

    def to(self, *targets: "FlowNode") -> "FlowNode":
        """Draw an edge from the default handle to each node. Returns the last of them."""
        return self.done.to(*targets)


class StartNode(FlowNode):
    """Where a run begins."""


class ActionNode(FlowNode):
    """A call of a tool."""

    @property
    def failed(self) -> Exit:
        """The handle `error`."""
        return Exit(self, "error")


class AgentNode(ActionNode):
    """A skill, or one call of a model."""


class ApprovalNode(FlowNode):
    """A wait for a decision; a following node leaves from `approved` by default."""

    @property
    def done(self) -> Exit:
        return self.approved

    @property
    def approved(self) -> Exit:
        return Exit(self, "approved")

    @property
    def denied(self) -> Exit:
        return Exit(self, "denied")

    @property
    def expired(self) -> Exit:
        return Exit(self, "expired")


@attrs.frozen(eq=False)
class ConditionNode(FlowNode):
    """A choice between branches: `check["large"]`, `check.otherwise`."""

    branches: tuple[str, ...] = ()

    def __getitem__(self, handle: str) -> Exit:
        if handle not in (*self.branches, "else"):
            known = ", ".join(f"`{name}`" for name in self.branches)
            raise refused(f"node `{self.id}`: unknown branch `{handle}`: use {known} or `else`", "handle")
        return Exit(self, handle)

    @property
    def otherwise(self) -> Exit:
        """The handle `else`."""
        return Exit(self, "else")

    @property
    def done(self) -> Exit:
        example = self.branches[0] if self.branches else "else"
        raise refused(f"node `{self.id}` has several handles: name one, as in `after=check[{example!r}]`", "handle")
