"""The route table: every route (interface, Endpoints). Router, OpenAPI document and docs are generated from it."""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final, Protocol, TypedDict

import attrs
from starlette.responses import Response

from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import Call, Route
from wfcore.adapters.http.core.turns import Turns
from wfcore.adapters.http.mcp.routes import McpRoutes
from wfcore.adapters.http.openapi.document import document
from wfcore.adapters.http.routes.changes import ChangeRoutes
from wfcore.adapters.http.routes.choices import ChoiceRoutes
from wfcore.adapters.http.routes.contexts import ContextRoutes
from wfcore.adapters.http.routes.conversations import ConversationRoutes
from wfcore.adapters.http.routes.hooks import HookRoutes
from wfcore.adapters.http.routes.memories import MemoryRoutes
from wfcore.adapters.http.routes.metrics import MetricsPage
from wfcore.adapters.http.routes.oauth import AuthorizationRoutes, OAuthRoutes
from wfcore.adapters.http.routes.organization import OrganizationRoutes
from wfcore.adapters.http.routes.organization_records import (
    MemberDataRoutes,
    connection_routes,
    context_item_routes,
    delegation_routes,
    group_routes,
    member_routes,
    policy_routes,
)
from wfcore.adapters.http.routes.resources import ScheduleRoutes, SkillRoutes, WorkflowRoutes
from wfcore.adapters.http.routes.runs.ag_ui import AgUiRoutes
from wfcore.adapters.http.routes.runs.evaluations import EvaluationRoutes
from wfcore.adapters.http.routes.runs.graphs import RunGraphRoutes
from wfcore.adapters.http.routes.runs.inbox import InboxRoutes
from wfcore.adapters.http.routes.runs.repairs import RepairRoutes
from wfcore.adapters.http.routes.runs.rollout import RolloutRoutes
from wfcore.adapters.http.routes.runs.runs import RunRoutes
from wfcore.adapters.http.routes.runs.shortcuts import RunShortcutRoutes
from wfcore.adapters.http.routes.team_chats import TeamChatRoutes
from wfcore.adapters.http.routes.uploads import UploadRoutes
from wfcore.adapters.http.routes.usage import UsageRoutes
from wfcore.adapters.http.routes.webhooks import DeliveryRoutes
from wfcore.adapters.http.studio.branding import STUDIO
from wfcore.adapters.http.studio.chat_pages import ChatAppRoutes
from wfcore.adapters.http.studio.document import StudioDocument
from wfcore.api.resources import Scope, Workflow
from wfcore.domain.kernel.errors import Unavailable
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import TOKEN_SCOPES
from wfcore.ports.identity import TokenVerifier
from wfcore.runtime.agents.attachments import Attachments
from wfcore.runtime.agents.context_items import ContextItems
from wfcore.runtime.agents.contexts import Contexts
from wfcore.runtime.agents.conversations import Conversations
from wfcore.runtime.agents.memories import Memories
from wfcore.runtime.channels.agent_clients import AgentClients
from wfcore.runtime.channels.chat_pages import ChatApps
from wfcore.runtime.channels.hooks import Hooks
from wfcore.runtime.channels.team_chats import TeamChats
from wfcore.runtime.channels.workflow_tools import WorkflowTools
from wfcore.runtime.common.audit import AuditTrail
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.readiness import Readiness
from wfcore.runtime.data.erasure import Erasures
from wfcore.runtime.data.exports import Exports
from wfcore.runtime.organization.delegations import Delegations
from wfcore.runtime.organization.directory import Directory
from wfcore.runtime.organization.members import Groups, Members
from wfcore.runtime.organization.policies import Policies
from wfcore.runtime.organization.tokens import Tokens
from wfcore.runtime.organization.usage import Usage
from wfcore.runtime.resources.skills import Skills
from wfcore.runtime.rollout.workflows import RolloutWorkflows
from wfcore.runtime.runs.changes import Changes
from wfcore.runtime.runs.connects import Connects
from wfcore.runtime.runs.evaluations import Evaluations
from wfcore.runtime.runs.inbox import Inbox
from wfcore.runtime.runs.repairs import RepairableRuns
from wfcore.runtime.runs.suggestions import Suggestions
from wfcore.runtime.tools.catalog import ToolCatalog
from wfcore.runtime.tools.choices import Choices
from wfcore.runtime.tools.connections import Connections
from wfcore.runtime.tools.expressions import Expressions
from wfcore.runtime.tools.simulations import Simulations
from wfcore.runtime.triggers.webhook_deliveries import Deliveries

logger = logging.getLogger(__name__)

WORKFLOWS: Final = "/api/v1/workflows"
AGENTS: Final = "/api/v1/agents"
"""The earlier base path of workflows."""


class Services(Protocol):
    """The use cases behind the routes: `wfcore.open` returns one."""

    ports: Ports
    workflows: RolloutWorkflows
    skills: Skills
    evaluations: Evaluations
    memories: Memories
    attachments: Attachments
    runs: RepairableRuns
    webhooks: Deliveries
    workflow_tools: WorkflowTools
    agent_clients: AgentClients
    directory: Directory
    members: Members
    exports: Exports
    erasures: Erasures
    groups: Groups
    tokens: Tokens
    audit: AuditTrail
    tools: ToolCatalog
    context_items: ContextItems
    contexts: Contexts
    connections: Connections
    connects: Connects
    conversations: Conversations
    usage: Usage
    changes: Changes
    suggestions: Suggestions
    chat_apps: ChatApps
    team_chats: TeamChats
    hooks: Hooks
    delegations: Delegations
    policies: Policies


class Caller(TypedDict):
    """The principal of the credential."""

    orgUuid: str
    userId: str
    email: str | None
    groups: list[str]
    scopes: list[str]
    role: str


class Health(TypedDict):
    status: str


def route_table(
    core: Services,
    oauth: TokenVerifier | None = None,
    metrics: MetricsPage | None = None,
    pages: StudioDocument | None = None,
) -> list[Route]:
    """Every route of this core. `pages` is the document of the chat pages."""
    turns = Turns(core.runs)
    routes = [
        *WorkflowRoutes(core.workflows, "workflows", WORKFLOWS, Workflow).table(),
        *WorkflowRoutes(core.workflows, "agents", AGENTS, Workflow, WORKFLOWS).table(),
        *ScheduleRoutes(core.workflows).table(),
        *SkillRoutes(core.skills, "skills", "/api/v1/skills", Scope).table(),
        *_with_aliases(RolloutRoutes(core.workflows, WORKFLOWS).table()),
        *EvaluationRoutes(core.evaluations).table(),
        *MemoryRoutes(core.memories).table(),
        *ContextRoutes(core.contexts).table(),
        *ConversationRoutes(core.conversations).table(),
        *RepairRoutes(core.runs).table(),
        *RunRoutes(core.runs, turns, core.connects).table(),
        *RunGraphRoutes(core.runs).table(),
        *InboxRoutes(Inbox(core.ports, core.runs), core.connects).table(),
        *RunShortcutRoutes(core.runs, turns).table(),
        *AgUiRoutes(core.agent_clients, turns).table(),
        *UploadRoutes(core.attachments, core.ports.settings.attachments.size).table(),
        *DeliveryRoutes(core.webhooks).table(),
        *McpRoutes(core.workflow_tools, core.ports).table(),
        *ChatAppRoutes(core.chat_apps, pages or StudioDocument(STUDIO, oauth)).table(),
        *TeamChatRoutes(core.team_chats).table(),
        *member_routes(core.members).table(),
        *MemberDataRoutes(core.exports, core.erasures).table(),
        *group_routes(core.groups).table(),
        *OrganizationRoutes(core.tokens, core.audit, core.tools).table(),
        *ChangeRoutes(core.changes).table(),
        *_with_aliases(ChoiceRoutes(Choices(core.ports), Expressions(core.ports), Simulations(core.ports)).table()),
        *context_item_routes(core.context_items).table(),
        *connection_routes(core.connections).table(),
        *AuthorizationRoutes(core.connections, core.connects).table(),
        *HookRoutes(core.hooks).table(),
        *delegation_routes(core.delegations).table(),
        *policy_routes(core.policies).table(),
        *UsageRoutes(core.usage, core.suggestions).table(),
        *OAuthRoutes(oauth).table(),
    ]
    return [*routes, *_server_routes(core, routes, metrics or MetricsPage(core.ports))]


def _with_aliases(routes: Iterable[Route]) -> Iterator[Route]:
    """The routes, and those of workflows once more below their earlier base path."""
    for route in routes:
        yield route
        if route.path.startswith(f"{WORKFLOWS}/"):
            name = "simulate" if route.name == "simulations.run" else route.name.removeprefix("workflows.")
            path = AGENTS + route.path.removeprefix(WORKFLOWS)
            yield attrs.evolve(route, name=f"agents.{name}", path=path, base=AGENTS, successor=WORKFLOWS)


def _server_routes(core: Services, others: list[Route], metrics: MetricsPage) -> list[Route]:
    """Routes without a use case. All but `me` need no authentication."""

    @cache
    def described() -> dict[str, JSON]:
        return document([*others, *routes])

    async def describe(call: Call) -> Response:
        found = await asyncio.to_thread(described)  # the first takes ten times as long as a turn of the loop may
        return json_response({**found, "servers": [{"url": call.url("") or "/"}]})

    readiness = Readiness(core.ports.storage, core.ports.clock)

    async def ready(call: Call) -> Response:
        if (problem := await readiness.problem()) is not None:
            logger.error("not ready: %s", problem)
            raise Unavailable("not ready")
        return json_response({"status": "ready"})

    routes = [
        Route("me", "GET", "/api/v1/me", _me, "Read the caller's principal", (), Caller),
        Route("openapi", "GET", "/openapi.json", describe, "The OpenAPI document", None, {"type": "object"}),
        Route("healthz", "GET", "/healthz", _healthy, "Whether the process is alive", None, Health),
        Route("readyz", "GET", "/readyz", ready, "Whether the store is ready and takes writes", None, Health),
        *metrics.table(),
    ]
    return routes


async def _me(call: Call) -> Response:
    me = call.me
    return json_response(
        {
            "orgUuid": me.org_uuid,
            "userId": me.user_id,
            "email": me.email,
            "groups": sorted(me.groups),
            "scopes": [scope for scope in TOKEN_SCOPES if scope in me.scopes],
            "role": me.role,
        }
    )


async def _healthy(call: Call) -> Response:
    return json_response({"status": "ok"})
