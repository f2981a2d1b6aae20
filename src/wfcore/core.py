"""An open wfcore: all use cases on one set of ports."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any, Final

from wfcore.domain.channels.hooks import HookEvent as HookEventName
from wfcore.domain.json.parsing import SURROGATE
from wfcore.domain.kernel.errors import usable
from wfcore.domain.kernel.ids import is_uuid, normalize_email
from wfcore.domain.resources.access import TOKEN_SCOPES, Principal, Role
from wfcore.imports import without_collections
from wfcore.runtime.common.handlers import Handler, full_name
from wfcore.runtime.common.ports import Ports

if TYPE_CHECKING:
    from wfcore.runtime.agents.attachments import Attachments
    from wfcore.runtime.agents.context_items import ContextItems
    from wfcore.runtime.agents.contexts import Contexts
    from wfcore.runtime.agents.conversations import Conversations
    from wfcore.runtime.agents.memories import Memories
    from wfcore.runtime.channels.agent_clients import AgentClients
    from wfcore.runtime.channels.chat_pages import ChatApps
    from wfcore.runtime.channels.hooks import Hooks
    from wfcore.runtime.channels.notifier import Notifier
    from wfcore.runtime.channels.postings import Poster
    from wfcore.runtime.channels.team_chats import TeamChats
    from wfcore.runtime.channels.workflow_tools import WorkflowTools
    from wfcore.runtime.common.audit import AuditTrail
    from wfcore.runtime.data.erasure import Erasures
    from wfcore.runtime.data.exports import Exports
    from wfcore.runtime.data.retention import DataRetention
    from wfcore.runtime.data.stored_secrets import StoredSecrets
    from wfcore.runtime.execution.driver import Driver
    from wfcore.runtime.execution.plans import Plans
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
    from wfcore.runtime.runs.repairs import RepairableRuns
    from wfcore.runtime.runs.suggestions import Suggestions
    from wfcore.runtime.tools.catalog import ToolCatalog
    from wfcore.runtime.tools.connections import Connections
    from wfcore.runtime.triggers.scheduler import Scheduler
    from wfcore.runtime.triggers.webhook_deliveries import Deliveries

AREAS: Final[Mapping[str, tuple[str, str, str]]] = {
    "driver": ("execution.driver", "Driver", "ports _plans"),
    "skills": ("resources.skills", "Skills", "ports"),
    "memories": ("agents.memories", "Memories", "ports"),
    "attachments": ("agents.attachments", "Attachments", "ports"),
    "runs": ("runs.repairs", "RepairableRuns", "ports _plans driver"),
    "workflows": ("rollout.workflows", "RolloutWorkflows", "ports _plans runs"),
    "evaluations": ("runs.evaluations", "Evaluations", "ports runs"),
    "scheduler": ("triggers.scheduler", "Scheduler", "ports runs"),
    "webhooks": ("triggers.webhook_deliveries", "Deliveries", "ports runs"),
    "workflow_tools": ("channels.workflow_tools", "WorkflowTools", "ports runs"),
    "agent_clients": ("channels.agent_clients", "AgentClients", "ports runs"),
    "directory": ("organization.directory", "Directory", "ports"),
    "members": ("organization.members", "Members", "ports"),
    "groups": ("organization.members", "Groups", "ports"),
    "tokens": ("organization.tokens", "Tokens", "ports directory"),
    "audit": ("common.audit", "AuditTrail", "ports"),
    "tools": ("tools.catalog", "ToolCatalog", "ports"),
    "context_items": ("agents.context_items", "ContextItems", "ports"),
    "contexts": ("agents.contexts", "Contexts", "ports"),
    "policies": ("organization.policies", "Policies", "ports"),
    "connections": ("tools.connections", "Connections", "ports"),
    "connects": ("runs.connects", "Connects", "ports runs"),
    "conversations": ("agents.conversations", "Conversations", "ports"),
    "usage": ("organization.usage", "Usage", "ports"),
    "changes": ("runs.changes", "Changes", "ports directory"),
    "suggestions": ("runs.suggestions", "Suggestions", "ports runs"),
    "chat_apps": ("channels.chat_pages", "ChatApps", "ports"),
    "team_chats": ("channels.team_chats", "TeamChats", "ports runs"),
    "poster": ("channels.postings", "Poster", "ports"),
    "hooks": ("channels.hooks", "Hooks", "ports"),
    "delegations": ("organization.delegations", "Delegations", "ports"),
    "notifier": ("channels.notifier", "Notifier", "ports"),
    "retention": ("data.retention", "DataRetention", "ports"),
    "secrets": ("data.stored_secrets", "StoredSecrets", "ports"),
    "erasures": ("data.erasure", "Erasures", "ports _plans"),
    "exports": ("data.exports", "Exports", "ports"),
}
"""The module below `wfcore.runtime` and the class of each area, and the attributes that it is made of."""


ROLES: Final = [*Role]


def module_of(area: str) -> str:
    """The name of the module of an area."""
    return f"wfcore.runtime.{AREAS[area][0]}"


class Core:
    """An open wfcore: its use cases as attributes. An area is imported when it is first used."""

    driver: "Driver"
    skills: "Skills"
    memories: "Memories"
    attachments: "Attachments"
    runs: "RepairableRuns"
    workflows: "RolloutWorkflows"
    evaluations: "Evaluations"
    scheduler: "Scheduler"
    webhooks: "Deliveries"
    workflow_tools: "WorkflowTools"
    agent_clients: "AgentClients"
    directory: "Directory"
    members: "Members"
    groups: "Groups"
    tokens: "Tokens"
    audit: "AuditTrail"
    tools: "ToolCatalog"
    context_items: "ContextItems"
    contexts: "Contexts"
    policies: "Policies"
    connections: "Connections"
    connects: "Connects"
    conversations: "Conversations"
    usage: "Usage"
    changes: "Changes"
    suggestions: "Suggestions"
    chat_apps: "ChatApps"
    team_chats: "TeamChats"
    poster: "Poster"
    hooks: "Hooks"
    delegations: "Delegations"
    notifier: "Notifier"
    retention: "DataRetention"
    secrets: "StoredSecrets"
    erasures: "Erasures"
    exports: "Exports"

    def __init__(self, ports: Ports) -> None:
        self.ports = ports
        self._making = RLock()

    @cached_property
    def _plans(self) -> "Plans":
        from wfcore.runtime.execution.plans import Plans

        return Plans(self.ports.storage, self.ports.journal, self.ports.clock)

    if not TYPE_CHECKING:  # a type checker must not take every name for an attribute

        def __getattr__(self, name: str) -> Any:
            if name not in AREAS:
                raise AttributeError(f"`Core` has no attribute `{name}`", name=name, obj=self)
            with self._making:
                return vars(self)[name] if name in vars(self) else self._made(name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *AREAS})

    def _made(self, name: str) -> object:
        _, kind, needed = AREAS[name]
        with without_collections():
            found = getattr(import_module(module_of(name)), kind)
        vars(self)[name] = area = found(*(getattr(self, each) for each in needed.split()))
        return area

    def on(self, event: HookEventName, handler: Handler, *, name: str | None = None) -> None:
        """Call `handler` for every such event from now on, of all organizations, at least once for each event.

        `handler` is a function or a coroutine function of one `HookEvent`; when it raises, it is called again later.
        The store keeps the events for `name`, also while no process has this handler; `off` ends that. Processes with
        `worker=True` call handlers, after they have called `on` with the same name: by default the function's full
        name. ValueError for an unknown event, and for a name that is taken.
        """
        self.ports.handlers.add(event, handler, full_name(handler) if name is None else name)

    async def off(self, name: str) -> None:
        """Remove the handler of this name and its pending events, for all processes."""
        await self.notifier.forget(name)

    def principal(
        self,
        org: str,
        user: str,
        *,
        email: str | None = None,
        groups: Iterable[str] = (),
        role: str = Role.MEMBER,
        scopes: Iterable[str] = TOKEN_SCOPES,
    ) -> Principal:
        """The principal of a user that the embedding product has authenticated. `org` is the organization's UUID.

        An `email` that is not a plain ASCII address is ignored. Raises TypeError when an organization, user or group
        is not given by its id, ValueError for an organization or a group whose id is not a UUID, and for a user whose
        id does not have 1 to 255 characters.
        """
        ids = {"org": [org], "user": [user], "groups": _listed("groups", groups)}
        for name, given in ids.items():
            if not all(isinstance(each, str) for each in given):
                raise TypeError(f"`{name}` must be given by id, as a string")
        if not isinstance(email, str | None):
            raise TypeError(f"`email` must be a string or None, not `{type(email).__name__}`")
        if role not in ROLES:
            raise ValueError(f"`role`: `{role}` is not a role{usable(ROLES)}")
        for name in ("org", "groups"):
            for each in ids[name]:
                if not is_uuid(each):
                    raise ValueError(f"`{name}`: `{each}` is not a UUID in lower case with hyphens")
        if not 1 <= len(user) <= 255:  # as a member and the claim of an access token
            raise ValueError("`user`: must have 1 to 255 characters")
        if "\0" in user or SURROGATE.search(user):
            raise ValueError("`user`: must have neither NUL nor a lone surrogate")
        address = normalize_email(email) if email else None
        return Principal(org, user, address, frozenset(ids["groups"]), frozenset(_listed("scopes", scopes)), Role(role))


def _listed(name: str, texts: Iterable[str]) -> list[str]:
    """The texts of an argument. TypeError for a single text, which would be a list of its characters."""
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise TypeError(f"`{name}` must be a list of strings, not `{type(texts).__name__}`")
    return list(texts)
