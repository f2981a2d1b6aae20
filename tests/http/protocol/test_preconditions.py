"""`If-Match` and `Idempotency-Key` on every route that accepts them, errors of memories, names and owners."""

from typing import Any

import pytest
from clients import Json, World, assert_envelope, flow

from wfcore.adapters.http.core.route import IDEMPOTENCY_KEY, IF_MATCH
from wfcore.adapters.http.route_table import route_table
from wfcore.domain.resources.access import TOKEN_SCOPES

pytestmark = pytest.mark.anyio

FLOWS, SKILLS = "/api/v1/workflows", "/api/v1/skills"
PRIVATE: Json = {"visibility": "private"}

WRITES: list[tuple[str, str, Json | None]] = [
    ("PATCH", "", {"name": "Other"}),
    ("DELETE", "", None),
    ("POST", "/deploy", None),
    ("POST", "/restore", None),
    ("POST", "/toggle", {"isEnabled": False}),
    ("POST", "/move-runs", {"all": True}),
    ("POST", "/discard-draft", None),
    ("POST", "/rollback", {"variationId": "x"}),
    ("POST", "/ownership-transfer", {"userId": "bob"}),
    ("DELETE", "/ownership-transfer", None),
    ("POST", "/interfaces", {"kind": "chatapp"}),
    ("PATCH", "/interfaces/{row}", {"config": {"x": 1}}),
    ("DELETE", "/interfaces/{row}", None),
    ("DELETE", "/interfaces", None),
    ("POST", "/webhook/rotate", None),
]


class TestIfMatch:
    """A write with a stale ETag changes nothing (RFC 9110, 13.1.1)."""

    @pytest.mark.parametrize(("method", "path", "body"), WRITES)
    async def test_a_stale_write_is_refused(self, world: World, method: str, path: str, body: Json | None) -> None:
        """409 `stale` with the current ETag, also for parts of a workflow; nothing is changed."""
        ada = await world.user()
        place = (await ada.post(FLOWS, json=flow())).headers["Location"]
        row = (await ada.post(f"{place}/interfaces", json={"kind": "chatapp"})).json()["id"]
        old = (await ada.get(place)).headers["ETag"]
        await ada.patch(place, json={"description": "changed since"})
        before = [(await ada.get(place + part)).json() for part in ("", "/interfaces", "/webhook")]
        answer = await ada.request(method, place + path.format(row=row), json=body, headers={"If-Match": old})
        error = assert_envelope(answer, 409, "CONFLICT", "ALREADY_EXISTS")
        now = (await ada.get(place)).headers["ETag"]
        assert error["info"] == {"reason": "stale", "etag": now}
        assert [(await ada.get(place + part)).json() for part in ("", "/interfaces", "/webhook")] == before

    @pytest.mark.parametrize("path", ["/restore", "/ownership-transfer", "/interfaces", "/webhook/rotate"])
    async def test_a_current_write_succeeds(self, world: World, path: str) -> None:
        """The ETag that was read, or `*`."""
        ada, _ = await world.user(), await world.user("bob")
        place = (await ada.post(FLOWS, json=flow())).headers["Location"]
        body: Any = next(body for _, there, body in WRITES if there == path)
        etag = (await ada.get(place)).headers["ETag"]
        answer = await ada.post(place + path, json=body, headers={"If-Match": f'"x", {etag}'})
        assert answer.status_code in (200, 201)

    async def test_transfers_check_the_etag(self, world: World) -> None:
        """Accepting and declining take the ETag as well."""
        ada, bob = await world.user(), await world.user("bob")
        place = (await ada.post(FLOWS, json=flow())).headers["Location"]
        await ada.post(f"{place}/ownership-transfer", json={"userId": "bob"})
        for step in ("accept", "decline"):
            answer = await bob.post(f"{place}/ownership-transfer/{step}", headers={"If-Match": '"old"'})
            assert_envelope(answer, 409, "CONFLICT", "ALREADY_EXISTS")

    def test_the_routes_document_the_header(self, memory_server: Any) -> None:
        """Every route that changes a workflow or skill documents the header."""
        others = (
            "/validate",
            "/memories",
            "/conversations",
            "/context",
            "/suggestions",
            "/evaluations",
            "/nodes",
            "/proposals",
        )
        for route in route_table(memory_server[0]):
            one = route.path.startswith((f"{FLOWS}/{{id}}", f"{SKILLS}/{{id}}"))
            if one and route.method != "GET" and not any(part in route.path for part in others):
                assert IF_MATCH in route.headers, route.name


CREATES: list[tuple[str, Json, Json]] = [
    ("/api/v1/groups", {"name": "team"}, {"name": "crew"}),
    ("/api/v1/members", {"userId": "ann", "email": "ann@x.org"}, {"userId": "eve"}),
    (f"{SKILLS}/1/memories", {"memory": "likes tea"}, {"memory": "likes coffee"}),
]


class TestIdempotencyKey:
    """Creates under a key (the IETF's draft "The Idempotency-Key HTTP Header Field")."""

    @pytest.mark.parametrize(("path", "body", "other"), CREATES)
    async def test_the_same_response_again(self, either: World, path: str, body: Json, other: Json) -> None:
        """The same key and body: the same response, and one row; another body: 409; another caller: its own row."""
        ada, bob = await either.user(role="owner"), await either.user("bob", role="owner")
        await ada.post(SKILLS, json={"name": "s"})
        rows = path.rpartition("/")[2]
        known = len((await ada.get(path)).json()[rows])
        first, again = [await ada.post(path, json=body, headers={IDEMPOTENCY_KEY: "k"}) for _ in range(2)]
        assert first.status_code == again.status_code == 201
        assert (again.json(), again.headers["Location"]) == (first.json(), first.headers["Location"])
        assert len((await ada.get(path)).json()[rows]) == known + 1
        reused = await ada.post(path, json=other, headers={IDEMPOTENCY_KEY: "k"})
        error = assert_envelope(reused, 409, "CONFLICT", "ALREADY_EXISTS")
        assert error["info"]["reason"] == "key_reused"
        assert (await bob.post(path, json=other, headers={IDEMPOTENCY_KEY: "k"})).status_code == 201

    async def test_a_token_is_not_shown_again(self, either: World) -> None:
        """The same key creates no second token; the 409 names the first one, without its text."""
        ada = await either.user()
        body, key = {"name": "ci", "scopes": ["usage:read"]}, {IDEMPOTENCY_KEY: "k"}
        made = (await ada.post("/api/v1/tokens", json=body, headers=key)).json()
        again = await ada.post("/api/v1/tokens", json=body, headers=key)
        error = assert_envelope(again, 409, "CONFLICT", "ALREADY_EXISTS")
        assert error["info"] == {"reason": "shown_once", "id": made["id"]}
        assert made["token"] not in again.text
        other = await ada.post("/api/v1/tokens", json={**body, "name": "cd"}, headers=key)
        assert assert_envelope(other, 409, "CONFLICT", "ALREADY_EXISTS")["info"]["reason"] == "key_reused"
        assert [row["name"] for row in (await ada.get("/api/v1/tokens")).json()["tokens"]].count("ci") == 1

    async def test_an_interrupted_memory_can_be_retried(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """When the backend failed, a retry with the key adds the memory, once."""
        ada, backend = await world.user(), world.core.ports.memories
        await ada.post(SKILLS, json={"name": "s"})
        path, body, key = f"{SKILLS}/1/memories", {"memory": "likes tea"}, {IDEMPOTENCY_KEY: "k"}
        with monkeypatch.context() as broken:
            broken.delattr(type(backend), "add")
            assert (await ada.post(path, json=body, headers=key)).status_code == 500
        assert (await ada.get(path)).json()["memories"] == []
        made = [(await ada.post(path, json=body, headers=key)).json() for _ in range(2)]
        assert (await ada.get(path)).json()["memories"] == made[:1] == made[1:]


class TestMemoryErrors:
    """Every error of a memory's update names the skill (interface, Errors)."""

    async def test_errors_of_authentication_name_the_skill(self, either: World) -> None:
        """401 without a credential and 403 without the scope name the skill as well."""
        reader = await either.user("bob", scopes=["memories:read"])
        for client, status in ((await either.client(), 401), (reader, 403)):
            answer = await client.patch(f"{SKILLS}/7/memories/m", json={})
            assert (answer.status_code, answer.json()["error"]["info"]["skillId"]) == (status, 7)


class TestNamesAndOwners:
    """Names and owners of a create."""

    async def test_a_name_of_blanks(self, either: World) -> None:
        """A name has a visible character; one without a letter or digit gives the slug of its id."""
        ada = await either.user()
        assert (await ada.post(FLOWS, json=flow(name="  \t"))).status_code == 422
        assert (await ada.post(SKILLS, json={"name": " "})).status_code == 422
        made = (await ada.post(FLOWS, json=flow(name="!?"))).json()
        assert (made["name"], made["slug"]) == ("!?", "workflow-1")

    @pytest.mark.parametrize("owner", [{"ownerUserId": "ada", "ownerEmail": "ada@x.org"}, {"ownerUserId": None}])
    async def test_the_caller_as_the_owner(self, either: World, owner: Json) -> None:
        """The caller's own id is accepted, and null."""
        ada = await either.user()
        made = await ada.post(FLOWS, json=flow(accessConfig=PRIVATE | owner))
        assert (made.status_code, made.json()["accessConfig"]["ownerUserId"]) == (201, "ada")

    @pytest.mark.parametrize("owner", [{"ownerUserId": "bob"}, {"ownerEmail": "bob@x.org"}])
    async def test_another_as_the_owner(self, either: World, owner: Json) -> None:
        """Another owner is refused."""
        ada, _ = await either.user(), await either.user("bob")
        answer = await ada.post(FLOWS, json=flow(accessConfig=PRIVATE | owner))
        (fault,) = assert_envelope(answer, 422, "VALIDATION", "INVALID_ARGUMENT")["info"]["errors"]
        assert fault["path"] == f"accessConfig.{next(iter(owner))}"

    async def test_a_declined_offer_discloses_nothing(self, either: World) -> None:
        """The response to a decline has neither description nor sharing nor content."""
        ada, bob = await either.user(), await either.user("bob", scopes=TOKEN_SCOPES)
        access = PRIVATE | {"sharedWith": [{"email": "eve@x.org"}]}
        place = (await ada.post(FLOWS, json=flow(accessConfig=access, description="secret"))).headers["Location"]
        await ada.post(f"{place}/ownership-transfer", json={"userId": "bob"})
        shown = (await bob.post(f"{place}/ownership-transfer/decline")).json()
        assert (shown["id"], shown["name"], shown["description"], "variation" in shown) == (1, "Refunds", None, False)
        assert (shown["accessConfig"]["sharedWith"], shown["accessConfig"]["groupPermissions"]) == ([], {})
        assert (await ada.get(place)).json()["accessConfig"]["sharedWith"][0]["email"] == "eve@x.org"
