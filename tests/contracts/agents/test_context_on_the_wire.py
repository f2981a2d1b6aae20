"""A context shows exactly the bytes that a provider receives (interface, context composition)."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx
import pytest
from wires import CHAT

import wfcore
from wfcore.adapters.http import app
from wfcore.core import Core
from wfcore.domain.resources.access import TOKEN_SCOPES

pytestmark = pytest.mark.anyio

ORG = "0190a6e4-7c3b-4f00-8a52-1f2e3d4c5b6a"
SKILL = {
    "name": "Clerk", "instructions": ["Sei nett.", "Nenne Preise in €."], "expectedOutput": "One sentence.",
    "toolset": {"price": {"enabled": True}, "core.recall": {"enabled": True}},
    "accessConfig": {
        "visibility": "private", "groupPermissions": {}, "sharedWith": [], "guardrails": ["redact-secrets"],
    },
}  # fmt: skip
ROLES = {"system": "system", "human": "user", "ai": "assistant"}
MESSAGE = "Was kostet “Tee” für 2 \U0001f375?"


def price(of: str) -> float:
    """Return the price of a product."""
    return 4.5


def as_sent(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def messages_of(view: Any) -> bytes:
    """The messages of a context as Chat Completions has them."""
    return as_sent([{"role": ROLES[one["type"]], "content": one["content"]} for one in view["messages"]])


def tools_of(view: Any) -> bytes:
    names = ("name", "description", "parameters")
    return as_sent([{"type": "function", "function": {name: tool[name] for name in names}} for tool in view["tools"]])


@asynccontextmanager
async def clerk(model: Any) -> AsyncIterator[tuple[Core, httpx.AsyncClient]]:
    """An HTTP client, and skill 1 with a memory and a context item."""
    settings = wfcore.Settings(grace=0)
    async with wfcore.open("sqlite://", models={"default": model}, tools=[price], settings=settings) as core:
        await core.directory.create_organization("Acme", id=ORG)
        await core.directory.add_member(ORG, "ada", email="ada@x.org")
        token = await core.directory.create_token(ORG, "ada", scopes=TOKEN_SCOPES)
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        client = partial(httpx.AsyncClient, base_url="http://wfcore", trust_env=False, headers=headers)
        async with client(transport=httpx.ASGITransport(app(core))) as ada:
            for path, body in (
                ("context-items", {"title": "Shop", "content": "Open till <8>."}), ("skills", SKILL),
                ("skills/1/deploy", {}), ("skills/1/memories", {"memory": "Tee ist beliebt.", "metadata": {}}),
            ):  # fmt: skip
                assert (await ada.post(f"/api/v1/{path}", json=body)).is_success
            yield core, ada


async def digests(ada: httpx.AsyncClient, run: str) -> set[str]:
    """The digests in the events of a run's model calls."""
    events = (await ada.get(f"/agent/v1/runs/{run}/events")).json()["events"]
    return {event["contextDigest"] for event in events if event["kind"] == "usage"}


async def chat(core: Core, ada: httpx.AsyncClient, **body: Any) -> str:
    """The id of a run that has come to its end."""
    answer = await ada.post("/agent/v1/skills/1/chat", json={"sessionId": "s", **body})
    run = str(answer.json()["runId"])
    me = core.principal(ORG, "ada", email="ada@x.org")
    async for _ in core.runs.batches(await core.runs.get(me, run)):
        pass
    assert (await core.runs.get(me, run)).status == "done"
    return run


async def test_a_run_sends_the_shown_context() -> None:
    """In the second turn of a conversation, with all kinds of segments, messages and tools are the shown bytes, and
    the digest is the shown one. Each further round begins with the bytes of the one before.
    """
    calls = {"content": "", "toolCalls": [{"id": "c1", "name": "price", "args": {"of": "Tee"}}]}
    answers = [CHAT.says("Guten Tag, ä!"), CHAT.says(calls), CHAT.says("4,50 €.")]
    async with CHAT.serve(*answers) as (model, stub), clerk(model) as (core, ada):
        await chat(core, ada, message="Hallo")
        shown = (await ada.post("/api/v1/skills/1/context", json={"message": MESSAGE, "sessionId": "s"})).json()
        run = await chat(core, ada, message=MESSAGE)
        assert await digests(ada, run) == {shown["digest"]}
        assert {"conversation", "memory", "contextItem", "tools"} <= {part["source"] for part in shown["segments"]}
        _, first, second = stub.calls
        assert b'"messages":' + messages_of(shown) in first.raw
        for sent in (first, second):
            assert b'"tools":' + tools_of(shown) in sent.raw
        assert b'"messages":' + messages_of(shown)[:-1] + b"," in second.raw
        assert [message["role"] for message in second.body["messages"][-2:]] == ["assistant", "tool"]


async def test_another_context_is_another_digest() -> None:
    """A request with any other bytes would have another digest."""
    async with CHAT.serve(CHAT.says("ja"), CHAT.says("ja")) as (model, stub), clerk(model) as (core, ada):
        shown = (await ada.post("/api/v1/skills/1/context", json={"message": MESSAGE, "sessionId": "s"})).json()
        assert (await ada.patch("/api/v1/skills/1", json={"instructions": ["Sei knapp."]})).is_success
        assert (await ada.post("/api/v1/skills/1/deploy")).is_success
        run = await chat(core, ada, message=MESSAGE)
        (digest,) = await digests(ada, run)
        assert digest != shown["digest"]
        assert messages_of(shown) not in stub.calls[0].raw
