"""Versions, ownership, access, interfaces and supervision over HTTP (interface, Workflow and Scope)."""

from typing import Any

import jsonschema_rs
import pytest
from clients import APPROVAL, POLL, Json, World, assert_envelope, chain, counting, deployed, flow, pages

from wfcore.adapters.http.openapi.document import document
from wfcore.adapters.http.route_table import route_table

pytestmark = pytest.mark.anyio

FLOWS = "/api/v1/workflows"
SCHEDULES = "/api/v1/schedules"
PRIVATE: Json = {"visibility": "private"}


async def twice_deployed(client: Any) -> tuple[int, str]:
    """A workflow that was deployed twice, and the first variation."""
    number = await deployed(client, chain(APPROVAL))
    first = (await client.get(f"{FLOWS}/{number}")).json()["activeVariationId"]
    await client.patch(f"{FLOWS}/{number}", json={"workflowStructure": chain(counting("x"))})
    assert (await client.post(f"{FLOWS}/{number}/deploy")).status_code == 200
    return number, first


class TestVersions:
    """Variations and rollback."""

    async def test_variations_are_listed_and_deployed_again(self, either: World) -> None:
        """Latest deployment first, in pages; a rollback returns the workflow with its ETag."""
        ada = await either.user()
        number, first = await twice_deployed(ada)
        for size in (1, 2):
            rows = await pages(ada, f"{FLOWS}/{number}/variations", "variations", size)
            assert [row["isActive"] for row in rows] == [True, False]
            assert rows[1]["id"] == first
        etag = (await ada.get(f"{FLOWS}/{number}")).headers["ETag"]
        back = await ada.post(f"{FLOWS}/{number}/rollback", json={"variationId": first}, headers={"If-Match": etag})
        assert (back.status_code, back.json()["activeVariationId"]) == (200, first)
        assert back.json()["variation"]["workflowStructure"] == chain(APPROVAL)
        stale = await ada.post(f"{FLOWS}/{number}/rollback", json={"variationId": first}, headers={"If-Match": etag})
        assert_envelope(stale, 409, "CONFLICT", "ALREADY_EXISTS")
        unknown = await ada.post(f"{FLOWS}/{number}/rollback", json={"variationId": "x"})
        assert_envelope(unknown, 422, "VALIDATION", "INVALID_ARGUMENT")

    async def test_a_page_token_belongs_to_one_list(self, world: World) -> None:
        """A token of another workflow's list, or of another list of it, is malformed."""
        ada = await world.user()
        number, _ = await twice_deployed(ada)
        await twice_deployed(ada)
        token = (await ada.get(f"{FLOWS}/{number}/variations?pageSize=1")).json()["nextPageToken"]
        for path in (
            f"{FLOWS}/2/variations",
            f"{FLOWS}/1/runs",
            f"{FLOWS}/1/interfaces",
            "/api/v1/skills/1/variations",
        ):
            await ada.post("/api/v1/skills", json={"name": "S"})
            answer = await ada.get(path, params={"pageToken": token})
            assert_envelope(answer, 400, "BAD_REQUEST", "INVALID_ARGUMENT")


class TestSchedule:
    """Next times and state of a schedule."""

    async def test_the_state_of_a_schedule(self, either: World) -> None:
        """Off, it has no next slot; switched on, it has one, and nothing was missed."""
        ada = await either.user()
        schedule = {"frequency": "daily", "timezone": "UTC", "time_of_day": "02:30"}
        await ada.post(
            FLOWS, json={**flow(chain(APPROVAL)), "trigger": {"trigger_type": "schedule", "schedule": schedule}}
        )
        await ada.post(f"{FLOWS}/1/deploy")
        off = {"isEnabled": False, "nextAt": None, "overlap": "skip", "lastRunId": None, "missed": []}
        because = {"reason": "disabled", "message": "the schedule is disabled"}
        assert (await ada.get(f"{FLOWS}/1/schedule")).json() == off | {"paused": because}
        await ada.post(f"{FLOWS}/1/toggle")
        first = (await ada.get(f"{FLOWS}/1/next-runs")).json()["nextRuns"][0]["at"]
        on = {"isEnabled": True, "nextAt": first, "paused": None}
        assert (await ada.get(f"{FLOWS}/1/schedule")).json() == off | on

    async def test_schedules_of_workflows_are_one_list(self, either: World) -> None:
        """Each active workflow whose active variation has a schedule, by id, with state and next times; in pages."""
        ada = await either.user()
        schedule = {"frequency": "daily", "timezone": "UTC", "time_of_day": "02:30"}
        scheduled = {**flow(chain(APPROVAL)), "trigger": {"trigger_type": "schedule", "schedule": schedule}}
        for body in (scheduled, flow(chain(APPROVAL)), scheduled, scheduled, scheduled):
            await ada.post(FLOWS, json=body)
        for number in (1, 2, 3, 5):
            await ada.post(f"{FLOWS}/{number}/deploy")
        await ada.post(f"{FLOWS}/3/toggle")
        rows = await pages(ada, SCHEDULES, "schedules", 2)
        assert [row["id"] for row in rows] == [1, 3, 5]
        row = rows[1]
        state = (await ada.get(f"{FLOWS}/3/schedule")).json()
        slots = (await ada.get(f"{FLOWS}/3/next-runs")).json()
        assert row == {"id": 3, "slug": row["slug"], "name": "Refunds", "canManage": True, **state, **slots}
        assert [len(row["nextRuns"]) for row in (await ada.get(f"{SCHEDULES}?count=3")).json()["schedules"]] == [
            3,
            3,
            3,
        ]
        assert_envelope(await ada.get(f"{SCHEDULES}?count=0"), 400, "BAD_REQUEST", "INVALID_ARGUMENT")
        await ada.patch(f"{FLOWS}/1", json={"trigger": {"trigger_type": "manual"}})
        await ada.delete(f"{FLOWS}/5")
        assert [row["id"] for row in (await ada.get(SCHEDULES)).json()["schedules"]] == [1, 3]
        await ada.post(f"{FLOWS}/1/deploy")
        assert [row["id"] for row in (await ada.get(SCHEDULES)).json()["schedules"]] == [3]
        await ada.patch(f"{FLOWS}/3", json={"accessConfig": PRIVATE})
        assert (await (await either.user("bob")).get(SCHEDULES)).json()["schedules"] == []

    async def test_next_runs(self, either: World) -> None:
        """`count` firings with instant, local time and note; none without a schedule; a bad `count` is 400."""
        ada = await either.user()
        number = await deployed(ada, chain(APPROVAL))
        path = f"{FLOWS}/{number}/next-runs"
        assert (await ada.get(path)).json() == {"nextRuns": []}
        schedule = {"frequency": "daily", "timezone": "Europe/Vienna", "time_of_day": "02:30"}
        await ada.patch(f"{FLOWS}/{number}", json={"trigger": {"trigger_type": "schedule", "schedule": schedule}})
        await ada.post(f"{FLOWS}/{number}/deploy")
        rows = (await ada.get(path)).json()["nextRuns"]
        assert len(rows) == 10
        assert all(row.keys() == {"at", "local", "note"} and row["at"].endswith(":00.000Z") for row in rows)
        assert {row["local"][10:16] for row in rows} <= {"T02:30", "T03:00"}
        sizes = [
            len((await ada.get(path, params={"count": count})).json()["nextRuns"]) for count in ("1", "100", "101")
        ]
        assert sizes == [1, 100, 100]
        for bad in ("0", "-1", "1.5", "x", ""):
            answer = await ada.get(path, params={"count": bad})
            assert_envelope(answer, 400, "BAD_REQUEST", "INVALID_ARGUMENT")


class TestHistory:
    """Run history of a workflow."""

    async def test_runs_are_listed_newest_first(self, either: World) -> None:
        """Runs of all members, with every page size."""
        ada, bob = await either.user("ada"), await either.user("bob")
        number, other = await deployed(ada, chain(APPROVAL)), await deployed(ada, chain(APPROVAL))
        for name, client, target in (("a", ada, number), ("b", bob, number), ("c", ada, other)):
            body = {"workflowId": target, "input": {}, "runId": name}
            await client.post("/agent/v1/runs", json=body, headers=POLL)
        for size in (1, 2, 3):
            rows = await pages(bob, f"{FLOWS}/{number}/runs", "runs", size)
            assert sorted(row["runId"] for row in rows) == ["a", "b"]
            created = [row["createdAt"] for row in rows]
            assert created == sorted(created, reverse=True)


class TestInterfaces:
    """Interface rows."""

    async def test_rows_are_created_changed_and_removed(self, either: World) -> None:
        """201 with Location, then 200 for every call; the server creates the URL; one call removes all."""
        ada = await either.user()
        number = await deployed(ada, chain(APPROVAL))
        rows = f"{FLOWS}/{number}/interfaces"
        made = await ada.post(rows, json={"kind": "chatapp", "config": {"title": "Hi"}})
        assert (made.status_code, made.json()["config"]) == (201, {"title": "Hi"})
        one = made.headers["Location"]
        assert one == f"{rows}/{made.json()['id']}"
        assert made.json()["url"].endswith(made.json()["id"])
        assert (await ada.get(one)).json() == made.json()
        changed = await ada.patch(one, json={"config": {}})
        assert (changed.status_code, changed.json()) == (200, made.json() | {"config": {}})
        assert (await ada.delete(one)).json() == changed.json()
        assert_envelope(await ada.delete(one), 404, "NOT_FOUND", "NOT_FOUND")
        for kind in ("mcp", "teamchat", "mcp"):
            await ada.post(rows, json={"kind": kind})
        assert len(await pages(ada, rows, "interfaces", 2)) == 3
        removed = await ada.delete(rows)
        assert (removed.status_code, removed.json()) == (200, {"deleted": 3})
        assert (await ada.get(rows)).json() == {"interfaces": [], "nextPageToken": None}
        assert (await ada.delete(rows)).json() == {"deleted": 0}

    async def test_a_repeated_create_creates_one_row(self, either: World) -> None:
        """`Idempotency-Key`: the same response even when the row or workflow is deleted; another body is a conflict."""
        ada = await either.user()
        await ada.post(FLOWS, json=flow())
        key = {"Idempotency-Key": "one"}
        first, again = [await ada.post(f"{FLOWS}/1/interfaces", json={"kind": "mcp"}, headers=key) for _ in range(2)]
        assert (first.status_code, again.status_code, again.text) == (201, 201, first.text)
        row = first.headers["Location"]
        for change in (ada.patch(row, json={"config": {"a": 1}}), ada.delete(row), ada.delete(f"{FLOWS}/1")):
            assert (await change).status_code == 200
            again = await ada.post(f"{FLOWS}/1/interfaces", json={"kind": "mcp"}, headers=key)
            assert (again.status_code, again.text, again.headers["Location"]) == (201, first.text, row)
        other = await ada.post(f"{FLOWS}/1/interfaces", json={"kind": "chatapp"}, headers=key)
        assert_envelope(other, 409, "CONFLICT", "ALREADY_EXISTS")


class TestOwnership:
    """Transfers and access."""

    @pytest.mark.parametrize("base", [FLOWS, "/api/v1/agents", "/api/v1/skills"])
    async def test_ownership_is_transferred(self, either: World, base: str) -> None:
        """Offered, shown, 404 for all but the member it is offered to, accepted; then declined and cancelled."""
        ada, bob, eve = [await either.user(name) for name in ("ada", "bob", "eve")]
        body = {"name": "R", "accessConfig": PRIVATE} | ({} if "skills" in base else {"type": "workflow"})
        one = f"{base}/{(await ada.post(base, json=body)).json()['id']}"
        transfer = f"{one}/ownership-transfer"
        offered = await ada.post(transfer, json={"email": "bob@x.org"})
        assert offered.status_code == 200
        assert offered.json()["pendingOwnershipTransfer"]["pendingOwnerUserId"] == "bob"
        assert (await ada.get(one)).json()["pendingOwnershipTransfer"]["requestedByUserId"] == "ada"
        twice = assert_envelope(await ada.post(transfer, json={"userId": "eve"}), 409, "CONFLICT", "ALREADY_EXISTS")
        assert twice["info"]["reason"] == "transfer_pending"
        for client in (ada, eve):
            for answer in ("accept", "decline"):
                assert_envelope(await client.post(f"{transfer}/{answer}"), 404, "NOT_FOUND", "NOT_FOUND")
        accepted = await bob.post(f"{transfer}/accept", json={})
        assert (accepted.status_code, accepted.json()["accessConfig"]["ownerUserId"]) == (200, "bob")
        assert accepted.json()["accessConfig"]["sharedWith"][0]["userId"] == "ada"
        assert accepted.headers["ETag"] == (await bob.get(one)).headers["ETag"]
        for refused in (await ada.post(transfer, json={"userId": "ada"}), await ada.delete(transfer)):
            error = assert_envelope(refused, 403, "FORBIDDEN", "PERMISSION_DENIED")
            assert error["info"] == {"reason": "not_owner"}
        assert_envelope(await bob.post(transfer, json={"userId": "bob"}), 422, "VALIDATION", "INVALID_ARGUMENT")
        await bob.post(transfer, json={"userId": "ada"})
        assert (await ada.post(f"{transfer}/decline")).status_code == 200
        await bob.post(transfer, json={"userId": "ada"})
        cancelled = await bob.delete(transfer)
        assert (cancelled.status_code, "pendingOwnershipTransfer" in cancelled.json()) == (200, False)
        assert_envelope(await ada.post(f"{transfer}/accept"), 404, "NOT_FOUND", "NOT_FOUND")

    async def test_access_is_explained(self, either: World) -> None:
        """All grants, or one member's rights with the grants that decided; an unknown member is 404."""
        ada = await either.user()
        await either.user("bob")
        await ada.post(FLOWS, json=flow(accessConfig=PRIVATE | {"sharedWith": [{"email": "bob@x.org"}]}))
        every = (await ada.get(f"{FLOWS}/1/access")).json()
        assert [grant["rule"] for grant in every["grants"]] == ["ownerUserId", "sharedWith"]
        explained = (await ada.get(f"{FLOWS}/1/access", params={"userId": "bob"})).json()
        assert (explained["userId"], explained["canUse"], explained["canManage"]) == ("bob", True, False)
        assert explained["grants"] == every["grants"][1:]
        unknown = await ada.get(f"{FLOWS}/1/access", params={"userId": "nobody"})
        assert_envelope(unknown, 404, "NOT_FOUND", "NOT_FOUND")
        empty = await ada.get(f"{FLOWS}/1/access", params={"userId": ""})
        assert_envelope(empty, 400, "BAD_REQUEST", "INVALID_ARGUMENT")


class TestSupervision:
    """Supervision links of skills."""

    async def test_links_are_set_and_read(self, either: World) -> None:
        """PUT changes the draft and returns its links; they become active with a deploy."""
        ada = await either.user()
        for name in ("Top", "Below"):
            await ada.post("/api/v1/skills", json={"name": name})
        path, links = "/api/v1/skills/1/supervision", {"supervisionSubordinateIds": ["2"]}
        none = {"supervisionSubordinateIds": [], "supervisionSubordinateDescriptions": {}}
        assert (await ada.get(path, params={"view": "active"})).json() == none
        put = await ada.put(path, json=links)
        assert (put.status_code, put.json()) == (200, none | links)
        assert (await ada.get(path)).json() == put.json()
        await ada.post("/api/v1/skills/1/deploy")
        assert (await ada.get(path, params={"view": "active"})).json() == put.json()
        cycle = await ada.put("/api/v1/skills/2/supervision", json={"supervisionSubordinateIds": ["1"]})
        assert_envelope(cycle, 422, "VALIDATION", "INVALID_ARGUMENT")
        stale = await ada.put(path, json={}, headers={"If-Match": put.headers["ETag"]})
        assert_envelope(stale, 409, "CONFLICT", "ALREADY_EXISTS")
        assert (await ada.get("/api/v1/workflows/1/supervision")).status_code == 404


class TestAlias:
    """The earlier naming carries every workflow route."""

    async def test_every_route_has_its_alias(self, world: World) -> None:
        """The same methods, paths, scopes and bodies below `/api/v1/agents`, deprecated."""
        table = route_table(world.core)
        below = [
            {(r.method, r.path.removeprefix(base), r.scopes, r.body) for r in table if r.path.startswith(base)}
            for base in (FLOWS, "/api/v1/agents")
        ]
        assert below[0] == below[1]
        aliases = [route for route in table if route.path.startswith("/api/v1/agents")]
        assert {(route.base, route.successor) for route in aliases} == {("/api/v1/agents", FLOWS)}

    async def test_the_alias_names_its_successor(self, world: World) -> None:
        """`Deprecation` and `Link` are on every response of the earlier paths, errors included."""
        ada = await world.user()
        await ada.post(FLOWS, json=flow())
        found = {"variations": 200, "next-runs": 200, "interfaces": 200, "interfaces/x": 404, "impact": 200}
        for path, status in found.items():
            answer = await ada.get(f"/api/v1/agents/1/{path}")
            assert answer.status_code == status
            assert answer.headers["Deprecation"] == "@1767225600"
            assert answer.headers["Link"] == f'<{FLOWS}/1/{path}>; rel="successor-version"'
        simulated = await ada.post("/api/v1/agents/simulate", json={"workflowStructure": chain(APPROVAL)})
        assert simulated.status_code == 200
        assert simulated.headers["Link"] == f'<{FLOWS}/simulate>; rel="successor-version"'


async def test_responses_match_their_schemas(world: World) -> None:
    """Responses validate against the document's schema for their route and status."""
    ada = await world.user()
    await world.user("bob")
    number, first = await twice_deployed(ada)
    await ada.post("/api/v1/skills", json={"name": "S"})
    await ada.post("/agent/v1/runs", json={"workflowId": number, "input": {}}, headers=POLL)
    row = (await ada.post(f"{FLOWS}/1/interfaces", json={"kind": "mcp"})).json()["id"]
    described = document(route_table(world.core))
    one = f"{FLOWS}/{{id}}"
    calls: list[tuple[str, str, Json | None]] = [
        ("GET", f"{one}/variations", None), ("POST", f"{one}/rollback", {"variationId": first}),
        ("GET", f"{one}/schedule", None),
        ("GET", f"{one}/next-runs", None), ("GET", f"{one}/runs", None), ("GET", f"{one}/interfaces", None),
        ("POST", f"{one}/interfaces", {"kind": "mcp"}), ("GET", f"{one}/interfaces/{{interfaceId}}", None),
        ("PATCH", f"{one}/interfaces/{{interfaceId}}", {"config": {}}), ("GET", f"{one}/access", None),
        ("DELETE", f"{one}/interfaces/{{interfaceId}}", None), ("DELETE", f"{one}/interfaces", None),
        ("POST", f"{one}/ownership-transfer", {"userId": "bob"}), ("DELETE", f"{one}/ownership-transfer", None),
        ("GET", "/api/v1/skills/{id}/supervision", None), ("PUT", "/api/v1/skills/{id}/supervision", {}),
        ("GET", "/api/v1/skills/{id}/variations", None), ("POST", f"{one}/rollback", {}),
    ]  # fmt: skip
    for method, path, sent in calls:
        answer = await ada.request(method, path.replace("{id}", "1").replace("{interfaceId}", row), json=sent)
        response = described["paths"][path][method.lower()]["responses"][str(answer.status_code)]
        if "$ref" in response:
            response = described["components"]["responses"][response["$ref"].rpartition("/")[2]]
        schema = response["content"]["application/json"]["schema"] | {"components": described["components"]}
        jsonschema_rs.validate(schema, answer.json())
        assert answer.status_code in (200, 201) or sent == {}, path
