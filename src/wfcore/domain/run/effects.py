"""What the run machine requests from the world, in the imperative.

An effect is derived from the state and happens at least once. `key` names the execution (by a UUID of its own: run
ids are unique in an organization only), node, visit and step. It stays the same across attempts and restarts, so that
the tool that gets it can recognize a repetition. `state` is that of the attempt (`machine.attempts`).
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Literal

from msgspec import Struct, field

from wfcore.domain.kernel.json_type import JSON, Number

Address = tuple[int, ...]
"""Where the outcome of an effect belongs: the frame, then node (position), visit and step in it.

In the root frame it is `(node, visit, step)`. `address[:-3]` names the frame, which entries carry as `within`: for a
child it is the address of the effect that opened it, then the attempt.
"""

WAIT, TRANSFORM, FAIL, WORKFLOW = "core.wait", "core.transform", "core.fail", "core.workflow"
BUILT_IN = frozenset({WAIT, TRANSFORM, FAIL, WORKFLOW})
"""Built-in tools that the machine itself performs: by a timer, at once, or as a child."""

SERVED = "mcp."
"""How the ids of tools of MCP servers begin."""


class AttemptState(StrEnum):
    """Where one attempt of an effect stands. `requested`, `sent` and `streaming` are pending, `opened` has a child,
    `held` waits behind an interrupt; the others are ends.
    """

    requested = "requested"
    sent = "sent"
    streaming = "streaming"
    opened = "opened"
    held = "held"
    succeeded = "succeeded"
    failed = "failed"
    dropped = "dropped"


REQUESTED = AttemptState.requested

CallSlot = tuple[str, int]
"""A key, and how many calls of an organization with this key can be in progress at once."""

INCOMPLETE = "incomplete"
"""Reason of a failure: the answer of a model ended before it was complete."""
MODEL_FAILED = "model_failed"
"""Reason of a failure: a model did not give an answer."""

LOOK_UP = "?"
"""In place of a digest: the definition is only read, for the approval that comes next."""


class CallTool(Struct, frozen=True, gc=False, array_like=True, tag="tool"):
    """Call a tool with exactly these arguments. `not_before` is a time in epoch milliseconds, 0 for now; `timeout` is
    in seconds.

    `agent`: a model made the call, under `call_id`, with arguments that nobody has reviewed yet. `sent`: a `Sent`
    announced this attempt, so that a driver that finds it pending in a journal does not know its outcome. `definition`:
    the digest of the tool's definition whose call a person has approved; "" without an approval; with `LOOK_UP` the
    tool is not called, and the digest of its definition is the result. `skill_id` is the
    agent whose model made the call, in its message `message_id`, `end_user_id` the `userContext.userId` of the run.
    `connections` are the ids of the connections that the agent selects, and that the run selects. `slot` is what the
    call needs while it is in progress.
    """

    address: Address
    attempt: int
    key: str
    tool: str
    params: JSON
    not_before: int = 0
    timeout: Number | None = None
    agent: bool = False
    call_id: str = ""
    state: AttemptState = REQUESTED
    definition: str = ""
    skill_id: int | None = None
    message_id: str = ""
    end_user_id: str = ""
    carried: int = 0
    connections: tuple[tuple[str, ...], ...] = ()
    slot: CallSlot | None = None

    @property
    def sent(self) -> bool:
        return self.state is AttemptState.sent


class OpenChild(Struct, frozen=True, gc=False, array_like=True, tag="child"):
    """Open a child frame: resolve and pin the workflow or skill, check the input. The outcome is `Opened` or `Failed`.

    `agent`: a model requested it, so that it is opened with the access of the user who started the execution; the node
    of a workflow opens it with its deployer's. `depth` counts the frames around the child, from 1. `timeout`, in
    seconds, holds for the opening, and then for all that the child does. `frame` is what the frame of its node runs,
    once a retry, a fork or a move has chosen another variation; until then None. `definition` is the variation whose
    call a person has approved; "" without an approval.
    """

    address: Address
    attempt: int
    key: str
    kind: Literal["workflow", "skill"]
    resource_id: int
    input: JSON
    message: str | None = None
    not_before: int = 0
    timeout: Number | None = None
    agent: bool = False
    depth: int = 1
    state: AttemptState = REQUESTED
    carried: int = 0
    frame: tuple[str, int, str] | None = None
    definition: str = ""


class ComposeContext(Struct, frozen=True, gc=False, array_like=True, tag="context"):
    """Compose what an agent will send. The outcome is the composed context, for as long as the visit lasts.

    `config` is what the run narrows of what the agent can use, `attachments` are those of the run that the agent gets,
    `user_context` describes the end user of the run.
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
    timeout: Number | None = None
    variation_id: str | None = None
    attachments: Mapping[str, JSON] | None = None
    user_context: Mapping[str, JSON] | None = None
    state: AttemptState = REQUESTED
    carried: int = 0


class CallModel(Struct, frozen=True, gc=False, array_like=True, tag="model"):
    """Request a completion for these messages (`{"type", "content"}`, the interface's Message, and `attachments`).

    With a `context` the messages are the composed ones, and `transcript` holds the conversation of the agent since:
    `ai` messages with their `toolCalls`, `tool` messages with their `toolCallId`. The completion has to pass the named
    `guardrails`. `replaceable`: the run's clients can replace what they displayed of it. `allowances`: how many times
    each budget can be spent, by its `budget_key`; once by default. `said`: clients saw text of this attempt, so that
    it is not repeated. `broken_off` counts the attempts that ended only because their worker did.
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
    timeout: Number | None = None
    context: Mapping[str, JSON] | None = None
    transcript: Sequence[Mapping[str, JSON]] = ()
    guardrails: Sequence[JSON] = ()
    replaceable: bool = False
    allowances: Mapping[str, int] = field(default_factory=dict)
    state: AttemptState = REQUESTED
    broken_off: int = 0
    carried: int = 0

    @property
    def said(self) -> bool:
        return self.state is AttemptState.streaming


Effect = CallTool | CallModel | OpenChild | ComposeContext


def attempt_id(effect: Effect) -> str:
    """What names one attempt of an effect in its execution."""
    return f"{'.'.join(map(str, effect.address))}:{effect.attempt}"


def tries(effect: Effect) -> int:
    """The attempts that count, this one included: all but those of turns before a retry (`carried`), and those that
    ended only because their worker did.
    """
    return effect.attempt - effect.carried - (effect.broken_off if isinstance(effect, CallModel) else 0)
