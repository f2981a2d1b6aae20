"""The simulation of the capacity model agrees with known results of queueing theory, and loses no job."""

import math
from functools import partial

import attrs
import pytest

from benchmarks.scaling.planning import Constants, Demand, Limits, Plan
from benchmarks.scaling.simulation import Failure, Simulation, Station, simulate

CONSTANTS = Constants(
    **{field.name: 1e-3 for field in attrs.fields(Constants) if field.name != "connections"}, connections=10
)
SMALL = Demand(
    runs_a_day=864_000,
    peak=5.0,
    streams=150,
    steps=3,
    tool_seconds=0.1,
    kept_days=10,
    organizations=1_000,
    result_bytes=0,
)


def waits(rate: float, service: float, width: int, *, constant: bool = False, jobs: int = 60_000) -> float:
    """The mean time that jobs wait before they are served."""
    simulation, seconds = Simulation(), list[float]()
    station = Station(simulation, width)

    def job() -> None:
        length, began = service if constant else simulation.around(service), simulation.now
        station.use(length, lambda: seconds.append(simulation.now - began - length))

    simulation.arrive(rate, jobs / rate, job)
    simulation.run(math.inf)
    assert station.arrived == station.left == len(seconds)
    assert station.work == pytest.approx(len(seconds) * service, rel=0.02)
    return sum(seconds) / len(seconds)


def erlang_c(load: float, width: int) -> float:
    """The probability that a job must wait at `width` servers (Erlang's C formula)."""
    last = load**width / math.factorial(width) / (1 - load / width)
    return last / (sum(load**n / math.factorial(n) for n in range(width)) + last)


class TestKnownQueues:
    def test_one_server(self) -> None:
        """M/M/1: a job waits load / (rate of service - rate of arrival)."""
        assert waits(0.7, 1.0, 1) == pytest.approx(0.7 / (1 - 0.7), rel=0.08)

    def test_several_servers(self) -> None:
        """M/M/c, by Erlang's C formula."""
        assert waits(1.8, 1.0, 3) == pytest.approx(erlang_c(1.8, 3) / (3 - 1.8), rel=0.08)

    def test_constant_service(self) -> None:
        """M/D/1: half of what M/M/1 waits (Pollaczek and Khinchine)."""
        assert waits(0.7, 1.0, 1, constant=True) == pytest.approx(0.7 / (2 * (1 - 0.7)), rel=0.08)


class TestStations:
    def test_what_a_failure_interrupts_begins_again_in_order(self) -> None:
        simulation, ends = Simulation(), list[tuple[str, float]]()
        station = Station(simulation)
        for name in "ab":
            station.use(2.0, partial(lambda name: ends.append((name, simulation.now)), name))
        simulation.after(1.0, partial(station.fail, 5.0))
        simulation.after(2.0, partial(station.fail, 5.0))
        simulation.run(100)
        assert ends == [("a", 9.0), ("b", 11.0)]
        assert (station.work, simulation.now) == (4.0, 100)

    def test_every_job_is_somewhere(self) -> None:
        """At any time a job waits, is served, or has left."""
        simulation = Simulation()
        station = Station(simulation, 2)
        simulation.arrive(10.0, 100.0, lambda: station.use(simulation.around(0.19), lambda: None))
        for moment in range(1, 101):
            if moment % 7 == 0:
                station.fail(0.5)
            simulation.run(moment)
            assert station.arrived == len(station.waiting) + len(station.serving) + station.left
        simulation.run(math.inf)
        assert station.arrived == station.left > 900


class TestInstallations:
    def test_every_run_ends_once(self) -> None:
        """Also when parts fail; the same seed has the same result."""
        failures = [Failure("database", 1.0, 0.5), Failure("workers", 2.0, 1.0), Failure("servers", 3.0, 0.2)]
        found = [simulate(Plan(CONSTANTS, SMALL), SMALL, 5.0, failures=failures) for _ in range(2)]
        assert found[0] == found[1]
        assert found[0].begun == found[0].ended + found[0].in_progress
        assert found[0].ended > 200
        assert len(found[0].starts) >= len(found[0].lags) >= found[0].ended
        assert SMALL.steps * found[0].begun >= len(found[0].events) >= SMALL.steps * found[0].ended - 100

    def test_a_failure_costs_what_it_lasts(self) -> None:
        """The worst start waits for the whole outage; the median start does not."""
        plan = Plan(CONSTANTS, SMALL)
        calm, failed = (
            simulate(plan, SMALL, 20.0, failures=failures) for failures in ((), (Failure("database", 10.0, 2.0),))
        )
        assert max(failed.starts) == pytest.approx(2.0, rel=0.2)
        assert max(calm.starts) < 0.1
        assert sorted(failed.starts)[len(failed.starts) // 2] < 0.1


class TestPlans:
    def test_the_arithmetic(self) -> None:
        """500 runs a second at the peak, of 3 steps, with 1 ms of everything, and cores in use to 60 %."""
        plan = Plan(CONSTANTS, attrs.evolve(SMALL, runs_a_day=8_640_000))
        assert plan.demand.peak_runs == 500
        assert plan.servers == math.ceil((500 + 500 * 8 + 10) / 1e3 / 0.6)
        assert plan.workers == math.ceil(500 * 4 / 1e3 / 0.6)
        assert plan.database_cores == math.ceil((500 * 4 + 12) / 1e3 / 0.6)
        assert plan.connections == 120
        assert plan.log == pytest.approx(500 * 4e-3)
        assert plan.storage == pytest.approx(86_400_000 * 4e-3 + 1)
        assert plan.messages == plan.commits == pytest.approx(500 * 4e-3)
        assert plan.stream_memory == pytest.approx(0.15)

    def test_streams_over_several_servers(self) -> None:
        """4,000 events and 10 comments a second over 5 servers; the other four open the 30 streams of one again."""
        one = Plan(CONSTANTS, attrs.evolve(SMALL, runs_a_day=8_640_000)).server_of(5)
        assert (one.streams, one.sent) == (30, pytest.approx(802))
        assert (one.memory, one.cores) == (pytest.approx(0.03), pytest.approx(0.802))
        assert one.failover == pytest.approx(30 / 4 * 1e-3)

    def test_results_are_stored_and_logged(self) -> None:
        small, large = (Plan(CONSTANTS, attrs.evolve(SMALL, result_bytes=size)) for size in (0, 1_000))
        assert large.log - small.log == pytest.approx(50 * 3 * 1_000)
        assert large.storage - small.storage == pytest.approx(8_640_000 * 3 * 1_000)

    def test_the_scarcest_resource_is_first(self) -> None:
        needed = Plan(CONSTANTS, SMALL).primaries(Limits(cores=1, connections=10, log=1, storage=1e12))
        assert list(needed.items())[:2] == [("connections", 4.0), ("CPU", 1.0)]
