"""Chat pages: the data of a chat with a workflow or a skill (interface, workflow interfaces: chat-app)."""

import attrs

from wfcore.domain.channels.interfaces import InterfaceKind, takes_message
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.resource import Kind
from wfcore.runtime.channels.endpoints import Endpoint, endpoint_for, find_endpoint, input_schema
from wfcore.runtime.common.arguments import checks_arguments
from wfcore.runtime.common.authorization import needs
from wfcore.runtime.common.ports import Ports


@attrs.frozen
class ChatApp:
    """The chat with one workflow or skill. `takes_message`: the run's input also contains the `message`."""

    endpoint: Endpoint
    takes_message: bool

    def to_wire(self) -> dict[str, JSON]:
        target = self.endpoint.target
        return {
            "id": self.endpoint.row.id,
            "workflowId": target.id if target.kind is Kind.WORKFLOW else None,
            "skillId": target.id if target.kind is Kind.SKILL else None,
            "name": target.name,
            "description": target.description,
            "takesMessage": self.takes_message,
        }


class ChatApps:
    """The interfaces of kind `chatapp`, for their users."""

    area = "workflows"

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    @needs("*:invoke")
    async def get(self, me: Principal, id: str) -> ChatApp:
        """The chat of this interface, if the caller can use its workflow or skill.

        The client starts a run for each message, with `message`, with `origin` `chatapp`, and with one `sessionId` for
        the whole chat; the `input` of a workflow's run is `{"message": ...}` if the chat `takes_message`, otherwise
        `{}`. Errors: NotFound, Forbidden with `info.canUse` false.
        """
        endpoint = await endpoint_for(self._ports, me, InterfaceKind.CHATAPP, id)
        if endpoint.target.kind is Kind.SKILL:
            return ChatApp(endpoint, takes_message=False)
        return ChatApp(endpoint, takes_message(await input_schema(self._ports, endpoint)))

    @checks_arguments
    async def page(self, id: str) -> Endpoint:
        """The data of a chat for an unauthenticated caller. NotFound for an unknown or deleted one."""
        return await find_endpoint(self._ports, InterfaceKind.CHATAPP, id)
