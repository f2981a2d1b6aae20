"""Workflows: what they have in addition to the lifecycle (interface, Workflow)."""

from collections.abc import Callable
from typing import Any, Unpack

from wfcore.api.resources import (
    CreateWorkflow,
    CreateWorkflowFields,
    PatchWorkflow,
    PatchWorkflowFields,
    ToggleBody,
    ToggleFields,
    ValidateBody,
)
from wfcore.domain.graph.rules import write_issues
from wfcore.domain.graph.sound_parts import SoundNodes
from wfcore.domain.graph.structure import selection_issues, structure_of
from wfcore.domain.json.values import changed, given
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.resources import resource as rules
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.content import Content, WorkflowContent, as_workflow
from wfcore.domain.resources.resource import Change, Kind, Resource, Variation
from wfcore.domain.triggers.schedule import check_trigger
from wfcore.ports.journal import RunFilter
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.common.authorization import needs
from wfcore.runtime.common.bodies import Tree, parsed
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.run_views import RunView, views
from wfcore.runtime.resources.base import ResourceView
from wfcore.runtime.resources.deployment import deploy_faults
from wfcore.runtime.resources.interfaces import Interfaces
from wfcore.runtime.resources.resources import ResourceUseCases, field_of
from wfcore.runtime.resources.schedules import ScheduleUseCases
from wfcore.runtime.resources.webhooks import WebhookUseCases
from wfcore.runtime.tools.mcp_tools import ToolLookup


class Workflows(ScheduleUseCases, WebhookUseCases, ResourceUseCases):
    """Workflows (interface, `/api/v1/workflows`). `interfaces` has the use cases of their interface rows."""

    interfaces: Interfaces
    kind, area = Kind.WORKFLOW, "workflows"
    create_body, patch_body, validate_body = CreateWorkflow, PatchWorkflow, ValidateBody

    def __init__(self, ports: Ports) -> None:
        super().__init__(ports)
        self.interfaces = Interfaces(ports)

    @needs("*:write")
    async def create(
        self,
        me: Principal,
        body: CreateWorkflow | Tree | None = None,
        *,
        key: str | None = None,
        **fields: Unpack[CreateWorkflowFields],
    ) -> ResourceView:
        """Create a workflow in state `draft`, owned by the caller; by default the organization can use and manage it.

        `structure` and `access` are short for `workflow_structure` and `access_config`. `key` is an Idempotency-Key:
        the same key and body return the same response. Errors: Malformed, Invalid with every fault; Conflict.
        """
        given_fields = {"type": "workflow", **fields} if body is None else fields
        return await self._create(me, CreateWorkflow, body, given_fields, key)

    @needs("*:write")
    async def patch(
        self,
        me: Principal,
        id: int,
        body: PatchWorkflow | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[PatchWorkflowFields],
    ) -> ResourceView:
        """Change fields of the create body; content changes the draft. An outdated ETag `if_match` is a Conflict."""
        return await self._patch(me, id, PatchWorkflow, body, fields, if_match)

    @needs("*:write")
    async def deploy(self, me: Principal, id: int, *, if_match: str | None = None) -> ResourceView:
        """Publish the draft, if there is one. `Invalid`, with every issue, when it cannot run."""
        return await self._deploy(me, id, if_match)

    @needs("*:write")
    async def toggle(
        self,
        me: Principal,
        id: int,
        body: ToggleBody | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[ToggleFields],
    ) -> ResourceView:
        """Toggle the schedule, or set it to `isEnabled`."""
        wanted = parsed(ToggleBody, body, fields)

        def operation(old: Resource, active: Variation | None, _: Variation | None) -> Change:
            scheduled = active is not None and active.workflow.is_scheduled
            return rules.toggle(old, scheduled, given(wanted.is_enabled), now=self._ports.now())

        return await self._change(me, id, operation, if_match)

    @needs("*:read")
    async def runs(self, me: Principal, id: int, *, limit: int = 25, before: int | None = None) -> list[RunView]:
        """Its runs, newest first, older than the run with the `row.key` `before`. Requires use of the workflow."""
        async with self._ports.storage.reading(me.org_uuid) as work:
            await self._authorized(work, me, id, "use")
        history = RunFilter(kind=self.kind.value, resource_id=id)
        rows = await self._ports.journal.list_runs(me.org_uuid, limit=limit, before=before, where=history)
        return await views(self._ports.journal, rows)

    def _rule_issues(self, data: Tree) -> list[Issue]:
        found = list[Issue]()
        structure, selection = data.get("workflowStructure"), data.get("agentSelection")
        if isinstance(data.get("trigger"), dict):
            found += check_trigger(data["trigger"])
        if isinstance(structure, dict):
            found += write_issues(structure, limits=self._ports.settings.graph)
        if isinstance(selection, dict):
            found += selection_issues(selection)
            if isinstance(structure, dict) and structure.get("nodes"):
                found.append(Issue("agentSelection", "cannot be combined with a graph that has nodes", "exclusive"))
        return found

    def _sound_parts(self, body: Tree, found: list[Issue]) -> tuple[Tree, Callable[[Issue], bool]]:
        """A graph with faults is checked as far as its sound nodes allow."""
        sound, is_true = super()._sound_parts(body, found)
        if {"workflowStructure", "agentSelection"} & body.keys() <= sound.keys():
            return sound, is_true
        nodes = SoundNodes(body.get("workflowStructure"), found, self._ports.settings.graph)
        graph = {"workflowStructure": nodes.structure, "agentSelection": None}
        return {
            **sound,
            **graph,
        }, lambda issue: nodes.concerns(issue) or (field_of(issue) != "workflowStructure" and is_true(issue))

    def _given(self, body: Any) -> dict[str, Any]:
        """The fields of the content; an `agentSelection` is compiled into its graph."""
        found = super()._given(body)
        if found.get("agent_selection") or found.get("workflow_structure") is not None:
            compiled = self._runnable(WorkflowContent(**found))
            found |= {"workflow_structure": compiled.workflow_structure, "agent_selection": None}
        return found

    def _runnable(self, content: Content) -> WorkflowContent:
        """The content with both lists of its graph; an `agentSelection` is compiled into its graph."""
        flow = as_workflow(content)
        if flow.agent_selection or flow.workflow_structure is not None:
            structure = {"nodes": [], "edges": [], **structure_of(flow)}
            return changed(flow, workflow_structure=structure, agent_selection=None)
        return flow

    async def _deploy_issues(
        self, work: UnitOfWork, content: Content, me: Principal, served: ToolLookup
    ) -> list[Issue]:
        return await deploy_faults(self._ports, served, work, me, as_workflow(content))
