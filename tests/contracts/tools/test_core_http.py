"""`core.http` in a run: the output, retries, and refused addresses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from waiting import HANG
from wire_stub import Answer, Line, WireStub, hangs_up, silence

from wfcore import bootstrap
from wfcore.core import Core
from wfcore.runtime.common.installation import Settings

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "sqlite"])
async def core(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Core]:
    """Open, with loopback let through."""
    database = "sqlite://" if request.param == "memory" else f"sqlite:///{tmp_path / 'app.db'}"
    settings = Settings(http_allow=["127.0.0.1"], synchronous="NORMAL", grace=0)
    async with bootstrap.open(database, settings=settings) as opened:
        yield opened


async def ran(core: Core, params: dict[str, Any], **data: Any) -> Any:
    """The record of a run of one `core.http` action."""
    me = core.principal((await core.directory.create_organization("Acme")).uuid, "me")
    action = {"id": "call", "type": "action", "data": {"toolId": "core.http", "params": params, **data}}
    structure = {
        "nodes": [{"id": "start", "type": "start"}, action],
        "edges": [{"id": "e", "source": "start", "target": "call"}],
    }
    flow = await core.workflows.create(me, name="Call", structure=structure)
    await core.workflows.deploy(me, flow.id)
    run = await core.runs.start(me, workflow=flow.id, input={"order": 7})
    async with aclosing(core.runs.batches(run)) as batches:
        async for _ in batches:
            pass
    return await core.runs.get(me, run.id)


def says(status: int, body: bytes, kind: str) -> Answer:
    async def answer(line: Line) -> None:
        await line.begin(status, content_type=kind)
        await line.send(body)
        await line.end()

    return answer


async def test_the_response_is_the_output(core: Core) -> None:
    """Templates are rendered, an object is sent as JSON, and an error status is a response like any other."""
    async with WireStub([says(422, b'{"why": "no"}', "application/json")]) as server:
        params = {"method": "POST", "url": f"{server.base_url}/orders/{{{{ input.order }}}}",
                  "headers": {"X-Order": "{{ string(input.order) }}"}, "body": {"n": "{{ input.order }}"}}  # fmt: skip
        run = await ran(core, params)
    assert run.status == "done"
    assert (run.output["status"], run.output["body"]) == (422, {"why": "no"})
    assert run.output["headers"]["content-type"] == "application/json"
    (call,) = server.calls
    assert (call.path, call.body, call.headers["x-order"]) == ("/v1/orders/7", {"n": 7}, "7")


async def test_every_attempt_has_the_same_key(core: Core) -> None:
    """A broken connection is a failed attempt; the next one has the same `Idempotency-Key`."""
    async with WireStub([hangs_up, hangs_up, says(200, b"ok", "text/plain")]) as server:
        retry = {"maxAttempts": 3, "initialIntervalSeconds": 0.001}
        run = await ran(core, {"method": "POST", "url": server.base_url, "body": {}}, retry=retry)
    assert (run.status, run.output["body"]) == ("done", "ok")
    assert len({call.headers["idempotency-key"] for call in server.calls}) == 1
    assert len(server.calls) == 3
    assert server.calls[0].headers["idempotency-key"].endswith(":call:1")


@pytest.mark.parametrize("url", ["http://10.0.0.1/", "http://127.1/", "http://[::1]/", "file:///etc/passwd"])
async def test_a_refused_address_is_not_retried(core: Core, url: str) -> None:
    """The node fails at once, whatever its retries, and so does the run."""
    run = await ran(core, {"url": url}, retry={"maxAttempts": 5, "initialIntervalSeconds": 1_000})
    assert run.status == "error"


async def test_a_timeout_closes_the_connection(core: Core) -> None:
    """When the time of the node is over, the connection is closed."""
    async with WireStub([silence]) as server:
        seconds = 0.05
        while not server.calls:  # on a busy machine the time can be over before the request is sent
            run = await ran(core, {"url": server.base_url, "method": "POST", "body": {}}, timeoutSeconds=seconds)
            assert (run.status, run.error["info"]["reason"]) == ("error", "timeout")
            seconds *= 2
        async with asyncio.timeout(HANG):
            await server.gone.wait()


async def test_loopback_is_refused_by_default() -> None:
    """Without settings, an installation reaches no loopback address."""
    async with bootstrap.open("sqlite://", settings=Settings(grace=0)) as core, WireStub([hangs_up]) as server:
        run = await ran(core, {"url": server.base_url})
        assert run.status == "error"
        assert "operator does not allow its port" in run.error["message"]
        assert server.calls == []


async def test_arguments_are_checked(core: Core) -> None:
    """Arguments that do not match the tool's schema fail the node."""
    run = await ran(core, {"url": "http://127.0.0.1/", "method": "{{ 'get' }}"})
    assert run.status == "error"
    assert "params.method" in run.error["message"]


async def test_an_invalid_allowed_address_is_an_error() -> None:
    """A name cannot be allowed: opening raises instead of ignoring it."""
    with pytest.raises(ValueError, match="`localhost` is not an address"):
        async with bootstrap.open("sqlite://", settings=Settings(http_allow=["localhost"])):
            pass
