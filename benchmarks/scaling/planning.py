"""What an installation needs for a demand: arithmetic with the measured constants of one machine."""

import math

import attrs

DAY = 86_400
KEEP_ALIVE = 15
"""Seconds between two comments of a stream without events."""


@attrs.frozen(kw_only=True)
class Constants:
    """What wfcore consumes. Times are in seconds, sizes in bytes. A run is counted without its steps."""

    server_cpu_start: float
    server_cpu_stream: float
    """To open a stream of a run that another process drives."""
    server_cpu_event: float
    """For each reader of an event that came over NATS."""
    worker_cpu_run: float
    worker_cpu_step: float
    database_cpu_run: float
    database_cpu_step: float
    database_cpu_poll: float
    """Of the database, in a second, for a process that has nothing to do."""
    flush: float
    """Until a commit is on disk, beside its CPU."""
    dispatch: float
    """From the commit of a start to its claim by an idle worker."""
    bytes_run: float
    bytes_step: float
    log_run: float
    """Of the write-ahead log; so is `log_step`."""
    log_step: float
    bytes_organization: float
    commits_run: float
    """Of the database, with those for notifications; so is `commits_step`."""
    commits_step: float
    messages_run: float
    """That NATS receives for a run with a reader; so is `messages_step`."""
    messages_step: float
    memory_stream: float
    """Of an open stream, without its socket."""
    connections: float
    """Of a process to the database."""


@attrs.frozen(kw_only=True)
class Demand:
    organizations: int = 1_000_000
    runs_a_day: int = 10_000_000
    streams: int = 100_000
    steps: int = 10
    tool_seconds: float = 1.0
    result_bytes: int = 2_000
    """Of the result of a step; the constants are measured with a small one."""
    peak: float = 5.0
    """The rate of the busiest hour, to that of the whole day."""
    busy: float = 0.6
    """The share of a core that is in use at the peak."""
    kept_days: int = 90

    @property
    def peak_runs(self) -> float:
        """Runs a second."""
        return self.runs_a_day / DAY * self.peak


@attrs.frozen(kw_only=True)
class Limits:
    """Of one primary of PostgreSQL: a large machine of today."""

    cores: int = 32
    connections: int = 1_000
    log: float = 200e6
    """Bytes of the write-ahead log a second."""
    storage: float = 16e12


@attrs.frozen
class StreamServer:
    """One of several servers with streams. `failover` is how long the others open those of one that has ended."""

    streams: float
    memory: float
    sent: float
    cores: float
    failover: float


@attrs.frozen
class Plan:
    """The machines and rates of a demand. Servers and workers have one core each; there are at least two of both."""

    constants: Constants
    demand: Demand

    @property
    def servers(self) -> int:
        starts = self.demand.peak_runs * self.constants.server_cpu_start
        return max(2, self._cores(starts + self.sent * self.constants.server_cpu_event))

    @property
    def sent(self) -> float:
        """Events and comments a second that servers send, if each run has one reader."""
        return self.demand.peak_runs * (2 * self.demand.steps + 2) + self.demand.streams / KEEP_ALIVE

    @property
    def workers(self) -> int:
        found = self.constants
        a_run = found.worker_cpu_run + self.demand.steps * found.worker_cpu_step
        return max(2, self._cores(self.demand.peak_runs * a_run))

    @property
    def database_cores(self) -> int:
        found = self.constants
        runs = self.demand.peak_runs * (found.database_cpu_run + self.demand.steps * found.database_cpu_step)
        return self._cores(runs + (self.servers + self.workers) * found.database_cpu_poll)

    @property
    def connections(self) -> float:
        return (self.servers + self.workers) * self.constants.connections

    @property
    def log(self) -> float:
        """Bytes of the write-ahead log a second, at the peak."""
        a_step = self.constants.log_step + self.demand.result_bytes
        return self.demand.peak_runs * (self.constants.log_run + self.demand.steps * a_step)

    @property
    def storage(self) -> float:
        """Bytes of all organizations, and of the runs that are kept."""
        a_step = self.constants.bytes_step + self.demand.result_bytes
        a_run = self.constants.bytes_run + self.demand.steps * a_step
        runs = self.demand.runs_a_day * self.demand.kept_days
        return runs * a_run + self.demand.organizations * self.constants.bytes_organization

    @property
    def messages(self) -> float:
        """Messages a second to NATS, at the peak."""
        return self.demand.peak_runs * (self.constants.messages_run + self.demand.steps * self.constants.messages_step)

    @property
    def commits(self) -> float:
        """Commits a second of the database, at the peak, if no two runs share one."""
        return self.demand.peak_runs * (self.constants.commits_run + self.demand.steps * self.constants.commits_step)

    @property
    def stream_memory(self) -> float:
        return self.demand.streams * self.constants.memory_stream

    def server_of(self, servers: int) -> "StreamServer":
        """What one of so many servers does if they only have streams."""
        found, streams, sent = self.constants, self.demand.streams / servers, self.sent / servers
        return StreamServer(
            streams=streams, memory=streams * found.memory_stream, sent=sent, cores=sent * found.server_cpu_event,
            failover=streams / max(1, servers - 1) * found.server_cpu_stream,
        )  # fmt: skip

    def primaries(self, limits: Limits) -> dict[str, float]:
        """How many primaries each resource needs, the one that gives way first before the others."""
        needed = {
            "CPU": self.database_cores / limits.cores,
            "connections": self.connections / limits.connections,
            "write-ahead log": self.log / limits.log,
            "storage": self.storage / limits.storage,
        }
        return dict(sorted(needed.items(), key=lambda item: -item[1]))

    def _cores(self, cpu: float) -> int:
        return math.ceil(cpu / self.demand.busy)
