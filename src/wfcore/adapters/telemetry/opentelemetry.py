"""Traces by OpenTelemetry. Only its API is needed here: without an SDK that the program sets up, nothing is kept."""

from time import time_ns
from types import TracebackType
from typing import Final, Self

from opentelemetry import context as contexts
from opentelemetry import propagate, trace

from wfcore.adapters.telemetry.unheeded import Unheeded
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
"""Attributes by our names: the semantic conventions of OpenTelemetry where they have one."""

CARRIED: Final = ("traceparent", "tracestate")
"""Ids of a request that say of which trace it is part (W3C Trace Context)."""

TRACED: Final = frozenset({WorkKind.request, WorkKind.turn, WorkKind.node, WorkKind.effect})
FAILED: Final = frozenset({"failed", "timeout", "broken_off"})


class Traces:
    """`wfcore.ports.telemetry.Telemetry` as spans of `provider`, or of the one that the program has set."""

    traces: Final = True

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("wfcore", tracer_provider=provider)

    def begin(self, kind: WorkKind, labels: Labels = NONE, ids: Ids = NONE, *, parent: Span | None = None) -> Span:
        if kind not in TRACED:
            return Unheeded()
        around = parent.around if isinstance(parent, _Traced) else None
        if kind is WorkKind.request:
            around = propagate.extract({name: str(ids[name]) for name in CARRIED if name in ids})
        told = {name: value for name, value in {**labels, **ids}.items() if name not in CARRIED}
        attributes = {NAMES[name]: value for name, value in told.items()}
        side = trace.SpanKind.SERVER if kind is WorkKind.request else trace.SpanKind.INTERNAL
        return _Traced(kind, self._tracer.start_span(_name(kind, {**labels, **ids}), around, side, attributes), labels)

    def took(self, what: Timed, seconds: float, outcome: str) -> None:
        """Nothing: a span for every write would drown the others."""

    def count(self, what: Counted, labels: Labels = NONE) -> None:
        """Nothing: counts are no traces."""

    def level(self, what: Level, value: float) -> None:
        """Nothing: levels are no traces."""


def _name(kind: WorkKind, told: Ids) -> str:
    """A span's name: short, and not different for every one of its kind (OpenTelemetry, Trace API, Span)."""
    match kind:
        case WorkKind.request:
            return f"{told['method']} {told.get('route', '')}".strip()
        case WorkKind.node:
            return f"node {told['node']}"
        case WorkKind.effect:
            return f"{told['kind']} {told.get('tool', '')}".strip()
    return str(kind)


class _Traced:
    """A span of OpenTelemetry."""

    __slots__ = ("_began", "_kind", "_labels", "_span", "_token", "around")

    def __init__(self, kind: WorkKind, span: trace.Span, labels: Labels) -> None:
        self._kind = kind
        self._span = span
        self._labels = labels
        self._began = time_ns()
        self._token: object = None
        self.around = trace.set_span_in_context(span)

    def __enter__(self) -> Self:
        self._token = contexts.attach(self.around)
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
