"""What a worker does begins when its modules are imported, in a thread."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import wfcore
from wfcore.core import AREAS, Core, module_of
from wfcore.ports.journal import Claimed, ExecutionRef
from wfcore.working import DeferredDriver, working

pytestmark = pytest.mark.anyio

PARTS = {"scheduler", "poster", "notifier", "retention", "erasures"}
REF = ExecutionRef("0", 1)


@pytest.fixture
async def core() -> AsyncIterator[Core]:
    async with wfcore.open("sqlite://", worker=False) as opened:
        yield opened


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    """Makes a module that can be imported, and is not."""
    monkeypatch.syspath_prepend(tmp_path)

    def made(name: str, text: str) -> str:
        tmp_path.joinpath(f"{name}.py").write_text(text)
        return name

    return made


async def test_the_parts_start_at_once_if_all_is_imported(core: Core) -> None:
    for area in AREAS:
        __import__(module_of(area))
    async with working(core, [], worker=True):
        assert vars(core).keys() >= PARTS


async def test_the_parts_start_after_the_import(core: Core, module: Callable[[str, str], str]) -> None:
    """Executions can be claimed before."""
    name = module("wfcore_statements_later", "")
    async with working(core, [name], worker=True):
        assert core.ports.dispatcher.worker is not None
        assert not vars(core).keys() & PARTS
        while not vars(core).keys() >= PARTS:  # noqa: ASYNC110  (the import has no event)
            await asyncio.sleep(0)
        assert name in sys.modules


async def test_nothing_is_imported_after_the_end(core: Core, module: Callable[[str, str], str]) -> None:
    name = module("wfcore_statements_never", "")
    async with working(core, [name], worker=True):
        pass
    assert name not in sys.modules
    assert not vars(core).keys() & PARTS


async def test_a_failed_import_is_logged(
    core: Core, module: Callable[[str, str], str], caplog: pytest.LogCaptureFixture
) -> None:
    name = module("wfcore_statements_broken", "raise ImportError('broken')")
    async with working(core, [name], worker=True):
        while not caplog.records:  # noqa: ASYNC110  (the import has no event)
            await asyncio.sleep(0)
    assert caplog.messages == ["the modules of wfcore cannot be imported"]


def test_nothing_is_imported_when_the_process_ends(
    module: Callable[[str, str], str], caplog: pytest.LogCaptureFixture
) -> None:
    """Threads can then not be used any more, which is no failure of an import."""
    name = module("wfcore_statements_too_late", "")

    async def work() -> None:
        async with wfcore.open("sqlite://", worker=False) as core:
            await asyncio.get_running_loop().shutdown_default_executor()
            async with working(core, [name], worker=True):
                for _ in range(3):
                    await asyncio.sleep(0)

    asyncio.run(work())
    assert name not in sys.modules
    assert caplog.messages == []


async def test_the_driver_is_made_with_its_first_execution(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then it drives none, and nothing can be signalled to it."""

    class Driver:
        def __init__(self, *made_of: object) -> None:
            self.handled = list[ExecutionRef]()

        async def handle(self, execution: ExecutionRef, claimed: Claimed | None = None) -> None:
            self.handled.append(execution)

        def signal(self, execution: ExecutionRef) -> bool:
            return execution in self.handled

        def has_read(self, execution: ExecutionRef, length: int) -> bool:
            return execution in self.handled and length <= 1

        def lengths(self) -> dict[ExecutionRef, int]:
            return dict.fromkeys(self.handled, 1)

        def close(self) -> None:
            """It has no timers."""

    monkeypatch.setattr("wfcore.runtime.execution.driver.Driver", Driver)
    deferred: Any = DeferredDriver(core)
    assert (deferred.signal(REF), deferred.has_read(REF, 0), deferred.lengths()) == (False, False, {})
    assert "driver" not in vars(core)
    await deferred.handle(REF)
    await deferred.handle(REF)
    assert (deferred.signal(REF), deferred.lengths()) == (True, {REF: 1})
