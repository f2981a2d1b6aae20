"""Telemetry: metrics for Prometheus and traces for OpenTelemetry, each an extra, and both at once.

`wfcore.open(database, telemetry=[Metrics(), Traces()])` tells them of everything.
"""

from typing import TYPE_CHECKING, Any

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
    try:
        return getattr(import_module(f"{__name__}.{module}"), name)
    except ImportError as error:
        raise ImportError(f"`{name}` needs an extra: pip install 'wfcore[{extra}]'", name=error.name) from None
