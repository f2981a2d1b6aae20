"""Planted secrets appear nowhere: in no log record, span, metric, error or event, whatever fails."""

import base64
import logging
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
from clients import Json, assert_envelope, chain, count, deployed, new_world, node, serving
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.types import Receive, Scope, Send
from waiting import HANG

import wfcore.bootstrap
from wfcore.adapters.http import app
from wfcore.adapters.models.openai import OpenAIModel
from wfcore.adapters.telemetry import Metrics, Traces
from wfcore.logs import Correlated, JsonLines

pytestmark = pytest.mark.anyio

KEY = b"canary-of-the-key-that-seals-32b"
CANARIES = {
    "password": "canary-password-4711",
    "api key of a connection": "canary-connection-key",
    "client secret": "canary-client-secret",
    "header of a connection": "canary-mcp-header",
    "api key of a model": "canary-model-key",
    "token of the metrics": "canary-metrics-token",
    "a bad token": "canary-bad-token",
    "in the query": "canary-query",
    "cookie": "canary-cookie",
    "secret key": KEY.decode(),
    "secret key, encoded": base64.urlsafe_b64encode(KEY).decode().rstrip("="),
    "secret key, in hexadecimal": KEY.hex(),
}


async def login(password: str) -> None:
    """Fail as a tool that cannot reach its server."""
    if password:
        raise ConnectionError("the other side does not answer")


def login_blocking(password: str) -> None:
    """The same in a thread."""
    raise RuntimeError("no")


def strict(password: int) -> int:
    """Declares another type than it gets."""
    return password


@wfcore.tool(provider="crm")
async def connected(call: wfcore.ToolCall) -> None:
    """Fail, with its whole input in the error."""
    assert call.connection is not None
    raise RuntimeError(f"{call} was refused with {dict(call.connection.config)}")


async def echoing_provider(scope: Scope, receive: Receive, send: Send) -> None:
    """A model's server that answers every call with an error that repeats the credential it was sent."""
    sent = dict(scope["headers"])[b"authorization"].decode()
    body = b'{"error": {"message": "bad key %s", "code": "invalid_api_key"}}' % sent.encode()
    await send({"type": "http.response.start", "status": 401, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": body})


class Keeper(logging.Handler):
    """Keeps every record as a line of JSON with all of its fields."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.addFilter(Correlated())
        self.setFormatter(JsonLines())

    def emit(self, record: logging.LogRecord) -> None:
        if record.name != "httpx":  # the test's own client
            self.lines.append(self.format(record))


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """All logs of wfcore, and those of other libraries from INFO on."""
    keeper, root, own = Keeper(), logging.getLogger(), logging.getLogger("wfcore")
    levels = root.level, own.level
    root.addHandler(keeper)
    root.setLevel(logging.INFO)
    own.setLevel(logging.DEBUG)
    yield keeper.lines
    root.removeHandler(keeper)
    root.setLevel(levels[0])
    own.setLevel(levels[1])


@asynccontextmanager
async def provider() -> AsyncIterator[OpenAIModel]:
    async with serving(echoing_provider) as port:
        url, key = f"http://127.0.0.1:{port}/v1", CANARIES["api key of a model"]
        async with OpenAIModel("m", base_url=url, api_key=key, max_retries=0) as model:
            yield model


def tool(name: str, value: str = CANARIES["password"]) -> Json:
    return node(name, "action", toolId=name, params={"password": value})


SECRET_WORD = CANARIES["password"]
FAILING = (
    tool("login"),
    tool("login_blocking"),
    tool("strict", f"{{{{ '{SECRET_WORD}' }}}}"),
    tool("strict", f"{{{{ '{SECRET_WORD}' + 1 }}}}"),
    node("connected", "action", toolId="connected"),
    node("ask", "agent", message=SECRET_WORD),
)

CONNECTIONS: list[Json] = [
    {"name": "A", "provider": "crm", "kind": "api_key",
     "config": {"apiKey": CANARIES["api key of a connection"], "header": "X-Key"}},
    {"name": "B", "provider": "crm", "kind": "oauth2",
     "config": {"clientId": "c", "clientSecret": CANARIES["client secret"], "tokenUrl": "https://x.org/t",
                "authorizeUrl": "https://x.org/a", "scopes": []}},
    {"name": "C", "provider": "crm", "kind": "mcp",
     "config": {"url": "https://x.org/m", "headers": {"X-Secret": CANARIES["header of a connection"]}}},
]  # fmt: skip


async def test_no_secret_is_disclosed(tmp_path: Path, logged: list[str]) -> None:
    """A server with all options gets secrets in every input while tools, models and the store fail: none is shown."""
    exporter, traces, metrics = InMemorySpanExporter(), TracerProvider(), Metrics()
    traces.add_span_processor(SimpleSpanProcessor(exporter))
    database, responses = f"sqlite:///{tmp_path}/c.db", list[httpx.Response]()

    async def keep(response: httpx.Response) -> None:
        await response.aread()
        responses.append(response)

    async with (
        provider() as model,
        wfcore.bootstrap.open(
            database, tools=[login, login_blocking, strict, connected, count], models={"default": model}, secrets=KEY,
            telemetry=[metrics, Traces(traces)], settings=wfcore.Settings(synchronous="NORMAL", grace=0),
        ) as core,
        serving(
            app(core, secret=KEY, metrics=metrics, metrics_token=CANARIES["token of the metrics"]), access_log=False
        ) as port,
        contextual(core, port, keep) as ada,
    ):  # fmt: skip
        token = ada.headers["Authorization"].removeprefix("Bearer ")
        for body in CONNECTIONS:
            made = await ada.post("/api/v1/connections", json=body)
            assert made.status_code == 201, made.text
        for failing in FAILING:
            number = await deployed(ada, chain(failing))
            run = await ada.post("/agent/v1/runs", json={"workflowId": number, "input": {}})
            assert run.text.rstrip().splitlines()[-1].startswith('data: {"kind":"error"'), run.text
            run_id = run.headers["Location"].rpartition("/")[2]
            assert (await ada.get(f"/agent/v1/runs/{run_id}")).json()["status"] == "error"
        hook = (await ada.get(f"/api/v1/workflows/{number}/webhook")).json()
        signed = {"webhook-id": "m1", "webhook-timestamp": "1", "webhook-signature": "v1,AAAA"}
        assert (await ada.post(hook["url"], json={}, headers=signed)).is_client_error
        await ada.get("/api/v1/me", headers={"Authorization": f"Bearer {CANARIES['a bad token']}"})
        await ada.get("/metrics", headers={"Authorization": f"Bearer {CANARIES['a bad token']}"})
        await ada.get(f"/api/v1/workflows?pageToken={CANARIES['in the query']}")
        await ada.get(f"/{CANARIES['in the query']}", headers={"Cookie": f"session={CANARIES['cookie']}"})
        await ada.post("/api/v1/connections", content=b'{"apiKey": "%s' % CANARIES["password"].encode())
        _lose_a_table(tmp_path / "c.db", "wfcore_connections")
        broken = await ada.post("/api/v1/connections", json=CONNECTIONS[0])
        assert_envelope(broken, 503, "INTERNAL_ERROR", "INTERNAL")
        assert "table" not in broken.text
        core.skills._ports = None  # type: ignore[assignment]
        assert_envelope(await ada.get("/api/v1/skills"), 500, "INTERNAL_ERROR", "INTERNAL")
        scraped = await ada.get("/metrics", headers={"Authorization": f"Bearer {CANARIES['token of the metrics']}"})
        assert scraped.status_code == 200

    places = {
        "logs": "\n".join(logged),
        "spans": "\n".join(span.to_json() for span in exporter.get_finished_spans()),
        "answers": "\n".join(
            f"{answer.headers}\n{answer.text}" for answer in responses if not _shows_a_workflow(answer)
        ),
    }
    assert "request failed" in places["logs"]
    assert "no such table" in places["logs"]
    assert "wfcore.access" in places["logs"]
    assert "node login" in places["spans"]
    assert "wfcore_effects_total" in places["answers"]
    hooks = {"secret of a webhook": hook["secret"], "id of a webhook": hook["url"].rpartition("/")[2]}
    secrets = {**CANARIES, **hooks, "token": token, "secret of the token": token.rpartition("_")[2]}
    sung = [(name, place) for place, text in places.items() for name, secret in secrets.items() if secret in text]
    assert sung == []


@asynccontextmanager
async def contextual(core: wfcore.core.Core, port: int, keep: object) -> AsyncIterator[httpx.AsyncClient]:
    """A member's client that keeps every response."""
    connect = partial(httpx.AsyncClient, base_url=f"http://127.0.0.1:{port}", timeout=HANG, trust_env=False)
    async with AsyncExitStack() as closing:
        ada = await (await new_world(core, connect, closing)).user(role="owner")
        ada.event_hooks = {"response": [keep]}  # type: ignore[dict-item]
        yield ada


def _shows_a_workflow(answer: httpx.Response) -> bool:
    """Whether the response shows a workflow, which its author can read."""
    return answer.is_success and "/api/v1/workflows" in str(answer.request.url)


def _lose_a_table(file: Path, name: str) -> None:
    database = sqlite3.connect(file)
    database.execute(f"DROP TABLE {name}")
    database.commit()
    database.close()
