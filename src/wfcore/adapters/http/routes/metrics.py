"""`GET /metrics`, for Prometheus to scrape (Prometheus documentation, Exposition formats)."""

import hmac
import math
from collections.abc import Iterator

from starlette.responses import Response

from wfcore.adapters.http.core.route import Call, Route
from wfcore.domain.kernel.errors import NotFound, Unavailable
from wfcore.ports.telemetry import Exposition, Level
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.readiness import SharedCall
from wfcore.runtime.organization.directory import unauthenticated


class MetricsPage:
    """The metrics of this process: NotFound without metrics, Unauthenticated without the token if one is set."""

    def __init__(self, ports: Ports, metrics: Exposition | None = None, token: str | None = None) -> None:
        self._ports = ports
        self._metrics = metrics
        self._token = token
        self._due_since = SharedCall(lambda: ports.journal.due_since(ports.clock.now()))

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
        """Set the levels that are measured only when metrics are read: NaN while the store does not respond."""
        if self._ports.telemetry is not None:
            self._ports.telemetry.level(Level.dispatch_lag, await self._lag())

    async def _lag(self) -> float:
        try:
            since = await self._due_since.result()
        except (TimeoutError, Unavailable):
            return math.nan
        return 0.0 if since is None else max(0.0, (self._ports.clock.now() - since) / 1000)


def _has_token(sent: list[str], token: str) -> bool:
    scheme, _, given = sent[0].partition(" ") if len(sent) == 1 else ("", "", "")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip(" ").encode(), token.encode())
