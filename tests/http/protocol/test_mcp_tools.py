"""A workflow as a tool of an MCP server, over sockets, with the official SDK as the client (MCP, Transports)."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import attrs
import httpx
import httpx2
import mcp
import pytest
from clients import (
    APPROVAL,
    Json,
    World,
    assert_envelope,
    chain,
    counting,
    deployed,
    holding,
    let_go,
    node,
    performed,
    serving,
)
from mcp.client.streamable_http import streamable_http_client
from waiting import HANG

import wfcore.bootstrap
from wfcore.adapters.http import app
from wfcore.adapters.http.mcp.server import RUN_ID
from wfcore.adapters.outbound.guard import AddressGuard
from wfcore.adapters.outbound.mcp import McpTools

pytestmark = pytest.mark.anyio

OLD, NEW = "legacy", "2026-07-28"
ERAS = pytest.mark.parametrize("mode", [OLD, NEW])
SHOW = node("show", "action", toolId="core.transform", params={"value": "{{ input }}"})
NUMBERS = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


def taking(schema: Json, *nodes: Json) -> Json:
    structure = chain(*nodes)
    structure["nodes"][0]["data"] = {"inputSchema": schema}
    return structure


@attrs.frozen
class Flow:
    """A workflow with an interface, and a member whose only scope is `workflows:invoke`."""

    owner: httpx.AsyncClient
    caller: httpx.AsyncClient
    number: int
    path: str

    @property
    def url(self) -> str:
        return f"{self.caller.base_url}".rstrip("/") + self.path

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": self.caller.headers["Authorization"]}

    @asynccontextmanager
    async def session(self, mode: str, base: str = "") -> AsyncIterator[mcp.Client]:
        """The SDK's client for this kind of versions."""
        async with httpx2.AsyncClient(headers=self.headers, trust_env=False) as http:
            stream = streamable_http_client(base + self.path if base else self.url, http_client=http)
            async with mcp.Client(stream, cache=None, mode=mode) as client:
                yield client

    async def runs(self) -> list[Json]:
        return (await self.owner.get("/agent/v1/runs", params={"workflowId": self.number})).json()["runs"]

    async def seen(self, kind: str) -> Json:
        """The only run's first event of this kind."""
        async with asyncio.timeout(HANG):
            while not (runs := await self.runs()):
                pass
            place = f"/agent/v1/runs/{runs[0]['runId']}/events"
            async with self.owner.stream("GET", place) as stream:
                async for line in stream.aiter_lines():
                    if line.startswith("data: ") and json.loads(line[6:])["kind"] == kind:
                        return json.loads(line[6:])
        raise AssertionError(f"there was no `{kind}`")


async def offered(world: World, structure: Json, **more: Any) -> Flow:
    owner, caller = await world.user("ada"), await world.user("bob", scopes=["workflows:invoke"])
    number = await deployed(owner, structure, **more)
    row = await owner.post(f"/api/v1/workflows/{number}/interfaces", json={"kind": "mcp"})
    return Flow(owner, caller, number, httpx.URL(row.json()["url"]).path)


class TestTool:
    """Initialize, list, call."""

    @ERAS
    async def test_the_deployed_workflow_is_the_tool(self, real_world: World, mode: str) -> None:
        """One tool, with the slug as name and the start node's schema; its result is the output of a run."""
        flow = await offered(real_world, taking(NUMBERS, SHOW), description="Pays back")
        async with flow.session(mode) as client:
            (tool,) = (await client.list_tools()).tools
            assert (tool.name, tool.title, tool.description) == ("refunds", "Refunds", "Pays back")
            assert tool.input_schema == NUMBERS
            result = await client.call_tool("refunds", {"n": 3})
        assert (result.is_error, result.structured_content) == (False, {"n": 3})
        assert json.loads(result.content[0].text) == {"n": 3}
        (run,) = await flow.runs()
        assert (run["runId"], run["status"], run["output"]) == (result.meta[RUN_ID], "done", {"n": 3})

    @ERAS
    async def test_any_output_is_a_result(self, real_world: World, mode: str) -> None:
        """Structured content is an object in every version; text stays text, null stays null."""
        flow = await offered(real_world, chain(node("t", "action", toolId="core.transform", params={"value": "ok"})))
        async with flow.session(mode) as client:
            result = await client.call_tool("refunds")
            assert (result.structured_content, result.content[0].text) == ({"result": "ok"}, "ok")
        nothing = {"value": {"a": None}}
        flow = await offered(real_world, chain(node("t", "action", toolId="core.transform", params=nothing)))
        async with flow.session(mode) as client:
            assert (await client.call_tool("refunds-2")).structured_content == {"a": None}

    @ERAS
    async def test_progress_is_sent_on_request(self, real_world: World, mode: str) -> None:
        """A growing number for each step of the run, with the node's name."""
        flow, received = await offered(real_world, chain(SHOW)), list[Any]()

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            received.append((progress, total, message))

        async with flow.session(mode) as client:
            await client.call_tool("refunds", progress_callback=on_progress)
        words = ["start started", "start finished", "show started", "show finished"]
        assert received == [(n, None, text) for n, text in enumerate(words, 1)]

    @ERAS
    async def test_errors_are_results_for_the_model(self, real_world: World, mode: str) -> None:
        """Invalid arguments with every issue, a failed run with its message. An unknown tool is a protocol error."""
        failing = node("fail", "action", toolId="core.fail", params={"message": "no money"})
        flow = await offered(real_world, taking(NUMBERS, failing))
        async with flow.session(mode) as client:
            refused = await client.call_tool("refunds", {"n": "x", "m": 1})
            assert refused.is_error
            assert {line.partition(":")[0] for line in refused.content[0].text.split("\n")} == {"`n`", "`m`"}
            assert await flow.runs() == []
            failed = await client.call_tool("refunds", {"n": 1})
            assert (failed.is_error, failed.structured_content) == (True, None)
            assert "no money" in failed.content[0].text
            with pytest.raises(mcp.MCPError) as unknown:
                await client.call_tool("other", {})
        assert (unknown.value.code, unknown.value.message) == (-32602, "unknown tool `other`: see `tools/list`")

    @ERAS
    async def test_a_parked_run_is_a_result(self, real_world: World, mode: str) -> None:
        """The result has the open interrupts and the run id; it is neither an error nor an output."""
        flow = await offered(real_world, chain(APPROVAL))
        async with flow.session(mode) as client:
            result = await client.call_tool("refunds")
        (run,) = await flow.runs()
        assert not result.is_error
        assert result.structured_content["status"] == "interrupted"
        assert result.structured_content["runId"] == run["runId"]
        assert [one["message"] for one in result.structured_content["interrupts"]] == ["Go on?"]
        assert "Go on?" in result.content[0].text

    async def test_a_key_makes_a_call_once(self, real_world: World) -> None:
        """wfcore as the client of wfcore sends the effect's key, so a repeated call joins its run."""
        flow = await offered(real_world, chain(counting("mcp-once")))
        tools = McpTools(flow.url, flow.headers, AddressGuard.allowing(["127.0.0.1"]))
        assert [tool.name for tool in (await tools.list()).tools] == ["refunds"]
        assert [await tools.call("refunds", {}, key) for key in ("k", "k", "other")] == [
            {"result": 1}, {"result": 1}, {"result": 2},
        ]  # fmt: skip
        assert performed["mcp-once"] == 2

    @ERAS
    async def test_a_deployment_changes_the_tool_and_a_draft_does_not(self, real_world: World, mode: str) -> None:
        """A draft is not disclosed; before the first deployment there is no tool."""
        owner = await real_world.user("ada")
        body = {"name": "Refunds", "type": "workflow", "workflowStructure": taking({"title": "first"}, SHOW)}
        number = (await owner.post("/api/v1/workflows", json=body)).json()["id"]
        row = await owner.post(f"/api/v1/workflows/{number}/interfaces", json={"kind": "mcp"})
        flow = Flow(owner, await real_world.user("bob", scopes=["workflows:invoke"]), number, row.json()["url"])
        async with flow.session(mode) as client:
            assert (await client.list_tools()).tools == []
            with pytest.raises(mcp.MCPError):
                await client.call_tool("refunds", {})
            await owner.post(f"/api/v1/workflows/{number}/deploy")
            for title in ("first", "second"):
                (tool,) = (await client.list_tools()).tools
                assert tool.input_schema["title"] == title
                body = {"workflowStructure": taking({"title": "second"}, SHOW)}
                assert (await owner.patch(f"/api/v1/workflows/{number}", json=body)).status_code == 200
                assert (await client.list_tools()).tools == [tool]
                await owner.post(f"/api/v1/workflows/{number}/deploy")


class TestCancelling:
    """A client that cancels a call (MCP, Cancellation)."""

    @ERAS
    async def test_a_cancelled_call_is_a_cancelled_run(self, real_world: World, mode: str) -> None:
        """By a notification before 2026-07-28, by closing the stream since: the run ends as cancelled."""
        name = f"mcp-cancel-{mode}"
        flow = await offered(real_world, chain(holding(name)))
        async with flow.session(mode) as client:
            call = asyncio.create_task(client.call_tool("refunds"))
            await flow.seen("node_started")
            call.cancel()
            assert (await flow.seen("cancelled"))["kind"] == "cancelled"
        let_go(name)

    async def test_a_call_ends_when_its_run_is_cancelled(self, real_world: World) -> None:
        """The result is an error with that message."""
        flow = await offered(real_world, chain(holding("mcp-api")))
        async with flow.session(NEW) as client:
            call = asyncio.create_task(client.call_tool("refunds"))
            run = await flow.seen("node_started")
            await flow.owner.post(f"/agent/v1/runs/{run['runId']}/cancel")
            result = await call
        assert (result.is_error, result.content[0].text) == (True, "the run was cancelled")
        let_go("mcp-api")


async def test_two_servers_on_one_store_share_calls(tmp_path: Any) -> None:
    """A session that began at one server continues at the other: listing, calling and cancelling."""
    async with AsyncExitStack() as closing:
        bases = []
        for _ in range(2):
            settings = wfcore.Settings(synchronous="NORMAL", grace=0)
            opening = wfcore.bootstrap.open(f"sqlite:///{tmp_path}/app.db", settings=settings)
            core = await closing.enter_async_context(opening)
            bases.append(f"http://127.0.0.1:{await closing.enter_async_context(serving(app(core, secret=b's' * 32)))}")
        world = World(core, (await core.directory.create_organization("o")).uuid, lambda: httpx.AsyncClient(
            base_url=bases[0], trust_env=False, timeout=HANG), closing)  # fmt: skip
        flow = await offered(world, chain(node("wait", "action", toolId="core.wait", params={"seconds": 3_600})))
        headers = {**flow.headers, "Accept": "application/json, text/event-stream"}
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        one, two = [await world.closing.enter_async_context(
            httpx.AsyncClient(base_url=base, headers=headers, trust_env=False, timeout=HANG)
        ) for base in bases]  # fmt: skip
        begun = await one.post(flow.path, json={"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
        assert begun.json()["result"]["protocolVersion"] == "2025-11-25"
        session = {"Mcp-Session-Id": begun.headers["Mcp-Session-Id"], "Mcp-Protocol-Version": "2025-11-25"}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await two.post(flow.path, json=ready, headers=session)).status_code == 202
        listed = await two.post(flow.path, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=session)
        assert [tool["name"] for tool in listed.json()["result"]["tools"]] == ["refunds"]
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "refunds"}}
        async with two.stream("POST", flow.path, json=call, headers=session) as stream:
            await flow.seen("node_started")
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
            assert (await one.post(flow.path, json=cancel, headers=session)).status_code == 202
            received = [json.loads(line[6:]) async for line in stream.aiter_lines() if line.startswith("data: ")]
        assert [(reply["id"], reply["result"]["isError"]) for reply in received] == [(2, True)]
        assert (await flow.runs())[0]["status"] == "cancelled"


class TestAuthentication:
    """Authentication and access (interface, Authentication; RFC 9728)."""

    async def test_a_401_names_the_metadata(self, real_world: World) -> None:
        """401 names the metadata of the URL, which have the resource and its scope, for unknown interfaces too."""
        flow = await offered(real_world, chain(SHOW))
        nobody = await real_world.client()
        for path in (flow.path, "/interfaces/mcp/unknown"):
            answer = await nobody.post(path, json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
            assert_envelope(answer, 401, "UNAUTHORIZED", "UNAUTHENTICATED")
            root = str(nobody.base_url).rstrip("/")
            place = f"{root}/.well-known/oauth-protected-resource{path}"
            assert answer.headers["WWW-Authenticate"] == f'Bearer resource_metadata="{place}"'
            received = (await nobody.get(place)).json()
            assert (received["resource"], received["scopes_supported"]) == (root + path, ["workflows:invoke"])

    async def test_hidden_and_unknown_are_alike(self, real_world: World) -> None:
        """The same 404 for a hidden workflow, a deleted one, another kind of interface, and no interface."""
        ada, eve = await real_world.user("ada"), await real_world.user("eve")
        private = {"accessConfig": {"visibility": "private"}}
        places = ["/interfaces/mcp/unknown"]
        for kind, more in (("mcp", private), ("chatapp", {}), ("mcp", {})):
            number = await deployed(ada, chain(SHOW), **more)
            row = await ada.post(f"/api/v1/workflows/{number}/interfaces", json={"kind": kind})
            places.append(f"/interfaces/mcp/{row.json()['id']}")
        await ada.delete(f"/api/v1/workflows/{number}")
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        answers = [await eve.post(place, json=ping) for place in places]
        found = [assert_envelope(answer, 404, "NOT_FOUND", "NOT_FOUND") for answer in answers]
        assert {error["message"] for error in found} == {"not found"}

    async def test_scope_and_use_are_required(self, real_world: World) -> None:
        """403 without `workflows:invoke`, and for a manager without use."""
        flow = await offered(real_world, chain(SHOW))
        reader = await real_world.user("carol", scopes=["workflows:write"])
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        refused = assert_envelope(await reader.post(flow.path, json=ping), 403, "FORBIDDEN", "PERMISSION_DENIED")
        assert refused["info"] == {"missing": ["workflows:invoke"]}
        groups = {real_world.org: {"use": False, "manage": True}}
        managed = {"accessConfig": {"visibility": "shared", "groupPermissions": groups}}
        assert (await flow.owner.patch(f"/api/v1/workflows/{flow.number}", json=managed)).status_code == 200
        refused = assert_envelope(await flow.owner.post(flow.path, json=ping), 403, "FORBIDDEN", "PERMISSION_DENIED")
        assert refused["info"] == {"canUse": False}
