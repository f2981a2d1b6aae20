"""What a frame remembers of a node while it is being visited: the calls of an action, the talk of an agent."""

from collections import deque
from collections.abc import Mapping

from wfcore.domain.kernel.json_type import JSON

Message = Mapping[str, JSON]
"""One message (interface, Message)."""


class Batch:
    """The calls of one action visit (several with `forEach`) and what came of them."""

    __slots__ = ("calls", "live", "many", "next", "results")

    def __init__(self, calls: list[JSON], many: bool) -> None:
        self.calls = calls
        self.many = many
        self.next = 0
        self.live = 0
        self.results: list[JSON] = [None] * len(calls)

    def copy(self) -> "Batch":
        twin = Batch(self.calls, self.many)
        twin.next, twin.live, twin.results = self.next, self.live, self.results.copy()
        return twin


class AgentLoop:
    """One visit of an agent that has a context: what was said since, and the round under way.

    `next` is the next step of the visit. Of the calls of the round, by step, `open` holds those without a result and
    `todo` those not yet asked for. `asking`: it is the model's turn. `heard` is what the user has said
    meanwhile, and the model is told in its next round. `before` is what the execution had spent when the context was
    composed, `allowances` how many times each budget may be spent.
    """

    __slots__ = (
        "allowances", "asking", "before", "context", "heard", "next", "open", "results", "rounds", "todo", "transcript",
    )  # fmt: skip

    def __init__(self) -> None:
        self.context: Mapping[str, JSON] = {}
        self.before: Mapping[str, float] = {}
        self.transcript: list[Message] = []
        self.heard: list[Message] = []
        self.open: dict[int, Mapping[str, JSON]] = {}
        self.todo: deque[int] = deque()
        self.results: dict[int, Message] = {}
        self.asking = False
        self.next = 1
        self.allowances: Mapping[str, int] = {}
        self.rounds = 0

    def copy(self) -> "AgentLoop":
        twin = AgentLoop()
        for name in AgentLoop.__slots__:
            value = getattr(self, name)
            setattr(twin, name, value.copy() if isinstance(value, list | dict | deque) else value)
        return twin
