"""Memories over HTTP (interface, List memories of a scope, Update a memory of a scope)."""

import asyncio
import hashlib
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from clients import Json, World, assert_envelope, new_world

from wfcore.domain.resources.access import Principal

pytestmark = pytest.mark.anyio

BASE = "/api/v1/skills/1/memories"


async def scope(world: World, client: httpx.AsyncClient, number: int = 0) -> Principal:
    """The client's principal; its skill has this number of memories: `0`, `1`, and so on."""
    made = (await client.post("/api/v1/skills", json={"name": "S"})).json()
    me = world.core.principal(world.org, "ada", email="ada@x.org")
    for count in range(number):
        await world.core.memories.create(me, made["id"], memory=str(count), user_id=f"u{count % 2}")
    return me


def texts(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    assert answer.json().keys() == {"memories", "nextPageToken"}
    return [memory["memory"] for memory in answer.json()["memories"]]


async def test_a_memory_lives_from_create_to_delete(either: World) -> None:
    """Create, read, list, search, change and delete respond according to the interface."""
    ada = await either.user()
    await scope(either, ada)
    metadata = {"z": None, "a": [1, {"": 2.5}]}
    made = await ada.post(BASE, json={"memory": "Likes green tea", "metadata": metadata, "userId": "u1"})
    assert made.status_code == 201
    memory = made.json()
    assert memory.keys() == {"id", "memory", "hash", "metadata", "createdAt", "updatedAt"}
    assert list(memory["metadata"].items()) == list(metadata.items())
    assert memory["hash"] == hashlib.sha256(b"Likes green tea").hexdigest()
    one = f"{BASE}/{memory['id']}"
    assert made.headers["Location"] == one
    assert (await ada.get(one)).json() == memory
    assert (await ada.get(BASE)).json() == {"memories": [memory], "nextPageToken": None}
    assert (await ada.post(f"{BASE}/search", json={"query": "green?"})).json() == {"memories": [memory]}
    more = (await ada.post(BASE, json={"memory": "Likes tea"})).json()
    assert len((await ada.post(f"{BASE}/search", json={"query": "tea", "limit": 1})).json()["memories"]) == 1
    await ada.delete(f"{BASE}/{more['id']}")
    assert (await ada.post(f"{BASE}/search", json={"query": "tea", "userId": "u2"})).json() == {"memories": []}

    changed = await ada.patch(
        one, json={"memory": "Likes coffee", "metadata": {"x": 1}}, params={"updateMask": "memory"}
    )
    assert changed.status_code == 200
    assert changed.json() == memory | {
        "memory": "Likes coffee",
        "hash": hashlib.sha256(b"Likes coffee").hexdigest(),
        "updatedAt": changed.json()["updatedAt"],
    }
    gone = await ada.delete(one)
    assert (gone.status_code, gone.json()) == (200, changed.json())
    for again in (ada.get(one), ada.delete(one)):
        assert_envelope(await again, 404, "NOT_FOUND", "NOT_FOUND")
    assert (await ada.get(BASE)).json() == {"memories": [], "nextPageToken": None}


class TestPaging:
    """Interface, Limits: the memory list."""

    @pytest.mark.parametrize(
        ("query", "rows"),
        [
            ("", 100), ("userId=u0", 100), ("pageSize=1", 1), ("pageSize=100", 100),
            ("pageSize=101", 100), (f"pageSize={'9' * 4000}", 100), ("limit=1", 1), ("limit=101", 101),
            ("limit=1000", 203), ("limit=1001", 203), ("limit=99999999999999999999", 203), ("pageSize=3&limit=7", 3),
            ("limit=1000&pageSize=1000", 100),
        ],
    )  # fmt: skip
    async def test_the_size_of_a_page(self, listed: httpx.AsyncClient, query: str, rows: int) -> None:
        """100 without a paging parameter; `pageSize` up to 100; `limit` up to 1000; `pageSize` wins."""
        answer = await listed.get(f"{BASE}?{query}")
        assert len(texts(answer)) == rows
        assert (answer.json()["nextPageToken"] is None) == (rows == 203)

    async def test_a_token_alone_gives_25(self, listed: httpx.AsyncClient) -> None:
        """With a page token the default is 25, and the page continues after the previous one."""
        first = await listed.get(BASE)
        found = texts(first)
        token = first.json()["nextPageToken"]
        second = await listed.get(BASE, params={"pageToken": token})
        assert len(texts(second)) == 25
        third = await listed.get(BASE, params={"pageToken": second.json()["nextPageToken"], "limit": 1000})
        assert found + texts(second) + texts(third) == [str(number) for number in range(203)]
        assert third.json()["nextPageToken"] is None

    @pytest.mark.parametrize(
        ("limit", "rows"), [({}, 10), ({"limit": 7}, 7), ({"limit": 100}, 100), ({"limit": 101}, 100)]
    )
    async def test_the_size_of_a_search(self, listed: httpx.AsyncClient, limit: Json, rows: int) -> None:
        """10 by default, at most 100."""
        every = " ".join(str(number) for number in range(203))
        answer = await listed.post(f"{BASE}/search", json={"query": every, **limit})
        assert len(answer.json()["memories"]) == rows

    @pytest.mark.parametrize("name", ["pageSize", "limit"])
    @pytest.mark.parametrize("value", ["0", "-1", "1.5", "01", "%2B1", "", "x", "1e2", "%D9%A3", "1%0A", "true"])
    async def test_a_noncanonical_integer_is_malformed(self, listed: httpx.AsyncClient, name: str, value: str) -> None:
        """Below 1, or not a canonical integer: 400, even when the other parameter wins."""
        other = "limit" if name == "pageSize" else "pageSize"
        answer = await listed.get(f"{BASE}?{name}={value}&{other}=5")
        error = assert_envelope(answer, 400, "BAD_REQUEST", "INVALID_ARGUMENT")
        assert [issue["path"] for issue in error["info"]["errors"]] == [name]

    async def test_memories_are_filtered_by_user(self, listed: httpx.AsyncClient) -> None:
        """`userId` filters all pages by the end user; an empty or too long id is refused."""
        first = await listed.get(BASE, params={"userId": "u1", "limit": 60})
        rest = await listed.get(BASE, params={"userId": "u1", "limit": 60, "pageToken": first.json()["nextPageToken"]})
        assert texts(first) + texts(rest) == [str(number) for number in range(1, 203, 2)]
        assert texts(await listed.get(BASE, params={"userId": "nobody"})) == []
        for bad in ("", "x" * 256, "\0"):
            answer = await listed.get(BASE, params={"userId": bad})
            assert_envelope(answer, 400, "BAD_REQUEST", "INVALID_ARGUMENT")

    async def test_a_token_is_valid_for_its_list_only(self, either: World) -> None:
        """A token of another skill, filter, organization or list, and every altered one, is malformed."""
        ada = await either.user()
        other = await either.core.directory.create_organization("Other")
        eve = await either.user("eve", org=other.uuid)
        for client in (ada, ada, eve):
            made = (await client.post("/api/v1/skills", json={"name": "S"})).json()["id"]
            for text in "ab":
                await client.post(f"/api/v1/skills/{made}/memories", json={"memory": text})
        token = (await ada.get(BASE, params={"pageSize": 1})).json()["nextPageToken"]
        skills = (await ada.get("/api/v1/skills", params={"pageSize": 1})).json()["nextPageToken"]
        assert texts(await ada.get(BASE, params={"pageToken": token})) == ["b"]
        flipped = ("A" if token[0] != "A" else "B") + token[1:]
        tries = [
            ada.get("/api/v1/skills/2/memories", params={"pageToken": token}),
            ada.get(BASE, params={"pageToken": token, "userId": "u"}),
            ada.get("/api/v1/skills", params={"pageToken": token}),
            eve.get(BASE, params={"pageToken": token}),
            *(ada.get(BASE, params={"pageToken": bad}) for bad in ("", "x", flipped, token + "=", skills, "1")),
        ]
        for answer in await asyncio.gather(*tries):
            error = assert_envelope(answer, 400, "BAD_REQUEST", "INVALID_ARGUMENT")
            assert error["info"]["errors"][0]["path"] == "pageToken"

    async def test_a_delete_between_pages_moves_nothing(self, either: World) -> None:
        """When the last memory of a page is deleted, the next page begins after its position."""
        ada = await either.user()
        await scope(either, ada, 4)
        first = (await ada.get(BASE, params={"pageSize": 2})).json()
        for memory in first["memories"]:
            await ada.delete(f"{BASE}/{memory['id']}")
        assert texts(await ada.get(BASE, params={"pageToken": first["nextPageToken"]})) == ["2", "3"]

    @pytest.fixture(scope="class")
    async def listed(self, memory_server: Any) -> Any:
        """A client of an organization whose first skill has 203 memories, which no test changes."""
        async with AsyncExitStack() as closing:
            world = await new_world(*memory_server, closing)
            ada = await world.user()
            await scope(world, ada, 203)
            yield ada


class TestErrorsOfTheUpdate:
    """Interface, Update a memory of a scope: `info` carries the scope id."""

    @pytest.mark.parametrize(
        ("skill", "memory", "query", "content", "status"),
        [
            (1, "", "", "{", 400), (1, "", "", "[]", 400), (1, "", "", '{"memory": 1}', 400),
            (1, "", "", '{"memory": " "}', 422), (1, "", "", '{"id": "x"}', 422),
            (1, "", "updateMask=hash", "{}", 400), (1, "", "updateMask=memory", "{}", 400),
            (1, "", "updateMask=", "{}", 400), (1, "", "updateMask=metadata.a", '{"metadata": {}}', 400),
            (1, "", "updateMask=memory&updateMask=memory", '{"memory": "m"}', 400),
            (1, "none", "", '{"memory": "m"}', 404), (2, "", "", '{"memory": "m"}', 404),
            (99, "", "", '{"memory": "m"}', 404), (3, "", "", '{"memory": "m"}', 409),
        ],
    )  # fmt: skip
    async def test_every_error_names_the_scope(
        self, world: World, skill: int, memory: str, query: str, content: str, status: int
    ) -> None:
        """The envelope has `info.skillId` besides its other fields, and nothing is changed."""
        ada = await world.user()
        me = await scope(world, ada, 1)
        await scope(world, ada)
        await scope(world, ada)
        await ada.delete("/api/v1/skills/3")
        [kept] = await world.core.memories.page(me, 1)
        answer = await ada.patch(f"/api/v1/skills/{skill}/memories/{memory or kept.id}?{query}", content=content)
        error: Json = answer.json()["error"]
        names = {400: "BAD_REQUEST", 404: "NOT_FOUND", 409: "CONFLICT", 422: "VALIDATION"}
        assert_envelope(answer, status, names[status], error["status"])
        assert error["info"]["skillId"] == skill
        if status == 422:
            assert error["info"]["errors"]
        assert await world.core.memories.page(me, 1) == [kept]

    async def test_a_path_without_a_number_is_404(self, world: World) -> None:
        """A path without a canonical number is 404, and `info.skillId` is null."""
        ada = await world.user()
        for text in ("x", "01", "1%0a", "9" * 30):
            answer = await ada.patch(f"/api/v1/skills/{text}/memories/m", json={})
            assert assert_envelope(answer, 404, "NOT_FOUND", "NOT_FOUND")["info"] == {"skillId": None}

    async def test_a_name_with_nul_is_404(self, either: World) -> None:
        """It is 404 on every store, like an unknown name, here and on other routes."""
        ada = await either.user(role="owner")
        await scope(either, ada)
        patched = await ada.patch(f"{BASE}/a%00b", json={"memory": "x"})
        assert assert_envelope(patched, 404, "NOT_FOUND", "NOT_FOUND")["info"] == {"skillId": 1}
        for path in ("skills/1/memories/%00", "skills/1/conversations/%00", "members/a%00b", "groups/%00"):
            assert_envelope(await ada.get(f"/api/v1/{path}"), 404, "NOT_FOUND", "NOT_FOUND")

    async def test_other_errors_do_not_name_the_scope(self, world: World) -> None:
        """Only this route repeats the number."""
        ada = await world.user()
        assert "info" not in assert_envelope(await ada.get(f"{BASE}/x"), 404, "NOT_FOUND", "NOT_FOUND")
