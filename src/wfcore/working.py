"""What an open wfcore does by itself: with a worker it drives runs, serves schedules, posts and prunes.

Most modules for that are imported in a thread, so that neither `open` nor the event loop waits for them.
"""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from wfcore.core import AREAS, Core, module_of
from wfcore.imports import import_in_thread
from wfcore.opening import to_its_end
from wfcore.ports.journal import Claimed, ExecutionRef

log = logging.getLogger("wfcore.working")

_PARTS: Final = ("scheduler", "poster", "notifier", "retention", "erasures")
"""The areas that work by themselves, in the order in which they start."""


@asynccontextmanager
async def working(core: Core, statements: Sequence[str], *, worker: bool) -> AsyncIterator[None]:
    """With `worker`, work until the end. `statements` are the modules that the first statements of a store need.

    This process can claim executions at once. The parts start when their modules are there: at once, or soon.
    """
    ports, ending = core.ports, AsyncExitStack()  # a step that fails, or is cancelled, leaves out no other
    ending.push_async_callback(ports.rate_limiter.close)
    ending.push_async_callback(ports.tool_servers.close)
    ending.callback(_close_driver, core)
    ending.push_async_callback(ports.dispatcher.stop, ports.settings.grace)
    for name in _PARTS:
        ending.push_async_callback(_stop, core, name)
    later: asyncio.Task[None] | None = None
    try:
        later = await _begin(core, statements) if worker else None
        yield
    finally:
        if later is not None:  # at once: it has not begun if the block was short
            later.cancel()
            ending.push_async_callback(asyncio.wait, [later])
        await to_its_end(ending.aclose())


async def _stop(core: Core, name: str) -> None:
    if name in vars(core):  # it was used
        await getattr(core, name).stop()


def _close_driver(core: Core) -> None:
    if "driver" in vars(core):
        core.driver.close()


async def _begin(core: Core, statements: Sequence[str]) -> asyncio.Task[None]:
    await core.ports.dispatcher.start(DeferredDriver(core))
    needed = [*statements, *map(module_of, ("driver", *_PARTS))]
    is_ready = sys.modules.keys() >= set(needed)
    if is_ready:
        _start_parts(core)
    return asyncio.create_task(_import_later(core, [] if is_ready else needed))


async def _import_later(core: Core, needed: Sequence[str]) -> None:
    """Import what the parts need, and start them; then the other areas, which the first calls find imported."""
    try:
        await _import(needed)
        if needed:
            _start_parts(core)
        await _import(map(module_of, AREAS))
    except Exception:
        log.exception("the modules of wfcore cannot be imported")


def _start_parts(core: Core) -> None:
    core.scheduler.start()
    core.poster.start()
    core.notifier.start()
    core.retention.start()
    core.erasures.start_resuming()


async def _import(modules: Iterable[str]) -> None:
    """Import modules in a thread, one at a time: a cancellation ends it after the present one.

    So does the end of the process: Python stops its executors before it calls what is registered with `atexit`.
    """
    for name in modules:
        if name not in sys.modules:
            try:
                loading = asyncio.get_running_loop().run_in_executor(None, import_in_thread, name)
            except RuntimeError:
                raise asyncio.CancelledError from None
            await loading


class DeferredDriver:
    """Implements `Handler` with the core's driver, which is imported with its first execution at the latest."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def handle(self, execution: ExecutionRef, claimed: Claimed | None = None) -> None:
        if "driver" not in vars(self._core):
            await asyncio.to_thread(import_in_thread, module_of("driver"))
        await self._core.driver.handle(execution, claimed)

    def signal(self, execution: ExecutionRef) -> bool:
        return "driver" in vars(self._core) and self._core.driver.signal(execution)

    def has_read(self, execution: ExecutionRef, length: int) -> bool:
        return "driver" in vars(self._core) and self._core.driver.has_read(execution, length)

    def lengths(self) -> Mapping[ExecutionRef, int]:
        return self._core.driver.lengths() if "driver" in vars(self._core) else {}
