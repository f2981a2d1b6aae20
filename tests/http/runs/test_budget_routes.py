"""Budgets and guardrails over HTTP (interface, Run-resume and Events)."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial

import httpx
import pytest
from clients import POLL, Json, World, frames, new_world

import wfcore.bootstrap
from wfcore.adapters.http import app
from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.domain.agents.budgets import Budget
from wfcore.runtime.common.installation import Settings

pytestmark = pytest.mark.anyio

CHAT = "/agent/v1/skills/1/chat"


@pytest.fixture
async def frugal() -> AsyncIterator[World]:
    """An organization with a budget of one completion a day, and a model that discloses an address."""
    settings = Settings(budgets=[Budget("user", "day", 4)], grace=0)
    models = {"default": ScriptedModel("Ask jo@example.org, please.")}
    async with AsyncExitStack() as closing:
        opened = wfcore.bootstrap.open("sqlite://", models=models, settings=settings)
        core = await closing.enter_async_context(opened)
        transport = httpx.ASGITransport(app(core))
        connect = partial(httpx.AsyncClient, transport=transport, base_url="http://wfcore", trust_env=False)
        yield await new_world(core, connect, closing)


async def test_a_spent_budget_is_an_interrupt(frugal: World) -> None:
    """The stream ends as interrupted and the inbox shows the budget; approve continues, deny ends with an error."""
    ada = await frugal.user()
    await ada.post("/api/v1/skills", json={"name": "Clerk"})
    await ada.post("/api/v1/skills/1/deploy")
    first = frames((await ada.post(CHAT, json={"message": "hello"})).text)
    assert first[-1][1]["status"] == "done"
    budget = {"maxTokens": 4, "of": "user", "period": "day"}
    for number, (decision, kind) in enumerate((("approve", "done"), ("deny", "error"))):
        answer = await ada.post(CHAT, json={"message": "and?"}, headers={"Idempotency-Key": f"r{number}"})
        stopped = frames(answer.text)
        assert [data["kind"] for _, data in stopped][-2:] == ["interrupt", "done"]
        assert (stopped[-2][1]["type"], stopped[-2][1]["budget"]) == ("approval", budget)
        (waiting,) = (await ada.get("/agent/v1/interrupts")).json()["interrupts"]
        assert waiting["budget"] == budget
        wrong = await ada.post(f"/agent/v1/runs/r{number}/resume", json={"decision": "connected"}, headers=POLL)
        assert wrong.status_code == 422
        ended = frames((await ada.post(f"/agent/v1/runs/r{number}/resume", json={"decision": decision})).text)
        assert ended[-1][1]["kind"] == kind
    assert ended[-1][1]["error"]["info"]["reason"] == "bounds"


async def test_a_guarded_answer(frugal: World) -> None:
    """No frame has the address; in version 2 the replacement precedes the message, without a gap in `seq`."""
    ada = await frugal.user()
    access: Json = {"visibility": "private", "groupPermissions": {}, "sharedWith": [], "guardrails": ["redact-emails"]}
    made = await ada.post("/api/v1/skills", json={"name": "Clerk", "accessConfig": access})
    assert made.json()["accessConfig"]["guardrails"] == ["redact-emails"]
    await ada.post("/api/v1/skills/1/deploy")
    answer = await ada.post(CHAT, json={"message": "whom?", "streamProtocolVersion": 2})
    found = frames(answer.text)
    messages = [data for _, data in found if data["kind"].startswith("message")]
    assert [data["kind"] for data in messages][-2:] == ["message_replaced", "message"]
    assert {data["content"] for data in messages if "content" in data} == {"Ask [email], please."}
    assert [seq for seq, _ in found] == list(range(1, len(found) + 1))
    assert "jo@example.org" not in answer.text
    refused = await ada.patch("/api/v1/skills/1", json={"accessConfig": {**access, "guardrails": ["x"]}})
    assert refused.status_code == 422
    assert refused.json()["error"]["info"]["errors"][0]["path"] == "accessConfig.guardrails[0]"
