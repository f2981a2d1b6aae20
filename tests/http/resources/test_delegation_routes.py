"""Delegations over HTTP (interface, `/api/v1/delegations`)."""

import pytest
from clients import CONFLICT, FORBIDDEN, INVALID, POLL, World, assert_envelope, chain, deployed, keyed, node

pytestmark = pytest.mark.anyio

BASE = "/api/v1/delegations"


async def test_a_delegation_from_create_to_delete(either: World) -> None:
    """What GET shows, POST takes without the id; the tag of the row protects it."""
    ada, bob, eve = await either.user("ada"), await either.user("bob"), await either.user("eve")
    assert (await ada.post("/api/v1/workflows", json={"name": "A flow", "type": "workflow"})).status_code == 201
    body = {"from": "ada", "to": "bob", "until": "2100-01-01T00:00:00.000Z", "workflowIds": [1]}
    made = await ada.post(BASE, json=body, headers=keyed("k"))
    assert made.status_code == 201, made.text
    row, one = made.json(), made.headers["Location"]
    assert row == {"id": row["id"], **body}
    assert (await ada.post(BASE, json=body, headers=keyed("k"))).json() == row
    for who in (ada, bob):
        assert (await who.get(BASE)).json() == {"delegations": [row], "nextPageToken": None}
        assert (await who.get(one)).json() == row
    assert (await eve.get(BASE)).json()["delegations"] == []
    assert_envelope(await eve.get(one), 404, "NOT_FOUND", "NOT_FOUND")
    assert_envelope(await bob.delete(one), *FORBIDDEN)
    assert_envelope(await bob.post(BASE, json=body), *FORBIDDEN)
    assert_envelope(await ada.post(BASE, json=row), *INVALID)
    changed = await ada.patch(one, json={"until": None}, headers={"If-Match": made.headers["ETag"]})
    assert changed.json() == {**row, "until": None}
    assert_envelope(await ada.delete(one, headers={"If-Match": made.headers["ETag"]}), *CONFLICT)
    assert (await ada.delete(one)).json() == changed.json()
    again = {name: value for name, value in changed.json().items() if name != "id"}
    assert (await ada.post(BASE, json=again)).status_code == 201


async def test_a_delegate_decides_over_http(world: World) -> None:
    """The inbox and the decided inbox name the delegator."""
    ada, bob, eve = await world.user("ada"), await world.user("bob"), await world.user("eve")
    approval = node("ask", "humanApproval", approvers={"emails": ["eve@x.org"]})
    number = await deployed(ada, chain(approval))
    run = (await ada.post("/agent/v1/runs", json={"workflowId": number, "input": {}}, headers=POLL)).json()
    await eve.post(BASE, json={"to": "bob"})
    (item,) = (await bob.get("/agent/v1/interrupts")).json()["interrupts"]
    assert item["onBehalfOf"] == "eve"
    turn = await bob.post(f"/agent/v1/runs/{run['runId']}/resume", json={"decision": "approve"}, headers=POLL)
    assert turn.status_code in (200, 202), turn.text
    (decided,) = (await eve.get("/agent/v1/interrupts?status=decided")).json()["interrupts"]
    assert [(one["userId"], one["onBehalfOf"]) for one in decided["decidedBy"]] == [("bob", "eve")]


async def test_a_credential_with_a_limit(world: World) -> None:
    """An embed token for some workflows reads and makes no delegations."""
    ada = await world.user("ada")
    me = world.core.principal(world.org, "ada", email="ada@x.org")
    number = await deployed(ada, chain())
    token = await world.core.tokens.embed(me, ["workflows:read", "workflows:invoke"], workflows=[number])
    limited = {"Authorization": f"Bearer {token}"}
    assert_envelope(await ada.get(BASE, headers=limited), *FORBIDDEN)
    assert_envelope(await ada.post(BASE, json={"to": "bob"}, headers=limited), *FORBIDDEN)
