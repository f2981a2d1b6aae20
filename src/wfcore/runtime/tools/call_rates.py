"""The rates of tools: how many calls of a tool each organization can begin, over all workers."""

from typing import Final

import attrs

from wfcore.domain.run.effects import LOOK_UP, CallTool, Effect
from wfcore.ports.system import Rate
from wfcore.runtime.common.ports import Ports

KEPT: Final = 1_000
"""Rates with waiting calls, after which those without are dropped."""


class CallRates:
    """The rates that tools declare and `Settings.tool_calls` sets, for all executions that this process drives."""

    def __init__(self, ports: Ports) -> None:
        declared = {tool.id: tool.calls for tool in ports.tools.all() if tool.calls is not None}
        texts = {**declared, **ports.settings.tool_calls}
        self._rates = {tool: Rate.of(tool, text) for tool, text in texts.items()}
        self._limiter = ports.rate_limiter
        self._clock = ports.clock
        self._last: dict[str, int] = {}
        """When the latest call that waits for a rate tries again, by the key of the rate, in monotonic time: executions
        differ in theirs, and the wall clock can be set back.
        """
        self.harmless: set[str] = set()
        """Tools without a rate whose calls can be repeated, as far as sessions have looked them up."""

    def __bool__(self) -> bool:
        """Whether any tool has a rate."""
        return bool(self._rates)

    def limits(self, effect: Effect) -> bool:
        """Whether the effect is a call of a tool with a rate."""
        return type(effect) is CallTool and effect.tool in self._rates and effect.definition != LOOK_UP

    def has(self, tool: str) -> bool:
        """Whether this tool has a rate."""
        return tool in self._rates

    async def not_before(self, org: str, tool: str, now: int) -> int:
        """Count a call of the tool that begins at `now`, in epoch milliseconds. 0 when it can begin; else when to try
        again.

        Calls that wait try one after the other, at the pace of the rate: not all of them for each call that can begin.
        """
        rate = attrs.evolve(self._rates[tool], key=f"{org}:calls:{tool}")
        (wait,) = await self._limiter.admit([rate])
        if not wait:
            return 0
        moment = self._clock.monotonic()
        if len(self._last) >= KEPT:
            self._last = {key: at for key, at in self._last.items() if at > moment}
        if rate.key in self._last:
            wait = max(wait, self._last[rate.key] + rate.seconds * 1000 // rate.count - moment)
        self._last[rate.key] = moment + wait
        return now + wait
