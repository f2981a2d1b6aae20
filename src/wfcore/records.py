"""The types of what use cases return, for annotations of your own functions.

    from wfcore.records import RunView

    def decided(run: RunView) -> bool: ...

Each name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wfcore.domain.agents.connections import Connection
    from wfcore.domain.agents.context_items import ContextItem
    from wfcore.domain.agents.suggestions import Suggestion
    from wfcore.domain.channels.hooks import Hook
    from wfcore.domain.channels.interfaces import Interface
    from wfcore.domain.kernel.errors import Issue
    from wfcore.domain.kernel.json_type import JSON
    from wfcore.domain.people.delegations import Delegation
    from wfcore.domain.people.people import Group, Member, Organization
    from wfcore.domain.resources.differences import Difference
    from wfcore.domain.rules.policies import Policy
    from wfcore.domain.run.events import Event
    from wfcore.domain.run.node_trial import NodeTrial
    from wfcore.domain.run.recording import Recording
    from wfcore.domain.triggers.schedule import Firing
    from wfcore.domain.triggers.webhooks import Webhook
    from wfcore.runtime.agents.attachments import Upload
    from wfcore.runtime.agents.contexts import ContextView
    from wfcore.runtime.agents.conversations import ConversationView
    from wfcore.runtime.agents.memories import MemoryView
    from wfcore.runtime.channels.chat_pages import ChatApp
    from wfcore.runtime.channels.endpoints import Endpoint
    from wfcore.runtime.channels.hooks import DeliveryView
    from wfcore.runtime.channels.workflow_tools import WorkflowTool
    from wfcore.runtime.common.audit import AuditView
    from wfcore.runtime.common.organization_records import Record
    from wfcore.runtime.common.run_views import InboxItem, RunView
    from wfcore.runtime.data.erasure import ErasureView
    from wfcore.runtime.data.stored_secrets import Reencrypted
    from wfcore.runtime.organization.members import GroupView, MemberView
    from wfcore.runtime.organization.tokens import TokenView
    from wfcore.runtime.organization.usage import UsageReport
    from wfcore.runtime.resources.base import DeployedVariation, ResourceView
    from wfcore.runtime.resources.interfaces import SignedInterface
    from wfcore.runtime.resources.ownership import AccessExplanation
    from wfcore.runtime.resources.schedules import ScheduledWorkflow, ScheduleView
    from wfcore.runtime.resources.variations import VariationView
    from wfcore.runtime.rollout.impacts import Impact
    from wfcore.runtime.rollout.moves import MoveOutcome
    from wfcore.runtime.rollout.proposals import Proposal
    from wfcore.runtime.runs.evaluations import EvaluationResults, EvaluationView
    from wfcore.runtime.runs.graph import RunGraph
    from wfcore.runtime.runs.repairs import RepairOutcome
    from wfcore.runtime.runs.stats import RunStats
    from wfcore.runtime.tools.catalog import CatalogPage, ToolView

__all__ = [
    "JSON",
    "AccessExplanation",
    "AuditView",
    "CatalogPage",
    "ChatApp",
    "Connection",
    "ContextItem",
    "ContextView",
    "ConversationView",
    "Delegation",
    "DeliveryView",
    "DeployedVariation",
    "Difference",
    "Endpoint",
    "ErasureView",
    "EvaluationResults",
    "EvaluationView",
    "Event",
    "Firing",
    "Group",
    "GroupView",
    "Hook",
    "Impact",
    "InboxItem",
    "Interface",
    "Issue",
    "Member",
    "MemberView",
    "MemoryView",
    "MoveOutcome",
    "NodeTrial",
    "Organization",
    "Policy",
    "Proposal",
    "Record",
    "Recording",
    "Reencrypted",
    "RepairOutcome",
    "ResourceView",
    "RunGraph",
    "RunStats",
    "RunView",
    "ScheduleView",
    "ScheduledWorkflow",
    "SignedInterface",
    "Suggestion",
    "TokenView",
    "ToolView",
    "Upload",
    "UsageReport",
    "VariationView",
    "Webhook",
    "WorkflowTool",
]

_WHERE = {
    "AccessExplanation": "wfcore.runtime.resources.ownership",
    "AuditView": "wfcore.runtime.common.audit",
    "CatalogPage": "wfcore.runtime.tools.catalog",
    "ChatApp": "wfcore.runtime.channels.chat_pages",
    "Connection": "wfcore.domain.agents.connections",
    "ContextItem": "wfcore.domain.agents.context_items",
    "ContextView": "wfcore.runtime.agents.contexts",
    "ConversationView": "wfcore.runtime.agents.conversations",
    "Delegation": "wfcore.domain.people.delegations",
    "DeliveryView": "wfcore.runtime.channels.hooks",
    "DeployedVariation": "wfcore.runtime.resources.base",
    "Difference": "wfcore.domain.resources.differences",
    "Endpoint": "wfcore.runtime.channels.endpoints",
    "ErasureView": "wfcore.runtime.data.erasure",
    "EvaluationResults": "wfcore.runtime.runs.evaluations",
    "EvaluationView": "wfcore.runtime.runs.evaluations",
    "Event": "wfcore.domain.run.events",
    "Firing": "wfcore.domain.triggers.schedule",
    "Group": "wfcore.domain.people.people",
    "GroupView": "wfcore.runtime.organization.members",
    "Hook": "wfcore.domain.channels.hooks",
    "Impact": "wfcore.runtime.rollout.impacts",
    "InboxItem": "wfcore.runtime.common.run_views",
    "Interface": "wfcore.domain.channels.interfaces",
    "Issue": "wfcore.domain.kernel.errors",
    "JSON": "wfcore.domain.kernel.json_type",
    "Member": "wfcore.domain.people.people",
    "MemberView": "wfcore.runtime.organization.members",
    "MemoryView": "wfcore.runtime.agents.memories",
    "MoveOutcome": "wfcore.runtime.rollout.moves",
    "NodeTrial": "wfcore.domain.run.node_trial",
    "Organization": "wfcore.domain.people.people",
    "Policy": "wfcore.domain.rules.policies",
    "Proposal": "wfcore.runtime.rollout.proposals",
    "Record": "wfcore.runtime.common.organization_records",
    "Recording": "wfcore.domain.run.recording",
    "Reencrypted": "wfcore.runtime.data.stored_secrets",
    "RepairOutcome": "wfcore.runtime.runs.repairs",
    "ResourceView": "wfcore.runtime.resources.base",
    "RunGraph": "wfcore.runtime.runs.graph",
    "RunStats": "wfcore.runtime.runs.stats",
    "RunView": "wfcore.runtime.common.run_views",
    "ScheduleView": "wfcore.runtime.resources.schedules",
    "ScheduledWorkflow": "wfcore.runtime.resources.schedules",
    "SignedInterface": "wfcore.runtime.resources.interfaces",
    "Suggestion": "wfcore.domain.agents.suggestions",
    "TokenView": "wfcore.runtime.organization.tokens",
    "ToolView": "wfcore.runtime.tools.catalog",
    "Upload": "wfcore.runtime.agents.attachments",
    "UsageReport": "wfcore.runtime.organization.usage",
    "VariationView": "wfcore.runtime.resources.variations",
    "Webhook": "wfcore.domain.triggers.webhooks",
    "WorkflowTool": "wfcore.runtime.channels.workflow_tools",
}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module `wfcore.records` has no attribute `{name}`")


def __dir__() -> list[str]:
    return __all__
