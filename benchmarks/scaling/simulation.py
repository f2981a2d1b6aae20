"""A discrete-event simulation: jobs queue at stations, which can fail, and the flow of runs through an installation."""

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from random import Random

import attrs

from benchmarks.scaling.planning import Demand, Plan

Then = Callable[[], None]


class Simulation:
    """Events in the order of their times, in seconds. The same seed gives the same events."""

    def __init__(self, seed: int = 1) -> None:
        self.now = 0.0
        self.random = Random(seed)
        self._events: list[tuple[float, int, Then]] = []
        self._numbers = count()

    def after(self, seconds: float, then: Then) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), then))

    def around(self, mean: float) -> float:
        """A random time with this mean, exponentially distributed."""
        return self.random.expovariate(1 / mean) if mean else 0.0

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, then = heapq.heappop(self._events)
            then()
        self.now = until

    def arrive(self, rate: float, until: float, then: Then) -> None:
        """Call `then` at random moments, `rate` times a second on average (a Poisson process)."""

        def arrived() -> None:
            if self.now < until:
                then()
                self.after(self.random.expovariate(rate), arrived)

        self.after(self.random.expovariate(rate), arrived)


class Station:
    """`width` servers with one queue: first come, first served."""

    def __init__(self, simulation: Simulation, width: int = 1) -> None:
        self.arrived = self.left = 0
        self.waiting: deque[tuple[float, Then]] = deque()
        self.serving: dict[int, tuple[float, Then]] = {}
        self.work = 0.0
        self._simulation = simulation
        self._width = width
        self._stops = 0
        self._numbers = count()

    def use(self, seconds: float, then: Then) -> None:
        """Queue a job that takes so long, and call `then` at its end."""
        self.arrived += 1
        self.waiting.append((seconds, then))
        self._begin()

    def fail(self, seconds: float) -> None:
        """Serve nothing for a time. What was under way begins again afterwards."""
        self._stops += 1
        self.waiting.extendleft(reversed(self.serving.values()))
        self.serving.clear()
        self._simulation.after(seconds, self._recover)

    def _recover(self) -> None:
        self._stops -= 1
        self._begin()

    def _begin(self) -> None:
        while self.waiting and len(self.serving) < self._width and not self._stops:
            number, job = next(self._numbers), self.waiting.popleft()
            self.serving[number] = job
            self._simulation.after(job[0], partial(self._end, number))

    def _end(self, number: int) -> None:
        job = self.serving.pop(number, None)
        if job is not None:  # else the station failed meanwhile
            self.left += 1
            self.work += job[0]
            job[1]()
            self._begin()


@attrs.frozen
class Failure:
    """A part that is away: `database`, or one of the `servers` or `workers`."""

    part: str
    at: float
    seconds: float


@attrs.frozen
class Observed:
    """What a simulated installation showed: seconds of each kind, runs that began and ended, and runs in progress."""

    starts: list[float]
    lags: list[float]
    events: list[float]
    begun: int
    ended: int
    in_progress: int


def simulate(
    plan: Plan, demand: Demand, seconds: float, *, failures: Sequence[Failure] = (), seed: int = 1
) -> Observed:
    """Let runs begin for so long, at the rate of the peak of the demand, on the machines of the plan.

    A run begins at a server and is dispatched to a worker. Each step calls a tool, and then uses the worker, the
    database and, for its events, a server. An event or a start is complete when its commit is.
    """
    simulation = Simulation(seed)
    servers, workers = ([Station(simulation) for _ in range(number)] for number in (plan.servers, plan.workers))
    database = Station(simulation, plan.database_cores)
    parts = {"database": [database], "servers": servers, "workers": workers}
    for failure in failures:
        simulation.after(failure.at, partial(parts[failure.part][0].fail, failure.seconds))
    found = Observed([], [], [], 0, 0, 0)
    begun: list[None] = []
    ended: list[None] = []
    costs, around, choice = plan.constants, simulation.around, simulation.random.choice

    def commit(seconds: float, since: float, into: list[float], then: Then) -> None:
        def flushed() -> None:
            into.append(simulation.now - since)
            then()

        database.use(around(seconds), lambda: simulation.after(costs.flush, flushed))

    def begin() -> None:
        begun.append(None)
        since = simulation.now
        started = partial(dispatch, choice(workers))
        choice(servers).use(
            around(costs.server_cpu_start), lambda: commit(costs.database_cpu_run, since, found.starts, started)
        )

    def dispatch(worker: Station) -> None:
        since = simulation.now

        def claimed() -> None:
            found.lags.append(simulation.now - since)
            step(worker, demand.steps)

        simulation.after(costs.dispatch, lambda: worker.use(around(costs.worker_cpu_run), claimed))

    def step(worker: Station, left: int) -> None:
        def called() -> None:
            worker.use(around(costs.worker_cpu_step), done)

        def done() -> None:
            commit(costs.database_cpu_step, simulation.now, [], partial(written, simulation.now))

        def written(since: float) -> None:
            choice(servers).use(2 * costs.server_cpu_event, lambda: found.events.append(simulation.now - since))
            step(worker, left - 1)

        if left:
            simulation.after(around(demand.tool_seconds), called)
        else:
            ended.append(None)

    simulation.arrive(demand.peak_runs, seconds, begin)
    simulation.run(seconds)
    return attrs.evolve(found, begun=len(begun), ended=len(ended), in_progress=len(begun) - len(ended))
