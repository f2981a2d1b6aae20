"""A secret in an exception of any port's adapter is in nothing that a run or the audit keeps, and in no response.

The exception itself goes to the server's log. Adapters that know a secret do not put it into their own errors.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from bench import Bench, act, deployed_skill, one, opened
from played import Played, asks, enabled

from wfcore import bootstrap
from wfcore.adapters.outbound.mcp_servers import McpServers
from wfcore.adapters.sealing import Sealing
from wfcore.adapters.sql.postgres.database import PostgresDatabase
from wfcore.domain.json.codec import dumps
from wfcore.domain.kernel.errors import Unavailable, WfcoreError
from wfcore.ports.tool_servers import ServedTool, ToolListing

pytestmark = pytest.mark.anyio

CANARY = "canary-password-8812"
TEXT = f"connection to postgresql://wfcore:{CANARY}@db/wfcore failed"
KEY = b"k" * 32


async def fail(*_: Any, **__: Any) -> Any:
    raise RuntimeError(TEXT)


def fail_at_once(*_: Any, **__: Any) -> Any:
    raise RuntimeError(TEXT)


async def connected(bench: Bench, kind: str) -> str:
    """A connection of the provider `crm`; its id."""
    config = {"apiKey": CANARY} if kind == "api_key" else {"url": "https://x.org/m", "headers": {"X-Key": CANARY}}
    made = await bench.core.connections.create(bench.me, name="C", provider="crm", kind=kind, config=config)
    return made.id


Case = Callable[[Bench, pytest.MonkeyPatch], Awaitable[Any]]


async def blobs(bench: Bench, patch: pytest.MonkeyPatch) -> Any:
    found = await bench.core.attachments.upload(bench.me, b"some text", "text/plain")
    number = await deployed_skill(bench)
    patch.setattr(bench.core.ports.blobs, "get", fail)
    documents = [{"uploadId": found.to_wire()["uploadId"]}]
    return await bench.core.runs.chat(bench.me, number, message="look", attachments={"documents": documents})


async def memories(bench: Bench, patch: pytest.MonkeyPatch) -> Any:
    number = await deployed_skill(bench, toolset=enabled("core.recall"))
    patch.setattr(bench.core.ports.memories, "search", fail)
    return await bench.core.runs.chat(bench.me, number, message="what do I like?")


async def served(bench: Bench, patch: pytest.MonkeyPatch) -> int:
    """A deployed workflow that calls a tool of an MCP server."""

    async def listing(*_: Any, **__: Any) -> ToolListing:
        return ToolListing([ServedTool("add", "Adds.", {"type": "object"}, "d")], {})

    tool = f"mcp.{await connected(bench, 'mcp')}.add"
    patch.setattr(McpServers, "listing", listing)
    return await bench.deployed(one(act(tool)))


async def listings(bench: Bench, patch: pytest.MonkeyPatch) -> Any:
    number = await served(bench, patch)
    patch.setattr(McpServers, "listing", fail)
    return await bench.core.runs.start(bench.me, workflow=number, input={})


async def calls(bench: Bench, patch: pytest.MonkeyPatch) -> Any:
    number = await served(bench, patch)
    patch.setattr(McpServers, "call", fail)
    return await bench.core.runs.start(bench.me, workflow=number, input={})


async def sealer(bench: Bench, patch: pytest.MonkeyPatch) -> Any:
    number = await served(bench, patch)
    patch.setattr(Sealing, "open", fail_at_once)
    return await bench.core.runs.start(bench.me, workflow=number, input={})


async def children(bench: Bench, patch: pytest.MonkeyPatch) -> Any:
    child = await bench.deployed(one(act("core.transform", value=1)))
    run = await bench.started(one(act("core.wait", seconds=0)))
    await bench.ended(run)
    patch.setattr(bench.core.driver._performer._children, "pinned", fail)
    return await bench.started(one(act("core.workflow", workflowId=child, input={})))


CASES: list[Case] = [blobs, memories, listings, calls, sealer, children]


@pytest.mark.parametrize("case", CASES)
async def test_what_a_run_keeps_has_no_secret(
    database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, case: Case
) -> None:
    """The run ends in error or goes on; its events, its record and the audit do not quote the exception."""
    model = Played(asks("core_recall", query="tea"), "well", "well")
    async with opened(database, models={"default": model}, secrets=KEY) as bench:
        boss = await bench.joined("boss", "owner")
        with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
            run = await bench.ended(await case(bench, patch))
        events = [event.to_wire() for event in await bench.events(run.id)]
        audit = [row.to_wire() for row in await bench.core.audit.page(boss, limit=100)]
        kept = dumps([run.to_wire(), events, audit]) + str(await bench.core.ports.journal.read(run.row.execution))
    assert run.status in ("error", "done")
    assert run.status == "done" or run.error["code"] in ("INTERNAL_ERROR", "BAD_REQUEST")
    assert CANARY not in kept
    assert CANARY in caplog.text


async def test_a_database_that_cannot_be_reached(caplog: pytest.LogCaptureFixture) -> None:
    """The password of its URL is neither in the error nor in the log."""
    url = f"postgresql://wfcore:{CANARY}@127.0.0.1:1/wfcore?connect_timeout=1"
    with caplog.at_level(logging.DEBUG):
        with pytest.raises(Unavailable) as error:
            await PostgresDatabase(url).open()
        with pytest.raises(WfcoreError) as second:
            async with bootstrap.open(url):
                raise AssertionError
    for shown in (str(error.value), str(error.value.info), str(second.value), repr(second.value), caplog.text):
        assert CANARY not in shown


@pytest.mark.parametrize(
    "url", [f"mysql://wfcore:{CANARY}@db/x", f"wfcore:{CANARY}@db/x", f"host=db password={CANARY}"]
)
async def test_an_unknown_url_is_not_quoted(url: str) -> None:
    """Only its scheme is, if it has one."""
    with pytest.raises(ValueError, match="unknown database URL") as error:
        async with bootstrap.open(url):
            raise AssertionError
    assert CANARY not in str(error.value)
