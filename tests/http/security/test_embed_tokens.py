"""Embed tokens: credentials of pages, with less than their maker has (interface, Embed tokens)."""

import base64
import json
from datetime import timedelta
from typing import Any

import attrs
import httpx
import pytest
from clients import APPROVAL, FORBIDDEN, POLL, World, assert_envelope, chain, deployed, flow
from starlette.requests import HTTPConnection

from wfcore.adapters.http import app
from wfcore.domain.kernel.errors import Forbidden, Invalid, NotFound, Unauthenticated
from wfcore.domain.resources.access import TOKEN_SCOPES, Principal, Role
from wfcore.runtime.organization.embed_tokens import PREFIX

pytestmark = pytest.mark.anyio

WORKFLOWS = ["workflows:read", "workflows:write", "workflows:invoke"]
READ = ["workflows:read"]


@attrs.frozen
class Page:
    """A member, two workflows of hers, and a client with an embed token for the first."""

    world: World
    ann: httpx.AsyncClient
    me: Principal
    client: httpx.AsyncClient
    own: int
    other: int

    async def embedded(self, scopes: list[str] | None = None, **more: Any) -> httpx.AsyncClient:
        return await self.world.client(await self.world.core.tokens.embed(self.me, scopes or WORKFLOWS, **more))


async def principal(world: World, client: httpx.AsyncClient) -> Principal:
    return await world.core.directory.authenticate(client.headers["Authorization"].removeprefix("Bearer "))


@pytest.fixture
async def page(either: World) -> Page:
    ann = await either.user("ann")
    own, other = [await deployed(ann, chain(APPROVAL)) for _ in range(2)]
    me = await principal(either, ann)
    token = await either.core.tokens.embed(me, WORKFLOWS, workflows=[own])
    return Page(either, ann, me, await either.client(token), own, other)


async def started(client: httpx.AsyncClient, number: int, key: str) -> httpx.Response:
    body = {"workflowId": number, "input": {}}
    return await client.post("/agent/v1/runs", json=body, headers=POLL | {"Idempotency-Key": key})


class TestReach:
    """A token for some workflows reaches these, and nothing else."""

    async def test_the_own_workflow(self, page: Page) -> None:
        """Read, edit, run, decide."""
        place = f"/api/v1/workflows/{page.own}"
        assert (await page.client.get(place)).status_code == 200
        assert (await page.client.patch(place, json={"name": "New"})).status_code == 200
        assert (await started(page.client, page.own, "own")).status_code == 200
        items = (await page.client.get("/agent/v1/interrupts")).json()["interrupts"]
        body = {"decisions": [{"interruptId": items[0]["interruptId"], "decision": "approve"}]}
        (outcome,) = (await page.client.post("/agent/v1/interrupts/decide", json=body)).json()["outcomes"]
        assert outcome["error"] is None

    async def test_another_workflow_does_not_exist(self, page: Page) -> None:
        """404 for it, its runs and interrupts, by every way; the maker still reaches them."""
        await started(page.ann, page.other, "theirs")
        place = f"/api/v1/workflows/{page.other}"
        requests = [
            ("GET", place, None), ("PATCH", place, {"name": "x"}), ("DELETE", place, None),
            ("POST", f"{place}/deploy", None), ("GET", f"{place}/runs", None), ("GET", f"{place}/variations", None),
            ("GET", f"{place}/interfaces", None), ("GET", "/agent/v1/runs/theirs", None),
            ("GET", "/agent/v1/runs/theirs/events", None), ("GET", "/agent/v1/runs/theirs/graph", None),
            ("POST", "/agent/v1/runs/theirs/cancel", {}),
            ("POST", "/agent/v1/runs/theirs/resume", {"decision": "approve"}),
            ("POST", "/agent/v1/runs", {"workflowId": page.other, "input": {}}),
        ]  # fmt: skip
        for method, path, body in requests:
            answer = await page.client.request(method, path, json=body, headers=POLL)
            assert answer.status_code == 404, (method, path, answer.text)
        joined = await started(page.client, page.other, "theirs")
        assert joined.status_code == 404
        assert (await page.ann.get("/agent/v1/runs/theirs")).status_code == 200

    async def test_lists_leave_the_others_out(self, page: Page) -> None:
        """Workflows, runs, counts, the inbox: of the own one only, page by page."""
        for number in (page.own, page.other):
            for turn in range(3):
                await started(page.ann, number, f"run-{number}-{turn}")
        flows = (await page.client.get("/api/v1/workflows")).json()["workflows"]
        assert [one["id"] for one in flows] == [page.own]
        first = (await page.client.get("/agent/v1/runs", params={"pageSize": "2"})).json()
        more = {"pageSize": "2", "pageToken": first["nextPageToken"]}
        second = (await page.client.get("/agent/v1/runs", params=more)).json()
        found = [one["runId"] for one in first["runs"] + second["runs"]]
        assert found == [f"run-{page.own}-{turn}" for turn in (2, 1, 0)]
        params = {"workflowId": str(page.other)}
        assert (await page.client.get("/agent/v1/runs", params=params)).json()["runs"] == []
        assert (await page.client.get("/agent/v1/runs/stats")).json()["total"] == 3
        inbox = (await page.client.get("/agent/v1/interrupts")).json()
        assert {one["target"]["id"] for one in inbox["interrupts"]} == {page.own}
        assert (await page.client.get("/api/v1/me/inbox/count")).json() == {"count": 3}
        assert (await page.ann.get("/api/v1/me/inbox/count")).json() == {"count": 6}

    async def test_it_decides_nothing_of_others(self, page: Page) -> None:
        """An interrupt of another workflow that the maker could decide."""
        await started(page.ann, page.other, "theirs")
        (item,) = (await page.ann.get("/agent/v1/interrupts")).json()["interrupts"]
        body = {"decisions": [{"interruptId": item["interruptId"], "decision": "approve"}]}
        (outcome,) = (await page.client.post("/agent/v1/interrupts/decide", json=body)).json()["outcomes"]
        assert outcome["error"]["code"] == "NOT_FOUND"

    async def test_nothing_is_created_beside_it(self, page: Page) -> None:
        """No workflow, no single action, no assistant."""
        refused = [
            await page.client.post("/api/v1/workflows", json=flow()),
            await page.client.post("/agent/v1/actions", json={"action": {"toolId": "core.transform"}}, headers=POLL),
            await page.client.post("/agent/v1/runs", json={"assistant": True, "message": "hi"}, headers=POLL),
        ]
        for answer in refused:
            error = assert_envelope(answer, *FORBIDDEN)
            assert error["info"] == {"workflows": [page.own]}

    async def test_its_scopes_are_those_of_workflows(self, page: Page) -> None:
        """It is neither listed nor can it make a personal access token."""
        assert_envelope(await page.client.get("/api/v1/tokens"), *FORBIDDEN)
        assert_envelope(await page.client.get("/api/v1/skills"), *FORBIDDEN)
        assert len((await page.ann.get("/api/v1/tokens")).json()["tokens"]) == 1


class TestRights:
    """A token has less than its maker, at every time."""

    async def test_fewer_scopes(self, page: Page) -> None:
        """The given ones only; without `workflows` it reaches all workflows of the maker."""
        reader = await page.embedded(READ)
        flows = (await reader.get("/api/v1/workflows")).json()["workflows"]
        assert [one["id"] for one in flows] == [page.own, page.other]
        error = assert_envelope(await reader.post("/api/v1/workflows", json=flow()), *FORBIDDEN)
        assert error["info"] == {"missing": ["workflows:write"]}
        me = (await reader.get("/api/v1/me")).json()
        assert (me["userId"], me["scopes"]) == ("ann", READ)

    async def test_a_scope_that_another_includes(self, page: Page) -> None:
        """`workflows:write` of the maker includes `workflows:read` of the token, which includes no more."""
        writer = await page.world.user("bob", scopes=["workflows:write"])
        text = await page.world.core.tokens.embed(await principal(page.world, writer), READ)
        found = await page.world.core.directory.authenticate(text)
        assert found.scopes == frozenset(READ)

    @pytest.mark.parametrize(
        ("scopes", "more"),
        [
            (["nonsense"], {}),
            ([*READ, "skills:read"], {"workflows": [1]}),
            (READ, {"ttl": 0}),
            (READ, {"ttl": 3_601}),
        ],
    )
    async def test_invalid_requests(self, page: Page, scopes: list[str], more: dict[str, Any]) -> None:
        """An unknown scope, another scope than of workflows, too short and too long."""
        with pytest.raises(Invalid):
            await page.world.core.tokens.embed(page.me, scopes, **more)

    async def test_no_more_than_the_maker(self, page: Page) -> None:
        """A scope that it lacks, and a workflow that it cannot see, exists not, or is of another organization."""
        core = page.world.core
        narrow = attrs.evolve(page.me, scopes=frozenset(READ))
        with pytest.raises(Forbidden, match=r"the scopes `workflows:write` and `workflows:invoke`$") as caught:
            await core.tokens.embed(narrow, WORKFLOWS)
        assert caught.value.info == {"missing": ["workflows:write", "workflows:invoke"]}
        bob = await page.world.user("bob")
        private = await deployed(bob, chain(), accessConfig={"visibility": "private"})
        for number in (private, 99):
            with pytest.raises(NotFound):
                await core.tokens.embed(page.me, READ, workflows=[number])

    async def test_a_token_of_a_token_is_not_wider(self, page: Page) -> None:
        """Neither by workflows, nor by scopes, nor by time."""
        core = page.world.core
        text = await core.tokens.embed(page.me, READ, ttl=60, workflows=[page.own])
        limited = await core.directory.authenticate(text)
        with pytest.raises(NotFound):
            await core.tokens.embed(limited, READ, workflows=[page.other])
        with pytest.raises(Forbidden):
            await core.tokens.embed(limited, WORKFLOWS)
        again = await core.directory.authenticate(await core.tokens.embed(limited, READ, ttl=3_600))
        assert (again.workflows, again.expires_at) == ({page.own}, limited.expires_at)

    async def test_another_organization(self, page: Page) -> None:
        """The token is of its maker's organization: the same numbers elsewhere do not exist for it."""
        foreign = (await page.world.core.directory.create_organization("Other")).uuid
        eve = await page.world.user("eve", org=foreign)
        name = "Foreign"
        made = await eve.post("/api/v1/workflows", json=flow(name=name))
        assert made.json()["id"] == page.own
        assert (await page.client.get(f"/api/v1/workflows/{page.own}")).json()["name"] != name

    async def test_it_ends_with_the_access_token_of_the_maker(self, page: Page) -> None:
        """401 once that is revoked."""
        token = (await page.ann.get("/api/v1/tokens")).json()["tokens"][0]["id"]
        await page.ann.delete(f"/api/v1/tokens/{token}")
        assert (await page.client.get("/api/v1/workflows")).status_code == 401

    async def test_it_ends_with_the_membership(self, page: Page) -> None:
        """401 once the maker is not a member, also for a maker without an access token."""
        core, boss = page.world.core, await page.world.user("boss", role="owner")
        bob = (await page.world.user("bob")) and core.principal(page.world.org, "bob")
        client = await page.world.client(await core.tokens.embed(bob, READ))
        assert (await client.get("/api/v1/workflows")).status_code == 200
        assert (await boss.delete("/api/v1/members/bob")).status_code == 200
        assert (await client.get("/api/v1/workflows")).status_code == 401

    async def test_lost_groups_and_roles_count_at_once(self, page: Page) -> None:
        """The maker's groups and role of now, and never more than the maker had."""
        core, org = page.world.core, page.world.org
        await page.world.user("boss", role="owner")
        group, extra = [(await core.directory.create_group(org, name)).id for name in "ab"]
        await core.directory.add_member(org, "dan", groups=[group], role="admin")
        given = core.principal(org, "dan", groups=[extra], role=Role.ADMIN)
        for me, groups in ((given, {extra}), (attrs.evolve(given, groups=frozenset({group})), {group})):
            text = await core.tokens.embed(me, READ)
            found = await core.directory.authenticate(text)
            assert (found.groups, found.role) == (groups, Role.ADMIN)
        await core.directory.add_member(org, "dan", groups=[extra], role="owner")
        assert (await core.directory.authenticate(text)).role is Role.ADMIN
        await core.directory.add_member(org, "dan", groups=[extra], role="member")
        assert (await core.directory.authenticate(text)).role is Role.MEMBER
        assert group not in (await core.directory.authenticate(text)).groups

    async def test_a_user_of_the_product(self, page: Page) -> None:
        """Who is not a member has what the product stated: id, e-mail, groups that exist, role."""
        core, org = page.world.core, page.world.org
        group = (await core.directory.create_group(org, "a")).id
        me = core.principal(org, "product-user", email="p@x.org", groups=[group], scopes=READ)
        found = await core.directory.authenticate(await core.tokens.embed(me, READ))
        assert attrs.evolve(found, expires_at=None) == me


class TestTokens:
    """Altered, expired, and beside the authentication of a product."""

    async def test_an_expired_one(self, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
        """401 after its seconds."""
        core = page.world.core
        text = await core.tokens.embed(page.me, READ, ttl=1)
        expires = (await core.directory.authenticate(text)).expires_at
        assert expires is not None
        directory = core.directory
        monkeypatch.setattr(directory, "_ports", LaterPorts(directory._ports, expires))
        with pytest.raises(Unauthenticated):
            await directory.authenticate(text)
        monkeypatch.setattr(
            directory, "_ports", LaterPorts(directory._ports._ports, expires - timedelta(milliseconds=1))
        )
        await directory.authenticate(text)

    async def test_an_altered_one(self, page: Page) -> None:
        """Every other text is the same 401: another signature, other claims, other characters."""
        text = await page.world.core.tokens.embed(page.me, READ, workflows=[page.own])
        payload, _, signature = text.removeprefix(PREFIX).rpartition(".")
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        wider = base64.urlsafe_b64encode(
            json.dumps(claims | {"workflows": None, "scopes": list(TOKEN_SCOPES)}).encode()
        )
        flipped = signature[:-1] + ("0" if signature[-1] != "0" else "1")
        for other in (
            f"{PREFIX}{wider.decode().rstrip('=')}.{signature}", f"{PREFIX}{payload}.{flipped}", f"{PREFIX}{payload}.",
            f"{PREFIX}{payload}", PREFIX, f"{PREFIX}.", f"{PREFIX}é.é", f"{PREFIX}{payload[:-1]}.{signature}",
            f"{PREFIX}{payload}.{signature}0",
        ):  # fmt: skip
            with pytest.raises(Unauthenticated):
                await page.world.core.directory.authenticate(other)
        client = await page.world.client(f"{PREFIX}{payload}.{flipped}")
        answer = await client.get("/api/v1/me")
        assert answer.status_code == 401
        assert 'error="invalid_token"' in answer.headers["WWW-Authenticate"]

    async def test_beside_the_authentication_of_a_product(self, page: Page) -> None:
        """The product authenticates its sessions; a bearer token of its page needs no session."""

        async def by_session(connection: HTTPConnection) -> Principal | None:
            return page.me if connection.headers.get("X-Session") == "ann" else None

        core = page.world.core
        transport = httpx.ASGITransport(app(core, authenticate=by_session))
        async with httpx.AsyncClient(transport=transport, base_url="http://wfcore") as client:
            assert (await client.get("/api/v1/me")).status_code == 401
            assert (await client.get("/api/v1/me", headers={"X-Session": "ann"})).status_code == 200
            text = await core.tokens.embed(page.me, READ)
            bearer = {"Authorization": f"Bearer {text}"}
            assert (await client.get("/api/v1/me", headers=bearer)).json()["scopes"] == READ
            bearer = {"Authorization": f"Bearer {text}x", "X-Session": "ann"}
            assert (await client.get("/api/v1/me", headers=bearer)).status_code == 401


class LaterPorts:
    """Ports at another time."""

    def __init__(self, ports: Any, now: Any) -> None:
        self._ports = ports
        self._now = now

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ports, name)

    def now(self) -> Any:
        return self._now
