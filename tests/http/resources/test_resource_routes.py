"""Workflows and skills over HTTP (interface, Workflow, Scope, States and transitions)."""

import asyncio
from itertools import pairwise

import pytest
from clients import APPROVAL, Json, World, assert_envelope, chain, deployed, flow, node, pages

pytestmark = pytest.mark.anyio


class TestLifecycle:
    """Interface, States and transitions."""

    @pytest.mark.parametrize("base", ["/api/v1/workflows", "/api/v1/agents"])
    async def test_a_workflow_from_create_to_restore(self, either: World, base: str) -> None:
        """Create, read, list, change, deploy, delete and restore respond according to the interface."""
        ada = await either.user()
        made = await ada.post(base, json=flow(chain(APPROVAL), description="Pays back"))
        assert made.status_code == 201
        one = f"{base}/{made.json()['id']}"
        assert made.headers["Location"] == one
        assert made.json()["status"] == "draft"
        assert made.json()["hasUnpublishedChanges"] is True

        unpublished = await ada.get(one)
        assert unpublished.json() == made.json() | {"variation": None}
        assert unpublished.headers["ETag"] == made.headers["ETag"]
        draft = (await ada.get(one, params={"view": "draft"})).json()["variation"]
        assert draft["workflowStructure"] == chain(APPROVAL)

        live = await ada.post(f"{one}/deploy")
        assert (live.status_code, live.json()["status"]) == (200, "active")
        assert live.json()["variation"] == draft
        renamed = await ada.patch(one, json={"name": "Payback"}, headers={"If-Match": live.headers["ETag"]})
        assert (renamed.status_code, renamed.json()["name"], renamed.json()["slug"]) == (200, "Payback", "refunds")
        listed = (await ada.get(base)).json()
        assert [row["id"] for row in listed["workflows"]] == [made.json()["id"]]
        assert "variation" not in listed["workflows"][0]
        assert listed["nextPageToken"] is None

        gone = await ada.delete(one)
        assert (gone.status_code, gone.json()["status"]) == (200, "deleted")
        assert (await ada.get(base)).json()["workflows"] == []
        assert len((await ada.get(base, params={"status": "deleted"})).json()["workflows"]) == 1
        back = await ada.post(f"{one}/restore")
        assert (back.status_code, back.json()["status"], back.json()["isEnabled"]) == (200, "active", False)

    async def test_a_skill_from_create_to_restore(self, either: World) -> None:
        """Skills have the same routes, with their own list key."""
        ada = await either.user()
        made = await ada.post("/api/v1/skills", json={"name": "Support", "instructions": ["Be kind"]})
        assert (made.status_code, made.headers["Location"]) == (201, "/api/v1/skills/1")
        assert "isEnabled" not in made.json()
        assert (await ada.post("/api/v1/skills/1/deploy")).json()["variation"]["instructions"] == ["Be kind"]
        changed = await ada.patch("/api/v1/skills/1", json={"instructions": ["Be kinder"]})
        assert changed.json()["hasUnpublishedChanges"] is True
        kept = await ada.post("/api/v1/skills/1/discard-draft")
        assert (kept.status_code, kept.json()["hasUnpublishedChanges"]) == (200, False)
        assert [row["id"] for row in (await ada.get("/api/v1/skills")).json()["skills"]] == [1]
        assert (await ada.delete("/api/v1/skills/1")).json()["status"] == "deleted"
        assert (await ada.post("/api/v1/skills/1/restore", json={})).json()["status"] == "active"
        assert (await ada.post("/api/v1/skills/1/toggle")).status_code == 404

    async def test_toggle_needs_a_schedule(self, world: World) -> None:
        """Toggle inverts or sets; 409 when not active, 422 without a schedule."""
        ada = await world.user()
        number = await deployed(ada, chain(APPROVAL))
        one = f"/api/v1/workflows/{number}"
        assert_envelope(await ada.post(f"{one}/toggle"), 422, "VALIDATION", "INVALID_ARGUMENT")
        schedule = {"frequency": "daily", "timezone": "Europe/Vienna", "time_of_day": "09:30"}
        await ada.patch(one, json={"trigger": {"trigger_type": "schedule", "schedule": schedule}})
        await ada.post(f"{one}/deploy")
        assert (await ada.post(f"{one}/toggle")).json()["isEnabled"] is True
        assert (await ada.post(f"{one}/toggle", json={"isEnabled": True})).json()["isEnabled"] is True
        assert (await ada.post(f"{one}/toggle", json={})).json()["isEnabled"] is False
        await ada.delete(one)
        assert_envelope(await ada.post(f"{one}/toggle"), 409, "CONFLICT", "ALREADY_EXISTS")

    async def test_validate_finds_what_prevents_a_deploy(self, world: World) -> None:
        """Validate returns every issue with its severity, of a body or of the saved workflow, and writes nothing."""
        ada = await world.user()
        lost = {"nodes": [node("start", "start"), node("lost", "action", toolId="nope")], "edges": []}
        found = await ada.post("/api/v1/workflows/validate", json=flow(lost))
        assert found.status_code == 200
        assert {issue["severity"] for issue in found.json()["issues"]} == {"error"}
        assert all(issue.keys() == {"path", "message", "rule", "severity"} for issue in found.json()["issues"])
        assert (await ada.get("/api/v1/workflows")).json()["workflows"] == []
        await ada.post("/api/v1/workflows", json=flow(lost))
        assert (await ada.post("/api/v1/workflows/1/validate")).json() == found.json()
        refused = assert_envelope(await ada.post("/api/v1/workflows/1/deploy"), 422, "VALIDATION", "INVALID_ARGUMENT")
        assert len(refused["info"]["errors"]) == len(found.json()["issues"])

    async def test_a_stale_change_is_a_conflict(self, world: World) -> None:
        """`If-Match` with a stale ETag is 409 and changes nothing."""
        ada = await world.user()
        made = await ada.post("/api/v1/workflows", json=flow())
        old = {"If-Match": made.headers["ETag"]}
        await ada.patch("/api/v1/workflows/1", json={"name": "Newer"}, headers=old)
        for method, path in (("PATCH", ""), ("POST", "/deploy"), ("DELETE", "")):
            body: Json | None = None if method == "DELETE" else ({"name": "Older"} if method == "PATCH" else {})
            stale = await ada.request(method, f"/api/v1/workflows/1{path}", json=body, headers=old)
            assert assert_envelope(stale, 409, "CONFLICT", "ALREADY_EXISTS")["info"]["reason"] == "stale"
        assert (await ada.get("/api/v1/workflows/1")).json()["name"] == "Newer"

    async def test_the_alias_is_deprecated(self, world: World) -> None:
        """`/api/v1/agents` returns the same JSON with `Deprecation` (RFC 9745) and a link to the successor."""
        ada = await world.user()
        await ada.post("/api/v1/agents", json=flow())
        for path, status in (("", 200), ("/1", 200), ("/7", 404), ("/1?view=x", 400)):
            new, old = await ada.get(f"/api/v1/workflows{path}"), await ada.get(f"/api/v1/agents{path}")
            assert old.status_code == status
            if status == 200:
                assert old.json() == new.json()
            assert old.headers["Deprecation"] == "@1767225600"
            plain = path.partition("?")[0]
            assert old.headers["Link"] == f'</api/v1/workflows{plain}>; rel="successor-version"'
            assert "Deprecation" not in new.headers


class TestIdempotentCreate:
    """The same key and body give the same response."""

    async def test_a_repeated_create_creates_one(self, either: World) -> None:
        """Twenty concurrent creates with one key create one workflow, and all return it."""
        ada = await either.user()
        key = {"Idempotency-Key": "one"}
        made = await asyncio.gather(*(ada.post("/api/v1/workflows", json=flow(), headers=key) for _ in range(20)))
        assert {(answer.status_code, answer.text) for answer in made} == {(201, made[0].text)}
        assert {answer.headers["Location"] for answer in made} == {"/api/v1/workflows/1"}
        assert len((await ada.get("/api/v1/workflows")).json()["workflows"]) == 1

    @pytest.mark.parametrize("base", ["/api/v1/workflows", "/api/v1/skills"])
    async def test_a_repeated_create_returns_the_first_response(self, either: World, base: str) -> None:
        """Status, body, `Location` and `ETag` are those of the first response, also after changes of the resource."""
        group = await either.core.directory.create_group(either.org, "Clerks")
        ada = await either.user(groups=[group.id])
        rights = {either.org: {"use": False, "manage": False}, group.id: {"use": True, "manage": True}}
        body = {"name": "R", "accessConfig": {"visibility": "shared", "groupPermissions": rights, "sharedWith": []}}
        body |= {} if "skills" in base else {"type": "workflow"}
        first = await ada.post(base, json=body, headers={"Idempotency-Key": "one"})
        for change in (
            ada.patch(f"{base}/1", json={"name": "Else"}), ada.delete(f"{base}/1"),
            either.core.directory.add_member(either.org, "ada", "ada@x.org", groups=[]),
        ):  # fmt: skip
            await change
            again = await ada.post(base, json=body, headers={"Idempotency-Key": "one"})
            assert (again.status_code, again.text) == (201, first.text)
            assert [again.headers[name] == first.headers[name] for name in ("Location", "ETag")] == [True, True]
        assert (await ada.get(f"{base}/1")).status_code == 404

    async def test_another_body_is_a_conflict_and_another_user_has_other_keys(self, world: World) -> None:
        """Keys belong to a principal; a key with another body is 409."""
        ada, bob = await world.user("ada"), await world.user("bob")
        key = {"Idempotency-Key": "one"}
        await ada.post("/api/v1/workflows", json=flow(), headers=key)
        other = await ada.post("/api/v1/workflows", json=flow(name="Else"), headers=key)
        assert_envelope(other, 409, "CONFLICT", "ALREADY_EXISTS")
        assert (await bob.post("/api/v1/workflows", json=flow(), headers=key)).json()["id"] == 2
        assert (await ada.post("/api/v1/skills", json={"name": "S"}, headers=key)).status_code == 201

    @pytest.mark.parametrize("key", ["", "a b", "ü".encode().decode("latin-1"), "x" * 256])
    async def test_a_key_is_visible_ascii(self, world: World, key: str) -> None:
        """A key that is empty, too long or not visible ASCII is malformed."""
        ada = await world.user()
        headers = {"Idempotency-Key": key.encode("latin-1")}
        answer = await ada.post("/api/v1/workflows", json=flow(), headers=headers)
        found = assert_envelope(answer, 400, "BAD_REQUEST", "INVALID_ARGUMENT")
        assert found["info"]["errors"][0]["path"] == "Idempotency-Key"


class TestPaging:
    """Lists are keyset-paged."""

    async def test_pages_of_every_size_have_every_row_once_in_order(self, world: World) -> None:
        """With every page size, the pages together are the list."""
        ada = await world.user()
        for number in range(7):
            await ada.post("/api/v1/workflows", json=flow(name=f"Number {number}"))
        for size in (1, 2, 3, 7, 8, 1000):
            ids = [row["id"] for row in await pages(ada, "/api/v1/workflows", "workflows", size)]
            assert ids == list(range(1, 8))

    async def test_a_search_filters_the_list(self, world: World) -> None:
        """`q` searches name and slug, `status` filters by state."""
        ada = await world.user()
        for name in ("Refunds", "Invoices", "More refunds"):
            await ada.post("/api/v1/workflows", json=flow(name=name))
        found = await ada.get("/api/v1/workflows", params={"q": "REFUND"})
        assert [row["name"] for row in found.json()["workflows"]] == ["Refunds", "More refunds"]
        assert (await ada.get("/api/v1/workflows", params={"status": "active"})).json()["workflows"] == []

    async def test_a_token_is_valid_for_its_list_only(self, world: World) -> None:
        """A token of another list, filter or organization, and every altered one, is malformed."""
        ada = await world.user()
        other = await world.core.directory.create_organization("Other")
        eve = await world.user("eve", org=other.uuid)
        for path in ("workflows", "skills"):
            for _ in range(2):
                body = flow() if path == "workflows" else {"name": "S"}
                assert (await ada.post(f"/api/v1/{path}", json=body)).status_code == 201
        page = (await ada.get("/api/v1/workflows", params={"pageSize": 1})).json()
        token = page["nextPageToken"]
        assert (await ada.get("/api/v1/workflows", params={"pageToken": token})).status_code == 200
        assert (await ada.get("/api/v1/agents", params={"pageToken": token})).status_code == 200
        flipped = ("A" if token[0] != "A" else "B") + token[1:]
        tries = [
            ada.get("/api/v1/workflows", params={"pageToken": token, "q": "x"}),
            ada.get("/api/v1/workflows", params={"pageToken": token, "status": "draft"}),
            ada.get("/api/v1/skills", params={"pageToken": token}),
            eve.get("/api/v1/workflows", params={"pageToken": token}),
            *(
                ada.get("/api/v1/workflows", params={"pageToken": bad})
                for bad in ("", "x", flipped, token + "=", token[:-1], token + "A", "ü", "1")
            ),
        ]
        for answer in await asyncio.gather(*tries):
            found = assert_envelope(answer, 400, "BAD_REQUEST", "INVALID_ARGUMENT")
            assert found["info"]["errors"][0]["path"] == "pageToken"

    @pytest.mark.parametrize("query", ["pageSize=0", "pageSize=-1", "pageSize=1.5", "pageSize=01", "pageSize=%2B1",
                                       "pageSize=", "pageSize=x", "pageSize=%D9%A3", "pageSize=1%0A", "status=gone",
                                       "status=", f"q={'x' * 201}", "q=%00", "q=a&q=b", "q=%FF"])  # fmt: skip
    async def test_an_invalid_parameter_is_malformed(self, world: World, query: str) -> None:
        """Each parameter has one spelling and must not be repeated."""
        ada = await world.user()
        answer = await ada.get(f"/api/v1/workflows?{query}")
        error = assert_envelope(answer, 400, "BAD_REQUEST", "INVALID_ARGUMENT")
        path = query.partition("=")[0] if "%FF" not in query else "query"
        assert [issue["path"] for issue in error["info"]["errors"]] == [path]

    async def test_all_invalid_parameters_are_named(self, world: World) -> None:
        """`info.errors` has every issue: invalid values, and names that are unknown or repeated."""
        ada = await world.user()
        answer = await ada.get("/api/v1/workflows?pageSize=0&status=x&q=a&q=b&utm=1&utm=2")
        found = assert_envelope(answer, 400, "BAD_REQUEST", "INVALID_ARGUMENT")["info"]["errors"]
        rules = {(issue["path"], issue["rule"]) for issue in found}
        assert rules == {("pageSize", "query"), ("status", "query"), ("q", "unknown"), ("utm", "unknown")}
        assert (await ada.get(f"/api/v1/workflows?pageSize={'9' * 5000}")).status_code == 200

    async def test_an_unknown_parameter_is_refused_on_every_route(self, world: World) -> None:
        """400 with the rule `unknown`, on writes and on open routes too; the message names the parameters."""
        ada = await world.user()
        for method, path in (("GET", "/healthz"), ("POST", "/api/v1/workflows"), ("GET", "/agent/v1/runs/r/events")):
            answer = await ada.request(method, f"{path}?page_size=1", json=flow() if method == "POST" else None)
            (issue,) = assert_envelope(answer, 400, "BAD_REQUEST", "INVALID_ARGUMENT")["info"]["errors"]
            assert (issue["path"], issue["rule"]) == ("page_size", "unknown")
        assert (await ada.get("/api/v1/workflows")).json()["workflows"] == []
        listed = await ada.get("/api/v1/workflows?page_size=1")
        assert "`pageSize`" in listed.json()["error"]["message"]


async def test_me_is_the_principal(either: World) -> None:
    """`GET /api/v1/me` returns the principal; it needs no token scope."""
    bob = await either.user("bob", scopes=["workflows:read"])
    assert (await bob.get("/api/v1/me")).json() == {
        "orgUuid": either.org,
        "userId": "bob",
        "email": "bob@x.org",
        "groups": [],
        "scopes": ["workflows:read"],
        "role": "member",
    }


async def test_every_change_has_its_own_etag(world: World) -> None:
    """Each state of a resource has its own ETag."""
    ada = await world.user()
    tags = [(await ada.post("/api/v1/workflows", json=flow(chain(APPROVAL)))).headers["ETag"]]
    tags.append((await ada.patch("/api/v1/workflows/1", json={"name": "B"})).headers["ETag"])
    tags.append((await ada.post("/api/v1/workflows/1/deploy")).headers["ETag"])
    tags.append((await ada.delete("/api/v1/workflows/1")).headers["ETag"])
    assert all(before != after for before, after in pairwise(tags))
    assert len(set(tags)) == 4


async def test_validation_of_a_list_with_a_fault(world: World) -> None:
    """The rules of the content do not look at a list whose items have another shape."""
    ada = await world.user()
    for name, given in (("contextSelections", [[None]]), ("evaluations", [{"checks": 1}]), ("instructions", [1])):
        answer = await ada.post("/api/v1/skills/validate", json={name: given})
        assert answer.status_code == 200, answer.text
        assert {issue["path"].partition("[")[0] for issue in answer.json()["issues"]} == {name}
