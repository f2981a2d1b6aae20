"""The parts of a graph with faults that can be checked further, so that one answer has the issues of all checks."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from wfcore.domain.graph.limits import GraphLimits
from wfcore.domain.graph.rules import DEFAULT_LIMITS, write_issues
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.json_type import JSON

_NODE: Final = re.compile(r"workflowStructure\.nodes\[(\d+)\](?:\.([^.\[]*))?")
_DATA: Final = re.compile(r"workflowStructure\.nodes\[(\d+)\]\.data(?![^.\[])")


class SoundNodes:
    """The nodes of a structure without write issues of their own, each at its index.

    `structure` has these nodes without keys that are not known, others in place of the faulty nodes, and no edges.
    """

    def __init__(self, structure: JSON, issues: Iterable[Issue], limits: GraphLimits = DEFAULT_LIMITS) -> None:
        nodes = structure.get("nodes") if isinstance(structure, Mapping) else None
        self._faulty: set[int] = set()
        unknown: dict[int, set[str]] = {}
        for issue in issues:
            found = _NODE.match(issue.path)
            if found and issue.rule == "unknown" and issue.path == found[0]:
                unknown.setdefault(int(found[1]), set()).add(found[2])
            elif found:
                self._faulty.add(int(found[1]))
        self.structure: dict[str, JSON] = {
            "nodes": [self._node(index, node, unknown.get(index, set())) for index, node in enumerate(_list(nodes))],
            "edges": [],
        }
        if write_issues(self.structure, limits=limits):  # more issues than are listed
            self.structure = {"nodes": [], "edges": []}

    def _node(self, index: int, node: JSON, unknown: set[str]) -> JSON:
        if index in self._faulty or not isinstance(node, Mapping):
            named = node.get("id") if isinstance(node, Mapping) else None
            return {"id": f"{named if isinstance(named, str) else ''}#{index}", "type": "start"}
        return {key: value for key, value in node.items() if key not in unknown}

    def concerns(self, issue: Issue) -> bool:
        """Whether an issue of `structure` is about the data of a sound node, whatever the other nodes are."""
        found = _DATA.match(issue.path)
        return found is not None and int(found[1]) not in self._faulty


def _list(nodes: JSON) -> list[JSON]:
    return nodes if isinstance(nodes, list) else []
