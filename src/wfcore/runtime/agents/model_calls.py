"""Model calls: build the request, stream the text, and assemble the completion."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from itertools import count

from wfcore.domain.kernel.json_readers import as_integer, as_objects, as_text, optional_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.projections.cost import cost_of, to_money
from wfcore.domain.run.effects import INCOMPLETE, MODEL_FAILED, CallModel
from wfcore.ports.faults import own_work
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
from wfcore.runtime.agents.guardrails import GuardrailChain, GuardrailReport
from wfcore.runtime.common.ports import Ports

OnText = Callable[[str], Awaitable[None]]
CallUsage = dict[str, JSON]
"""The usage of a call (interface, usage events), filled during the call, so that a failed call has one too."""

MOST_TOKENS = 10**12
"""The most tokens that are counted for one call, so that sums fit into every store."""
DELTAS_PER_YIELD = 64
"""After this many deltas the stream yields to other tasks, because a provider's stream can be without waits."""


class ModelCalls:
    """Calls the models of one installation."""

    def __init__(self, ports: Ports, contexts: Contexts) -> None:
        self._ports = ports
        self._contexts = contexts
        self._budgets = Budgets(ports)
        self._attachments = Attachments(ports)

    async def call(
        self, execution: Execution, effect: CallModel, on_text: OnText, usage: CallUsage
    ) -> tuple[JSON, GuardrailReport | None]:
        """The completion: its text or, with tool calls, `{"text", "toolCalls"}`; and the report of the guardrails.

        `on_text` receives the text as it grows, `usage` is filled. Raises `ModelError`.
        """
        guard = GuardrailChain.of(self._ports.guardrails, effect)
        with own_work(ModelError):
            request = await self._request(execution, effect)
        provider = self._ports.models.get(request.model or "")
        if provider is None:
            raise ModelError(f"the model `{request.model}` is not configured", retryable=False)
        with own_work(ModelError):
            await self._budgets.check(execution, effect)
        completion = _Completion(request, usage)
        publisher = _TextPublisher(
            self._ports, completion, on_text, guard, is_silent=guard is not None and not effect.replaceable
        )
        began = self._ports.clock.monotonic()
        try:
            await _receive(provider, request, completion, publisher)
        except ModelError as error:
            raise completion.broken_off(error) from None
        finally:
            if usage:
                usage |= {"durationMs": self._ports.clock.monotonic() - began, **self._cost(usage)}
        output = completion.output()
        if guard is not None:
            return guard.apply(output, publisher.published)
        await publisher.publish()
        return output, None

    def _cost(self, usage: CallUsage) -> CallUsage:
        """The cost of the call, if its model has a price."""
        read, written = as_integer(usage["inputTokens"]), as_integer(usage["outputTokens"])
        cost = cost_of(self._ports.settings.prices, optional_text(usage["model"]), read, written)
        return {} if cost is None else {"cost": to_money(cost)}

    async def _request(self, execution: Execution, effect: CallModel) -> ModelRequest:
        if effect.context is not None:
            request = await self._contexts.request(execution, effect)
        else:
            model = effect.model or self._ports.settings.default_model
            request = ModelRequest(effect.messages, model, effect.settings, effect.output_schema, effect.key)
        return await self._attachments.request(execution.ref.org, request)


class _Completion:
    """The completion received so far."""

    def __init__(self, request: ModelRequest, usage: CallUsage) -> None:
        self._request = request
        self._usage = usage
        self.parts: list[str] = []
        self._calls: list[ToolCallDelta] = []
        self._finished: Finished | None = None

    def add(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text):
                self.parts.append(text)
            case ToolCallDelta():
                self._calls.append(delta)
            case TokenUsage(sent, received):
                counted = {"calls": 1, "inputTokens": _count(sent), "outputTokens": _count(received)}
                self._usage |= {"model": self._request.model, **counted}
            case Finished():
                self._finished = delta
                if not self._usage:
                    self.add(TokenUsage())

    def text(self, start: int = 0) -> str:
        """The text from this part on. No store takes half of a surrogate pair, which becomes `?`."""
        text = "".join(self.parts[start:])
        return text if text.isascii() else text.encode(errors="replace").decode()

    def broken_off(self, error: ModelError) -> ModelError:
        """The error of a stream, as that of an incomplete answer if the answer had begun."""
        begun = bool(self.parts or self._calls)
        if not (begun and error.retryable and error.reason == MODEL_FAILED):
            return error
        return ModelError(error.message, reason=INCOMPLETE)

    def output(self) -> JSON:
        """The whole completion. `ModelError` when it is incomplete."""
        if self._finished is None:
            raise ModelError("the model's answer ended before it was complete", reason=INCOMPLETE)
        reason, text = self._finished.reason, self.text()
        if reason == "tool_calls" and self._request.tools:
            return {"text": text, "toolCalls": _with_new_ids(collect_calls(self._calls), self._request.messages)}
        if reason != "stop":
            raise ModelError(f"the model ended with `{reason}`", retryable=False, reason=reason)
        return text


def _with_new_ids(calls: list[dict[str, JSON]], earlier: Iterable[Mapping[str, JSON]]) -> list[dict[str, JSON]]:
    """The calls, with other ids for those that calls of earlier messages have.

    Some providers count their calls anew in each response; others refuse a conversation with two calls of one id.
    """
    taken = {as_text(call["id"]) for message in earlier for call in as_objects(message.get("toolCalls") or ())}
    own = {as_text(call["id"]) for call in calls}
    for call in calls:
        if (given := as_text(call["id"])) in taken:
            call["id"] = next(new for number in count(2) if (new := f"{given}-{number}") not in taken | own)
            own.add(new)
    return calls


def _count(tokens: object) -> int:
    """A number of tokens between 0 and MOST_TOKENS; 0 for anything that is not a number."""
    return int(min(max(0, tokens), MOST_TOKENS)) if isinstance(tokens, int | float) else 0


async def _receive(
    provider: ModelProvider, request: ModelRequest, completion: _Completion, publisher: "_TextPublisher"
) -> None:
    """Read the completion and publish its text meanwhile.

    One task reads the provider's stream from the first delta to the last, as its cancel scopes require.
    """
    reading = asyncio.create_task(_read_stream(provider, request, completion, publisher.arrived))
    try:
        await publisher.publish_until(reading)
        await reading
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _read_stream(
    provider: ModelProvider, request: ModelRequest, completion: _Completion, arrived: asyncio.Event
) -> None:
    parts, taken = completion.parts, 0
    try:
        async with aclosing(provider.stream(request)) as deltas:
            async for delta in deltas:
                if type(delta) is TextDelta:
                    parts.append(delta.text)
                    if not arrived.is_set():
                        arrived.set()
                else:
                    completion.add(delta)
                if not taken % DELTAS_PER_YIELD:
                    await asyncio.sleep(0)  # the provider's stream can be without waits
                taken += 1
    finally:
        arrived.set()


class _TextPublisher:
    """Publishes text to the journal: the first part at once, then the new text of each interval.

    With guardrails it publishes the safe prefix, as long as that only grows; `published` has it.
    """

    def __init__(
        self, ports: Ports, completion: _Completion, on_text: OnText, guard: GuardrailChain | None, *, is_silent: bool
    ) -> None:
        self._clock = ports.clock
        self._interval = ports.settings.delta_interval
        self._completion = completion
        self._on_text = on_text
        self._guard = guard
        self._published_parts = 0
        self.published = ""
        self._is_silent = is_silent
        self.arrived = asyncio.Event()

    async def publish_until(self, reading: asyncio.Task[None]) -> None:
        """Publish new text repeatedly until the stream has ended."""
        while not reading.done():
            await self.arrived.wait()
            self.arrived.clear()
            await self.publish()
            await self._pause(reading)

    async def publish(self) -> None:
        """Publish the text since the last call."""
        parts = self._completion.parts
        if len(parts) == self._published_parts or self._is_silent:
            return
        start, self._published_parts = self._published_parts, len(parts)
        guard = self._guard
        whole = self._completion.text
        new = whole(start) if guard is None else self._addition(guard.safe_prefix(whole()))
        if new:
            await self._on_text(new)

    def _addition(self, text: str) -> str:
        """The text after the published prefix; "" when the text does not begin with that prefix."""
        if not text.startswith(self.published):
            return ""
        new, self.published = text[len(self.published) :], text
        return new

    async def _pause(self, reading: asyncio.Task[None]) -> None:
        pause = asyncio.create_task(self._clock.sleep(self._interval))
        try:
            await asyncio.wait((reading, pause), return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
