"""The contract of telemetry for metrics, traces, and several targets at once."""

from opentelemetry.sdk.trace import TracerProvider

from wfcore.adapters.telemetry import Metrics, Traces
from wfcore.adapters.telemetry.fan_out import FanOut
from wfcore.ports.telemetry import Telemetry
from wfcore.testing.contracts.telemetry import TelemetryContract


class TestMetrics(TelemetryContract):
    def make_telemetry(self) -> Telemetry:
        return Metrics()


class TestTraces(TelemetryContract):
    def make_telemetry(self) -> Telemetry:
        return Traces(TracerProvider())


class TestTracesWithoutAnSdk(TelemetryContract):
    def make_telemetry(self) -> Telemetry:
        return Traces()


class TestFanOut(TelemetryContract):
    def make_telemetry(self) -> Telemetry:
        return FanOut([Metrics(), Traces(TracerProvider()), Traces()])
