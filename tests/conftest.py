"""Beside this file stands what several kinds of tests share: pytest makes it importable."""

import ast
import asyncio
import functools
import gc
import inspect
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

PROCESS = os.environ.get("PYTEST_XDIST_WORKER", "main")
MEASURE = os.environ.pop("MEASURE", "") if PROCESS != "main" else os.environ.get("MEASURE", "")
"""The folder for the branch coverage of wfcore. Processes that tests start are not measured."""


def one_at_a_time(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which only one thread calls at a time."""
    lock = threading.RLock()  # a garbage collection within it can run code that calls it again

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        with lock:
            return function(*args, **options)

    return call


if sys.version_info < (3, 11, 8):  # two threads at once get a SystemError, as when both import modules (gh-106905)
    ast.parse = one_at_a_time(ast.parse)

if MEASURE:
    import measuring

    measurement = measuring.begin()  # before a conftest imports a module of wfcore


settings.register_profile("wfcore", deadline=None)  # a deadline would measure how busy the machine is
settings.load_profile("wfcore")


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the commands that tests interrupt inherit it
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # as `nohup` starts it
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Loggers(dict[str, Any]):
    """The loggers by name. pytest iterates over them at each test, while a thread that imports a module adds some."""

    def values(self) -> Any:
        return list(super().values())


logging.root.manager.loggerDict = Loggers(logging.root.manager.loggerDict)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without garbage collections, and exempt modules and tests from later ones.

    Each process of a run would visit them again and again: some million objects take most of a second.
    """
    from wfcore.imports import without_collections

    with without_collections():
        items = yield
    gc.freeze()
    return items


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Fail a test that leaves its task asked to cancel: anyio runs the tests of a process in one task."""
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        pyfuncitem.obj = _uncancelled(pyfuncitem.obj)
    return (yield)


def _uncancelled(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., Coroutine[Any, Any, None]]:
    @functools.wraps(test)
    async def run(**arguments: Any) -> None:
        await test(**arguments)
        task, requests = asyncio.current_task(), 0
        while task and task.cancelling():
            task.uncancel()
            requests += 1
        assert not requests, "run what is cancelled in a task of its own"

    return run


def pytest_collection_finish() -> None:
    """With `JITTER` the stores of this process answer late (see `make jitter`)."""
    import late_stores

    if late_stores.SEED:
        late_stores.install()


def pytest_runtest_logfinish() -> None:
    """A test has ended, with all its fixtures."""
    if server := sys.modules.get("postgres_server"):
        server.give_back()


def pytest_sessionfinish() -> None:
    if MEASURE:
        measuring.write(measurement, Path(MEASURE), PROCESS)
