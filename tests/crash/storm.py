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

from graphs import NUMBERS
from lives import GIVEN, LIVES, PATIENCE, Spec, go_on, lines, opened, write_line
from scenes import Scene
from stores import Store
from zygote import Zygote

from wfcore.domain.run.state import RunStatus

MIXED = ("actions", "retry", "approval", "deadline", "wait", "child", "talk", "demo")
AT_ONCE = 4
"""Runs that a server has under way for its clients."""

CALM = (0.2, 2.0)
"""Seconds between one kill and the next of the same process."""


class Storm:
    """`seconds` of kills, and then one process that nobody kills."""

    def __init__(self, root: Path, store: Store, zygotes: list[Zygote], seconds: float, *, seed: int = 1) -> None:
        place = root / "storm"
        place.mkdir()
        self._scene = Scene(place, store)
        self._zygotes = zygotes
        self._seconds = seconds
        self._random = random.Random(seed)
        self._killed = 0

    def rage(self) -> int:
        """How many faults were found, which are printed with all the rest in one line."""
        self._kill_at_random(time.monotonic() + self._seconds)
        accepted = {run for path in self._scene.place.glob("*.acks") for run in lines(path)}
        lost = accepted - self._scene.runs().keys()
        spec = self._scene.spec("clear_up", "last", beat=0.1, patience=PATIENCE + self._seconds)
        status = self._zygotes[0].run(spec)
        runs = self._scene.runs()
        stranded = [run for run, what in runs.items() if what in ("queued", "running")]
        wrong = [run for run, what in runs.items() if what in ("error", "cancelled")]
        repeated = self._scene.repeated()
        self._scene.drop()
        print(
            f"storm: {self._seconds:g} s, {self._killed} processes killed, {len(accepted)} runs acknowledged, "
            f"{len(runs)} turns, {self._scene.performed().total()} effects; {len(repeated)} completed steps repeated, "
            f"{len(lost)} runs lost, {len(stranded)} stranded, {len(wrong)} failed"
        )
        if status:
            print(f"the last process ended with {status}: {self._scene.said('last')[-2_000:]}")
        return sum(map(len, (repeated, lost, stranded, wrong))) + bool(status)

    def _kill_at_random(self, end: float) -> None:
        """A server and a worker, each followed by another one of its kind as soon as it is dead."""
        lives = [self._born(side) for side in (0, 1)]
        while (now := time.monotonic()) < end:
            for side, (pid, until) in enumerate(lives):
                if now > until:
                    self._kill(side, pid)
                    lives[side] = self._born(side)
            time.sleep(0.01)  # the storm goes by the real clock: there is nothing else to wait for
        for side, (pid, _) in enumerate(lives):
            self._kill(side, pid)

    def _born(self, side: int) -> tuple[int, float]:
        """A process, and when it is to die."""
        life, who = ("server", "worker")[side], f"{side}-{self._killed}"
        pid = self._zygotes[side].start(self._scene.spec(life, who, name=who, beat=0.1))
        return pid, time.monotonic() + self._random.uniform(*CALM)

    def _kill(self, side: int, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        status = self._zygotes[side].wait(pid)
        assert status == -signal.SIGKILL, f"a process ended by itself, with {status}"
        self._killed += 1


async def server(spec: Spec) -> None:
    """Start runs for ever, and see each to its end; every one that was acknowledged is written down."""
    async with opened(spec) as (core, me):
        numbers = count()

        async def client() -> None:
            for number in numbers:
                scene = MIXED[number % len(MIXED)]
                key = f"{scene}-{spec['name']}-{number}"
                view: Any = await core.runs.start(me, workflow=NUMBERS[scene], input=GIVEN, key=key)
                write_line(spec["acks"], view.id)
                await see_through(core, me, view.id, scene)

        await asyncio.gather(*(client() for _ in range(AT_ONCE)))


async def see_through(core: Any, me: Any, run: str, scene: str) -> None:
    for turn in count(2):
        async for _ in await core.runs.follow(me, run):
            pass
        view = await core.runs.get(me, run)
        if view.status is not RunStatus.interrupted:
            return
        run = await go_on(core, view, turn, {"scene": scene, "answer": f"{run}+"})


async def worker(spec: Spec) -> None:
    """Drive whatever there is to drive, for ever."""
    async with opened(spec):
        await asyncio.Event().wait()


async def clear_up(spec: Spec) -> None:
    """See to its end every run that there is, answering what still asks."""
    async with asyncio.timeout(spec["patience"]), opened(spec) as (core, me):
        while True:
            waiting, _ = await core.runs.interrupts(me, limit=100)
            for item in waiting:
                person = core.principal(me.org_uuid, user=random.choice(("ann", "bob")))
                with contextlib.suppress(Exception):  # a deadline that passes, or the same person a second time
                    await core.runs.resume(person, item.found.run_id, decision="approve")
            left = [status for status in (RunStatus.queued, RunStatus.running)
                    if await core.runs.page(me, status=status, limit=1)]  # fmt: skip
            if not left and not waiting and not (await core.runs.interrupts(me, limit=1))[0]:
                return
            await asyncio.sleep(0.05)


LIVES.update({life.__name__: life for life in (server, worker, clear_up)})
