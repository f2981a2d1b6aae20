"""The checks of a file before anything is written."""

from collections.abc import Mapping

from wfcore.cli.declared.documents import BODIES
from wfcore.domain.evaluations.cases import case_issues
from wfcore.domain.graph.rules import write_issues
from wfcore.domain.graph.structure import selection_issues
from wfcore.domain.json.codec import check
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.json_readers import as_texts
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access_checks import check_access
from wfcore.domain.resources.resource import Kind
from wfcore.domain.resources.supervision import IDS, form_issues
from wfcore.domain.triggers.schedule import check_trigger


def write_faults(kind: Kind, body: Mapping[str, JSON]) -> list[Issue]:
    """Why a create body with ids cannot be stored: every fault that does not depend on the organization."""
    found = check(BODIES[kind], dict(body))
    if isinstance(body.get("accessConfig"), Mapping):
        found += check_access(dict(body["accessConfig"]), current=None, groups=None)  # type: ignore[arg-type]
    return [*found, *(_workflow_faults(body) if kind is Kind.WORKFLOW else _skill_faults(body, found))]


def _workflow_faults(body: Mapping[str, JSON]) -> list[Issue]:
    structure, selection, trigger = body.get("workflowStructure"), body.get("agentSelection"), body.get("trigger")
    found = check_trigger(trigger) if isinstance(trigger, dict) else []
    found += write_issues(structure) if isinstance(structure, dict) else []
    found += selection_issues(selection) if isinstance(selection, dict) else []
    if isinstance(structure, dict) and structure.get("nodes") and isinstance(selection, dict):
        found.append(Issue("agentSelection", "cannot be combined with a graph that has nodes", "exclusive"))
    return found


def _skill_faults(body: Mapping[str, JSON], found: list[Issue]) -> list[Issue]:
    ids = body.get(IDS)
    has_form = isinstance(ids, list) and not any(issue.path.startswith(IDS) for issue in found)
    return [*(form_issues(as_texts(ids or ())) if has_form else ()), *case_issues(body.get("evaluations"))]
