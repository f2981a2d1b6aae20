"""Real workers on one PostgreSQL database: the processes, their tool, and the records of its calls.

`wfcore worker --tools worker_processes.py:TOOLS` imports this file too. Each worker pretends to be on another machine:
on one machine, workers detect a dead process by the process table, and these tests are about workers that cannot.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import shifted_clock
from waiting import HANG, PATIENCE

from wfcore.adapters.dispatch import embedded
from wfcore.adapters.tools.catalog import tool
from wfcore.ports.providers import ToolCall

if "TEST_WORKER_NAME" in os.environ:
    embedded.this_machine = lambda: os.environ["TEST_WORKER_MACHINE"]
    embedded.DEAD_AFTER = float(os.environ["TEST_WORKER_DEAD_AFTER"])
    shifted_clock.follow(Path(os.environ["TEST_WORKER_DIRECTORY"], f"{os.environ['TEST_WORKER_NAME']}.clock"))

STEPS = ("a", "b", "c")


@tool(idempotent=True)
async def step(name: str, gated: bool, call: ToolCall) -> str:
    """Record the begin, wait for the gate in the middle step, record the end."""
    _write("began", name, call.key, call.fencing)
    while gated and name == "b" and not _gate().exists():  # noqa: ASYNC110  (another process opens it)
        await asyncio.sleep(0.1)
    _write("ended", name, call.key, call.fencing)
    return name


@tool(idempotent=False)
async def charge(name: str, gated: bool, call: ToolCall) -> str:
    """As `step`, but it must not be repeated."""
    return await step(name, gated, call)


TOOLS = [step, charge]

GATED = "{{ has(input.gated) && input.gated }}"


def graph(tool_id: str = "step") -> dict[str, Any]:
    """Three steps, one after the other, that call this tool."""
    return {
        "nodes": [{"id": "begin", "type": "start"}]
        + [
            {"id": name, "type": "action", "data": {"toolId": tool_id, "params": {"name": name, "gated": GATED}}}
            for name in STEPS
        ],
        "edges": [{"id": target, "source": source, "target": target} for source, target in pairwise(("begin", *STEPS))],
    }


GRAPH = graph()


def _gate() -> Path:
    return Path(os.environ["TEST_WORKER_DIRECTORY"], "gate")


def _write(what: str, name: str, key: str, fencing: int) -> None:
    line = json.dumps([os.environ["TEST_WORKER_NAME"], what, name, key, fencing]) + "\n"
    file = os.open(Path(os.environ["TEST_WORKER_DIRECTORY"], "log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, line.encode())
    os.close(file)


class WorkerProcesses:
    """The processes of one test. All are killed at the end of the `with` block."""

    dead_after = embedded.DEAD_AFTER
    """Seconds of silence after which they count one another as dead."""

    def __init__(self, place: Path, url: str, machine: str | None = None) -> None:
        """`machine`: on which all of them pretend to be; without it, each is on one of its own."""
        self._place = place
        self._url = url
        self._machine = machine
        self._processes: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.kill()
            process.communicate()

    def start_workers(self, *names: str) -> None:
        """Start workers, and wait until they are ready."""
        for name in names:
            self.begin(name, "worker", "--tools", f"{Path(__file__)}:TOOLS")
        for name in names:
            assert self.next_line(name) == "working"

    def set_clock(self, name: str, seconds: float) -> None:
        """Set the wall clock of a process ahead of the real one, or behind it; before its start or later."""
        shifted_clock.set_offset(self._place / f"{name}.clock", seconds)

    def begin(self, name: str, *command: str) -> None:
        """Start a process that runs a command of `wfcore`."""
        if not (self._place / f"{name}.clock").exists():
            self.set_clock(name, 0)
        environment = {
            **os.environ,
            "TEST_WORKER_NAME": name,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TEST_WORKER_MACHINE": self._machine or f"machine of {name}",
            "TEST_WORKER_DEAD_AFTER": str(self.dead_after),
            "TEST_WORKER_DIRECTORY": str(self._place),
            "WFCORE_DATABASE": self._url,
            "WFCORE_SECRET_KEY": "A" * 43,
        }
        with (self._place / f"{name}.err").open("w") as err:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", "wfcore", *command],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=err,
                text=True,
            )

    def next_line(self, name: str) -> str:
        """The next line of the process's output."""
        out = self._processes[name].stdout
        assert out is not None
        return out.readline().strip() or (self._place / f"{name}.err").read_text()

    def send(self, name: str, sent: signal.Signals) -> None:
        self._processes[name].send_signal(sent)

    def end(self, name: str) -> int:
        """Terminate the process. Returns its status."""
        self.send(name, signal.SIGTERM)
        return self._processes[name].wait(HANG)

    def open_gate(self) -> None:
        (self._place / "gate").touch()

    def count_of(self, what: str, name: str) -> Counter[str]:
        """How often each worker `began` or `ended` a step."""
        return Counter(one[0] for one in self._lines() if one[1:3] == [what, name])

    def times(self, name: str) -> Counter[str]:
        """How often each effect of a step ended."""
        return Counter(one[3] for one in self._lines() if one[1:3] == ["ended", name])

    def fencing(self, name: str) -> dict[str, list[tuple[int, str]]]:
        """The calls of a step that ended, for each effect: the number of the claim and the worker, sorted."""
        found: dict[str, list[tuple[int, str]]] = {}
        for worker, what, step_name, key, number in self._lines():
            if (what, step_name) == ("ended", name):
                found.setdefault(key, []).append((number, worker))
        return {key: sorted(calls) for key, calls in found.items()}

    def _lines(self) -> list[list[Any]]:
        log = self._place / "log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


async def until(condition: Callable[[], Awaitable[Any] | Any]) -> None:
    """Wait until `condition` is true, on the real clock."""
    async with asyncio.timeout(PATIENCE):
        while not (await result if isawaitable(result := condition()) else result):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
