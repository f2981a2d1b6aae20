"""Traces by OpenTelemetry. This module needs its API only: without an SDK in the program, no span is recorded."""

from time import time_ns
from types import TracebackType
from typing import Final, Self

from opentelemetry import context as contexts
from opentelemetry import propagate, trace

from wfcore.adapters.telemetry.noop import NoopSpan
from wfcore.ports.telemetry import NONE, Counted, Ids, Labels, Level, Span, Timed, WorkKind

NAMES: Final = {
    "method": "http.request.method",
    "route": "http.route",
    "tool": "wfcore.tool.id",
    "run": "wfcore.run.id",
    "node": "wfcore.node.id",
    "org": "wfcore.organization.id",
    "kind": "wfcore.effect.kind",
    "attempt": "wfcore.effect.attempt",
    "request": "wfcore.request.id",
}
"""Attribute names by label: the semantic conventions of OpenTelemetry where they define one."""

CARRIED: Final = ("traceparent", "tracestate")
"""Ids of a request that name its trace (W3C Trace Context)."""

TRACED: Final = frozenset({WorkKind.request, WorkKind.turn, WorkKind.node, WorkKind.effect})
FAILED: Final = frozenset({"failed", "timeout", "broken_off"})


class Traces:
    """Implements the port `Telemetry` as spans of `provider`; by default, of the program's tracer provider."""

    traces: Final = True

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("wfcore", tracer_provider=provider)

    def begin(self, kind: WorkKind, labels: Labels = NONE, ids: Ids = NONE, *, parent: Span | None = None) -> Span:
        if kind not in TRACED:
            return NoopSpan()
        context = parent.context if isinstance(parent, _TracedSpan) else None
        if kind is WorkKind.request:
            context = propagate.extract({name: str(ids[name]) for name in CARRIED if name in ids})
        given = {**labels, **ids}
        attributes = {NAMES[name]: value for name, value in given.items() if name not in CARRIED}
        span_kind = trace.SpanKind.SERVER if kind is WorkKind.request else trace.SpanKind.INTERNAL
        return _TracedSpan(kind, self._tracer.start_span(_name(kind, given), context, span_kind, attributes), labels)

    def record_duration(self, what: Timed, seconds: float, outcome: str) -> None:
        """Does nothing: a span for each write would hide the other spans."""

    def count(self, what: Counted, labels: Labels = NONE) -> None:
        """Does nothing: a trace has no counters."""

    def level(self, what: Level, value: float) -> None:
        """Does nothing: a trace has no gauges."""


def _name(kind: WorkKind, given: Ids) -> str:
    """A span's name: short and of low cardinality (OpenTelemetry, Trace API, Span)."""
    match kind:
        case WorkKind.request:
            return f"{given['method']} {given.get('route', '')}".strip()
        case WorkKind.node:
            return f"node {given['node']}"
        case WorkKind.effect:
            return f"{given['kind']} {given.get('tool', '')}".strip()
    return str(kind)


class _TracedSpan:
    """A span of OpenTelemetry."""

    __slots__ = ("_began", "_kind", "_labels", "_span", "_token", "context")

    def __init__(self, kind: WorkKind, span: trace.Span, labels: Labels) -> None:
        self._kind = kind
        self._span = span
        self._labels = labels
        self._began = time_ns()
        self._token: object = None
        self.context = trace.set_span_in_context(span)

    def __enter__(self) -> Self:
        self._token = contexts.attach(self.context)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        contexts.detach(self._token)  # type: ignore[arg-type]

    def end(self, outcome: str, labels: Labels = NONE, *, seconds: float | None = None) -> None:
        span = self._span
        if self._kind is WorkKind.request:
            span.update_name(_name(self._kind, {**self._labels, **labels}))
            span.set_attribute("http.response.status_code", int(outcome))
        else:
            span.set_attribute("wfcore.outcome", outcome)
        for name, value in labels.items():
            span.set_attribute(NAMES[name], value)
        if outcome in FAILED or (self._kind is WorkKind.request and outcome.startswith("5")):
            span.set_attribute("error.type", outcome)
            span.set_status(trace.StatusCode.ERROR)
        span.end(None if seconds is None else self._began + int(seconds * 1e9))
