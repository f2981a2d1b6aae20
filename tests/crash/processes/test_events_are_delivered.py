"""Processes are killed between a commit and the delivery of its events, and between a delivery and its record."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import HANG

pytestmark = pytest.mark.xdist_group("crash")

SCRIPT = Path(__file__).with_name("event_processes.py")


def process(tmp_path: Path, mode: str, offset: int = 0) -> int:
    """The exit code of a process that runs in this mode on the test's file."""
    command = [sys.executable, SCRIPT, mode, f"sqlite:///{tmp_path / 'app.db'}", tmp_path / "log", str(offset)]
    return subprocess.run(command, check=False, timeout=HANG).returncode


def received(tmp_path: Path) -> list[tuple[str, ...]]:
    log = tmp_path / "log"
    return [tuple(json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []


def test_a_kill_after_the_commit(tmp_path: Path) -> None:
    """The run's events are on disk with its end: the next process delivers them, to the hook and to the handler."""
    assert process(tmp_path, "start") == -signal.SIGKILL
    assert received(tmp_path) == []
    assert process(tmp_path, "deliver", 1) == 0
    got = received(tmp_path)
    assert len(got) == 2
    assert sorted(name.startswith("msg_") for name, _ in got) == [False, True]
    assert process(tmp_path, "deliver", 600) == 0
    assert received(tmp_path) == got


def test_a_kill_after_the_delivery(tmp_path: Path) -> None:
    """A delivery that was not recorded is made again when its claim ends, with the same id and body."""
    assert process(tmp_path, "start") == -signal.SIGKILL
    assert process(tmp_path, "deliver-and-die", 1) == -signal.SIGKILL
    first = received(tmp_path)
    assert len(first) in (1, 2)
    assert process(tmp_path, "deliver", 120) == 0
    got = received(tmp_path)
    assert set(first) < set(got) or set(first) == set(got)
    assert len(set(got)) == 2
    assert all(got.count(line) == 2 for line in first)
    assert process(tmp_path, "deliver", 600) == 0
    assert received(tmp_path) == got
