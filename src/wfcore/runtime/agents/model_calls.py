"""Asking models: what they are sent, and what they say on the way to a whole answer."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from wfcore.domain.agents.prices import cost_of, to_money
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import CallModel
from wfcore.ports.journal import Execution
from wfcore.ports.providers import (
    Delta,
    Finished,
    ModelError,
    ModelProvider,
    ModelRequest,
    TextDelta,
    TokenUsage,
    ToolCallDelta,
    collect_calls,
)
from wfcore.runtime.agents.attachments import Attachments
from wfcore.runtime.agents.budgets import Budgets
from wfcore.runtime.agents.contexts import Contexts
from wfcore.runtime.agents.guardrails import GuardrailChain, Judged
from wfcore.runtime.common.ports import Ports

Say = Callable[[str], Awaitable[None]]
Spent = dict[str, JSON]
"""What a call consumed (interface, usage events), filled while it goes on: known of one that fails, too."""

MOST_TOKENS = 10**12
"""What one call is counted as at most, whatever a provider says: sums of it fit into every store."""
TURN = 64
"""Deltas of a provider that never waits after which everything else gets a turn."""


class ModelCalls:
    """Calls the models of one installation."""

    def __init__(self, ports: Ports, contexts: Contexts) -> None:
        self._ports = ports
        self._contexts = contexts
        self._budgets = Budgets(ports)
        self._attachments = Attachments(ports)

    async def ask(self, execution: Execution, effect: CallModel, say: Say, spent: Spent) -> tuple[JSON, Judged | None]:
        """The answer: its text or, when the model asks for tools, `{"text", "toolCalls"}`. Else `ModelError`.

        Of one that guardrails check it is what they leave, and what they did to it.
        """
        guard = GuardrailChain.of(self._ports.guardrails, effect)
        request = await self._request(execution, effect)
        provider = self._ports.models.get(request.model or "")
        if provider is None:
            raise ModelError(f"the model `{request.model}` is not configured", retryable=False)
        await self._budgets.check(execution, effect)
        answer = _Answer(request, spent)
        telling = _Telling(self._ports, answer, say, guard, is_silent=guard is not None and not effect.replaceable)
        began = self._ports.clock.now()
        try:
            await _hear(provider, request, answer, telling)
        finally:
            if spent:
                spent |= {"durationMs": self._ports.clock.now() - began, **self._cost(spent)}
        output = answer.whole()
        if guard is not None:
            return guard.judged(output)
        await telling.tell()
        return output, None

    def _cost(self, spent: Spent) -> Spent:
        """What the call cost, if its model has a price."""
        tokens = spent["inputTokens"], spent["outputTokens"]
        cost = cost_of(self._ports.settings.prices, spent["model"], *tokens)
        return {} if cost is None else {"cost": to_money(cost)}

    async def _request(self, execution: Execution, effect: CallModel) -> ModelRequest:
        if effect.context is not None:
            request = await self._contexts.request(execution, effect)
        else:
            model = effect.model or self._ports.settings.default_model
            request = ModelRequest(effect.messages, model, effect.settings, effect.output_schema, effect.key)
        return await self._attachments.request(execution.ref.org, request)


class _Answer:
    """What a model has said so far."""

    def __init__(self, request: ModelRequest, spent: Spent) -> None:
        self._request = request
        self._spent = spent
        self.parts: list[str] = []
        self._calls: list[ToolCallDelta] = []
        self._finished: Finished | None = None

    def take(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text):
                self.parts.append(text)
            case ToolCallDelta():
                self._calls.append(delta)
            case TokenUsage(asked, said):
                counted = {"calls": 1, "inputTokens": _count(asked), "outputTokens": _count(said)}
                self._spent |= {"model": self._request.model, **counted}
            case Finished():
                self._finished = delta
                if not self._spent:
                    self.take(TokenUsage())

    def whole(self) -> JSON:
        """The answer, only if nothing of it is missing."""
        if self._finished is None:
            raise ModelError("the model broke off before its answer was whole")
        reason, text = self._finished.reason, "".join(self.parts)
        if reason == "tool_calls" and self._request.tools:
            return {"text": text, "toolCalls": collect_calls(self._calls)}
        if reason != "stop":
            raise ModelError(f"the model ended with `{reason}`", retryable=False, reason=reason)
        return text


def _count(tokens: object) -> int:
    """A number of tokens; what a provider says beyond one is not counted."""
    return int(min(max(0, tokens), MOST_TOKENS)) if isinstance(tokens, int | float) else 0


async def _hear(provider: ModelProvider, request: ModelRequest, answer: _Answer, telling: "_Telling") -> None:
    """Take the answer in, and tell of it meanwhile.

    The provider's stream lives in one task from its first delta to its last, as its cancel scopes ask for.
    """
    listening = asyncio.create_task(_listen(provider, request, answer, telling.news))
    try:
        await telling.tell_until(listening)
        await listening
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def _listen(provider: ModelProvider, request: ModelRequest, answer: _Answer, news: asyncio.Event) -> None:
    parts, taken = answer.parts, 0
    try:
        async with aclosing(provider.stream(request)) as deltas:
            async for delta in deltas:
                if type(delta) is TextDelta:
                    parts.append(delta.text)
                    if not news.is_set():
                        news.set()
                else:
                    answer.take(delta)
                if not taken % TURN:
                    await asyncio.sleep(0)  # perhaps the provider never waits, but others want a turn
                taken += 1
    finally:
        news.set()


class _Telling:
    """Text on its way to the journal: the first piece at once, then what came in within an interval.

    Under guardrails it is what they leave of the beginning, as long as that only grows.
    """

    def __init__(
        self, ports: Ports, answer: _Answer, say: Say, guard: GuardrailChain | None, *, is_silent: bool
    ) -> None:
        self._clock = ports.clock
        self._interval = ports.settings.delta_interval
        self._answer = answer
        self._say = say
        self._guard = guard
        self._told = 0
        self._shown = ""
        self._is_silent = is_silent
        self.news = asyncio.Event()

    async def tell_until(self, listening: asyncio.Task[None]) -> None:
        """Tell what is new, piece by piece, until nothing more can come in."""
        while not listening.done():
            await self.news.wait()
            self.news.clear()
            await self.tell()
            await self._pause(listening)

    async def tell(self) -> None:
        """Tell what has come in since the last time."""
        parts = self._answer.parts
        if len(parts) == self._told or self._is_silent:
            return
        told, self._told = self._told, len(parts)
        guard = self._guard
        new = "".join(parts[told:]) if guard is None else self._grown(guard.beginning("".join(parts)))
        if new:
            await self._say(new)

    def _grown(self, text: str) -> str:
        """What the text has more than what was said; "" where it says something else."""
        if not text.startswith(self._shown):
            return ""
        new, self._shown = text[len(self._shown) :], text
        return new

    async def _pause(self, listening: asyncio.Task[None]) -> None:
        pause = asyncio.create_task(self._clock.sleep(self._interval))
        try:
            await asyncio.wait((listening, pause), return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
