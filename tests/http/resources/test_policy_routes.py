"""Policies over HTTP: records for admins, and the response of a deploy that breaks one."""

from typing import Any

import pytest
from clients import Json, World, assert_envelope

from wfcore.testing.histories import sketch

pytestmark = pytest.mark.anyio

POLICIES = "/api/v1/policies"
BODY: Json = {"name": "Money", "when": {"tool": "core.http"}, "require": {"approval": {"requiredApprovals": 2}}}
STRUCTURE = sketch("start -> pay", pay={"toolId": "core.http", "params": {"url": "https://pay.example.org"}})


async def test_create_read_change_delete(world: World) -> None:
    """By an admin; a member reads. The record has an ETag."""
    admin, member = await world.user("ada", role="admin"), await world.user("bob")
    made = await admin.post(POLICIES, json=BODY, headers={"Idempotency-Key": "k"})
    assert made.status_code == 201
    row = made.json()
    assert row == {"id": row["id"], "severity": "error", **BODY}
    assert made.headers["Location"] == f"{POLICIES}/{row['id']}"
    assert (await admin.post(POLICIES, json=BODY, headers={"Idempotency-Key": "k"})).json() == row
    read = await member.get(f"{POLICIES}/{row['id']}")
    assert (read.json(), read.headers["ETag"]) == (row, made.headers["ETag"])
    assert (await member.get(POLICIES)).json() == {"policies": [row], "nextPageToken": None}
    for request in (
        member.post(POLICIES, json=BODY), member.patch(f"{POLICIES}/{row['id']}", json={"name": "x"}),
        member.delete(f"{POLICIES}/{row['id']}"),
    ):  # fmt: skip
        assert_envelope(await request, 403, "FORBIDDEN", "PERMISSION_DENIED")
    changed = await admin.patch(
        f"{POLICIES}/{row['id']}", json={"severity": "warning"}, headers={"If-Match": made.headers["ETag"]}
    )
    assert changed.json() == row | {"severity": "warning"}
    stale = await admin.delete(f"{POLICIES}/{row['id']}", headers={"If-Match": made.headers["ETag"]})
    assert_envelope(stale, 409, "CONFLICT", "ALREADY_EXISTS")
    assert (await admin.delete(f"{POLICIES}/{row['id']}")).status_code == 200
    assert_envelope(await admin.get(f"{POLICIES}/{row['id']}"), 404, "NOT_FOUND", "NOT_FOUND")


async def test_each_fault_of_a_body_is_told_once(world: World) -> None:
    """`false` where only `true` has a meaning is one entry, and an unknown key is one."""
    admin = await world.user("ada", role="owner")
    for when, fault in (({"agent": False}, ("when.agent", "const")), ({"cost": False}, ("when.cost", "unknown"))):
        refused = await admin.post(POLICIES, json={**BODY, "when": when, "require": {"timeout": True}})
        error = assert_envelope(refused, 422, "VALIDATION", "INVALID_ARGUMENT")
        assert [(entry["path"], entry["rule"]) for entry in error["info"]["errors"]] == [fault]


async def test_what_was_read_can_be_created(world: World) -> None:
    """Without the id; `severity: null` is the same as absent."""
    admin = await world.user("ada", role="owner")
    row = (await admin.post(POLICIES, json={**BODY, "severity": None})).json()
    again = {key: value for key, value in row.items() if key != "id"}
    assert (await admin.post(POLICIES, json=again)).json() == row | {
        "id": (await admin.get(POLICIES)).json()["policies"][1]["id"]
    }


async def test_policies_of_another_organization_do_not_exist(world: World) -> None:
    """404, as for an id that was never there; its own list is empty, and its workflows are not bound."""
    admin = await world.user("ada", role="owner")
    number = (await admin.post(POLICIES, json=BODY)).json()["id"]
    other = await world.core.directory.create_organization("Other")
    eve = await world.user("eve", org=other.uuid, role="owner")
    for method in ("GET", "PATCH", "DELETE"):
        answer = await eve.request(method, f"{POLICIES}/{number}", json={"name": "x"} if method == "PATCH" else None)
        assert_envelope(answer, 404, "NOT_FOUND", "NOT_FOUND")
    assert (await eve.get(POLICIES)).json()["policies"] == []
    made = (await eve.post("/api/v1/workflows", json=flow())).json()
    assert (await eve.post(f"/api/v1/workflows/{made['id']}/deploy")).status_code == 200


def flow() -> dict[str, Any]:
    return {"name": "Refunds", "type": "workflow", "workflowStructure": STRUCTURE}


async def test_a_broken_policy_is_a_422_with_its_path(world: World) -> None:
    """`info.path`, and an entry with its own counter-example for each; a validation shows the same."""
    admin = await world.user("ada", role="owner")
    await admin.post(POLICIES, json=BODY)
    await admin.post(POLICIES, json={"name": "T", "when": {"external": True}, "require": {"timeout": True}})
    made = (await admin.post("/api/v1/workflows", json=flow())).json()
    answer = await admin.post(f"/api/v1/workflows/{made['id']}/deploy")
    error = assert_envelope(answer, 422, "VALIDATION", "INVALID_ARGUMENT")
    assert error["info"]["path"] == ["start", "pay"]
    assert error["info"]["errors"] == [
        {
            "path": "workflowStructure.nodes[1]",
            "message": f"policy `{name}`: `core.http` is called without {what}: start -> pay",
            "rule": "policy",
            "counterExample": ["start", "pay"],
        }
        for name, what in (("Money", "an approval by 2 people"), ("T", "`timeoutSeconds`"))
    ]
    issues = (await admin.post(f"/api/v1/workflows/{made['id']}/validate")).json()["issues"]
    assert issues == [one | {"severity": "error"} for one in error["info"]["errors"]]
