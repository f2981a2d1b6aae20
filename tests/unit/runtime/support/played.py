"""A model whose replies call tools, and the toolsets for it."""

from collections.abc import Callable, Mapping
from typing import Any

from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.ports.providers import ModelRequest


def asks(name: str, /, **args: Any) -> dict[str, Any]:
    """A reply with one tool call."""
    return {"content": "", "toolCalls": [{"id": "c1", "name": name, "args": args}]}


class Played(ScriptedModel):
    """Replies by the number of the round, in any process; records its requests."""

    def __init__(self, *replies: Any) -> None:
        super().__init__(self._by_round(replies))

    def _by_round(self, replies: Any) -> Callable[[ModelRequest], Any]:
        def reply(request: ModelRequest) -> Any:
            return replies[sum(message["type"] == "ai" for message in request.messages)]

        return reply

    def tool_results(self) -> list[Mapping[str, Any]]:
        """The results of tools in the latest request."""
        return [message for message in self.requests[-1].messages if message["type"] == "tool"]


def enabled(*tools: str, **more: Any) -> dict[str, Any]:
    return {name: {"enabled": True, **more} for name in tools}
