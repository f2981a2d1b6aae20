"""The pytest plugin of wfcore: fixtures for tests of a product that embeds it.

pytest loads it by its entry point. Nothing of wfcore is loaded before a fixture is used.
"""

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from wfcore.adapters.models.scripted import ScriptedModel
    from wfcore.core import Core
    from wfcore.synchronous import SyncCore
    from wfcore.testing.fakes import FakeClock


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test of `wfcore_core` runs on asyncio alone, unless the test suite defines `anyio_backend` itself."""
    if "wfcore_core" not in metafunc.fixturenames:
        return
    definitions = metafunc._arg2fixturedefs.get("anyio_backend", ())  # noqa: SLF001  (pytest has no public way)
    if definitions and definitions[-1].func.__module__.partition(".")[0] == "anyio":
        backend = pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True, scope="module")
        metafunc.definition.add_marker(backend)


@pytest.fixture
def wfcore_clock() -> "FakeClock":
    """The clock of `wfcore_core`, which stands still until `advance` or `run_until_idle`."""
    from wfcore.testing.fakes import FakeClock

    return FakeClock()


@pytest.fixture
def wfcore_model() -> "Iterator[ScriptedModel]":
    """The model `default` of `wfcore_core`. `play` gives it replies; the test fails if its script ends too early."""
    from wfcore.adapters.models.scripted import ScriptedModel

    model = ScriptedModel()
    yield model
    model.check()


@pytest.fixture
def wfcore_options() -> dict[str, Any]:
    """Further arguments of `wfcore.open` for `wfcore_core`. Define it anew: `return {"tools": [send_refund]}`."""
    return {}


@pytest.fixture
async def wfcore_core(
    wfcore_clock: "FakeClock", wfcore_model: "ScriptedModel", wfcore_options: dict[str, Any], anyio_backend: str
) -> "AsyncIterator[Core]":
    """An open core in memory, with `wfcore_clock`, and with `wfcore_model` as its model."""
    from wfcore import bootstrap

    async with bootstrap.open("sqlite://", **_arguments(wfcore_clock, wfcore_model, wfcore_options)) as core:
        yield core


@pytest.fixture
def wfcore_core_sync(
    wfcore_clock: "FakeClock", wfcore_model: "ScriptedModel", wfcore_options: dict[str, Any]
) -> "Iterator[SyncCore]":
    """As `wfcore_core`, for tests without an event loop: `core.call(run_until_idle)` lets time pass."""
    from wfcore.synchronous import open_sync

    with open_sync("sqlite://", **_arguments(wfcore_clock, wfcore_model, wfcore_options)) as core:
        yield core


def _arguments(clock: "FakeClock", model: "ScriptedModel", options: dict[str, Any]) -> dict[str, Any]:
    import attrs

    from wfcore.runtime.common.installation import Settings
    from wfcore.runtime.common.ports import Overrides

    ports = options.get("ports") or Overrides()
    settings = options.get("settings") or Settings(grace=0)
    models = {"default": model, **(options.get("models") or {})}
    return {**options, "ports": attrs.evolve(ports, clock=clock), "settings": settings, "models": models}
