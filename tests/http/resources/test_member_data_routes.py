"""Export and erasure of a member over HTTP."""

import io
import zipfile

import pytest
from clients import World, assert_envelope
from waiting import HANG

from wfcore.runtime.data import erasure

pytestmark = pytest.mark.anyio

MEMBERS = "/api/v1/members"


async def test_a_member_is_exported_and_erased(either: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ZIP archive; then 202 with the pseudonym, and the member does not exist any more."""
    monkeypatch.setattr(erasure, "PROMPT", HANG)
    ada, bob = await either.user(role="owner"), await either.user("bob")
    exported = await bob.get(f"{MEMBERS}/bob/export")
    assert (exported.status_code, exported.headers["Content-Type"]) == (200, "application/zip")
    assert "ETag" not in exported.headers
    with zipfile.ZipFile(io.BytesIO(exported.content)) as archive:
        assert b'"userId":"bob"' in archive.read("members.jsonl")
    erased = await ada.post(f"{MEMBERS}/bob/erase")
    assert (erased.status_code, erased.json()["status"]) == (202, "done"), erased.text
    assert_envelope(await ada.get(f"{MEMBERS}/bob"), 404, "NOT_FOUND", "NOT_FOUND")
    assert (await bob.get(f"{MEMBERS}/bob/export")).status_code == 401
    (row,) = (await ada.get("/api/v1/audit", params={"action": "member.erase"})).json()["audit"]
    assert row["resource"] == {"type": "member", "id": erased.json()["id"]}


async def test_what_is_refused(world: World) -> None:
    """Another member than an admin: 403; an unknown member: 404; an unknown heir: 422; the last owner: 409."""
    ada, bob = await world.user(role="owner"), await world.user("bob")
    for call in (bob.get(f"{MEMBERS}/ada/export"), bob.post(f"{MEMBERS}/ada/erase")):
        assert_envelope(await call, 403, "FORBIDDEN", "PERMISSION_DENIED")
    for call in (ada.get(f"{MEMBERS}/nobody/export"), ada.post(f"{MEMBERS}/nobody/erase")):
        assert_envelope(await call, 404, "NOT_FOUND", "NOT_FOUND")
    unknown = await ada.post(f"{MEMBERS}/bob/erase", json={"transferTo": "nobody"})
    assert_envelope(unknown, 422, "VALIDATION", "INVALID_ARGUMENT")
    assert unknown.json()["error"]["info"]["errors"][0]["path"] == "transferTo"
    last = await ada.post(f"{MEMBERS}/ada/erase")
    assert (last.status_code, last.json()["error"]["info"]["reason"]) == (409, "last_owner")


async def test_a_member_that_has_changed_is_not_erased(world: World) -> None:
    """409 for the ETag of before the change; the current one is accepted."""
    ada, _ = await world.user(role="owner"), await world.user("bob")
    old = (await ada.get(f"{MEMBERS}/bob")).headers["ETag"]
    now = (await ada.patch(f"{MEMBERS}/bob", json={"name": "Bob"})).headers["ETag"]
    stale = await ada.post(f"{MEMBERS}/bob/erase", headers={"If-Match": old})
    assert assert_envelope(stale, 409, "CONFLICT", "ALREADY_EXISTS")["info"] == {"reason": "stale", "etag": now}
    assert (await ada.get(f"{MEMBERS}/bob")).headers["ETag"] == now
    assert (await ada.post(f"{MEMBERS}/bob/erase", headers={"If-Match": now})).status_code == 202
