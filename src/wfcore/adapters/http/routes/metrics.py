"""`GET /metrics`, for Prometheus to scrape (Prometheus documentation, Exposition formats)."""

import hmac
from collections.abc import Iterator

from starlette.responses import Response

from wfcore.adapters.http.core.route import Call, Route
from wfcore.domain.kernel.errors import NotFound
from wfcore.ports.telemetry import Exposition, Level
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.organization.directory import unauthenticated


class MetricsPage:
    """The metrics of this process: NotFound without metrics, Unauthenticated without the token if one is set."""

    def __init__(self, ports: Ports, metrics: Exposition | None = None, token: str | None = None) -> None:
        self._ports = ports
        self._metrics = metrics
        self._token = token

    def table(self) -> Iterator[Route]:
        yield Route(
            "metrics", "GET", "/metrics", self.show, "Metrics for Prometheus", None, {"type": "string"},
            media_type="text/plain",
        )  # fmt: skip

    async def show(self, call: Call) -> Response:
        if self._metrics is None:
            raise NotFound
        if self._token is not None and not _has_token(call.headers.getlist("Authorization"), self._token):
            raise unauthenticated()
        await self._measure()
        return Response(self._metrics.text(), media_type=None, headers={"Content-Type": self._metrics.content_type})

    async def _measure(self) -> None:
        """Set the levels that are measured only when metrics are read."""
        if self._ports.telemetry is not None:
            now = self._ports.clock.now()
            since = await self._ports.journal.due_since(now)
            self._ports.telemetry.level(Level.dispatch_lag, 0.0 if since is None else max(0.0, (now - since) / 1000))


def _has_token(sent: list[str], token: str) -> bool:
    scheme, _, given = sent[0].partition(" ") if len(sent) == 1 else ("", "", "")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip(" ").encode(), token.encode())
