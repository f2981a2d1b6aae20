"""Policies of an organization: what its workflows must keep to be deployed (interface, Policies)."""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

import attrs

from wfcore.domain.kernel.errors import Issue, Severity
from wfcore.domain.kernel.json_readers import as_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import SERVED

HTTP: Final = "core.http"

MOST_POLICIES: Final = 100
"""The most policies of an organization."""


CONDITIONS: Final = ("tool", "agent", "external")
"""The keys of `when`."""

REQUIREMENTS: Final = ("approval", "timeout", "retry", "notTogether")
"""The keys of `require`."""


@attrs.frozen
class Policy:
    """One policy: nodes that `when` selects must keep `require`; each is an object with one key, as on the wire.

    `severity` `error`: a workflow that breaks it cannot be deployed.
    """

    id: str
    name: str
    when: Mapping[str, JSON]
    require: Mapping[str, JSON]
    severity: Severity = "error"

    def to_wire(self) -> dict[str, JSON]:
        return {
            "id": self.id,
            "name": self.name,
            "when": dict(self.when),
            "require": dict(self.require),
            "severity": self.severity,
        }

    def selects(self, tool_id: str) -> bool:
        """Whether this tool is one that the policy is about. External are `core.http` and tools of MCP servers."""
        if "external" in self.when:
            return tool_id == HTTP or tool_id.startswith(SERVED)
        return "tool" in self.when and fnmatchcase(tool_id, as_text(self.when["tool"]))


def policy_body_issues(tree: Mapping[str, JSON]) -> list[Issue]:
    """The faults of a policy's body that its shape does not show."""
    return [
        *_one_key("when", CONDITIONS, tree.get("when")),
        *_one_key("require", REQUIREMENTS, tree.get("require")),
    ]


def _one_key(path: str, keys: Sequence[str], chosen: JSON) -> Iterator[Issue]:
    if not isinstance(chosen, dict):
        return
    if len(chosen) != 1:
        allowed = ", ".join(f"`{key}`" for key in keys)
        yield Issue(path, f"must have exactly one of {allowed}", "exclusive")
