"""The effects of one execution that are in flight in this process."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any, Final

from wfcore.domain.run.effects import LOOK_UP, Address, AttemptState, CallModel, CallTool, Effect, attempt_id
from wfcore.domain.run.entries import Failed, Said, Sent
from wfcore.ports.providers import Tools
from wfcore.runtime.execution.outcomes import address_of, broken_off, sent, unknown
from wfcore.runtime.tools.call_rates import CallRates
from wfcore.runtime.tools.mcp_tools import is_served

SENT = AttemptState.sent

Key = tuple[Address, int]
"""Address and attempt."""

TakeSlot = Callable[[CallTool], Awaitable[int]]
"""Takes the slot of a call, or returns how many others must end before (`Journal.take_slot`)."""

NEXT_TRY: Final = 2_000
"""Milliseconds after which a call without a slot tries again, for each call that must end before."""

LAST_TRY: Final = 600_000
"""The most milliseconds until then."""


def key_of(effect: Effect) -> Key:
    return effect.address, effect.attempt


class EffectsInFlight:
    """One task for each effect.

    A call of a tool that is not idempotent is announced in the journal before it is made, a call of a model by the
    first text of its answer. One that was announced and is pending, although it is not in flight here, was broken off:
    with a worker that ended, or by this session. `tasks`, `announced` and `harmless`, the tools that need no
    announcement, are read by the session.

    A call with a key begins only with a slot, one of a tool with a rate only after the rate has admitted it. It is
    announced after that. Of the calls with one key only the first waits for a slot, the others wait for that call.
    """

    def __init__(self, tools: Tools, rates: CallRates, take_slot: TakeSlot) -> None:
        self._tools = tools
        self._rates = rates
        self._take_slot = take_slot
        self._slots: set[Key] = set()
        self._awaited: dict[str, CallTool] = {}
        """By key: the call that waits for a slot."""
        self._admitted: set[Key] = set()
        self._not_before: dict[Key, int] = {}
        """When calls that have no slot, or that a rate did not admit, try again."""
        self._wakes = 0
        """How often slots may have become free for them."""
        self.tasks: dict[Key, asyncio.Task[None]] = {}
        self.announced: set[Key] = set()
        self.harmless = rates.harmless

    def startable(self, pending: Mapping[Address, Effect], now: int) -> list[Effect]:
        """Those that are due and not under way."""
        due = [effect for effect in pending.values() if effect.not_before <= now and key_of(effect) not in self.tasks]
        return [effect for effect in due if not self.is_held(effect)]

    def is_held(self, effect: Effect) -> bool:
        """Whether the effect waits for a slot of its key or for the rate of its tool."""
        if type(effect) is not CallTool or (effect.slot is None and not self._rates.limits(effect)):
            return False
        return effect.state is not SENT and key_of(effect) not in self._admitted

    def held(self, pending: Mapping[Address, Effect], now: int) -> list[tuple[CallTool, int]]:
        """Calls that are due and wait for a slot or a rate, each with the time at which it tries again: at first now.

        Without those that wait for another call with their key.
        """
        held = [effect for effect in pending.values() if effect.not_before <= now and self.is_held(effect)]
        if not held and not self._awaited:  # nearly always
            return []
        first = {key: call for key, call in self._awaited.items() if call in held}
        self._awaited = first
        calls = [call for call in held if isinstance(call, CallTool)]
        return [(call, self._not_before.get(key_of(call), now)) for call in calls if self._is_next(call)]

    def _is_next(self, call: CallTool) -> bool:
        """Whether no other call with its key waits for a slot."""
        return call.slot is None or key_of(self._awaited.get(call.slot[0], call)) == key_of(call)

    async def admit(self, org: str, call: CallTool, now: int) -> None:
        """Let the call have a slot and the rate of the tool admit it, or set when it tries again."""
        if not self._is_next(call):
            return
        key = key_of(call)
        at = await self._slot_not_before(call, now)
        if not at and self._rates.limits(call):
            at = await self._rates.not_before(org, call.tool, now)
        if at:
            self._not_before[key] = at
            return
        self._admitted.add(key)
        self._not_before.pop(key, None)
        if not self._is_called_once(call.tool):
            self.announced.add(key)

    async def _slot_not_before(self, call: CallTool, now: int) -> int:
        """0 when the call has its slot or needs none; else when it tries again."""
        if call.slot is None or key_of(call) in self._slots:
            return 0
        wakes = self._wakes
        before = await self._take_slot(call)
        if before:
            self._awaited[call.slot[0]] = call
            return now + (min(before * NEXT_TRY, LAST_TRY) if self._wakes == wakes else 0)
        self._awaited.pop(call.slot[0], None)
        self._slots.add(key_of(call))
        return 0

    def awaiting(self) -> list[str]:
        """The attempts that wait for a slot."""
        return [attempt_id(call) for call in self._awaited.values()]

    def try_again(self) -> None:
        """Slots are free now, perhaps for calls here."""
        self._wakes += 1
        for call in self._awaited.values():
            self._not_before.pop(key_of(call), None)

    def announcements(self, pending: Mapping[Address, Effect], now: int) -> list[Sent | Failed]:
        """What has to be durable before the effects that are due can begin."""
        found: list[Sent | Failed] = []
        harmless = self.harmless
        for effect in pending.values():
            if type(effect) is CallTool and effect.tool in harmless and effect.state is not SENT:
                continue  # most effects: `may_begin`, without a call
            if not self.may_begin(effect) and effect.not_before <= now and not self.is_held(effect):
                found += self._announcement(effect, now)
        return found

    def may_begin(self, effect: Effect) -> bool:
        """Whether it calls a tool that is known to need no announcement, or was announced here."""
        if type(effect) is CallTool and effect.state is not SENT:
            if effect.slot is not None and key_of(effect) not in self._admitted:
                return False
            harmless = effect.tool in self.harmless or effect.definition == LOOK_UP
            return harmless or key_of(effect) in self.announced
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
        if is_served(tool_id) or (tool is not None and not tool.idempotent):
            return True
        if not self._rates.has(tool_id):
            self.harmless.add(tool_id)
        return False

    def streamed(self, said: Said) -> None:
        """The model call in flight here has streamed its first text."""
        self.announced.add((address_of(said), said.attempt))

    def launch(self, effect: Effect, performing: Coroutine[Any, Any, None]) -> None:
        self.tasks[key_of(effect)] = asyncio.get_running_loop().create_task(performing)

    def ended(self, effect: Effect) -> None:
        """An effect that was not launched is under way no more: it has an outcome, or was broken off."""
        self._forget(key_of(effect))

    def _forget(self, key: Key) -> None:
        self.announced.discard(key)
        self._admitted.discard(key)
        self._slots.discard(key)

    async def stop_others(self, mine: Key) -> None:
        """Stop all but one, and wait until they have stopped."""
        await _stop(task for key, task in self.tasks.items() if key != mine)

    def forget_finished(self, pending: Mapping[Address, Effect]) -> None:
        """Effects that are pending no more have had their outcome, or were given up: stop those still running.

        One that is done and pending has its outcome among those still to be taken.
        """
        for key, task in list(self.tasks.items()):
            effect = pending.get(key[0])
            if effect is None or effect.attempt != key[1] or task.cancelled():
                if not task.done():
                    task.cancel()
                del self.tasks[key]
                self._forget(key)

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
