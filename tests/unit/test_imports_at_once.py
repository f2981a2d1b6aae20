"""Imports without garbage collections."""

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from waiting import HANG

from wfcore import imports
from wfcore.imports import without_collections


@pytest.mark.parametrize("enabled", [True, False])
def test_the_setting_of_the_process_stays(enabled: bool) -> None:
    """Also after an import that fails."""
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(ImportError), without_collections():
            import_module(f"wfcore.nothing_{gc.isenabled()}")
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()


@pytest.fixture
def thawed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is exempt from garbage collections, as the tests themselves are otherwise."""
    monkeypatch.setattr(imports, "_heap", imports._Heap())
    was_frozen = bool(gc.get_freeze_count())
    gc.unfreeze()
    yield
    (gc.freeze if was_frozen else gc.unfreeze)()


@pytest.mark.parametrize("frozen", [True, False])
def test_what_was_imported_counts_as_old(frozen: bool, thawed: None) -> None:
    """So that the next young collection does not visit it. Objects that the process has frozen stay frozen."""
    if frozen:
        gc.freeze()
    before = gc.get_freeze_count()
    with without_collections():
        made = [[number] for number in range(1_000)]
    young = {id(each) for generation in (0, 1) for each in gc.get_objects(generation)}
    assert frozen is bool({id(each) for each in made} & young)
    assert frozen is bool(gc.get_freeze_count())
    assert gc.get_freeze_count() <= before


def test_frozen_objects_are_counted_once(thawed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million of them takes 60 ms, and each area of a core that is used for the first time imports modules."""
    counts = 0

    def count() -> int:
        nonlocal counts
        counts += 1
        return 50_000

    monkeypatch.setattr(gc, "get_freeze_count", count)
    for _ in range(3):
        with without_collections():
            pass
    monkeypatch.undo()
    assert counts == 1


COUNTED = """
import gc
from wfcore import imports
from wfcore.imports import without_collections

began = []
gc.callbacks.append(lambda phase, _: began.append(phase))
with without_collections():
    made = [[number] for number in range(5_000)]
assert not began, began
"""


def test_nothing_is_collected_meanwhile() -> None:
    """However many objects there are. In its own process: an import in another thread would enable collections."""
    subprocess.run([sys.executable, "-c", COUNTED], check=True)


SLOW = """
import logging
import __main__

__main__.began.set()
__main__.may_end.wait()
log = logging.getLogger("slow")
"""

FORKED = """
import os, sys, threading
from wfcore import imports
import logging  # after it: a fork takes the lock of what was imported last first

imports.LONGEST_WAIT = float(sys.argv[1])
began, may_end = threading.Event(), threading.Event()
threading.Thread(target=imports.import_in_thread, args=["slow"]).start()
began.wait()
if sys.argv[2] == "ends":
    threading.Timer(0.2, may_end.set).start()
child = os.fork()
may_end.set()
if child or sys.argv[2] == "ends":
    imports.import_in_thread("slow")
    assert sys.modules["slow"].log
imports.import_in_thread("wfcore.addresses")
sys.exit(child and os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize(("seconds", "import_"), [(HANG, "ends"), (0.1, "goes on")])
def test_a_fork_waits_for_an_import(tmp_path: Path, seconds: float, import_: str) -> None:
    """The new process has whole modules, and can import others. The wait ends, whatever the import needs."""
    tmp_path.joinpath("slow.py").write_text(SLOW)
    command = [sys.executable, "-W", "ignore", "-c", FORKED, str(seconds), import_]
    subprocess.run(command, check=True, timeout=HANG, env=os.environ | {"PYTHONPATH": str(tmp_path)})


TWO_THREADS = """
import sys, threading, time
from importlib import import_module
from wfcore.adapters.sql.schema.deferred import MODULES

begun, failures = threading.Event(), []

class Pause:
    def find_spec(self, name, path, target=None):
        if name == "sqlalchemy.util":
            sys.meta_path.remove(self)
            begun.set()
            time.sleep(0.3)

def load():
    begun.wait()
    try:
        for name in MODULES:
            import_module(name)
    except BaseException as error:
        failures.append(error)

sys.meta_path.insert(0, Pause())
other = threading.Thread(target=load)
other.start()
import_module("sqlalchemy")
other.join()
sys.exit(repr(failures[0]) if failures else 0)
"""


def test_a_file_is_opened_while_another_thread_imports_sqlalchemy() -> None:
    """Neither of the two gets an incomplete module: each waits for the package as a whole."""
    command = [sys.executable, "-c", TWO_THREADS]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=HANG, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
