"""The chat page of an interface: it discloses nothing and runs only our own files (CSP Level 3)."""

import re
from typing import Any

import httpx
import pytest
from clients import POLL, Json, World, assert_envelope, chain, deployed, frames, node

from wfcore.adapters.http import Studio, app

pytestmark = pytest.mark.anyio

SHOW = node("show", "action", toolId="core.transform", params={"value": "{{ input.message }} by {{ run.origin }}"})
NOBODY: Json = {"visibility": "shared", "groupPermissions": {}, "sharedWith": []}
UNKNOWN = "01941f29-7c00-7000-8000-000000000002"


async def chat(client: httpx.AsyncClient, *, kind: str = "chatapp", **more: Any) -> tuple[int, Json]:
    """The number of a new, deployed workflow, and an interface row of it."""
    number = await deployed(client, chain(SHOW), name="Canary desk", **more)
    made = await client.post(f"/api/v1/workflows/{number}/interfaces", json={"kind": kind})
    assert made.status_code == 201, made.text
    return number, made.json()


async def test_the_page_runs_only_our_own_files(either: World) -> None:
    """Its policy allows the scripts and styles of its own server, and connections to it."""
    _, row = await chat(await either.user())
    visitor = await either.client()
    answer = await visitor.get(row["url"])
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-cache"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    policy = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
    assert policy == {
        "default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "img-src": "'self' data:",
        "font-src": "'self'", "connect-src": "'self'", "base-uri": "'none'", "form-action": "'none'",
        "frame-ancestors": "'none'", "require-trusted-types-for": "'script'",
    }  # fmt: skip
    files = re.findall(r'(?:src|href)="(/[^"]+)"', answer.text)
    assert files
    for name in files:
        assert (await visitor.get(name)).status_code == 200, name


async def test_the_page_loads_nothing_else(either: World) -> None:
    """No address of another host, no inline script, handler or style."""
    _, row = await chat(await either.user())
    page = (await (await either.client()).get(row["url"])).text
    for banned in (
        r"[a-z]+://",
        r"[\"'(]//",
        r"\bon[a-z]+=",
        r"\bstyle=",
        r"<style",
        r"<script>",
        r"@import",
        r"url\(",
    ):
        assert not re.search(banned, page), banned


async def test_the_page_is_served_without_the_studio(world: World) -> None:
    """In the product's name and colours, and with the sign-in of the product, if it has a studio."""
    ada = await world.user()
    _, row = await chat(ada)
    studio = Studio(title="Acme", oauth_client_id="page")
    served: Any = {
        "plain": app(world.core, studio=None),
        "own": app(world.core, studio=studio, oauth=Issuer()),
    }
    pages = {}
    for name, application in served.items():
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://product") as client:
            pages[name] = await client.get(row["url"])
            for file in re.findall(r'(?:src|href)="(/[^"]+)"', pages[name].text):
                assert (await client.get(file)).status_code == 200, file
    assert "<title>Studio</title>" in pages["plain"].text
    assert "<title>Acme</title>" in pages["own"].text
    assert "&quot;clientId&quot;: &quot;page&quot;" in pages["own"].text
    assert "connect-src 'self' http://issuer.test;" in pages["own"].headers["Content-Security-Policy"]


class Issuer:
    """A verifier that knows no access token."""

    issuer, audience = "http://issuer.test", "http://product.test"

    async def verify(self, token: str) -> None: ...


async def test_the_page_discloses_nothing(either: World) -> None:
    """It is the same for every workflow and every client, and names neither."""
    ada, nobody = await either.user(), await either.client()
    pages = set()
    for _, row in (await chat(ada), await chat(ada, accessConfig={"visibility": "private"})):
        for client in (ada, nobody):
            answer = await client.get(row["url"])
            pages.add(answer.text)
            assert "Canary" not in answer.text + str(answer.headers)
            assert (await client.head(row["url"])).status_code == 200
    assert len(pages) == 1


async def test_only_chat_interfaces_have_a_page(either: World) -> None:
    """An unknown row, one of another kind, a removed one, and one of a deleted workflow: the same 404."""
    ada, nobody = await either.user(), await either.client()
    number, removed = await chat(ada)
    await ada.delete(f"/api/v1/workflows/{number}/interfaces/{removed['id']}")
    gone, orphan = await chat(ada)
    await ada.delete(f"/api/v1/workflows/{gone}")
    other = (await chat(ada, kind="mcp"))[1]["id"]
    messages = set()
    for name in (UNKNOWN, other, removed["id"], orphan["id"], "1", "a%00b", "%2e%2e"):
        for client, path in ((nobody, ""), (ada, "/workflow")):
            answer = await client.get(f"/interfaces/chatapp/{name}{path}")
            messages.add(assert_envelope(answer, 404, "NOT_FOUND", "NOT_FOUND")["message"])
    assert len(messages) == 1


async def test_users_of_the_workflow_can_read_it(either: World) -> None:
    """401 without a credential, 403 without the scope, 404 without access and to other organizations."""
    ada, nobody = await either.user(), await either.client()
    number, row = await chat(ada, description="Ask away")
    place = f"{row['url']}/workflow"
    found = await ada.get(place)
    assert (found.status_code, found.json()) == (
        200,
        {
            "id": row["id"],
            "workflowId": number,
            "skillId": None,
            "name": "Canary desk",
            "description": "Ask away",
            "takesMessage": True,
        },
    )
    assert_envelope(await nobody.get(place), 401, "UNAUTHORIZED", "UNAUTHENTICATED")
    reader = await either.user("eve", scopes=["workflows:write"])
    missing = assert_envelope(await reader.get(place), 403, "FORBIDDEN", "PERMISSION_DENIED")["info"]["missing"]
    assert missing == ["workflows:invoke"]
    elsewhere = await either.core.directory.create_organization("Elsewhere")
    for stranger in (await either.user("mallory", org=elsewhere.uuid), await hidden(either, ada, number)):
        assert_envelope(await stranger.get(place), 404, "NOT_FOUND", "NOT_FOUND")


async def hidden(world: World, owner: httpx.AsyncClient, number: int) -> httpx.AsyncClient:
    """A member of the organization without access to the workflow, which is made private."""
    private = {"accessConfig": {"visibility": "private"}}
    assert (await owner.patch(f"/api/v1/workflows/{number}", json=private)).status_code == 200
    return await world.user("bob")


async def test_a_message_starts_a_run(either: World) -> None:
    """The message is the run's `message` and `input`; the same request joins the run and gets the further events."""
    ada = await either.user()
    number, _ = await chat(ada)
    body = {
        "workflowId": number, "message": "Hello", "input": {"message": "Hello"}, "sessionId": "tab",
        "origin": "chatapp", "streamProtocolVersion": 2,
    }  # fmt: skip
    first = frames((await ada.post("/agent/v1/runs", json=body, headers={"Idempotency-Key": "k"})).text)
    assert first[-1][1]["output"] == "Hello by chatapp"
    headers = {"Idempotency-Key": "k", "Last-Event-ID": "2"}
    assert frames((await ada.post("/agent/v1/runs", json=body, headers=headers)).text) == first[2:]
    again = await ada.post("/agent/v1/runs", json=body, headers={"Idempotency-Key": "l", **POLL})
    threads = {(await ada.get(f"/agent/v1/runs/{run}")).json()["threadId"] for run in ("k", again.json()["runId"])}
    assert len(threads) == 1


@pytest.mark.parametrize(
    ("schema", "takes"),
    [
        (None, True),
        ({"type": "object"}, True),
        ({"properties": {"message": {"type": "string"}, "n": {}}}, True),
        ({"properties": {"n": {}}}, False),
        ({"properties": {}}, False),
    ],
)
async def test_takes_message_follows_the_input_schema(world: World, schema: Any, takes: bool) -> None:
    """`takesMessage` is false when the active start node has properties without `message`; drafts do not count."""
    ada = await world.user()
    structure = chain(SHOW)
    structure["nodes"][0]["data"] = {} if schema is None else {"inputSchema": schema}
    number = await deployed(ada, structure)
    row = (await ada.post(f"/api/v1/workflows/{number}/interfaces", json={"kind": "chatapp"})).json()
    structure["nodes"][0]["data"] = {"inputSchema": {"properties": {"other" if takes else "message": {}}}}
    assert (await ada.patch(f"/api/v1/workflows/{number}", json={"workflowStructure": structure})).status_code == 200
    assert (await ada.get(f"{row['url']}/workflow")).json()["takesMessage"] is takes


async def test_only_configured_sites_can_frame_the_page(either: World) -> None:
    """`config.frameAncestors` allows these sites to frame the page; anything but an origin is refused."""
    ada = await either.user()
    number, row = await chat(ada)
    place = f"/api/v1/workflows/{number}/interfaces/{row['id']}"
    sites = ["https://app.example.org", "http://localhost:3000"]
    assert (await ada.patch(place, json={"config": {"frameAncestors": sites, "x": 1}})).status_code == 200
    policy = (await ada.get(row["url"])).headers["Content-Security-Policy"]
    assert f"; frame-ancestors {' '.join(sites)};" in policy
    for bad in ("*", "https://a.b/c", "https://a.b; script-src *", "https://a b", "javascript:x", "https://a\n"):
        error = (await ada.patch(place, json={"config": {"frameAncestors": [sites[0], bad]}})).json()["error"]
        assert [issue["path"] for issue in error["info"]["errors"]] == ["config.frameAncestors[1]"], bad
    for bad, status in (("https://a.b", 400), ([1], 400), (sites * 11, 422)):
        made = {"kind": "chatapp", "config": {"frameAncestors": bad}}
        assert (await ada.post(f"/api/v1/workflows/{number}/interfaces", json=made)).status_code == status
    assert (await ada.get(row["url"])).headers["Content-Security-Policy"] == policy
    assert len((await ada.get(f"/api/v1/workflows/{number}/interfaces")).json()["interfaces"]) == 1


async def test_the_page_of_a_mounted_application(world: World) -> None:
    """Below a prefix, the row's URL and the requests of the page have the prefix."""
    ada = await world.user()
    number, _ = await chat(ada)
    transport = httpx.ASGITransport(app(world.core, mount="/automation"))
    async with httpx.AsyncClient(transport=transport, base_url="http://product", headers=ada.headers) as client:
        rows = (await client.get(f"/automation/api/v1/workflows/{number}/interfaces")).json()["interfaces"]
        assert rows[0]["url"].startswith("/automation/interfaces/chatapp/")
        assert "&quot;baseUrl&quot;: &quot;/automation&quot;" in (await client.get(rows[0]["url"])).text
        assert (await client.get(f"{rows[0]['url']}/workflow")).json()["workflowId"] == number
