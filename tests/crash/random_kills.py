"""Many runs of mixed graphs, while processes are killed and suspended at random, clocks step, and the store is away."""

import asyncio
import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import shifted_clock
from fork_server import ForkServer
from graphs import NUMBERS
from process_roles import INPUT, ORG, ROLES, Spec, lines, next_turn, opened, write_line
from scenarios import Scenario
from shards import until_nothing_moves, watch_refusals
from stores import Store
from waiting import HANG

from wfcore.core import Core
from wfcore.domain.kernel.errors import Conflict, NotFound, Unavailable
from wfcore.domain.resources.access import Principal
from wfcore.domain.run.state import RunStatus

if TYPE_CHECKING:
    from brokers import Engine

MIXED = ("actions", "keyed", "once", "approval", "deadline", "wait", "child", "talk", "demo")
CLIENTS = 4
"""Concurrent clients of a server process."""

KILL_INTERVAL = (0.5, 6.0)
"""Seconds between the start and the kill of one of two processes, least and most; of more they live longer."""

DISTURBANCE_INTERVAL = (0.2, 1.5)
"""Seconds between two disturbances other than kills."""

SUSPENSION = (0.2, 4.0)
"""Seconds: shorter and longer than the silence after which others take over."""

OUTAGE = (0.1, 3.0)
"""Seconds for which another process holds the lock of a file for writing."""

LARGEST_STEP = 3_600
"""Seconds by which a clock is ahead or behind at most."""

DISTURBANCES = ("clock", "clock", "suspend", "store")
FAULTS = ("repeated", "charged twice", "lost", "stranded", "failed")
HEADINGS = ("kills", "steps", "suspended", "outages", "brokers", "accepted", "turns", "effects", *FAULTS)

T = TypeVar("T")


@attrs.define(eq=False)
class Process:
    """A process of the storm, with the times at which it is killed and continues."""

    name: str
    pid: int
    kill_at: float
    continues_at: float = 0.0


class RandomKills:
    """Disturbs servers and workers for `seconds`, and then runs one process that is left alone.

    Each process pretends to be on a machine of its own, and has a clock of its own.
    """

    def __init__(
        self,
        root: Path,
        store: Store,
        fork_servers: list[ForkServer],
        seconds: float,
        *,
        seed: int = 1,
        orgs: Sequence[str] = (ORG,),
        brokers: "Engine | None" = None,
        roles: Sequence[str] = ("server", "worker"),
    ) -> None:
        """Servers start runs in the `orgs`, each in one of them. With `brokers`, an engine dispatches the runs, and its
        servers are killed and suspended too.
        """
        place = root / "random-kills"
        place.mkdir()
        self._scenario = Scenario(place, store)
        self._store = store
        self._fork_servers = fork_servers
        self._seconds = seconds
        self._orgs = orgs
        self._brokers = brokers
        self._roles = roles
        self._random = random.Random(seed)
        self._counts: Counter[str] = Counter()
        self._suspended: set[str] = set()

    def run(self) -> int:
        """Run the experiment, and print a table of it. Returns the number of faults."""
        self._store.prepare_outages()
        self._disturb_at_random(time.monotonic() + self._seconds)
        accepted = {run for path in self._scenario.place.glob("*.acks") for run in lines(path)}
        lost = accepted - self._scenario.runs().keys()
        last = self._scenario.spec("clear_up", "last", beat=0.1, patience=HANG + 2 * self._seconds)
        status = self._fork_servers[0].run({**last, **self._own("last", 3 * LARGEST_STEP)})
        runs = self._scenario.runs()
        found: dict[str, list[Any]] = {
            "repeated": self._scenario.repeated(self._suspended),
            "charged twice": self._scenario.repeated_charges(),
            "lost": [*lost],
            "stranded": [run for run, what in runs.items() if what in ("queued", "running")],
            "failed": [run for run, what in runs.items() if what in ("error", "cancelled")],
        }
        moves = lines(self._scenario.place / "moves")
        if moves:
            refusals = lines(self._scenario.place / "refusals")
            refused = max((seconds for name, seconds in refusals if name not in self._suspended), default=0.0)
            print(f"{len(moves)} moves of organizations; writes waited {max(moves):.2f} s at most as the moves say,"
                  f" {refused:.2f} s as the writers say")  # fmt: skip
        sizes = {"accepted": len(accepted), "turns": len(runs), "effects": self._scenario.performed().total()}
        counts = {**self._counts, **sizes, **{name: len(found[name]) for name in FAULTS}}
        self._print(counts, found)
        if status:
            print(f"the last process ended with {status}: {self._scenario.said('last')[-2_000:]}")
        self._scenario.drop()
        if not self._store.keeps_acknowledged:
            found = {name: what for name, what in found.items() if name in ("stranded", "failed")}
        return sum(map(len, found.values())) + bool(status)

    def _print(self, counts: dict[str, int], found: dict[str, list[Any]]) -> None:
        print(f"storm of {self._seconds:g} s")
        print("".join(f"{name:>{len(name) + 2}}" for name in HEADINGS))
        print("".join(f"{counts.get(name, 0):>{len(name) + 2}}" for name in HEADINGS), flush=True)
        for name, what in found.items():
            for one in what[:10]:
                print(f"{name}: {one}")

    def _disturb_at_random(self, end: float) -> None:
        """Run a process of each role, disturb them, and replace each of them at once after its kill."""
        processes = [self._start(side) for side in range(len(self._roles))]
        disturb_at = 0.0
        while (now := time.monotonic()) < end:
            for side, process in enumerate(processes):
                if process.continues_at and now > process.continues_at:
                    process.continues_at = 0.0
                    os.kill(process.pid, signal.SIGCONT)
                if now > process.kill_at:
                    self._kill(side, process)
                    processes[side] = self._start(side)
            if self._brokers is not None:
                self._brokers.go_on()
            if now > disturb_at:
                choices = DISTURBANCES if self._brokers is None else (*DISTURBANCES, "broker", "broker")
                self._disturb(self._random.choice(choices), self._random.choice(processes))
                disturb_at = time.monotonic() + self._random.uniform(*DISTURBANCE_INTERVAL)
            time.sleep(0.01)  # the experiment uses the real clock: there is nothing else to wait for
        for side, process in enumerate(processes):
            self._kill(side, process)
        if self._brokers is not None:
            self._brokers.go_on(whatever=True)

    def _disturb(self, what: str, process: Process) -> None:
        match what:
            case "clock":
                self._counts["steps"] += 1
                self._step(process.name, self._random.randint(-LARGEST_STEP, LARGEST_STEP))
            case "suspend":
                self._counts["suspended"] += 1
                self._suspended.add(process.name)
                process.continues_at = time.monotonic() + self._random.uniform(*SUSPENSION)
                os.kill(process.pid, signal.SIGSTOP)
            case "broker" if self._brokers is not None:
                self._brokers.disturb(self._random.random(), self._random.uniform(*SUSPENSION))
                self._counts["brokers"] = self._brokers.counts.total()
            case "store":
                self._counts["outages"] += 1
                self._store.disturb(self._scenario.url, self._random.random(), self._random.uniform(*OUTAGE))

    def _step(self, name: str, seconds: int) -> None:
        shifted_clock.set_offset(self._scenario.place / f"{name}.clock", seconds)

    def _own(self, name: str, ahead: int) -> Spec:
        """The options of a process that has a clock and a machine of its own."""
        self._step(name, ahead)
        clock = str(self._scenario.place / f"{name}.clock")
        broker = {} if self._brokers is None else self._brokers.spec()
        place: Spec = {"orgs": [*self._orgs]}
        place |= {name: str(self._scenario.place / name) for name in ("moves", "refusals")}
        return {"name": name, "clock": clock, "machine": f"machine of {name}", **broker, **place}

    def _start(self, side: int) -> Process:
        """A new process, whose clock is wrong."""
        role, name = self._roles[side], f"{side}-{self._counts['kills']}"
        ahead = self._random.randint(-LARGEST_STEP, LARGEST_STEP)
        works = self._brokers is None or role == "worker" or self._random.random() < 1 / 3
        own = {**self._own(name, ahead), "org": self._orgs[side % len(self._orgs)]}
        pid = self._fork_servers[side % 2].start(self._scenario.spec(role, name, beat=0.1, worker=works, **own))
        lives = self._random.uniform(*KILL_INTERVAL) * len(self._roles) / 2
        return Process(name, pid, time.monotonic() + lives)

    def _kill(self, side: int, process: Process) -> None:
        os.kill(process.pid, signal.SIGKILL)
        status = self._fork_servers[side % 2].wait(process.pid)
        assert status == -signal.SIGKILL, (
            f"a process ended by itself, with {status}: {self._scenario.said(process.name)}"
        )
        self._counts["kills"] += 1


async def persistently(call: Callable[[], Awaitable[T]]) -> T:
    """The result of the call, which is repeated while the store is away, as clients do."""
    while True:
        try:
            return await call()
        except Unavailable:
            await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def opened_at_last(spec: Spec) -> Any:
    """As `opened`, once the store can be opened."""
    if len(spec["orgs"]) > 1:
        watch_refusals(spec)
    async with contextlib.AsyncExitStack() as stack:
        yield await persistently(lambda: stack.enter_async_context(opened(spec)))


async def server(spec: Spec) -> None:
    """Start runs without end, and follow each to its end. Every acknowledged run is recorded."""
    async with opened_at_last(spec) as (core, me):
        numbers = count()

        async def client() -> None:
            for number in numbers:
                scenario = MIXED[number % len(MIXED)]
                key = f"{scenario}-{spec['name']}-{number}"
                given = {"workflow": NUMBERS[scenario], "input": INPUT, "key": key}
                view: Any = await persistently(lambda given=given: core.runs.start(me, **given))
                write_line(spec["acks"], view.id)
                with contextlib.suppress(NotFound):  # it counts as lost at the end
                    await follow_to_the_end(core, me, view.id, scenario)

        await asyncio.gather(*(client() for _ in range(CLIENTS)))


async def follow_to_the_end(core: Any, me: Any, run: str, scenario: str) -> None:
    async def to_its_end() -> Any:
        async for _ in await core.runs.follow(me, run):
            pass
        return await core.runs.get(me, run)

    for turn in count(2):
        view = await persistently(to_its_end)
        if view.status is not RunStatus.interrupted or scenario == "deadline":
            return  # a deadline is far away by another clock
        options = {"scenario": scenario, "answer": f"{run}+", "org": me.org_uuid}
        try:
            run = await persistently(lambda view=view, turn=turn: next_turn(core, view, turn, options))  # noqa: B023
        except Conflict:
            return


async def worker(spec: Spec) -> None:
    """Drive due executions without end."""
    async with opened_at_last(spec):
        await asyncio.Event().wait()


async def clear_up(spec: Spec) -> None:
    """Bring every run to its end, and respond to open interrupts."""
    async with asyncio.timeout(spec["patience"]), opened_at_last(spec) as (core, _):
        for org in spec["orgs"]:
            await clear_up_one(core, core.principal(org, user="ann"))
        if len(spec["orgs"]) > 1:
            await until_nothing_moves(spec["url"])


async def clear_up_one(core: Core, me: Principal) -> None:
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
