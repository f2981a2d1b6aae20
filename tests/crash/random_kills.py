"""Many runs of mixed graphs, while the processes that start and drive them are killed at random."""

import asyncio
import contextlib
import os
import random
import signal
import time
from itertools import count
from pathlib import Path
from typing import Any

from fork_server import ForkServer
from graphs import NUMBERS
from process_roles import INPUT, PROCESS_TIMEOUT, ROLES, Spec, lines, next_turn, opened, write_line
from scenarios import Scenario
from stores import Store

from wfcore.domain.run.state import RunStatus

MIXED = ("actions", "retry", "approval", "deadline", "wait", "child", "talk", "demo")
CLIENTS = 4
"""Concurrent clients of a server process."""

KILL_INTERVAL = (0.2, 2.0)
"""Seconds between the start and the kill of a process, least and most."""


class RandomKills:
    """Kills processes for `seconds`, and then runs one process without a kill."""

    def __init__(
        self, root: Path, store: Store, fork_servers: list[ForkServer], seconds: float, *, seed: int = 1
    ) -> None:
        place = root / "random-kills"
        place.mkdir()
        self._scenario = Scenario(place, store)
        self._fork_servers = fork_servers
        self._seconds = seconds
        self._random = random.Random(seed)
        self._killed = 0

    def run(self) -> int:
        """Run the experiment, and print one line about it. Returns the number of faults."""
        self._kill_at_random(time.monotonic() + self._seconds)
        accepted = {run for path in self._scenario.place.glob("*.acks") for run in lines(path)}
        lost = accepted - self._scenario.runs().keys()
        spec = self._scenario.spec("clear_up", "last", beat=0.1, patience=PROCESS_TIMEOUT + self._seconds)
        status = self._fork_servers[0].run(spec)
        runs = self._scenario.runs()
        stranded = [run for run, what in runs.items() if what in ("queued", "running")]
        wrong = [run for run, what in runs.items() if what in ("error", "cancelled")]
        repeated = self._scenario.repeated()
        self._scenario.drop()
        print(
            f"storm: {self._seconds:g} s, {self._killed} processes killed, {len(accepted)} runs acknowledged, "
            f"{len(runs)} turns, {self._scenario.performed().total()} effects; {len(repeated)} steps repeated, "
            f"{len(lost)} runs lost, {len(stranded)} stranded, {len(wrong)} failed"
        )
        if status:
            print(f"the last process ended with {status}: {self._scenario.said('last')[-2_000:]}")
        return sum(map(len, (repeated, lost, stranded, wrong))) + bool(status)

    def _kill_at_random(self, end: float) -> None:
        """Run a server and a worker, and replace each of them at once after its kill."""
        processes = [self._start(side) for side in (0, 1)]
        while (now := time.monotonic()) < end:
            for side, (pid, until) in enumerate(processes):
                if now > until:
                    self._kill(side, pid)
                    processes[side] = self._start(side)
            time.sleep(0.01)  # the experiment uses the real clock: there is nothing else to wait for
        for side, (pid, _) in enumerate(processes):
            self._kill(side, pid)

    def _start(self, side: int) -> tuple[int, float]:
        """A new process, and the time of its kill."""
        role, who = ("server", "worker")[side], f"{side}-{self._killed}"
        pid = self._fork_servers[side].start(self._scenario.spec(role, who, name=who, beat=0.1))
        return pid, time.monotonic() + self._random.uniform(*KILL_INTERVAL)

    def _kill(self, side: int, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        status = self._fork_servers[side].wait(pid)
        assert status == -signal.SIGKILL, f"a process ended by itself, with {status}"
        self._killed += 1


async def server(spec: Spec) -> None:
    """Start runs without end, and follow each to its end. Every acknowledged run is recorded."""
    async with opened(spec) as (core, me):
        numbers = count()

        async def client() -> None:
            for number in numbers:
                scenario = MIXED[number % len(MIXED)]
                key = f"{scenario}-{spec['name']}-{number}"
                view: Any = await core.runs.start(me, workflow=NUMBERS[scenario], input=INPUT, key=key)
                write_line(spec["acks"], view.id)
                await follow_to_the_end(core, me, view.id, scenario)

        await asyncio.gather(*(client() for _ in range(CLIENTS)))


async def follow_to_the_end(core: Any, me: Any, run: str, scenario: str) -> None:
    for turn in count(2):
        async for _ in await core.runs.follow(me, run):
            pass
        view = await core.runs.get(me, run)
        if view.status is not RunStatus.interrupted:
            return
        run = await next_turn(core, view, turn, {"scenario": scenario, "answer": f"{run}+"})


async def worker(spec: Spec) -> None:
    """Drive due executions without end."""
    async with opened(spec):
        await asyncio.Event().wait()


async def clear_up(spec: Spec) -> None:
    """Bring every run to its end, and respond to open interrupts."""
    async with asyncio.timeout(spec["patience"]), opened(spec) as (core, me):
        while True:
            waiting, _ = await core.runs.interrupts(me, limit=100)
            for item in waiting:
                person = core.principal(me.org_uuid, user=random.choice(("ann", "bob")))
                with contextlib.suppress(Exception):  # the deadline can pass, or the person can have responded before
                    await core.runs.resume(person, item.found.run_id, decision="approve")
            left = [status for status in (RunStatus.queued, RunStatus.running)
                    if await core.runs.page(me, status=status, limit=1)]  # fmt: skip
            if not left and not waiting and not (await core.runs.interrupts(me, limit=1))[0]:
                return
            await asyncio.sleep(0.05)


ROLES.update({role.__name__: role for role in (server, worker, clear_up)})
