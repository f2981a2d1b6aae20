"""Power cuts on a SQLite file, at moments of a recorded workload. `make power` tries 10,000 for each mode."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from disk_images import Disk
from file_calls import AVAILABLE, Acknowledged, Sync, Truncate, Write
from power_cuts import FILE, SHARES, WAL, Recording, cut, recorded

pytestmark = [
    pytest.mark.xdist_group("crash"),
    pytest.mark.skipif(not AVAILABLE, reason="SQLite is not a shared library in this build of Python"),
]


def record(tmp_path: Path, mode: Any) -> tuple[Recording, Path]:
    """The recording of a short workload, and a folder for images."""
    for name in ("recorded", "image"):
        (tmp_path / name).mkdir()
    return asyncio.run(recorded(tmp_path / "recorded", mode, 6)), tmp_path / "image"


@pytest.mark.parametrize("mode", ["FULL", "NORMAL"])
def test_every_image_is_the_state_after_a_commit(tmp_path: Path, mode: str) -> None:
    """FULL keeps what was acknowledged, NORMAL loses a suffix of it; wfcore goes on from either."""
    recording, place = record(tmp_path, mode)
    assert {FILE, WAL} <= {call.file for call in recording.calls if isinstance(call, Sync)}, "there are checkpoints"
    tally = cut(recording, place, mode, 150, continued=2)
    assert tally.problems == []
    assert tally.counts["images"] == 150
    assert tally.counts["continued"] >= 2
    assert (tally.counts["suffix lost"] > 0) is (mode == "NORMAL")


def test_a_lost_commit_is_noticed(tmp_path: Path) -> None:
    """A file that is written with NORMAL does not keep what FULL promises."""
    recording, place = record(tmp_path, "NORMAL")
    assert {problem.partition(":")[0] for problem in cut(recording, place, "FULL", 100).problems} == {"lost"}


def test_a_write_that_is_not_synced_is_noticed(tmp_path: Path) -> None:
    """Without the syncs of the database before the log is written anew, images are damaged or between commits."""
    recording, place = record(tmp_path, "NORMAL")
    calls = [call for call in recording.calls if not isinstance(call, Sync)]
    assert cut(Recording(recording.before, calls), place, "NORMAL", 150).problems


def test_the_disk_keeps_what_was_synced() -> None:
    """Of what was written later, a sector is there completely or not at all, and a gap before it is of zeros."""
    disk = Disk({"a": bytearray(b"old")})
    for call in (Write("a", 0, b"new"), Sync("a"), Write("a", 1_024, b"x" * 600), Write("b", 0, b"b"), Acknowledged(1)):
        disk.move_on(call)
    seen = {bytes(disk.image(random.Random(seed), 0.5)["a"]) for seed in range(50)}
    assert seen == {
        b"new",
        b"new".ljust(1_024, b"\0") + b"x" * 512,
        b"new".ljust(1_536, b"\0") + b"x" * 88,
        b"new".ljust(1_024, b"\0") + b"x" * 600,
    }
    assert [len(disk.image(random.Random(1), share)) for share in SHARES[:2]] == [1, 2]
    disk.move_on(Truncate("a", 2))
    disk.move_on(Sync("a"))
    assert disk.safe["a"] == b"ne"
