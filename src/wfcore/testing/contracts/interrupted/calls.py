"""One call of a port under adversity: cancelled at any await, made several times at once, cut short by a kill."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from itertools import count
from typing import Any, Final

import attrs
import pytest

COPIES: Final = 4
"""How many of the same call are made at once."""

Part = Callable[[Any, str], Coroutine[Any, Any, object]]
"""A coroutine function of the port, and of a scope (an organization, a run, a key) that no other call has."""

Opened = Callable[[], AbstractAsyncContextManager[Any]]
"""Opens the port on what a process before has left."""


async def nothing(_port: Any, _scope: str) -> None:
    """Nothing has to be there before the call."""


@attrs.frozen
class PortCall:
    """A call that changes what `seen` returns, which names no scope.

    `before` prepares the scope. Of several calls at once one has its effect, and the others raise `refused`; without
    it all succeed. `together` is what is seen then, if that is not the same as after one call.
    """

    name: str
    do: Part
    seen: Part
    before: Part = nothing
    refused: tuple[type[Exception], ...] = ()
    together: object = None


def each_of(calls: Iterable[PortCall]) -> pytest.MarkDecorator:
    """A test for each call."""
    return pytest.mark.parametrize("call", list(calls), ids=lambda call: call.name)


class CancelAt:
    """Runs a coroutine in the current task, and cancels the task at its `step`-th await, if it reaches it."""

    def __init__(self, work: Coroutine[Any, Any, Any], step: int) -> None:
        self.work, self.left, self.reached = work, step, False

    def __await__(self) -> Generator[Any, Any, None]:
        error: BaseException | None = None
        with suppress(StopIteration):
            while True:
                future = self.work.throw(error) if error else self.work.send(None)
                self._count()
                try:
                    error = None
                    yield future
                except BaseException as thrown:  # noqa: BLE001 - it is thrown on
                    error = thrown

    def _count(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.reached = True
            self.interrupt()

    def interrupt(self) -> None:
        if task := asyncio.current_task():
            task.cancel()


class KillAt(CancelAt):
    """The same with the end of the process."""

    def interrupt(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


async def _before_and_after(port: Any, call: PortCall) -> tuple[object, object]:
    """What is seen before the call and after it."""
    scope = f"{call.name}, whole"
    await call.before(port, scope)
    unchanged = await call.seen(port, scope)
    await call.do(port, scope)
    changed = await call.seen(port, scope)
    assert changed != unchanged
    return unchanged, changed


async def check_cancelled(port: Any, call: PortCall) -> None:
    """Cancelled at any await, the call has its whole effect or none; without an exception it has it."""
    unchanged, changed = await _before_and_after(port, call)
    for step in count(1):
        scope = f"{call.name}, cancelled {step}"
        await call.before(port, scope)
        work = CancelAt(call.do(port, scope), step)
        (outcome,) = await asyncio.gather(asyncio.ensure_future(work), return_exceptions=True)
        found = await call.seen(port, scope)
        assert found in (unchanged, changed)
        assert found == changed or isinstance(outcome, asyncio.CancelledError)
        if not work.reached:
            assert outcome is None
            return


async def check_at_once(port: Any, call: PortCall) -> None:
    """Several of the same call at once: their effects are those of calls one after the other."""
    _, changed = await _before_and_after(port, call)
    scope = f"{call.name}, at once"
    await call.before(port, scope)
    outcomes = await asyncio.gather(*(call.do(port, scope) for _ in range(COPIES)), return_exceptions=True)
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert [failure for failure in failures if not isinstance(failure, call.refused)] == []
    assert len(failures) == (COPIES - 1 if call.refused else 0)
    assert await call.seen(port, scope) == (changed if call.together is None else call.together)


def check_killed(opened: Opened, call: PortCall, step: int) -> None:
    """The process ends at an await of the call, or right after it: the next one sees its whole effect or none.

    It sees the effect of a call that has returned. Not for a test with an event loop: both processes have their own.
    """
    scope = f"{call.name}, killed {step}"

    async def prepared() -> tuple[object, object]:
        async with opened() as port:
            await call.before(port, scope)
            return await _before_and_after(port, call)

    async def seen() -> object:
        async with opened() as port:
            return await call.seen(port, scope)

    unchanged, changed = asyncio.run(prepared())
    has_returned = _in_killed_process(opened, call, scope, step)
    found = asyncio.run(seen())
    assert found in (unchanged, changed)
    assert found == changed or not has_returned


def _in_killed_process(opened: Opened, call: PortCall, scope: str, step: int) -> bool:
    """Whether the call returned before its process was killed."""
    read, write = os.pipe()
    process = os.fork()
    if not process:
        try:
            asyncio.run(_killed(opened, call, scope, step, write))
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.close(write)
    os.waitpid(process, 0)
    with os.fdopen(read, "rb") as report:
        return report.read() == b"returned"


async def _killed(opened: Opened, call: PortCall, scope: str, step: int, write: int) -> None:
    async with opened() as port:
        await KillAt(call.do(port, scope), step)
        os.write(write, b"returned")
        os.kill(os.getpid(), signal.SIGKILL)


def steps_of(calls: Iterable[PortCall]) -> list[tuple[PortCall, int]]:
    """Each call with the await at which its process ends: the first, the second, the fourth, or none."""
    steps = (1, 2, 4, 1_000)
    return [(call, steps[number % len(steps)]) for number, call in enumerate(calls)]


def each_with_a_step(calls: Iterable[PortCall]) -> pytest.MarkDecorator:
    """A test for each call."""
    return pytest.mark.parametrize(("call", "step"), steps_of(calls), ids=lambda value: getattr(value, "name", ""))
