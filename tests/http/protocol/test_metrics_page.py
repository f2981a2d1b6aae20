"""`GET /metrics`, the access log and the request's span."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import httpx
import pytest
from clients import APPROVAL, World, assert_envelope, chain, count, counting, deployed, new_world, serving
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from waiting import HANG

import wfcore.bootstrap
from wfcore.adapters.http import app
from wfcore.adapters.telemetry import Metrics, Traces
from wfcore.domain.kernel.errors import Unavailable
from wfcore.runtime.common import readiness

pytestmark = pytest.mark.anyio

TRACE = "0af7651916cd43dd8448eb211c80319c"


@asynccontextmanager
async def watched_world(traces: Traces | None = None, **more: Any) -> AsyncIterator[World]:
    metrics = Metrics()
    telemetry = [metrics] if traces is None else [metrics, traces]
    async with AsyncExitStack() as closing:
        opened = wfcore.bootstrap.open("sqlite://", tools=[count], telemetry=telemetry)
        core = await closing.enter_async_context(opened)
        transport = httpx.ASGITransport(app(core, metrics=metrics, **more))
        connect = partial(httpx.AsyncClient, transport=transport, base_url="http://wfcore", trust_env=False)
        yield await new_world(core, connect, closing)


@pytest.mark.parametrize("error", [None, Unavailable("the database does not answer")])
async def test_a_store_that_does_not_respond(monkeypatch: pytest.MonkeyPatch, error: Exception | None) -> None:
    """The metrics of the process are shown; what the store would say is not a number."""
    monkeypatch.setattr(readiness, "PATIENCE", 0.01)
    async with watched_world() as world:
        nobody, responds = await world.client(), asyncio.Event()

        async def due_since(now: int) -> int | None:
            if error is not None:
                raise error
            await responds.wait()
            return None

        with monkeypatch.context() as patch:
            patch.setattr(world.core.ports.journal, "due_since", due_since)
            page = await nobody.get("/metrics")
        assert (page.status_code, "wfcore_streams_open 0.0" in page.text) == (200, True)
        assert "wfcore_dispatch_lag_seconds NaN" in page.text
        responds.set()
        await asyncio.sleep(0)
        assert "wfcore_dispatch_lag_seconds 0.0" in (await nobody.get("/metrics")).text


async def test_the_text_for_prometheus() -> None:
    """Prometheus' format, without a credential: requests by route, method and status, effects, runs, appends."""
    async with watched_world() as world:
        ada, nobody = await world.user(), await world.client()
        number = await deployed(ada, chain(counting("metrics"), APPROVAL))
        await ada.post("/agent/v1/runs", json={"workflowId": number, "input": {}})
        await ada.get(f"/api/v1/workflows/{number}")
        await ada.get("/api/v1/workflows/999")
        await nobody.get("/api/v1/workflows")
        page = await nobody.get("/metrics")
        assert page.status_code == 200
        assert page.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        for line in (
            'wfcore_http_requests_total{method="GET",route="/api/v1/workflows/{id}",status="200"} 1.0',
            'wfcore_http_requests_total{method="GET",route="/api/v1/workflows/{id}",status="404"} 1.0',
            'wfcore_http_requests_total{method="GET",route="/api/v1/workflows",status="401"} 1.0',
            'wfcore_http_request_seconds_count{method="POST",route="/agent/v1/runs"} 1.0',
            'wfcore_effects_total{kind="app",outcome="succeeded"} 1.0',
            'wfcore_effect_seconds_count{kind="app"} 1.0',
            "wfcore_runs_started_total 1.0",
            'wfcore_runs_ended_total{status="interrupted"} 1.0',
            "wfcore_streams_open 0.0",
            "wfcore_executions_held 0.0",
            "wfcore_dispatch_lag_seconds 0.0",
        ):
            assert line in page.text.splitlines()
        assert re.search(r'^wfcore_journal_append_seconds_count\{outcome="written"\} [1-9]', page.text, re.MULTILINE)


async def test_the_number_of_series_is_limited() -> None:
    """Paths, methods, ids and queries of clients add no series beyond routes, methods and statuses."""
    async with watched_world() as world:
        ada = await world.user()
        for number in range(50):
            await ada.get(f"/api/v1/workflows/{number}?view=active")
            await ada.get(f"/made/up/{number}")
            await ada.request(f"ODD{number}", "/api/v1/me")
        text = (await ada.get("/metrics")).text
        series = [line for line in text.splitlines() if line.startswith("wfcore_http_requests_total{")]
        assert series == [
            'wfcore_http_requests_total{method="GET",route="/api/v1/workflows/{id}",status="404"} 50.0',
            'wfcore_http_requests_total{method="GET",route="(none)",status="404"} 50.0',
            'wfcore_http_requests_total{method="other",route="(none)",status="405"} 50.0',
        ]
        for secret in (world.org, "ada", "x49"):
            assert secret not in text


async def test_a_token_protects_the_page() -> None:
    """With `metrics_token`, all other credentials are 401 with the envelope, personal access tokens too."""
    async with watched_world(metrics_token="scrape-me") as world:
        nobody, ada = await world.client(), await world.user()
        for client in (nobody, ada):
            assert_envelope(await client.get("/metrics"), 401, "UNAUTHORIZED", "UNAUTHENTICATED")
        for sent in ("Bearer scrape-m\u00e9", "Bearer", "Basic scrape-me"):
            refused = await nobody.get("/metrics", headers={"Authorization": sent.encode("latin-1")})  # type: ignore[dict-item]
            assert refused.status_code == 401
        assert (await nobody.get("/metrics", headers={"Authorization": "Bearer scrape-me"})).status_code == 200


async def test_there_are_no_metrics_by_default(world: World) -> None:
    """Without a metrics adapter the page is 404."""
    assert_envelope(await (await world.client()).get("/metrics"), 404, "NOT_FOUND", "NOT_FOUND")


async def test_a_stream_is_open_while_it_is_read() -> None:
    """The gauge counts streams from their first byte to their end."""
    async with AsyncExitStack() as closing:
        metrics = Metrics()
        core = await closing.enter_async_context(
            wfcore.bootstrap.open("sqlite://", tools=[count], telemetry=[metrics], settings=wfcore.Settings(grace=0))
        )
        port = await closing.enter_async_context(serving(app(core, metrics=metrics)))
        connect = partial(httpx.AsyncClient, base_url=f"http://127.0.0.1:{port}", timeout=HANG, trust_env=False)
        world = await new_world(core, connect, closing)
        ada = await world.user()
        wait = {"id": "wait", "type": "action", "data": {"toolId": "core.wait", "params": {"seconds": 60}}}
        number = await deployed(ada, chain(wait))
        async with ada.stream("POST", "/agent/v1/runs", json={"workflowId": number, "input": {}}) as stream:
            assert (await anext(stream.aiter_lines())) == "id: 1"
            assert "wfcore_streams_open 1.0" in (await ada.get("/metrics")).text.splitlines()
        while "wfcore_streams_open 0.0" not in (await ada.get("/metrics")).text.splitlines():
            pass


async def test_the_run_is_part_of_the_request_that_started_it() -> None:
    """A request's span continues the caller's trace, is named by its route, and is the parent of the turn's span."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with watched_world(Traces(provider)) as world:
        ada = await world.user()
        number = await deployed(ada, chain(counting("traced")))
        exporter.clear()
        headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01", "X-Request-Id": "req-7"}
        await ada.post("/agent/v1/runs", json={"workflowId": number, "input": {}}, headers=headers)
        spans = {span.name: span for span in exporter.get_finished_spans()}
        assert spans.keys() == {"POST /agent/v1/runs", "turn", "node count", "app count"}
        assert {f"{span.context.trace_id:032x}" for span in spans.values() if span.context} == {TRACE}
        request, turn = spans["POST /agent/v1/runs"], spans["turn"]
        assert request.attributes == {
            "http.request.method": "POST", "http.route": "/agent/v1/runs", "http.response.status_code": 200,
            "wfcore.request.id": "req-7",
        }  # fmt: skip
        assert turn.parent is not None
        assert request.context is not None
        assert turn.parent.span_id == request.context.span_id


async def test_one_line_per_request(caplog: pytest.LogCaptureFixture) -> None:
    """The access log: method, route, status, time, caller and request id; never the path of the request."""
    async with watched_world() as world:
        ada, nobody = await world.user(), await world.client()
        with caplog.at_level(logging.INFO, "wfcore.access"):
            await ada.get("/api/v1/workflows/7?token=secret", headers={"X-Request-Id": "req-8"})
            await nobody.get("/secret/path")
        first, second = [vars(record) for record in caplog.records if record.name == "wfcore.access"]
        assert first["message"] == "GET /api/v1/workflows/{id} 400"
        kept = {name: first[name] for name in ("request_id", "method", "route", "status", "org", "user_id")}
        assert kept == {
            "request_id": "req-8", "method": "GET", "route": "/api/v1/workflows/{id}", "status": 400,
            "org": world.org, "user_id": "ada",
        }  # fmt: skip
        assert first["ms"] > 0
        assert second["message"] == "GET (none) 404"
        assert "secret" not in repr(first) + repr(second)
