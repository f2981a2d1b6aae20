"""What the run machine asks the world to do, in the imperative.

An effect is derived from the state and happens at least once. `key` names the execution, node, visit and
step; it stays the same across attempts and restarts and is handed to the tool, so that the tool can tell a
repetition.
"""

from collections.abc import Mapping, Sequence

import attrs

from wfcore.domain.errors import JSON

Address = tuple[int, int, int]
"""Node (position), visit and step of an effect: where its outcome belongs."""


@attrs.frozen
class CallTool:
    """Call a tool with these very arguments. `not_before` is a time in epoch milliseconds, 0 for now."""

    address: Address
    attempt: int
    key: str
    tool: str
    params: JSON
    not_before: int = 0
    timeout: float | None = None


@attrs.frozen
class CallModel:
    """Ask a model for an answer to these messages (`{"type", "content"}`, the interface's Message)."""

    address: Address
    attempt: int
    key: str
    agent_id: int | None
    model: str | None
    messages: Sequence[Mapping[str, JSON]]
    settings: Mapping[str, JSON]
    output_schema: Mapping[str, JSON] | None = None
    tool_restrictions: Sequence[str] | None = None
    not_before: int = 0
    timeout: float | None = None


Effect = CallTool | CallModel
