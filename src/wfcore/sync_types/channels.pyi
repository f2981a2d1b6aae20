# Written by tests/typing/write_sync_types.py

from collections.abc import Collection
from typing import Unpack

from wfcore.api.hooks import CreateHook, CreateHookFields, PatchHook, PatchHookFields
from wfcore.domain.channels.hooks import Hook
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.resource import Kind
from wfcore.runtime.channels.chat_pages import ChatApp
from wfcore.runtime.channels.endpoints import Endpoint
from wfcore.runtime.channels.hooks import DeliveryView
from wfcore.runtime.channels.workflow_tools import WorkflowTool
from wfcore.runtime.common.bodies import Tree
from wfcore.runtime.common.run_views import RunView
from wfcore.runtime.triggers.webhook_deliveries import ReadBody
from wfcore.sync_types.common import SyncRecordServiceBase

class SyncWorkflowTools:
    """The endpoint of an interface of kind `mcp`, for callers who can use its workflow or skill."""

    def endpoint(self, me: Principal, id: str) -> Endpoint:
        """The interface and its workflow or skill."""

    def tool(self, me: Principal, id: str) -> WorkflowTool | None:
        """The tool of the active variation; None before the first deployment."""

class SyncAgentClients:
    """Runs for AG-UI clients."""

    def run(self, me: Principal, kind: Kind, number: int, body: Tree) -> RunView:
        """Start a run with the last message of a `RunAgentInput`, or resume one with its `resume`."""

class SyncChatApps:
    """The interfaces of kind `chatapp`, for their users."""

    def get(self, me: Principal, id: str) -> ChatApp:
        """The chat of this interface, if the caller can use its workflow or skill."""

    def page(self, id: str) -> Endpoint:
        """The data of a chat for an unauthenticated caller. NotFound for an unknown or deleted one."""

class SyncTeamChats:
    """Receives the messages of team chats."""

    def receive(self, id: str, headers: Collection[tuple[str, str]], body: ReadBody) -> RunView:
        """Start the run of a message to the interface with this id, or return the run that the same message started.
        A decision continues the run of its message."""

class SyncHooks(SyncRecordServiceBase[Hook]):
    """The hooks of the caller's organization."""

    def create(
        self,
        me: Principal,
        body: CreateHook | Tree | None = None,
        *,
        key: str | None = None,
        connection: object | None = None,
        **fields: Unpack[CreateHookFields],
    ) -> Hook:
        """Create a hook. The result has its secret, also when `key`, an Idempotency-Key, repeats the create."""

    def patch(
        self,
        me: Principal,
        id: str,
        body: PatchHook | Tree | None = None,
        *,
        if_match: str | None = None,
        connection: object | None = None,
        **fields: Unpack[PatchHookFields],
    ) -> Hook:
        """Change the given fields. The caller becomes the maker, whose access the hook has from now on."""

    def delete(self, me: Principal, id: str, *, if_match: str | None = None, connection: object | None = None) -> Hook:
        """Delete the hook with its deliveries. An outdated ETag `if_match` is a Conflict."""

    def rotate(self, me: Principal, id: str, *, if_match: str | None = None, connection: object | None = None) -> Hook:
        """A new secret, which the result has. For 24 hours messages are signed with the old one too."""

    def deliveries(self, me: Principal, id: str, *, limit: int = 25, before: str | None = None) -> list[DeliveryView]:
        """The deliveries of the hook, newest first, made before the one with the id `before`."""

    def redeliver(self, me: Principal, id: str, delivery_id: str, *, connection: object | None = None) -> DeliveryView:
        """Deliver again, now, with the same `webhook-id` and body. Conflict `disabled` for a hook that is off."""
