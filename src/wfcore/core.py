"""An open wfcore: all use cases on one set of ports."""

from collections.abc import Iterable

from wfcore.domain.channels.hooks import HookEvent as HookEventName
from wfcore.domain.kernel.ids import is_uuid, normalize_email
from wfcore.domain.resources.access import TOKEN_SCOPES, Principal, Role
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
from wfcore.runtime.common.handlers import Handler, full_name
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.data.erasure import Erasures
from wfcore.runtime.data.exports import Exports
from wfcore.runtime.data.retention import DataRetention
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


class Core:
    """An open wfcore: its use cases as attributes."""

    def __init__(self, ports: Ports) -> None:
        plans = Plans(ports.storage, ports.journal)
        self.ports = ports
        self.driver = Driver(ports, plans)
        self.skills = Skills(ports)
        self.memories = Memories(ports)
        self.attachments = Attachments(ports)
        self.runs = RepairableRuns(ports, plans, self.driver)
        self.workflows = RolloutWorkflows(ports, plans, self.runs)
        self.evaluations = Evaluations(ports, self.runs)
        self.scheduler = Scheduler(ports, self.runs)
        self.webhooks = Deliveries(ports, self.runs)
        self.workflow_tools = WorkflowTools(ports, self.runs)
        self.agent_clients = AgentClients(ports, self.runs)
        self.directory = Directory(ports)
        self.members = Members(ports)
        self.groups = Groups(ports)
        self.tokens = Tokens(ports, self.directory)
        self.audit = AuditTrail(ports)
        self.tools = ToolCatalog(ports)
        self.context_items = ContextItems(ports)
        self.contexts = Contexts(ports)
        self.policies = Policies(ports)
        self.connections = Connections(ports)
        self.connects = Connects(ports, self.runs)
        self.conversations = Conversations(ports)
        self.usage = Usage(ports)
        self.changes = Changes(ports, self.directory)
        self.suggestions = Suggestions(ports, self.runs)
        self.chat_apps = ChatApps(ports)
        self.team_chats = TeamChats(ports, self.runs)
        self.poster = Poster(ports)
        self.hooks = Hooks(ports)
        self.delegations = Delegations(ports)
        self.notifier = Notifier(ports)
        self.retention = DataRetention(ports)
        self.erasures = Erasures(ports, plans)
        self.exports = Exports(ports)

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
        is not given by its id, ValueError for an organization or a group whose id is not a UUID.
        """
        ids = {"org": [org], "user": [user], "groups": list(groups)}
        for name, given in ids.items():
            if not all(isinstance(each, str) for each in given):
                raise TypeError(f"`{name}` must be given by id, as a string")
        for name in ("org", "groups"):
            for each in ids[name]:
                if not is_uuid(each):
                    raise ValueError(f"`{name}`: `{each}` is not a UUID in lower case with hyphens")
        address = normalize_email(email) if email else None
        return Principal(org, user, address, frozenset(ids["groups"]), frozenset(scopes), Role(role))
