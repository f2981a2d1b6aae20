"""Members, groups, tokens, audit and tools over HTTP (interface, Authentication and Errors)."""

import jsonschema_rs
import pytest
from clients import (
    APPROVAL,
    CONFLICT,
    FORBIDDEN,
    INVALID,
    MALFORMED,
    POLL,
    World,
    assert_envelope,
    chain,
    deployed,
    pages,
)

from wfcore.domain.resources.access import TOKEN_SCOPES

pytestmark = pytest.mark.anyio


class TestMembers:
    """`/api/v1/members`."""

    async def test_a_member_from_create_to_delete(self, either: World) -> None:
        """201 with Location, then 200 with the member, for user ids of any characters."""
        boss = await either.user("boss", role="owner")
        name = "auth0|ann/ü 1"
        body = {"userId": name, "email": "Ann@X.org", "name": "Ann", "role": "member", "groups": []}
        made = await boss.post("/api/v1/members", json=body)
        assert (made.status_code, made.json()) == (201, body | {"email": "ann@x.org"})
        place = made.headers["Location"]
        assert (await boss.get(place)).json() == made.json()
        changed = await boss.patch(place, json={"role": "admin"})
        assert (changed.status_code, changed.json()["role"]) == (200, "admin")
        assert [row["userId"] for row in (await boss.get("/api/v1/members")).json()["members"]] == [name, "boss"]
        gone = await boss.delete(place)
        assert (gone.status_code, gone.json()) == (200, changed.json())
        assert_envelope(await boss.delete(place), 404, "NOT_FOUND", "NOT_FOUND")

    async def test_lists_are_paged_and_filtered(self, world: World) -> None:
        """The pages are the list, and a page token is valid only for its filter."""
        boss = await world.user("boss", role="owner")
        group = (await boss.post("/api/v1/groups", json={"name": "team"})).json()["id"]
        for index in range(5):
            groups = [group] if index % 2 else []
            await boss.post("/api/v1/members", json={"userId": f"m{index}", "groups": groups})
        everybody = [row["userId"] for row in await pages(boss, "/api/v1/members", "members", 2)]
        assert everybody == ["boss", "m0", "m1", "m2", "m3", "m4"]
        narrowed = await boss.get("/api/v1/members", params={"groupId": group, "pageSize": "1"})
        assert [row["userId"] for row in narrowed.json()["members"]] == ["m1"]
        token = narrowed.json()["nextPageToken"]
        assert_envelope(await boss.get("/api/v1/members", params={"pageToken": token}), *MALFORMED)

    async def test_members_are_searched(self, world: World) -> None:
        """`q` is a part of user id, name or e-mail, as in the other lists, with pages and beside the group."""
        boss = await world.user("boss", role="owner")
        group = (await boss.post("/api/v1/groups", json={"name": "team"})).json()["id"]
        for user, email, name in (("u1", "ada@x.org", None), ("u2", None, "Adam"), ("u3", "u3@x.org", "Grace")):
            body = {"userId": user, "email": email, "name": name, "groups": [group] if user != "u1" else []}
            made = await boss.post("/api/v1/members", json={key: value for key, value in body.items() if value})
            assert made.status_code == 201, made.text

        async def found(**params: str) -> tuple[list[str], str | None]:
            page = (await boss.get("/api/v1/members", params=params)).json()
            return [row["userId"] for row in page["members"]], page["nextPageToken"]

        assert await found(q="ADA") == (["u1", "u2"], None)
        assert await found(q="ada", groupId=group) == (["u2"], None)
        assert await found(q="U3") == (["u3"], None)
        first, token = await found(q="u", pageSize="2")
        assert token
        assert await found(q="u", pageSize="2", pageToken=token) == (["u3"], None)
        assert first == ["u1", "u2"]
        for bad in ({"q": "x" * 201}, {"q": "\0"}, {"q": "g", "pageToken": token}):
            assert_envelope(await boss.get("/api/v1/members", params=bad), *MALFORMED)

    async def test_members_read_and_do_not_write(self, world: World) -> None:
        """A member can read members and groups; changes are 403 with the role, also with the scope."""
        boss, ann = await world.user("boss", role="owner"), await world.user("ann")
        group = (await boss.post("/api/v1/groups", json={"name": "team"})).json()["id"]
        for path in ("/api/v1/members", "/api/v1/members/boss", "/api/v1/groups", f"/api/v1/groups/{group}"):
            assert (await ann.get(path)).status_code == 200
        for method, path in (
            ("POST", "/api/v1/members"), ("PATCH", "/api/v1/members/ann"), ("DELETE", "/api/v1/members/none"),
            ("POST", "/api/v1/groups"), ("PATCH", "/api/v1/groups/none"), ("DELETE", f"/api/v1/groups/{group}"),
            ("GET", "/api/v1/audit"),
        ):  # fmt: skip
            body = None if method in ("DELETE", "GET") else {}
            answer = await ann.request(method, path, json=body)
            assert assert_envelope(answer, *FORBIDDEN)["info"] == {"role": "member"}

    async def test_resources_without_an_owner_are_named(self, either: World) -> None:
        """Removing the owning member or the last managing group is 409 with the resources in `info`."""
        boss, ann = await either.user("boss", role="owner"), await either.user("ann")
        await ann.post("/api/v1/skills", json={"name": "S", "accessConfig": {"visibility": "private"}})
        refused = assert_envelope(await boss.delete("/api/v1/members/ann"), *CONFLICT)
        assert refused["info"] == {"reason": "unmanaged", "resources": [{"type": "skill", "id": 1}]}
        last = assert_envelope(await boss.delete("/api/v1/members/boss"), *CONFLICT)
        assert last["info"] == {"reason": "last_owner"}

    async def test_a_removed_or_demoted_member_loses_its_rights_at_once(self, either: World) -> None:
        """Role and membership are read at every request."""
        boss, ann = await either.user("boss", role="owner"), await either.user("ann", role="admin")
        assert (await ann.get("/api/v1/audit")).status_code == 200
        await boss.patch("/api/v1/members/ann", json={"role": "member"})
        assert_envelope(await ann.get("/api/v1/audit"), *FORBIDDEN)
        await boss.delete("/api/v1/members/ann")
        assert_envelope(await ann.get("/api/v1/me"), 401, "UNAUTHORIZED", "UNAUTHENTICATED")


class TestGroups:
    """`/api/v1/groups`."""

    async def test_a_group_from_create_to_delete(self, world: World) -> None:
        """201 with Location, then 200 with the group; the implicit group is not listed."""
        boss = await world.user("boss", role="owner")
        made = await boss.post("/api/v1/groups", json={"name": "team"})
        place = made.headers["Location"]
        assert (made.status_code, made.json()) == (201, {"id": place.rpartition("/")[2], "name": "team"})
        assert (await boss.patch(place, json={"name": "crew"})).json() == made.json() | {"name": "crew"}
        listed = await boss.get("/api/v1/groups")
        assert listed.json() == {"groups": [made.json() | {"name": "crew"}], "nextPageToken": None}
        assert (await boss.delete(place)).json() == made.json() | {"name": "crew"}
        for path in (place, f"/api/v1/groups/{world.org}"):
            assert_envelope(await boss.get(path), 404, "NOT_FOUND", "NOT_FOUND")
        assert_envelope(await boss.post("/api/v1/groups", json={"name": " ", "id": "x"}), *INVALID)


class TestTokens:
    """`/api/v1/tokens`."""

    async def test_a_token_works_until_it_is_revoked(self, either: World) -> None:
        """Only the 201 has the token; after its DELETE the next call is 401."""
        ann = await either.user("ann")
        body = {"name": "ci", "scopes": ["workflows:read"], "expiresInSeconds": 3600}
        made = await ann.post("/api/v1/tokens", json=body)
        assert made.status_code == 201
        text = made.json()["token"]
        caller = await either.client(text)
        assert (await caller.get("/api/v1/me")).json()["scopes"] == ["workflows:read"]
        row = {key: value for key, value in made.json().items() if key != "token"}
        place = made.headers["Location"]
        assert (await ann.get(place)).json() == row
        assert row in (await ann.get("/api/v1/tokens")).json()["tokens"]
        gone = await ann.delete(place)
        assert (gone.status_code, gone.json()["revokedAt"] is None) == (200, False)
        assert_envelope(await caller.get("/api/v1/me"), 401, "UNAUTHORIZED", "UNAUTHENTICATED")
        assert (await ann.delete(place)).json() == gone.json()

    async def test_the_oldest_token_is_first(self, either: World) -> None:
        """The list and its pages are in the order of creation, those of one millisecond by id."""
        ann = await either.user("ann", scopes=["tokens:write"])
        for number in range(7):
            await ann.post("/api/v1/tokens", json={"name": f"t{number}", "scopes": []})
        rows, following = [], {}
        for _ in range(4):
            page = (await ann.get("/api/v1/tokens", params={"pageSize": "2"} | following)).json()
            rows += page["tokens"]
            following = {"pageToken": page["nextPageToken"]}
        assert (len(rows), following) == (8, {"pageToken": None})
        assert rows == sorted(rows, key=lambda row: (row["createdAt"], row["id"]))

    async def test_no_token_is_wider_than_its_creator(self, world: World) -> None:
        """403 with `info.missing`; an unknown scope is 422."""
        ann = await world.user("ann", scopes=["tokens:write", "skills:read"])
        wide = await ann.post("/api/v1/tokens", json={"name": "t", "scopes": ["skills:write", "skills:read"]})
        assert assert_envelope(wide, *FORBIDDEN)["info"] == {"missing": ["skills:write"]}
        assert_envelope(await ann.post("/api/v1/tokens", json={"name": "t", "scopes": ["all"]}), *INVALID)

    async def test_only_admins_see_other_tokens(self, world: World) -> None:
        """`userId` is 403 for a member and a list for an admin; another member's token is 404."""
        boss, ann, bob = await world.user("boss", role="admin"), await world.user("ann"), await world.user("bob")
        place = (await ann.post("/api/v1/tokens", json={"name": "t", "scopes": []})).headers["Location"]
        assert_envelope(await bob.get("/api/v1/tokens", params={"userId": "ann"}), *FORBIDDEN)
        assert len((await ann.get("/api/v1/tokens", params={"userId": "ann"})).json()["tokens"]) == 2
        first = (await boss.get("/api/v1/tokens", params={"userId": "ann", "pageSize": "1"})).json()
        assert [row["userId"] for row in first["tokens"]] == ["ann"]
        own = {"pageToken": first["nextPageToken"]}
        assert_envelope(await boss.get("/api/v1/tokens", params=own), *MALFORMED)
        second = (await boss.get("/api/v1/tokens", params=own | {"userId": "ann"})).json()
        assert (len(second["tokens"]), second["nextPageToken"]) == (1, None)
        for method in ("GET", "DELETE"):
            hidden, never = [await bob.request(method, p) for p in (place, "/api/v1/tokens/zzzzzzzz")]
            assert hidden.status_code == never.status_code == 404
        assert (await boss.delete(place)).status_code == 200


class TestAudit:
    """`GET /api/v1/audit`."""

    async def test_entries_have_their_origin(self, either: World) -> None:
        """Entries have the request id and remote address of the call, for decisions too; newest first."""
        boss, ann = await either.user("boss", role="owner"), await either.user("ann")
        number = await deployed(ann, chain(APPROVAL))
        await ann.post("/agent/v1/runs", json={"workflowId": number, "input": {}},
                       headers=POLL | {"Idempotency-Key": "r"})  # fmt: skip
        async for _ in (await ann.send(ann.build_request("GET", "/agent/v1/runs/r/events"), stream=True)).aiter_bytes():
            pass
        answer = await ann.post("/agent/v1/runs/r/resume", json={"decision": "deny"},
                                headers=POLL | {"X-Request-Id": "the-decision"})  # fmt: skip
        assert answer.status_code in (200, 202)
        params = {"userId": "ann", "from": "2020-01-01T00:00:00Z", "to": "2100-01-01T00:00:00+01:00"}
        found = (await boss.get("/api/v1/audit", params=params)).json()
        assert [row["action"] for row in found["audit"]] == ["run.resume", "workflow.deploy", "workflow.create"]
        decision = found["audit"][0]
        assert (decision["resource"], decision["requestId"]) == ({"type": "run", "id": "r"}, "the-decision")
        assert {row["remoteAddress"] for row in found["audit"]} == {"127.0.0.1"}
        operator = (await boss.get("/api/v1/audit", params={"action": "member.create"})).json()["audit"][0]
        assert (operator["userId"], operator["requestId"], operator["remoteAddress"]) == (None, None, None)

    async def test_pages_belong_to_their_filter(self, world: World) -> None:
        """The pages are the list; a token of another filter is 400, and so is an invalid time."""
        boss = await world.user("boss", role="owner")
        for index in range(5):
            await boss.post("/api/v1/groups", json={"name": f"g{index}"})
        names = [row["details"].get("name") for row in await pages(boss, "/api/v1/audit", "audit", 2)]
        assert names == ["g4", "g3", "g2", "g1", "g0", "token", None]
        params = {"action": "group.create", "pageSize": "2"}
        token = (await boss.get("/api/v1/audit", params=params)).json()["nextPageToken"]
        second = await boss.get("/api/v1/audit", params=params | {"pageToken": token})
        assert [row["details"]["name"] for row in second.json()["audit"]] == ["g2", "g1"]
        assert_envelope(await boss.get("/api/v1/audit", params={"pageToken": token}), *MALFORMED)
        for bad in ({"from": "yesterday"}, {"to": "2026-01-01"}, {"userId": ""}, {"from": "9999-99-99T00:00:00Z"}):
            assert_envelope(await boss.get("/api/v1/audit", params=bad), *MALFORMED)


class TestTools:
    """`GET /api/v1/tools`."""

    async def test_the_catalog_has_built_in_and_own_tools(self, world: World) -> None:
        """By id, with the JSON Schema of the arguments, paged."""
        ann = await world.user("ann", scopes=["workflows:read"])
        found = await pages(ann, "/api/v1/tools", "tools", 2)
        ids = [tool["id"] for tool in found]
        assert ids == sorted(ids)
        own = next(tool for tool in found if tool["id"] == "count")
        assert own == {
            "id": "count", "name": "count", "description": "Count the calls by name.", "builtIn": False,
            "parameters": own["parameters"], "idempotent": False, "provider": None, "connectionId": None,
            "outputSchema": {"type": "integer"}, "group": None,
        }  # fmt: skip
        assert own["parameters"]["properties"]["name"]["type"] == "string"
        built_in = {tool["id"] for tool in found if tool["builtIn"]}
        assert built_in >= {"core.transform", "core.wait", "core.fail", "core.workflow"}


async def test_every_response_matches_its_schema(world: World) -> None:
    """Real answers validate against the schema the OpenAPI document gives."""
    boss = await world.user("boss", role="owner", scopes=TOKEN_SCOPES)
    described = (await boss.get("/openapi.json")).json()
    ann, team = {"userId": "ann"}, {"name": "team"}
    calls = [
        ("POST", "/api/v1/members", ann), ("GET", "/api/v1/members", None), ("GET", "/api/v1/members/{userId}", None),
        ("POST", "/api/v1/groups", team), ("GET", "/api/v1/groups", None),
        ("POST", "/api/v1/tokens", team | {"scopes": []}), ("GET", "/api/v1/tokens", None),
        ("GET", "/api/v1/audit", None), ("GET", "/api/v1/tools", None),
        ("PATCH", "/api/v1/members/{userId}", {"role": "admin"}), ("DELETE", "/api/v1/members/{userId}", None),
    ]  # fmt: skip
    for method, path, sent in calls:
        answer = await boss.request(method, path.replace("{userId}", "ann"), json=sent)
        operation = described["paths"][path][method.lower()]
        schema = operation["responses"][str(answer.status_code)]["content"]["application/json"]["schema"]
        jsonschema_rs.validate(schema | {"components": described["components"]}, answer.json())
