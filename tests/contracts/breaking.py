"""A pytest plugin that runs contract suites on wrong adapters, with one fault of `adapter_faults.py` for each test.

`pytest -p breaking tests/contracts/...` runs the tests of `broken.json` alone, and each of them must fail. Without the
fault they pass: the suite runs them so.
"""

import asyncio
import json
from collections.abc import Callable, Generator
from importlib import import_module
from inspect import getattr_static
from pathlib import Path
from typing import Any

import pytest
from adapter_faults import FAULTS

from wfcore.testing import on_asyncio
from wfcore.testing.contracts import dispatcher

PATIENCE = 0.3
"""Seconds for which a test waits for what a wrong dispatcher never does."""

HANG = 1
"""Seconds for which it waits for what another wrong adapter never does."""

BROKEN: dict[str, tuple[str, str]] = {
    test: (method, fault)
    for test, (method, fault) in json.loads(Path(__file__).with_name("broken.json").read_text()).items()
}
"""By test (`test_blobs.py::TestInMemoryBlobs::test_many_at_once`): a method (`module:Class.method`) and its fault."""


def name_of(item: pytest.Item) -> str:
    return item.nodeid.rpartition("/")[2].partition("[")[0]


def pytest_configure() -> None:
    eventually = dispatcher.eventually

    async def soon(condition: Callable[[], Any]) -> Any:
        async with asyncio.timeout(PATIENCE):
            return await eventually(condition)

    dispatcher.eventually, on_asyncio.HANG = soon, HANG


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if name_of(item) in BROKEN]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Make the adapter wrong, from the set-up of the test on."""
    method, fault = BROKEN[name_of(item)]
    place, _, name = method.rpartition(".")
    module, _, cls = place.partition(":")
    adapter = getattr(import_module(module), cls)
    right = getattr_static(adapter, name)
    setattr(adapter, name, FAULTS[fault](right))
    try:
        return (yield)
    finally:
        setattr(adapter, name, right)
