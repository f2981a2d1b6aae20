"""Conversations, usage and suggestions over HTTP (interface, Read a conversation)."""

from typing import Any

import httpx
import pytest
from clients import World, assert_envelope, pages

from wfcore.domain.run.records import MessageRecord, UsageRecord
from wfcore.testing.contracts.journal_values import NOW
from wfcore.testing.contracts.run_records import human, recorded

pytestmark = pytest.mark.anyio

BASE = "/api/v1/skills/1/conversations"
USAGE = "/api/v1/usage"
PERIOD = {"from": "2026-01-01T12:00:00Z", "to": "2026-01-01T13:00:00+00:00"}


async def said(world: World, text: str, *, thread: str = "t-1", user: str = "ada", at: int = NOW) -> None:
    """Record a run of skill 1 with this message."""
    call = {"id": "c", "name": "look_up", "args": {"q": text}}
    answer = MessageRecord("ai", f"a-{text}", f"about {text}", (call,), skill_id=1, at=at)
    used = UsageRecord("fast", 1, "agent", 10, 2, 1, 30, at=at)
    records = [human(text, at), answer, used]
    await recorded(
        world.core.ports.journal, records, org=world.org, user=user, thread=thread, kind="skill", resource=1,
        run=f"{user}-{text}",
    )  # fmt: skip


async def scope(client: httpx.AsyncClient, **fields: Any) -> int:
    return int((await client.post("/api/v1/skills", json={"name": "S", **fields})).json()["id"])


async def test_a_conversation_is_read_and_deleted(either: World) -> None:
    """It has the shape of the interface, under the skill and under 0; after the delete it is 404."""
    ada = await either.user()
    await scope(ada)
    await said(either, "tea")
    read = await ada.get(f"{BASE}/t-1")
    call = {"id": "c", "name": "look_up", "args": {"q": "tea"}}
    conversation = {
        "threadId": "t-1",
        "skillId": 1,
        "messages": [
            {"type": "human", "content": "tea", "id": "m-tea", "toolCalls": []},
            {"type": "ai", "content": "about tea", "id": "a-tea", "toolCalls": [call]},
        ],
        "createdAt": "2026-01-01T12:00:00.000Z",
        "updatedAt": "2026-01-01T12:00:00.000Z",
    }
    assert (read.status_code, read.json()) == (200, {**conversation, "nextPageToken": None})
    assert (await ada.get("/api/v1/skills/0/conversations/t-1")).json() == read.json()
    for number in (1, 0):
        listed = await ada.get(f"/api/v1/skills/{number}/conversations")
        assert listed.json() == {"conversations": [conversation], "nextPageToken": None}
    gone = await ada.delete(f"{BASE}/t-1")
    assert (gone.status_code, gone.json()) == (200, conversation)
    for again in (ada.get(f"{BASE}/t-1"), ada.delete(f"{BASE}/t-1")):
        assert_envelope(await again, 404, "NOT_FOUND", "NOT_FOUND")


async def test_a_conversation_with_a_new_message_is_not_deleted(world: World) -> None:
    """409 for the ETag of before; the current one, of the thread as it is read, is accepted."""
    ada = await world.user()
    await scope(ada)
    await said(world, "tea")
    old = (await ada.get(f"{BASE}/t-1")).headers["ETag"]
    await said(world, "milk")
    now = (await ada.get(f"{BASE}/t-1")).headers["ETag"]
    stale = await ada.delete(f"{BASE}/t-1", headers={"If-Match": old})
    assert assert_envelope(stale, 409, "CONFLICT", "ALREADY_EXISTS")["info"] == {"reason": "stale", "etag": now}
    assert (await ada.get(f"{BASE}/t-1")).headers["ETag"] == now
    assert (await ada.delete(f"{BASE}/t-1", headers={"If-Match": now})).status_code == 200


async def test_lists_are_paged(world: World) -> None:
    """Latest first; a page token is valid only for its own list."""
    ada = await world.user()
    await scope(ada), await scope(ada)
    names = [f"thread/{number} ?" for number in range(5)]
    for number, name in enumerate(names):
        await said(world, str(number), thread=name, at=NOW + number // 2)
    for base in (BASE, "/api/v1/skills/0/conversations"):
        assert [row["threadId"] for row in await pages(ada, base, "conversations", 2)] == names[::-1]
    token = (await ada.get(BASE, params={"pageSize": 2})).json()["nextPageToken"]
    for other in ("/api/v1/skills/0/conversations", "/api/v1/skills/2/conversations", f"{BASE}/t-1", "/api/v1/skills"):
        answer = await ada.get(other, params={"pageToken": token})
        assert_envelope(answer, 400, "BAD_REQUEST", "INVALID_ARGUMENT")


async def test_a_long_conversation_is_paged(world: World) -> None:
    """A read has the newest thousand messages, and a token for the earlier ones."""
    ada = await world.user()
    await scope(ada)
    many = [human(str(number)) for number in range(1_003)]
    await recorded(world.core.ports.journal, many, org=world.org, user="ada", kind="skill", resource=1)
    first = (await ada.get(f"{BASE}/t-1")).json()
    assert [message["content"] for message in first["messages"]] == [str(number) for number in range(3, 1_003)]
    rest = (await ada.get(f"{BASE}/t-1", params={"pageToken": first["nextPageToken"]})).json()
    assert ([message["content"] for message in rest["messages"]], rest["nextPageToken"]) == (["0", "1", "2"], None)


@pytest.mark.parametrize("number", ["00", "01", "-0", "0.0", "x", "%30%0a", "%D9%A0", "9" * 40])
async def test_only_0_means_all_skills(world: World, number: str) -> None:
    """Any other text that is not a skill's number is 404."""
    ada = await world.user()
    await scope(ada)
    await said(world, "tea")
    assert (await ada.get("/api/v1/skills/%30/conversations/t-1")).status_code == 200
    for path in (f"/api/v1/skills/{number}/conversations", f"/api/v1/skills/{number}/conversations/t-1"):
        assert_envelope(await ada.get(path), 404, "NOT_FOUND", "NOT_FOUND")


async def test_hidden_and_missing_are_the_same(world: World) -> None:
    """Conversations with a hidden skill or of another organization get the same 404 as unknown ones."""
    ada, bob = await world.user(), await world.user("bob")
    eve = await world.user("eve", org=(await world.core.directory.create_organization("Other")).uuid)
    await scope(ada, accessConfig={"visibility": "private", "groupPermissions": {}, "sharedWith": []})
    await said(world, "secret")
    headers = {"X-Request-Id": "same"}
    for client in (bob, eve):
        for scopes in ("0", "1", "99"):
            for thread in ("t-1", "never"):
                path = f"/api/v1/skills/{scopes}/conversations/{thread}"
                for call in (client.get(path, headers=headers), client.delete(path, headers=headers)):
                    answer = await call
                    never = await client.get("/api/v1/skills/77/conversations/t-9", headers=headers)
                    assert (answer.status_code, answer.content) == (404, never.content)
        assert (await client.get("/api/v1/skills/0/conversations")).json()["conversations"] == []


class TestUsage:
    """`GET /api/v1/usage`."""

    async def test_usage_is_reported(self, either: World) -> None:
        """Sums of the period by the requested key, and their total."""
        ada = await either.user(role="admin")
        await said(either, "one")
        await said(either, "two", user="bob", at=NOW + 3_599_999)
        await said(either, "late", at=NOW + 3_600_000)
        used = {"calls": 1, "inputTokens": 10, "outputTokens": 2, "durationMs": 30, "cost": None}
        both = {name: value and 2 * value for name, value in used.items()}
        for group, rows in (
            (None, [{"key": "fast", **both}]),
            ("user", [{"key": "ada", **used}, {"key": "bob", **used}]),
            ("skill", [{"key": "1", **both}]),
            ("workflow", [{"key": None, **both}]),
            ("day", [{"key": "2026-01-01", **both}]),
        ):
            answer = await ada.get(USAGE, params=PERIOD | ({"groupBy": group} if group else {}))
            assert (answer.status_code, answer.json()) == (200, {
                "usage": rows, "totals": both, "groupBy": group or "model",
                "from": "2026-01-01T12:00:00.000Z", "to": "2026-01-01T13:00:00.000Z",
            })  # fmt: skip

    @pytest.mark.parametrize(
        "query",
        [
            "from=2026-01-01", "from=yesterday", "to=2026-01-01T00:00:00", "from=", "groupBy=", "groupBy=Model",
            "groupBy=model&groupBy=day", "from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z",
            "from=2024-01-01T00:00:00Z&to=2026-01-01T00:00:00Z", "to=0001-01-01T00:00:00%2B23:59",
            "to=9999-12-31T23:59:59-23:59", "from=2026-02-30T00:00:00Z&to=2026-03-01T00:00:00Z",
        ],
    )  # fmt: skip
    async def test_an_invalid_query_is_malformed(self, world: World, query: str) -> None:
        """400, with the parameter's name."""
        ada = await world.user()
        error = assert_envelope(await ada.get(f"{USAGE}?{query}"), 400, "BAD_REQUEST", "INVALID_ARGUMENT")
        assert [issue["path"] for issue in error["info"]["errors"]] == [query.partition("=")[0]]


async def test_suggestions_have_a_prompt_a_reason_and_a_target(either: World) -> None:
    """At most four; a new organization's member gets none."""
    ada = await either.user()
    assert (await ada.get("/api/v1/suggestions")).json() == {"suggestions": []}
    for number in range(5):
        made = (await ada.post("/api/v1/skills", json={"name": f"S{number}", "instructions": ["Be kind."]})).json()
        assert (await ada.post(f"/api/v1/skills/{made['id']}/deploy")).status_code == 200
    await said(either, "tea")
    found = (await ada.get("/api/v1/suggestions")).json()["suggestions"]
    assert [one["target"]["type"] for one in found] == ["conversation", "skill", "skill", "skill"]
    assert all(one.keys() == {"prompt", "reason", "target"} for one in found)
