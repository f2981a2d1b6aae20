"""Context items and connections over HTTP."""

from typing import Any

import pytest
from clients import World, assert_envelope, pages

pytestmark = pytest.mark.anyio

ITEMS, CONNECTIONS = "/api/v1/context-items", "/api/v1/connections"
CANARY = "canary-over-http-4714"
ITEM = {"title": "Tone", "content": "Be kind."}
CONNECTION = {"name": "Desk", "provider": "desk", "kind": "mcp", "config": {"url": "https://x.org", "headers": {}}}
BOTH = pytest.mark.parametrize(
    ("base", "rows", "body", "change"),
    [
        (ITEMS, "contextItems", ITEM, {"title": "New"}),
        (CONNECTIONS, "connections", CONNECTION, {"name": "New", "status": "disabled"}),
    ],
)


@BOTH
async def test_a_record_from_create_to_delete(either: World, base: str, rows: str, body: Any, change: Any) -> None:
    """201 with Location, then read, listed, changed and removed; each call returns the record."""
    ada = await either.user()
    made = await ada.post(base, json=body)
    assert made.status_code == 201, made.text
    row = made.json()
    one = f"{base}/{row['id']}"
    assert made.headers["Location"] == one
    assert (await ada.get(one)).json() == row
    assert (await ada.get(base)).json() == {rows: [row], "nextPageToken": None}
    changed = await ada.patch(one, json=change)
    assert changed.status_code == 200
    assert changed.json() == row | change | {key: changed.json()[key] for key in ("updatedAt",) if key in row}
    gone = await ada.delete(one)
    assert (gone.status_code, gone.json()) == (200, changed.json())
    for again in (ada.get(one), ada.delete(one), ada.patch(one, json=change)):
        assert_envelope(await again, 404, "NOT_FOUND", "NOT_FOUND")


@BOTH
async def test_a_list_has_pages(world: World, base: str, rows: str, body: Any, change: Any) -> None:
    """In the order of creation, each record once; a page token is valid only for its list."""
    ada = await world.user()
    made = [(await ada.post(base, json=body)).json()["id"] for _ in range(5)]
    assert [row["id"] for row in await pages(ada, base, rows, 2)] == made
    token = (await ada.get(base, params={"pageSize": 2})).json()["nextPageToken"]
    other = CONNECTIONS if base == ITEMS else ITEMS
    assert_envelope(await ada.get(other, params={"pageToken": token}), 400, "BAD_REQUEST", "INVALID_ARGUMENT")


@BOTH
async def test_a_key_creates_one_record(world: World, base: str, rows: str, body: Any, change: Any) -> None:
    """The same key and body get the same response; another body is a conflict."""
    ada = await world.user()
    headers = {"Idempotency-Key": "k"}
    first, second = [await ada.post(base, json=body, headers=headers) for _ in range(2)]
    assert (first.status_code, first.json()) == (second.status_code, second.json()) == (201, first.json())
    answer = await ada.post(base, json=body | change, headers=headers)
    assert_envelope(answer, 409, "CONFLICT", "ALREADY_EXISTS")
    assert len((await ada.get(base)).json()[rows]) == 1


@BOTH
async def test_another_organization_sees_nothing(world: World, base: str, rows: str, body: Any, change: Any) -> None:
    """A record of another organization gets the response for an unknown one."""
    ada = await world.user()
    eve = await world.user("eve", org=(await world.core.directory.create_organization("Other")).uuid)
    one = f"{base}/{(await ada.post(base, json=body)).json()['id']}"
    for path in (one, f"{base}/none"):
        for call in (eve.get(path), eve.delete(path), eve.patch(path, json=change)):
            assert "info" not in assert_envelope(await call, 404, "NOT_FOUND", "NOT_FOUND")
    assert (await eve.get(base)).json()[rows] == []


async def test_no_response_shows_a_secret(either: World) -> None:
    """Neither success nor error responses, with any error in the secret."""
    ada = await either.user()
    good = CONNECTION | {"config": {"url": "https://x.org", "headers": {"X-Key": CANARY}}}
    made = await ada.post(CONNECTIONS, json=good, headers={"Idempotency-Key": "k"})
    one = f"{CONNECTIONS}/{made.json()['id']}"
    assert made.json()["config"] == {"url": "https://x.org", "headers": {"X-Key": {"set": True}}}
    bad = [
        {"headers": {"X-Key": [CANARY]}}, {"headers": {"X-Key": CANARY + "\n"}}, {"headers": CANARY},
        {"url": f"https://u:{CANARY}@x.org"}, {"url": [CANARY]}, {"url": "https://y.org"}, {"apiKey": CANARY},
    ]  # fmt: skip
    answers = [
        made,
        await ada.post(CONNECTIONS, json=good, headers={"Idempotency-Key": "k"}),
        *[await ada.patch(one, json={"config": config}) for config in bad],
        *[await ada.post(CONNECTIONS, json=good | {"config": config}) for config in bad[:-2]],
        await ada.get(one), await ada.get(CONNECTIONS), await ada.delete(one),
    ]  # fmt: skip
    wanted = [400, 422, 400, 422, 400, 422, 422, 400, 400, 400, 422, 400]
    assert [answer.status_code for answer in answers[2:-3]] == wanted
    assert not [answer.text for answer in answers if CANARY in answer.text]
