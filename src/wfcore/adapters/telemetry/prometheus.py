"""Metrics in the format of Prometheus (its documentation, Exposition formats), kept by the official client library."""

from time import perf_counter
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from wfcore.adapters.telemetry.noop import NoopSpan
from wfcore.ports.telemetry import NONE, Counted, Ids, Labels, Level, Span, Timed, WorkKind

REQUESTS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
EFFECTS: Final = (0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
WRITES: Final = (0.00001, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1)
"""Upper bounds of the histograms' buckets, in seconds."""

OUTCOMES: Final = ("written", "conflict", "failed")
"""The outcomes of an append."""


class Metrics:
    """Implements the port `Telemetry` as metrics, all named `wfcore_...`.

    `registry` can be that of a product with its own metrics, such as `prometheus_client.REGISTRY`; by default, a new
    registry is created. Raises ValueError for a second instance on one registry.
    """

    traces: Final = False
    content_type: Final = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = self._registry = registry or CollectorRegistry()
        requests = _Series(
            Histogram("wfcore_http_request_seconds", "Time to the first byte of the response.", ("method", "route"),
                      buckets=REQUESTS, registry=registry),
            Counter("wfcore_http_requests", "HTTP requests answered.", ("method", "route", "status"),
                    registry=registry),
        )  # fmt: skip
        effects = _Series(
            Histogram("wfcore_effect_seconds", "Time that attempts at calls took.", ("kind",),
                      buckets=EFFECTS, registry=registry),
            Counter("wfcore_effects", "Attempts at calls of tools and models, by how they ended.",
                    ("kind", "outcome"), registry=registry),
        )  # fmt: skip
        self._timed = {WorkKind.request: requests, WorkKind.effect: effects}
        streams = Gauge("wfcore_streams_open", "Event streams being read.", registry=registry)
        turns = Gauge("wfcore_executions_held", "Executions being driven by this process.", registry=registry)
        self._open = {WorkKind.stream: streams, WorkKind.turn: turns}
        appends = Histogram("wfcore_journal_append_seconds", "Time to a durable append, by outcome.", ("outcome",),
                            buckets=WRITES, registry=registry)  # fmt: skip
        self._appends = {outcome: appends.labels(outcome) for outcome in OUTCOMES}
        self._commits = Histogram("wfcore_journal_commit_seconds", "Time of a commit, which appends may share.",
                                  buckets=WRITES, registry=registry)  # fmt: skip
        started = Counter("wfcore_runs_started", "Turns that began.", registry=registry)
        ended = Counter("wfcore_runs_ended", "Turns that came to rest.", ("status",), registry=registry)
        self._counters = {Counted.run_started: started, Counted.run_ended: ended}
        lag = Gauge("wfcore_dispatch_lag_seconds", "How long ago the longest waiting execution was due.",
                          registry=registry)  # fmt: skip
        self._levels = {Level.dispatch_lag: lag}

    def begin(self, kind: WorkKind, labels: Labels = NONE, ids: Ids = NONE, *, parent: Span | None = None) -> Span:
        """Kinds without a metric, such as nodes, are not measured."""
        if (series := self._timed.get(kind)) is not None:
            return _TimedSpan(series, labels)
        gauge = self._open.get(kind)
        return NoopSpan() if gauge is None else _GaugeSpan(gauge)

    def record_duration(self, what: Timed, seconds: float, outcome: str) -> None:
        (self._appends[outcome] if what is Timed.append else self._commits).observe(seconds)

    def count(self, what: Counted, labels: Labels = NONE) -> None:
        counter = self._counters[what]
        (counter.labels(**labels) if labels else counter).inc()

    def level(self, what: Level, value: float) -> None:
        self._levels[what].set(value)

    def text(self) -> bytes:
        """The whole registry in the exposition format."""
        return generate_latest(self._registry)


class _Series:
    """Duration and outcomes of one kind of work. `counter` has one more label than `histogram`: the outcome."""

    def __init__(self, histogram: Histogram, counter: Counter) -> None:
        self._histogram = histogram
        self._counter = counter
        self._series: dict[tuple[str, ...], tuple[Histogram, Counter]] = {}

    def ended(self, values: tuple[str, ...], outcome: str, seconds: float) -> None:
        histogram, counter = self._series.get((outcome, *values)) or self._new(values, outcome)
        histogram.observe(seconds)
        counter.inc()

    def _new(self, values: tuple[str, ...], outcome: str) -> tuple[Histogram, Counter]:
        """The child metrics of these labels, cached: a look-up in the library is slow, and label values are few."""
        found = self._histogram.labels(*values), self._counter.labels(*values, outcome)
        self._series[outcome, *values] = found
        return found


class _TimedSpan(NoopSpan):
    """A span that measures its duration. Labels come in the order in which the metrics declare them."""

    __slots__ = ("_began", "_labels", "_series")

    def __init__(self, series: _Series, labels: Labels) -> None:
        self._series = series
        self._labels = labels
        self._began = perf_counter()

    def end(self, outcome: str, labels: Labels = NONE, *, seconds: float | None = None) -> None:
        took = perf_counter() - self._began if seconds is None else seconds
        self._series.ended((*self._labels.values(), *labels.values()), outcome, took)


class _GaugeSpan(NoopSpan):
    """A span that is counted in a gauge until it ends."""

    __slots__ = ("_gauge",)

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge
        gauge.inc()

    def end(self, outcome: str, labels: Labels = NONE, *, seconds: float | None = None) -> None:
        self._gauge.dec()
