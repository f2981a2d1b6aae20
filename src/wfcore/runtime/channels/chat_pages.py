"""Chat pages: what one needs to know to talk to a workflow (interface, workflow interfaces: chat-app)."""

import attrs

from wfcore.domain.channels.interfaces import InterfaceKind, takes_message
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.runtime.channels.endpoints import Endpoint, find_surface, input_schema, surface_for
from wfcore.runtime.common.authorization import needs
from wfcore.runtime.common.ports import Ports


@attrs.frozen
class ChatApp:
    """The chat with one workflow. `takes_message`: a run's input has the `message` too."""

    surface: Endpoint
    takes_message: bool

    def to_wire(self) -> dict[str, JSON]:
        workflow = self.surface.workflow
        return {
            "id": self.surface.row.id,
            "workflowId": workflow.id,
            "name": workflow.name,
            "description": workflow.description,
            "takesMessage": self.takes_message,
        }


class ChatApps:
    """The interfaces of kind `chatapp`, as those who chat reach them."""

    area = "workflows"

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    @needs("*:invoke")
    async def get(self, me: Principal, id: str) -> ChatApp:
        """The chat of this interface, for who can use its workflow.

        A message becomes a run of it with `message`, with `origin` `chatapp`, and with a `sessionId` that goes through
        the whole chat; its `input` is `{"message": ...}` where the chat `takes_message`, else `{}`. Errors: NotFound,
        Forbidden with `info.canUse` false.
        """
        surface = await surface_for(self._ports, me, InterfaceKind.CHATAPP, id)
        return ChatApp(surface, takes_message(await input_schema(self._ports, surface)))

    async def page(self, id: str) -> Endpoint:
        """What is known of a chat before it is known who asks. NotFound as of `find_surface`."""
        return await find_surface(self._ports, InterfaceKind.CHATAPP, id)
