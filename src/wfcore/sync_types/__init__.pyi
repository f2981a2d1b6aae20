# Written by tests/typing/write_sync_types.py

from collections.abc import Iterable

from wfcore.domain.channels.hooks import HookEvent as HookEventName
from wfcore.domain.resources.access import Principal
from wfcore.runtime.common.handlers import Handler
from wfcore.sync_types.agents import SyncAttachments, SyncContextItems, SyncContexts, SyncConversations, SyncMemories
from wfcore.sync_types.channels import SyncAgentClients, SyncChatApps, SyncHooks, SyncTeamChats, SyncWorkflowTools
from wfcore.sync_types.common import SyncAuditTrail
from wfcore.sync_types.data import SyncDataRetention, SyncErasures, SyncExports, SyncStoredSecrets
from wfcore.sync_types.organization import (
    SyncDelegations,
    SyncDirectory,
    SyncGroups,
    SyncMembers,
    SyncPolicies,
    SyncTokens,
    SyncUsage,
)
from wfcore.sync_types.resources import SyncSkills
from wfcore.sync_types.rollout import SyncRolloutWorkflows
from wfcore.sync_types.runs import SyncChanges, SyncEvaluations, SyncRepairableRuns, SyncSuggestions
from wfcore.sync_types.tools import SyncConnections, SyncToolCatalog
from wfcore.sync_types.triggers import SyncDeliveries

class SyncUseCases:
    """An open wfcore: its use cases as attributes. An area is imported when it is first used."""

    skills: SyncSkills
    memories: SyncMemories
    attachments: SyncAttachments
    runs: SyncRepairableRuns
    workflows: SyncRolloutWorkflows
    evaluations: SyncEvaluations
    webhooks: SyncDeliveries
    workflow_tools: SyncWorkflowTools
    agent_clients: SyncAgentClients
    directory: SyncDirectory
    members: SyncMembers
    groups: SyncGroups
    tokens: SyncTokens
    audit: SyncAuditTrail
    tools: SyncToolCatalog
    context_items: SyncContextItems
    contexts: SyncContexts
    policies: SyncPolicies
    connections: SyncConnections
    conversations: SyncConversations
    usage: SyncUsage
    changes: SyncChanges
    suggestions: SyncSuggestions
    chat_apps: SyncChatApps
    team_chats: SyncTeamChats
    hooks: SyncHooks
    delegations: SyncDelegations
    retention: SyncDataRetention
    secrets: SyncStoredSecrets
    erasures: SyncErasures
    exports: SyncExports

    def on(self, event: HookEventName, handler: Handler, *, name: str | None = None) -> None:
        """Call `handler` for every such event from now on, of all organizations, at least once for each event."""

    def off(self, name: str) -> None:
        """Remove the handler of this name and its pending events, for all processes."""

    def principal(
        self,
        org: str,
        user: str,
        *,
        email: str | None = None,
        groups: Iterable[str] = (),
        role: str = ...,
        scopes: Iterable[str] = ...,
    ) -> Principal:
        """The principal of a user that the embedding product has authenticated. `org` is the organization's UUID."""
