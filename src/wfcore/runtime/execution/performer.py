"""Performing effects: every outcome becomes an entry."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from wfcore.domain.run.effects import CallModel, CallTool, ComposeContext, Effect, OpenChild
from wfcore.domain.run.entries import Failed, Opened, Succeeded
from wfcore.ports.faults import ClaimLost, InternalFault, StoreUnavailable, is_failure, own_work
from wfcore.ports.journal import Execution
from wfcore.ports.providers import ModelError, ToolFailed
from wfcore.runtime.agents.contexts import Contexts
from wfcore.runtime.agents.model_calls import CallUsage, ModelCalls
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.execution.children import ChildRefused, Children
from wfcore.runtime.execution.outcomes import Performed, Stream, failed, opened, progressed, said, succeeded
from wfcore.runtime.execution.plans import Plans
from wfcore.runtime.execution.prepared_calls import PreparedPlans
from wfcore.runtime.tools.calls import PlainCall, ToolCalls

log = logging.getLogger("wfcore.performer")

INTERNAL = "an internal error occurred; the log of the server has its cause"

FIRST_RETRY, LONGEST_RETRY = 0.1, 2.0
"""Seconds before an effect is repeated that the store kept from happening: the first time, and at most."""


class Performer:
    """Performs one effect at a time for any number of executions; it raises only what ends the session."""

    def __init__(self, ports: Ports, plans: Plans) -> None:
        self._clock = ports.clock
        self._contexts = Contexts(ports)
        self._tools = ToolCalls(ports)
        self._models = ModelCalls(ports, self._contexts)
        self._children = Children(ports, plans)
        self.plain_call: Callable[[str], PlainCall | None] = self._tools.plain_call
        """What `perform` awaits for an effect that calls this tool, if it needs nothing but its arguments: without an
        approval, a time limit and a report of progress. `failed` has the outcome of what it raises."""
        self.prepared_calls = PreparedPlans(self.plain_call).of
        """The plain calls of a plan whose arguments are constant."""

    async def perform(self, execution: Execution, effect: Effect, stream: Stream, now: Callable[[], int]) -> Performed:
        """The entry with the outcome of the effect, at the time `now` of the execution. A tool that takes too long is
        cancelled.

        `ClaimLost` goes through: the effect has no outcome here. While the store does not respond, the effect waits and
        is repeated: no attempt is counted, and the time does not count against the effect's timeout.
        """
        wait = FIRST_RETRY
        while True:
            spent: CallUsage = {}
            try:
                if type(effect) is CallTool and effect.timeout is None:  # nearly always: spared a coroutine of its own
                    plain = None if effect.definition else self._tools.plain_call(effect.tool)
                    if plain is not None:
                        return succeeded(effect, await plain(effect.params), now())
                    call = self._tools.call(execution, effect, partial(_report, effect, stream, now))
                    return succeeded(effect, await call, now())
                async with asyncio.timeout(effect.timeout):
                    return await self._outcome(execution, effect, stream, spent, now)
            except StoreUnavailable as error:
                log.warning("an effect waits for the store", extra={"why": str(error.__cause__), "seconds": wait})
            except BaseException as error:  # noqa: BLE001  (a tool may raise anything; the run must learn of it)
                return self.failed(effect, error, now(), spent)
            await self._clock.sleep(wait)
            wait = min(2 * wait, LONGEST_RETRY)

    def failed(self, effect: Effect, error: BaseException, at: int, spent: CallUsage | None = None) -> Failed:
        """The outcome of an effect that raised this. Raises it again if it is none: a cancellation of the session, a
        claim that was lost, or KeyboardInterrupt.
        """
        if isinstance(error, ClaimLost) or not is_failure(error):
            raise error
        return _failure(effect, at, error, spent or None)

    async def _outcome(
        self, execution: Execution, effect: Effect, stream: Stream, spent: CallUsage, now: Callable[[], int]
    ) -> Succeeded | Opened:
        match effect:
            case CallTool():
                answer = await self._tools.call(execution, effect, partial(_report, effect, stream, now))
                return succeeded(effect, answer, now())
            case CallModel():
                say = partial(self._say, effect, stream)
                output, judged = await self._models.call(execution, effect, say, spent)
                return succeeded(effect, output, now(), spent, judged)
            case ComposeContext():
                with own_work(ModelError, ToolFailed):
                    context = await self._contexts.composed(execution, effect)
                return succeeded(effect, context, now())
            case OpenChild():
                with own_work(ChildRefused):
                    variation_id = await self._children.pinned(execution, effect)
                return opened(effect, now(), variation_id)

    async def _say(self, effect: CallModel, stream: Stream, text: str) -> None:
        await stream(said(effect, self._clock.now(), text))


async def _report(
    effect: CallTool, stream: Stream, now: Callable[[], int], progress: float | None, total: float | None, message: str
) -> None:
    await stream(progressed(effect, now(), progress, total, message))


def _failure(effect: Effect, at: int, error: BaseException, usage: CallUsage | None) -> Failed:
    """What an exception is as the outcome of an effect."""
    if isinstance(error, (ToolFailed, ModelError, ChildRefused)):
        info = getattr(error, "info", None)
        return failed(effect, at, error.message, error.reason, error.retryable, info, usage)
    if isinstance(error, asyncio.CancelledError):
        return failed(effect, at, "the tool was cancelled from inside", usage=usage)
    if isinstance(error, InternalFault):
        log.error("an effect failed by a fault of the server", exc_info=error.__cause__)
        return failed(effect, at, INTERNAL, "defect", usage=usage)
    if isinstance(error, TimeoutError):
        took = "no answer in time" if effect.timeout is None else f"no answer within {effect.timeout:g} seconds"
        return failed(effect, at, took, "timeout", usage=usage)
    return failed(effect, at, _text_of(error), usage=usage)


def _text_of(error: BaseException) -> str:
    """The type and the text of an exception; the type alone if the text cannot be made."""
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except Exception:  # noqa: BLE001  (it is the tool's own `__str__`)
        return name
