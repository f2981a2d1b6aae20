"""What the run machine asks the world to do, in the imperative.

An effect is derived from the state and happens at least once. `key` names the execution (by a UUID of its own: run
ids are unique in an organization only), node, visit and step; it stays the same across attempts and restarts and is
handed to the tool, so that the tool can tell a repetition.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct, field

from wfcore.domain.kernel.json_type import JSON

Address = tuple[int, ...]
"""Where the outcome of an effect belongs: the frame, then node (position), visit and step in it.

In the root frame it is `(node, visit, step)`. `address[:-3]` names the frame, which entries carry as `within`: that
of a child is the address of the effect that opened it, then the attempt.
"""


class CallTool(Struct, frozen=True):
    """Call a tool with these very arguments. `not_before` is a time in epoch milliseconds, 0 for now.

    `agent`: a model called it, under `call_id`, with arguments that nobody has looked at yet. `sent`: this attempt
    was announced by `Sent`, so that its outcome is unknown to who finds it pending in a journal. `definition`: the
    digest of the tool's definition that a person has approved the call of; "" where nobody was asked. `skill_id` is
    that of the agent whose model called it, in its message `message_id`.
    """

    address: Address
    attempt: int
    key: str
    tool: str
    params: JSON
    not_before: int = 0
    timeout: float | None = None
    agent: bool = False
    call_id: str = ""
    sent: bool = False
    definition: str = ""
    skill_id: int | None = None
    message_id: str = ""


class OpenChild(Struct, frozen=True):
    """Open a child frame: resolve and pin the workflow or skill, check the input; the outcome is `Opened`, or `Failed`.

    `agent`: a model asked for it, so that it is opened with the access of who started the execution; a workflow's
    own node opens it with its deployer's. `depth` counts the frames around the child, from 1. `timeout` holds for the
    opening, and then for all that the child does.
    """

    address: Address
    attempt: int
    key: str
    kind: Literal["workflow", "skill"]
    resource_id: int
    input: JSON
    message: str | None = None
    not_before: int = 0
    timeout: float | None = None
    agent: bool = False
    depth: int = 1


class ComposeContext(Struct, frozen=True):
    """Compose what an agent will send; the outcome is the composed context, for as long as the visit lasts.

    `config` is what the run narrows of what the agent may use, `attachments` what the agent is shown of the run's.
    `variation_id` is the one pinned for a child; None for that of the execution, or the active one of an agent node's
    skill.
    """

    address: Address
    attempt: int
    key: str
    agent_id: int | None
    assistant: bool
    instructions: str
    message: str
    tool_restrictions: Sequence[str] | None = None
    settings: Mapping[str, JSON] = field(default_factory=dict)
    model: str | None = None
    config: Mapping[str, JSON] | None = None
    output_schema: Mapping[str, JSON] | None = None
    not_before: int = 0
    timeout: float | None = None
    variation_id: str | None = None
    attachments: Mapping[str, JSON] | None = None


class CallModel(Struct, frozen=True):
    """Ask a model for an answer to these messages (`{"type", "content"}`, the interface's Message, and `attachments`).

    With a `context` the messages are the composed ones, and `transcript` holds what the agent has said and got back
    since: `ai` messages with their `toolCalls`, `tool` messages with their `toolCallId`. The answer has to pass
    `guardrails`, as they are named. `replaceable`: the run's clients take back what they were shown of it.
    `allowances`: how many times each budget may be spent, by `budget_key`; once where nothing is said. `said`: clients
    saw text of this attempt, so that it is not made anew. `broken_off` counts the attempts that nothing but the end of
    their worker ended.
    """

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
    context: Mapping[str, JSON] | None = None
    transcript: Sequence[Mapping[str, JSON]] = ()
    guardrails: Sequence[JSON] = ()
    replaceable: bool = False
    allowances: Mapping[str, int] = field(default_factory=dict)
    said: bool = False
    broken_off: int = 0


Effect = CallTool | CallModel | OpenChild | ComposeContext


def tries(effect: Effect) -> int:
    """The attempts that count, this one included: not those that their worker ended and nothing else."""
    return effect.attempt - (effect.broken_off if isinstance(effect, CallModel) else 0)
