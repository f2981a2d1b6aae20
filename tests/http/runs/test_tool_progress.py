"""Progress of tools over HTTP: while the call is under way, after a reconnect, and for AG-UI clients."""

import asyncio
import json
from contextlib import AsyncExitStack
from functools import partial

import httpx
import pytest
from clients import POLL, chain, deployed, frames, new_world, node, serving
from waiting import HANG

import wfcore
from wfcore.adapters.http import app

pytestmark = pytest.mark.anyio

AG_UI = {"Accept": "text/event-stream; profile=ag-ui"}


async def test_progress_is_in_the_stream_before_the_result() -> None:
    """A client sees each report while the tool works; one that joins later, or speaks AG-UI, sees the same."""
    seen = asyncio.Event()

    @wfcore.tool
    async def import_orders(call: wfcore.ToolCall) -> int:
        """Import orders, page by page."""
        call.progress(300, total=1_200, message="page 1")
        await seen.wait()
        return 1_200

    async with (
        wfcore.open("sqlite://", tools=[import_orders], settings=wfcore.Settings(grace=0)) as core,
        serving(app(core, secret=b"s" * 32)) as port,
        AsyncExitStack() as closing,
    ):
        connect = partial(httpx.AsyncClient, base_url=f"http://127.0.0.1:{port}", timeout=HANG, trust_env=False)
        office = await new_world(core, connect, closing)
        client = await office.user("ada", role="owner")
        number = await deployed(client, chain(node("fetch", "action", toolId="import_orders")))
        async with client.stream("POST", "/agent/v1/runs", json={"workflowId": number}) as response:
            text = ""
            async for part in response.aiter_text():
                text += part
                if "tool_progress" in text:
                    assert '"done"' not in text or seen.is_set()
                    seen.set()
        (report,) = [(seq, data) for seq, data in frames(text) if data["kind"] == "tool_progress"]
        seq, data = report
        shown = {name: data[name] for name in ("nodeId", "toolId", "progress", "total", "message")}
        assert shown == {
            "nodeId": "fetch", "toolId": "import_orders", "progress": 300, "total": 1_200, "message": "page 1",
        }  # fmt: skip
        path = f"/agent/v1/runs/{data['runId']}/events"
        again = await client.get(path, headers={"Last-Event-ID": str(seq - 1)})
        assert frames(again.text)[0] == report
        polled = await client.get(f"/agent/v1/runs/{data['runId']}", headers=POLL)
        assert polled.json()["output"] == 1_200
        profile = (await client.get(path, headers=AG_UI)).text
        (custom,) = [json.loads(line[6:]) for line in profile.splitlines() if '"tool_progress"' in line]
        assert (custom["type"], custom["name"], custom["value"]["progress"]) == ("CUSTOM", "tool_progress", 300)
