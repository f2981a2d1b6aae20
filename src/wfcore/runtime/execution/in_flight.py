"""The effects of one execution that are in flight in this process."""

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from typing import Any

from wfcore.domain.run.effects import LOOK_UP, Address, AttemptState, CallModel, CallTool, Effect
from wfcore.domain.run.entries import Failed, Said, Sent
from wfcore.ports.providers import Tools
from wfcore.runtime.execution.outcomes import address_of, broken_off, sent, unknown
from wfcore.runtime.tools.mcp_tools import is_served

SENT = AttemptState.sent

Key = tuple[Address, int]
"""Address and attempt."""


def key_of(effect: Effect) -> Key:
    return effect.address, effect.attempt


class EffectsInFlight:
    """One task for each effect.

    A call of a tool that is not idempotent is announced in the journal before it is made, a call of a model by the
    first text of its answer. One that was announced and is pending, although it is not in flight here, was broken off:
    with a worker that ended, or by this session. `tasks` and `announced` are read by the session.
    """

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self.tasks: dict[Key, asyncio.Task[None]] = {}
        self.announced: set[Key] = set()
        self._harmless: set[str] = set()

    def startable(self, pending: Mapping[Address, Effect], now: int) -> list[Effect]:
        """Those that are due and not under way."""
        return [effect for effect in pending.values() if effect.not_before <= now and key_of(effect) not in self.tasks]

    def announcements(self, pending: Mapping[Address, Effect], now: int) -> list[Sent | Failed]:
        """What has to be durable before the effects that are due can begin."""
        found: list[Sent | Failed] = []
        harmless = self._harmless
        for effect in pending.values():
            if type(effect) is CallTool and effect.tool in harmless and effect.state is not SENT:
                continue  # most effects: `may_begin`, without a call
            if not self.may_begin(effect) and effect.not_before <= now:
                found += self._announcement(effect, now)
        return found

    def may_begin(self, effect: Effect) -> bool:
        """Whether it calls a tool that is known to need no announcement, or was announced here."""
        if type(effect) is CallTool and effect.state is not SENT:
            return effect.tool in self._harmless or effect.definition == LOOK_UP
        return key_of(effect) in self.announced

    def _announcement(self, effect: Effect, now: int) -> Iterator[Sent | Failed]:
        if isinstance(effect, CallModel) and effect.said:
            yield broken_off(effect, now)
        elif isinstance(effect, CallTool) and effect.sent:
            yield unknown(effect, now)
        elif isinstance(effect, CallTool) and self._is_called_once(effect.tool):
            self.announced.add(key_of(effect))
            yield sent(effect, now)

    def _is_called_once(self, tool_id: str) -> bool:
        """Whether a call of this tool must not be made twice. If it can be, the tool is remembered as harmless."""
        tool = self._tools.get(tool_id)
        if not is_served(tool_id) and (tool is None or tool.idempotent):
            self._harmless.add(tool_id)
            return False
        return True

    def streamed(self, said: Said) -> None:
        """The model call in flight here has streamed its first text."""
        self.announced.add((address_of(said), said.attempt))

    def launch(self, effect: Effect, performing: Coroutine[Any, Any, None]) -> None:
        self.tasks[key_of(effect)] = asyncio.get_running_loop().create_task(performing)

    def ended(self, effect: Effect) -> None:
        """An effect that was not launched is under way no more: it has an outcome, or was broken off."""
        self.announced.discard(key_of(effect))

    async def stop_others(self, mine: Key) -> None:
        """Stop all but one, and wait until they have stopped."""
        await _stop(task for key, task in self.tasks.items() if key != mine)

    def forget_finished(self, pending: Mapping[Address, Effect]) -> None:
        """Effects that are pending no more have had their outcome, or were given up: stop those still running.

        One that is done and pending has its outcome among those still to be taken.
        """
        for key, task in list(self.tasks.items()):
            effect = pending.get(key[0])
            if task.cancelled() or effect is None or effect.attempt != key[1]:
                task.cancel()
                del self.tasks[key]
                self.announced.discard(key)

    async def abandon(self) -> None:
        """Stop all of them."""
        await _stop(self.tasks.values())
        self.tasks.clear()


async def _stop(tasks: Iterable[asyncio.Task[None]]) -> None:
    stopped = list(tasks)
    for task in stopped:
        task.cancel()
    if stopped:
        await asyncio.gather(*stopped, return_exceptions=True)
