"""Imports of many modules at once."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import RLock
from typing import Final

_importing: Final = RLock()

if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(
        before=_importing.acquire, after_in_parent=_importing.release, after_in_child=_importing.release
    )


def import_in_thread(name: str) -> None:
    """Import a module; what runs in a thread of wfcore calls this. A fork of the process waits for its end.

    The new process has no such thread: a module that it was importing would stay incomplete there.
    """
    with _importing, without_collections():
        import_module(name)


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
            if not gc.get_freeze_count():
                gc.freeze()  # all objects leave the young generations, and none is visited
                gc.unfreeze()
            gc.enable()
