"""Imports of many modules at once."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from threading import RLock, local
from typing import Final

LONGEST_WAIT: Final = 5.0
"""Seconds that a fork waits for an import, which can need a lock of another module that the forking thread holds."""

FROZEN_BY_PYTHON: Final = 1_000
"""More than the objects that CPython 3.12 freezes as it starts (375), and fewer than any process has to freeze."""


class _Forks:
    """Makes the forks of this process wait for imports in threads."""

    def __init__(self) -> None:
        self.importing = RLock()
        self._thread = local()

    @cache  # noqa: B019  (there is one object)
    def watch(self) -> None:
        """Called late: what is registered last is called first, before other modules, such as `logging`, take locks
        that imports need.
        """
        if hasattr(os, "register_at_fork"):  # not on Windows
            os.register_at_fork(before=self._wait, after_in_parent=self._go_on, after_in_child=self._begin)

    def _wait(self) -> None:
        self._thread.has_waited = self.importing.acquire(timeout=LONGEST_WAIT)

    def _go_on(self) -> None:
        if getattr(self._thread, "has_waited", False):
            self.importing.release()
            self._thread.has_waited = False

    def _begin(self) -> None:
        self.importing = RLock()  # a thread of the other process can hold the lock


_forks: Final = _Forks()


def import_in_thread(name: str) -> None:
    """Import a module; what runs in a thread of wfcore calls this. A fork of the process waits for its end.

    The new process has no such thread: a module that it was importing would stay incomplete there.
    """
    _forks.watch()
    with _forks.importing, without_collections():
        import_module(name)


class _Heap:
    """What this process has exempted from garbage collections."""

    def __init__(self) -> None:
        self._has_frozen = False

    def is_frozen(self) -> bool:
        """Whether the process has called `gc.freeze`. It is not counted again: that visits each frozen object."""
        self._has_frozen = self._has_frozen or gc.get_freeze_count() > FROZEN_BY_PYTHON
        return self._has_frozen


_heap: Final = _Heap()


@contextmanager
def without_collections() -> Iterator[None]:
    """Run imports without garbage collections: they would visit all new classes again and again, and find nothing.

    They take a fifth of the time of an import. What was imported counts as old afterwards: it stays, so the next
    collections need not visit it either.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if not _heap.is_frozen():
                gc.freeze()  # all objects leave the young generations, and none is visited
                gc.unfreeze()
            gc.enable()
