"""Metrics, traces, both at once, and the error for a missing library."""

import sys

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from wfcore.adapters import telemetry
from wfcore.adapters.telemetry import Metrics, Traces
from wfcore.adapters.telemetry.fan_out import FanOut
from wfcore.ports.telemetry import WorkKind
from wfcore.settings.installation import BadSettings, load


def recorded() -> tuple[Traces, InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Traces(provider), exporter


def test_gauges_return_to_zero() -> None:
    """Gauges of active work rise at its begin and fall at its end."""
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    streams = [metrics.begin(WorkKind.stream) for _ in range(3)]
    assert registry.get_sample_value("wfcore_streams_open") == 3
    for stream in streams:
        stream.end("ended")
    assert registry.get_sample_value("wfcore_streams_open") == 0


def test_metrics_use_the_given_registry() -> None:
    """Two instances on one registry are refused."""
    registry = CollectorRegistry()
    assert b"wfcore_runs_started_total 0.0" in Metrics(registry).text()
    with pytest.raises(ValueError, match="wfcore_http_request"):
        Metrics(registry)


def test_spans_within_a_block_are_children() -> None:
    """Spans of the program within an effect, such as of its HTTP client, are children of the effect's span."""
    traces, exporter = recorded()
    effect = traces.begin(WorkKind.effect, {"kind": "app"}, {"tool": "t"})
    with effect:
        inside = trace.get_current_span()
    assert not trace.get_current_span().get_span_context().is_valid
    effect.end("succeeded")
    (span,) = exporter.get_finished_spans()
    assert span.context is not None
    assert inside.get_span_context().span_id == span.context.span_id


def test_fan_out_nests_spans_for_each_target() -> None:
    """With several targets, the span of each target has a parent of that target."""
    (first, one), (second, two) = recorded(), recorded()
    both = FanOut([first, second])
    node = both.begin(WorkKind.node, ids={"node": "a", "run": "r"})
    both.begin(WorkKind.effect, {"kind": "core"}, parent=node).end("succeeded")
    node.end("succeeded")
    for exporter in (one, two):
        below, above = exporter.get_finished_spans()
        assert below.parent is not None
        assert above.context is not None
        assert below.parent.span_id == above.context.span_id


def test_without_an_sdk_nothing_is_recorded() -> None:
    """With the API only, spans record nothing."""
    span = Traces().begin(WorkKind.turn, ids={"run": "r", "org": "o"})
    with span:
        assert not trace.get_current_span().is_recording()
    span.end("done")


@pytest.mark.parametrize(
    ("name", "library", "key", "extra"),
    [("Metrics", "prometheus_client", "metrics", "metrics"), ("Traces", "opentelemetry", "traces", "otel")],
)
def test_a_missing_library_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, name: str, library: str, key: str, extra: str
) -> None:
    """Asked for and not installed: the error names what to install. Metrics that nobody asked for are left out."""
    module = telemetry._EXTRAS[name][0]
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"wfcore.adapters.telemetry.{module}")
    monkeypatch.delattr(telemetry, module)
    with pytest.raises(ImportError, match=rf"wfcore\[{extra}\]"):
        getattr(telemetry, name)
    asked = load(None, {f"WFCORE_TELEMETRY_{key.upper()}": "true"})
    with pytest.raises(BadSettings, match=rf"telemetry\.{key}.*wfcore\[{extra}\]"):
        getattr(asked, key)()
    assert getattr(load(None, {}), key)() is None


def test_settings_enable_metrics_and_traces() -> None:
    """Metrics are on by default, traces off; the token of the metrics is never printed."""
    assert load(None, {}).metrics() is not None
    assert load(None, {"WFCORE_TELEMETRY_METRICS": "false"}).metrics() is None
    assert load(None, {}).traces() is None
    assert load(None, {"WFCORE_TELEMETRY_TRACES": "true"}).traces() is not None
    guarded = load(None, {"WFCORE_TELEMETRY_METRICS_TOKEN": "canary"})
    assert guarded.telemetry.metrics_token == "canary"
    assert "canary" not in repr(guarded)
