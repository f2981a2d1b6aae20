"""Hooks over HTTP (interface, decisions on hooks)."""

from typing import Any

import pytest
from clients import CONFLICT, FORBIDDEN, INVALID, MALFORMED, World, assert_envelope, chain, deployed, keyed, pages

pytestmark = pytest.mark.anyio

HOOKS = "/api/v1/hooks"
HOOK: dict[str, Any] = {"url": "https://crm.example.org/hook", "events": ["run.failed", "run.finished"]}


async def test_a_hook_from_create_to_delete(either: World) -> None:
    """The secret is in the response of POST and of rotate, and nowhere else."""
    ada = await either.user()
    made = await ada.post(HOOKS, json=HOOK, headers=keyed("k"))
    assert made.status_code == 201, made.text
    row = made.json()
    secret, one = row.pop("secret"), f"{HOOKS}/{row['id']}"
    assert secret.startswith("whsec_")
    assert row == {**HOOK, "id": row["id"], "filter": {"workflowId": None}, "isEnabled": True,
                   "createdBy": row["createdBy"]}  # fmt: skip
    assert made.headers["Location"] == one
    assert (await ada.post(HOOKS, json=HOOK, headers=keyed("k"))).json() == {**row, "secret": secret}
    read = await ada.get(one)
    assert (read.json(), read.headers["ETag"]) == (row, made.headers["ETag"])
    assert (await ada.get(HOOKS)).json() == {"hooks": [row], "nextPageToken": None}
    renewed = await ada.post(f"{one}/rotate", headers={"If-Match": read.headers["ETag"]})
    assert renewed.status_code == 200
    assert renewed.json()["secret"] != secret
    changed = await ada.patch(one, json={"isEnabled": False, "filter": None})
    assert changed.json() == {**row, "isEnabled": False}
    assert_envelope(await ada.patch(one, json={"url": "https://x"}, headers={"If-Match": '"old"'}), *CONFLICT)
    assert (await ada.delete(one)).json() == changed.json()
    for again in (ada.get(one), ada.delete(one), ada.post(f"{one}/rotate"), ada.get(f"{one}/deliveries")):
        assert_envelope(await again, 404, "NOT_FOUND", "NOT_FOUND")


async def test_what_was_read_can_be_created(world: World) -> None:
    """All but the server's own fields."""
    ada = await world.user()
    row = (await ada.post(HOOKS, json=HOOK)).json()
    for name in ("id", "secret", "createdBy"):
        del row[name]
    assert (await ada.post(HOOKS, json=row)).status_code == 201


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({**HOOK, "events": []}, INVALID),
        ({**HOOK, "events": ["run.begun"]}, INVALID),
        ({**HOOK, "filter": {"workflowId": 4711}}, INVALID),
        ({**HOOK, "url": "file:///etc/passwd"}, INVALID),
        ({**HOOK, "events": "run.failed"}, MALFORMED),
        ({"url": HOOK["url"]}, MALFORMED),
    ],
)
async def test_what_is_refused(world: World, body: Any, expected: Any) -> None:
    """A value that is not allowed: 422. A wrong type, or a missing field: 400."""
    ada = await world.user()
    assert_envelope(await ada.post(HOOKS, json=body), *expected)
    assert (await ada.get(HOOKS)).json()["hooks"] == []


async def test_the_log_of_deliveries(world: World) -> None:
    """Newest first, in pages; redelivery is 202 with the same `webhookId`."""
    ada = await world.user()
    hook = (await ada.post(HOOKS, json={**HOOK, "isEnabled": True})).json()
    flow = await deployed(ada, chain())
    for _ in range(3):
        body = {"workflowId": flow, "input": {}}
        await ada.post("/agent/v1/runs", json=body, headers={"Accept": "application/json"})
    log = f"{HOOKS}/{hook['id']}/deliveries"
    rows = await pages(ada, log, "deliveries", 2)
    assert [int(row["id"]) for row in rows] == sorted((int(row["id"]) for row in rows), reverse=True)
    assert len(rows) == 3
    assert rows[0].keys() == {"id", "event", "webhookId", "status", "attempts", "nextAttemptAt", "createdAt"}
    again = await ada.post(f"{log}/{rows[0]['id']}/redeliver")
    assert (again.status_code, again.json()["webhookId"]) == (202, rows[0]["webhookId"])
    assert_envelope(await ada.post(f"{log}/999999/redeliver"), 404, "NOT_FOUND", "NOT_FOUND")
    stranger = await world.user(scopes=["workflows:read"])
    assert_envelope(await stranger.get(log), *FORBIDDEN)
