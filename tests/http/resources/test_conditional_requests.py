"""`ETag`, `If-None-Match` and `If-Match` of every resource that can be read by id (RFC 9110, 8.8.3, 13.1)."""

from typing import Any

import httpx
import pytest
from clients import APPROVAL, CONFLICT, POLL, Json, World, assert_envelope, chain, counting, deployed, flow

pytestmark = pytest.mark.anyio

RECORDS: list[tuple[str, Json, Json]] = [
    ("/api/v1/context-items", {"title": "Rules", "content": "30 days"}, {"title": "Other"}),
    ("/api/v1/connections", {"name": "Shop", "provider": "shop", "kind": "api_key", "config": {"apiKey": "k"}},
     {"name": "Other"}),
    ("/api/v1/members", {"userId": "bob", "email": "bob@x.org"}, {"name": "Bob"}),
    ("/api/v1/delegations", {"to": "eve"}, {"workflowIds": [1]}),
    ("/api/v1/groups", {"name": "Clerks"}, {"name": "Other"}),
    ("/api/v1/skills/1/memories", {"memory": "tea"}, {"memory": "coffee"}),
    ("/api/v1/workflows", flow(), {"name": "Other"}),
    ("/api/v1/workflows/1/interfaces", {"kind": "chatapp"}, {"config": {"color": "red"}}),
    ("/api/v1/skills", {"name": "S"}, {"name": "Other"}),
]  # fmt: skip


async def owner(world: World) -> httpx.AsyncClient:
    ada = await world.user(role="owner")
    for base, body in (("/api/v1/skills", {"name": "S"}), ("/api/v1/workflows", flow())):
        assert (await ada.post(base, json=body)).status_code == 201
    await world.user("eve")
    return ada


@pytest.mark.parametrize(("base", "body", "change"), RECORDS)
async def test_a_stale_write_changes_nothing(world: World, base: str, body: Json, change: Json) -> None:
    """409 `stale` with the current tag for a change and a removal; the current tag and `*` are accepted."""
    ada = await owner(world)
    made = await ada.post(base, json=body)
    place, first = made.headers["Location"], made.headers["ETag"]
    assert (await ada.get(place)).headers["ETag"] == first
    changed = await ada.patch(place, json=change, headers={"If-Match": f'"x", {first}'})
    assert changed.status_code == 200
    second = (await ada.get(place)).headers["ETag"]
    assert changed.headers["ETag"] == second != first
    for method, sent in (("PATCH", change), ("DELETE", None)):
        answer = await ada.request(method, place, json=sent, headers={"If-Match": first})
        info = assert_envelope(answer, *CONFLICT)["info"]
        assert (info["reason"], info["etag"]) == ("stale", second)
    assert (await ada.get(place)).headers["ETag"] == second
    assert (await ada.patch(place, json=change, headers={"If-Match": "*"})).status_code == 200
    now = (await ada.get(place)).headers["ETag"]
    assert (await ada.delete(place, headers={"If-Match": now})).status_code == 200


@pytest.mark.parametrize(("base", "body", "change"), RECORDS)
async def test_a_known_representation_is_not_sent_again(world: World, base: str, body: Json, change: Json) -> None:
    """304 with the tag and without a body for `If-None-Match`, weak and among others too; HEAD as GET."""
    ada = await owner(world)
    place = (await ada.post(base, json=body)).headers["Location"]
    etag = (await ada.get(place)).headers["ETag"]
    for sent in (etag, f"W/{etag}", f'"x", {etag}', "*"):
        for method in ("GET", "HEAD"):
            answer = await ada.request(method, place, headers={"If-None-Match": sent})
            assert (answer.status_code, answer.content, answer.headers["ETag"]) == (304, b"", etag)
    assert (await ada.get(place, headers={"If-None-Match": '"x"'})).status_code == 200
    await ada.patch(place, json=change)
    assert (await ada.get(place, headers={"If-None-Match": etag})).status_code == 200
    assert (await ada.get(f"{base}/none", headers={"If-None-Match": "*"})).status_code == 404


async def test_tokens_interfaces_and_runs_have_tags(world: World) -> None:
    """What can be read by id has a tag; a revoke takes it."""
    ada = await owner(world)
    made = await ada.post("/api/v1/tokens", json={"name": "t", "scopes": ["workflows:read"]})
    assert "ETag" not in made.headers  # its body has the secret, which no read returns
    token = made.headers["Location"]
    first = (await ada.get(token)).headers["ETag"]
    assert (await ada.delete(token, headers={"If-Match": '"x"'})).status_code == 409
    assert (await ada.delete(token, headers={"If-Match": first})).status_code == 200
    assert (await ada.get(token)).headers["ETag"] != first
    number = await deployed(ada, chain(counting("tags")))
    row = (await ada.post(f"/api/v1/workflows/{number}/interfaces", json={"kind": "chatapp"})).json()["id"]
    await ada.post("/agent/v1/runs", json={"workflowId": number, "input": {}, "runId": "r"})
    for place in (f"/api/v1/workflows/{number}/interfaces/{row}", "/agent/v1/runs/r"):
        etag = (await ada.get(place)).headers["ETag"]
        assert (await ada.get(place, headers={"If-None-Match": etag})).status_code == 304
    for place in ("/api/v1/workflows", "/agent/v1/runs/r/events", "/healthz"):
        assert "ETag" not in (await ada.get(place)).headers


async def test_a_change_of_a_run_takes_its_tag(world: World) -> None:
    """A resume, retry, cancel or interrupt with a stale tag changes nothing; a repeated request joins its turn."""
    ada = await owner(world)
    number = await deployed(ada, chain(APPROVAL))
    await ada.post("/agent/v1/runs", json={"workflowId": number, "input": {}, "runId": "r"}, headers=POLL)
    ended = await ada.get("/agent/v1/runs/r/events")  # the whole stream, to its end
    assert ended.status_code == 200
    place, decision = "/agent/v1/runs/r", {"decision": "deny"}

    async def assert_stale(path: str, body: Json, tag: str) -> None:
        answer = await ada.post(path, json=body, headers={**POLL, "If-Match": '"x"'})
        assert assert_envelope(answer, *CONFLICT)["info"] == {"reason": "stale", "etag": tag}

    first = (await ada.get(place)).headers["ETag"]
    for path, body in (("cancel", {}), ("interrupt", {}), ("resume", decision)):
        await assert_stale(f"{place}/{path}", body, first)
    refused = await ada.post(f"{place}/resume", json=decision, headers={"If-Match": '"x"'})
    assert assert_envelope(refused, *CONFLICT)["info"] == {"reason": "stale", "etag": first}
    assert (await ada.get(place)).headers["ETag"] == first
    sent = {**POLL, "If-Match": first, "Idempotency-Key": "again"}
    answers = [await ada.post(f"{place}/resume", json=decision, headers=sent) for _ in range(2)]
    assert [one.json()["runId"] for one in answers] == ["again", "again"]
    await assert_stale(f"{place}/cancel", {}, (await ada.get(place)).headers["ETag"])

    await ada.post("/agent/v1/runs", json={"workflowId": number, "input": {}, "runId": "s"}, headers=POLL)
    await ada.get("/agent/v1/runs/s/events")
    before = (await ada.get("/agent/v1/runs/s")).headers["ETag"]
    assert (await ada.post("/agent/v1/runs/s/cancel", headers={"If-Match": before})).status_code == 202
    after = (await ada.get("/agent/v1/runs/s")).headers["ETag"]
    await assert_stale("/agent/v1/runs/s/retry", {}, after)
    assert (await ada.post("/agent/v1/runs/s/retry", headers={"If-Match": f"{before}, {after}"})).status_code == 202


PARTS: list[tuple[str, str, Json | None]] = [
    ("POST", "/interfaces", {"kind": "chatapp"}),
    ("PATCH", "/interfaces/{row}", {"config": {"postUrl": "https://chat.example.org"}}),
    ("POST", "/interfaces/{row}/secret/rotate", None),
    ("DELETE", "/interfaces/{row}", None),
    ("DELETE", "/interfaces", None),
    ("POST", "/webhook/rotate", None),
]


@pytest.mark.parametrize(("method", "path", "body"), PARTS)
async def test_a_change_of_a_part_takes_the_tag_of_the_workflow_once(
    world: World, method: str, path: str, body: Json | None
) -> None:
    """The tag of a workflow covers its interfaces and its webhook: a change of them gives it a new one."""
    ada = await owner(world)
    place = "/api/v1/workflows/1"
    rows = [(await ada.post(f"{place}/interfaces", json={"kind": "teamchat"})).json()["id"] for _ in range(2)]
    before = (await ada.get(place)).headers["ETag"]
    first, second = [
        await ada.request(method, place + path.format(row=row), json=body, headers={"If-Match": before}) for row in rows
    ]
    assert first.status_code in (200, 201), first.text
    now = (await ada.get(place)).headers["ETag"]
    assert now != before
    assert assert_envelope(second, *CONFLICT)["info"] == {"reason": "stale", "etag": now}


async def test_reads_and_changes_of_nothing_keep_the_tag_of_the_workflow(world: World) -> None:
    """The first read of a webhook, a change to the same configuration, and a removal of no interface."""
    ada = await owner(world)
    place = "/api/v1/workflows/1"
    assert (await ada.delete(f"{place}/interfaces")).json() == {"deleted": 0}
    other = (await ada.post(f"{place}/interfaces", json={"kind": "chatapp", "config": {"a": 1}})).headers["Location"]
    before = (await ada.get(place)).headers["ETag"]
    assert (await ada.get(f"{place}/webhook")).status_code == 200
    assert (await ada.patch(other, json={"config": {"a": 1}})).status_code == 200
    assert (await ada.get(place)).headers["ETag"] == before


async def test_an_interface_takes_its_own_tag_or_that_of_its_workflow(world: World) -> None:
    """One current tag of several is enough; the 409 has the tag of what the stale one names."""
    ada = await owner(world)
    place = "/api/v1/workflows/1"
    row = (await ada.post(f"{place}/interfaces", json={"kind": "teamchat"})).headers["Location"]
    old = (await ada.get(place)).headers["ETag"]
    await ada.patch(place, json={"name": "Other"})
    own = (await ada.get(row)).headers["ETag"]
    both = {"If-Match": f"{old}, {own}"}
    assert (await ada.patch(row, json={"config": {}}, headers=both)).status_code == 200
    assert (await ada.post(f"{row}/secret/rotate", headers={"If-Match": own})).status_code == 200
    for sent, now in (('"x"', own), (old, (await ada.get(place)).headers["ETag"])):
        for method, path in (("PATCH", row), ("DELETE", row), ("POST", f"{row}/secret/rotate")):
            answer = await ada.request(method, path, json={}, headers={"If-Match": sent})
            assert assert_envelope(answer, *CONFLICT)["info"] == {"reason": "stale", "etag": now}


@pytest.mark.parametrize(("base", "body"), [("/api/v1/workflows", flow()), ("/api/v1/skills", {"name": "S"})])
async def test_the_tag_changes_with_what_the_reader_may_do(world: World, base: str, body: Any) -> None:
    """The rights are in the body. A write takes the tag of any reader."""
    ada, group = await owner(world), (await world.core.directory.create_group(world.org, "Editors")).id
    bits = {world.org: {"use": True, "manage": False}, group: {"use": True, "manage": True}}
    access = {"visibility": "shared", "groupPermissions": bits}
    bob, eve = await world.user("bob"), await world.user("eve", groups=[group])
    place = (await eve.post(base, json={**body, "accessConfig": access})).headers["Location"]
    read = await bob.get(place)
    assert read.json()["canManage"] is False
    await ada.patch("/api/v1/members/bob", json={"groups": [group]})
    again = await bob.get(place, headers={"If-None-Match": read.headers["ETag"]})
    assert (again.status_code, again.json()["canManage"]) == (200, True)
    assert (await eve.get(place)).headers["ETag"] == again.headers["ETag"] != read.headers["ETag"]
    for etag, status in ((read.headers["ETag"], 200), (again.headers["ETag"], 409)):
        answer = await bob.patch(place, json={"description": "d"}, headers={"If-Match": etag})
        assert answer.status_code == status, answer.text


@pytest.mark.parametrize(("base", "body"), [
    ("/api/v1/workflows", flow(chain(counting("draft")), trigger={"trigger_type": "manual"})),
    ("/api/v1/skills", {"name": "S", "instructions": ["Be brief"], "budget": {"maxTokens": 5}}),
])  # fmt: skip
async def test_a_create_returns_its_draft_and_a_read_can_be_created(world: World, base: str, body: Any) -> None:
    """`variation` of a create is the draft, with an Idempotency-Key again; what was read is a create body."""
    ada = await owner(world)
    made, again = [await ada.post(base, json=body, headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert made.status_code == 201
    assert again.json() == made.json()
    read = (await ada.get(made.headers["Location"], params={"view": "draft"})).json()
    assert made.json()["variation"] == read["variation"] != {}
    keys = [key for key in ("name", "description", "type", "accessConfig") if key in read]
    copied = await ada.post(base, json={key: read[key] for key in keys} | read["variation"])
    assert copied.status_code == 201, copied.text
    assert copied.json()["variation"] == read["variation"]
