"""Imports without garbage collections."""

import gc
import subprocess
import sys
from importlib import import_module

import pytest

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


@pytest.mark.parametrize("frozen", [True, False])
def test_what_was_imported_counts_as_old(frozen: bool) -> None:
    """So that the next young collection does not visit it. Objects that the process has frozen stay frozen."""
    gc.unfreeze()  # what a command froze that another test ran in this process
    if frozen:
        gc.freeze()
    try:
        before = gc.get_freeze_count()
        with without_collections():
            made = [[number] for number in range(1_000)]
        young = {id(each) for generation in (0, 1) for each in gc.get_objects(generation)}
        assert frozen is bool({id(each) for each in made} & young)
        assert frozen is bool(gc.get_freeze_count())
        assert gc.get_freeze_count() <= before
    finally:
        gc.unfreeze()


COUNTED = """
import gc
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
