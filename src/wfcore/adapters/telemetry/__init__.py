"""Telemetry: metrics for Prometheus and traces for OpenTelemetry, each an extra. Both can be used at once.

`wfcore.open(database, telemetry=[Metrics(), Traces()])` reports all work to both.
"""

from typing import TYPE_CHECKING, Any

from wfcore.extras import needs_extra

if TYPE_CHECKING:
    from wfcore.adapters.telemetry.opentelemetry import Traces
    from wfcore.adapters.telemetry.prometheus import Metrics

__all__ = ["Metrics", "Traces"]

_EXTRAS = {"Metrics": ("prometheus", "metrics"), "Traces": ("opentelemetry", "otel")}


def __getattr__(name: str) -> Any:
    """Raises ImportError that names the extra when its library is not installed."""
    if name not in _EXTRAS:
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    from importlib import import_module

    module, extra = _EXTRAS[name]
    with needs_extra(extra, f"`{name}`"):
        return getattr(import_module(f"{__name__}.{module}"), name)
