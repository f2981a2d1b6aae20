"""Checks the tool parameters of nodes before a run renders them."""

from collections.abc import Iterator

from wfcore.domain.expressions.templates import strings
from wfcore.domain.graph.structure import Graph, NodeType
from wfcore.domain.json.schema import compile_schema
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.json_type import JSON
from wfcore.ports.providers import Tool, Tools
from wfcore.runtime.tools.mcp_tools import ToolLookup, is_served


def parameter_issues(tools: Tools, served: ToolLookup, graph: Graph) -> Iterator[Issue]:
    """The parameters that are invalid in every run: a missing one, an unknown one, and a value without templates that
    does not match its schema.
    """
    for index, node in enumerate(graph.nodes):
        tool_id, params = node.data.get("toolId"), node.data.get("params", {})
        if node.type is not NodeType.ACTION or not isinstance(tool_id, str) or not isinstance(params, dict):
            continue
        tool = served.get(tool_id) if is_served(tool_id) else tools.get(tool_id)
        if isinstance(tool, Tool):
            for issue in _mismatches(tool, params, f"workflowStructure.nodes[{index}].data.params"):
                yield Issue(issue.path, f"node `{node.id}`: {issue.message}", issue.rule)


def _mismatches(tool: Tool, params: JSON, path: str) -> Iterator[Issue]:
    open_paths = [where for where, _ in strings(params, path)]
    for issue in compile_schema(tool.parameters).check(params, path):
        if issue.rule in KEY_RULES or not any(_is_within(where, issue.path) for where in open_paths):
            yield issue


def _is_within(path: str, parent: str) -> bool:
    return path.startswith(parent) and path[len(parent) :][:1] in ("", ".", "[")


KEY_RULES = ("required", "additionalProperties")
"""Rules that concern keys, which cannot contain templates."""
