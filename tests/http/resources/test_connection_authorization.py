"""Connections by OAuth: authorized by users in a browser, used by `core.http`, refreshed, and revoked."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from clients import Json, World, assert_envelope, chain, deployed, new_world, node
from services import CLIENT, SECRET, Service, offering
from waiting import HANG

import wfcore.bootstrap
from wfcore.adapters.http import app

pytestmark = pytest.mark.anyio

KEY = b"s" * 32
BASE = "/api/v1/connections"
RUNS = "/agent/v1/runs"


@pytest.fixture(params=["sqlite://", "file"])
async def stage(request: pytest.FixtureRequest, tmp_path: Any) -> AsyncIterator[World]:
    """An organization on a store in memory, and on a file."""
    database = request.param if request.param == "sqlite://" else f"sqlite:///{tmp_path}/app.db"
    settings = wfcore.Settings(http_allow=["127.0.0.1"], synchronous="NORMAL", grace=0)
    async with wfcore.bootstrap.open(database, settings=settings, secrets=KEY) as core, AsyncExitStack() as closing:
        transport = httpx.ASGITransport(app(core, secret=KEY))
        connect = partial(httpx.AsyncClient, transport=transport, base_url="http://wfcore.test", trust_env=False)
        yield await new_world(core, connect, closing)


@pytest.fixture
async def service() -> AsyncIterator[tuple[Service, str]]:
    made = Service()
    async with offering(made) as url:
        yield made, url


def body(url: str, **config: Any) -> Json:
    ownership = config.pop("ownership", "organization")
    given = {
        "clientId": CLIENT, "clientSecret": SECRET, "authorizeUrl": f"{url}/authorize?kept=1",
        "tokenUrl": f"{url}/token", "revocationUrl": f"{url}/revoke", "scopes": ["a", "b"],
        "hosts": [urlsplit(url).netloc], **config,
    }  # fmt: skip
    kept = {name: value for name, value in given.items() if value is not None}
    return {"name": "CRM", "provider": "crm", "kind": "oauth2", "ownership": ownership, "config": kept}


async def made(client: httpx.AsyncClient, wanted: Json) -> str:
    answer = await client.post(BASE, json=wanted)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def browsed(stage: World, url: str, *, accept: str = "*/*") -> httpx.Response:
    """What a browser without a credential shows after it has followed every redirect from this URL."""
    browser = await stage.client()
    browser.headers["Accept"] = accept
    async with httpx.AsyncClient(trust_env=False, timeout=HANG) as outside:
        for _ in range(5):
            answer = await (browser if url.startswith("http://wfcore.test") else outside).get(url)
            if not answer.is_redirect:
                return answer
            url = answer.headers["Location"]
    raise AssertionError(url)


async def authorized(stage: World, client: httpx.AsyncClient, row: str) -> httpx.Response:
    begun = await client.post(f"{BASE}/{row}/authorize")
    assert begun.status_code == 200, begun.text
    return await browsed(stage, begun.json()["url"])


async def status(client: httpx.AsyncClient, row: str) -> tuple[str, str | None]:
    found = (await client.get(f"{BASE}/{row}")).json()
    return found["status"], found["statusReason"]


def calling(url: str, row: str, **params: Any) -> Json:
    return chain(node("call", "action", toolId="core.http", params={"url": url, "connection": row, **params}))


async def ran(client: httpx.AsyncClient, number: int) -> Json:
    answer = await client.post(RUNS, json={"workflowId": number, "input": {}})
    assert answer.status_code == 200, answer.text
    run = re.search(r'"runId":"([^"]+)"', answer.text)
    assert run is not None
    return dict((await client.get(f"{RUNS}/{run[1]}")).json())


async def finished(client: httpx.AsyncClient, run: Json) -> Json:
    """The record of the last turn, once it has ended."""
    while run["resumedBy"] or run["status"] in ("queued", "running"):
        run = (await client.get(f"{RUNS}/{run['resumedBy'] or run['runId']}")).json()
        await asyncio.sleep(0)
    return run


async def test_a_user_authorizes_a_connection(stage: World, service: tuple[Service, str]) -> None:
    """With PKCE and a `state` that holds once; the page closes itself, and repeats nothing of the query."""
    server, url = service
    ada = await stage.user(role="owner")
    row = await made(ada, body(url))
    assert await status(ada, row) == ("needs_authorization", None)
    begun = (await ada.post(f"{BASE}/{row}/authorize")).json()
    query = {name: values[0] for name, values in parse_qs(urlsplit(begun["url"]).query).items()}
    assert query.keys() == {
        "kept", "response_type", "client_id", "redirect_uri", "state", "scope",
        "code_challenge", "code_challenge_method",
    }  # fmt: skip
    assert (query["redirect_uri"], query["scope"]) == ("http://wfcore.test/api/v1/connections/callback", "a b")
    page = await browsed(stage, begun["url"])
    assert page.status_code == 200, page.text
    assert "window.close()" in page.text
    assert page.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'sha256-")
    assert not re.search("code-|session_state|state=", page.text)
    assert await status(ada, row) == ("connected", None)
    (form,) = server.forms
    assert (form["grant_type"], form["basic"]) == ("authorization_code", CLIENT)
    assert (await browsed(stage, begun["url"])).status_code == 400
    assert len(server.forms) == 1
    actions = [row["action"] for row in (await ada.get("/api/v1/audit")).json()["audit"]]
    assert actions[:2] == ["connection.authorize", "connection.create"]
    assert "canary" not in repr((await ada.get(BASE)).json())


@pytest.mark.parametrize("query", ["", "state=x&code=y", "state=1.a.b&code=y", "code=y", "state="])
async def test_a_forged_state(stage: World, query: str) -> None:
    """It is a 400 with a page of fixed text; a repeated parameter is refused as everywhere."""
    browser = await stage.client()
    page = await browser.get(f"{BASE}/callback?{query}")
    assert (page.status_code, page.headers["Content-Type"]) == (400, "text/html; charset=utf-8")
    assert "try again" in page.text
    assert (await browser.get(f"{BASE}/callback?state=a&state=b")).status_code == 400
    assert (await browser.get(f"{BASE}/connect?ticket=x")).status_code == 400


async def test_a_link_that_is_not_valid_names_its_parameter(stage: World) -> None:
    """For a client without a page `info` has the reason, and `errors` as for every other 400."""
    client = await stage.client()
    for path, parameter in (("/callback?code=y", "state"), ("/callback?state=x", "state"), ("/connect", "ticket")):
        error = (await client.get(BASE + path, headers={"Accept": "application/json"})).json()["error"]
        (issue,) = error["info"]["errors"]
        assert (error["code"], error["info"]["reason"]) == ("BAD_REQUEST", "invalid_state"), path
        assert (issue["path"], issue["rule"]) == (parameter, "query"), path


@pytest.mark.parametrize(
    ("fault", "wanted"),
    [
        ({"denies": "access_denied"}, "the authorization server did not grant access"),
        ({"token_status": 500}, "the authorization server responded `server_error`"),
    ],
)
async def test_an_authorization_that_fails(
    stage: World, service: tuple[Service, str], fault: Json, wanted: str
) -> None:
    """The status has the reason; the page and, for a client without one, the error are fixed; one more can succeed."""
    server, url = service
    ada = await stage.user()
    row = await made(ada, body(url, tokenAuth="post"))
    for name, value in fault.items():
        setattr(server, name, value)
    page = await authorized(stage, ada, row)
    assert (page.status_code, "canary" in page.text) == (400, False)
    assert await status(ada, row) == ("needs_authorization", wanted)
    begun = await ada.post(f"{BASE}/{row}/authorize")
    error = (await browsed(stage, begun.json()["url"], accept="application/json")).json()["error"]
    assert (error["code"], error["info"]["reason"], error["message"]) == ("BAD_REQUEST", "not_authorized", (
        "the connection could not be authorized: its `statusReason` has the reason"
    ))  # fmt: skip
    server.denies, server.token_status = "", 200
    assert (await authorized(stage, ada, row)).status_code == 200
    assert await status(ada, row) == ("connected", None)
    assert "basic" not in server.forms[-1]


async def test_core_http_sends_the_token_to_the_hosts_only(stage: World, service: tuple[Service, str]) -> None:
    """To its hosts, in place of the node's own header; not to others, and not behind a redirect to another origin."""
    server, url = service
    ada, other = await stage.user(), Service()
    row = await made(ada, body(url))
    await authorized(stage, ada, row)
    number = await deployed(ada, calling(f"{url}/api", row, headers={"authorization": "mine"}))
    run = await ran(ada, number)
    assert (run["status"], run["output"]["body"]) == ("done", {"echo": "Bearer ***", "ok": True}), run
    assert server.calls[-1][1]["authorization"].startswith("Bearer canary-access-")
    async with offering(other) as elsewhere:
        run = await ran(ada, await deployed(ada, calling(f"{elsewhere}/api", row)))
        assert (run["status"], run["error"]["message"].partition("host of")[1]) == ("error", "host of")
        run = await ran(ada, await deployed(ada, calling(f"{url}/elsewhere?to={elsewhere}/api", row)))
        assert (run["status"], run["output"]["status"]) == ("done", 401)
        assert ["authorization" in headers for _, headers in other.calls] == [False]
    assert "canary" not in repr(
        (await ada.get(f"{RUNS}/{run['runId']}/events", headers={"Accept": "application/json"})).json()
    )


async def test_an_api_key(stage: World, service: tuple[Service, str]) -> None:
    """It is sent in its header; a 401 opens a connect interrupt without a link, since nobody authorizes a key."""
    _, url = service
    ada = await stage.user()
    config = {"apiKey": "canary-api-key", "header": "X-Key", "hosts": [urlsplit(url).netloc]}
    row = await made(ada, {"name": "K", "provider": "k", "kind": "api_key", "config": config})
    number = await deployed(ada, calling(f"{url}/api", row))
    assert (await ran(ada, number))["output"]["body"]["ok"] is True
    assert (await ada.patch(f"{BASE}/{row}", json={"config": {"apiKey": "other"}})).status_code == 200
    run = await ran(ada, number)
    (asked,) = run["interrupts"]
    assert (asked["type"], asked["connectionId"], "connectUrl" in asked) == ("connect", row, False)
    assert await status(ada, row) == ("error", "the service refused the credentials")
    moved = await ada.patch(f"{BASE}/{row}", json={"config": {"hosts": ["evil.example"]}})
    assert_envelope(moved, 422, "VALIDATION", "INVALID_ARGUMENT")


async def test_a_refused_token_is_refreshed_once(
    stage: World, service: tuple[Service, str], caplog: pytest.LogCaptureFixture
) -> None:
    """One refresh, one retry with the same key; if that is refused too, a connect interrupt. No log has a token."""
    server, url = service
    caplog.set_level(logging.DEBUG)
    ada = await stage.user()
    row = await made(ada, body(url))
    await authorized(stage, ada, row)
    server.valid.clear()
    number = await deployed(ada, calling(f"{url}/api", row))
    run = await ran(ada, number)
    assert (run["status"], len(server.calls)) == ("done", 2)
    assert len({headers["idempotency-key"] for _, headers in server.calls}) == 1
    assert [form["grant_type"] for form in server.forms] == ["authorization_code", "refresh_token"]
    server.valid.clear()
    server.refreshers.clear()
    run = await ran(ada, number)
    assert (run["status"], run["interrupts"][0]["type"], run["interrupts"][0]["connectionId"]) == (
        "interrupted", "connect", row,
    )  # fmt: skip
    assert await status(ada, row) == ("expired", "the authorization server responded `invalid_grant`")
    assert "canary" not in caplog.text


async def test_a_connect_interrupt_ends_by_itself(stage: World, service: tuple[Service, str]) -> None:
    """Its link holds once, is another one at each read, and the run continues when the callback has succeeded."""
    server, url = service
    ada = await stage.user()
    reader = await stage.user("bob", scopes=["workflows:read", "workflows:invoke"])
    row = await made(ada, body(url))
    number = await deployed(ada, calling(f"{url}/api", row))
    run, second = await ran(ada, number), await ran(ada, number)
    (link,) = [one["connectUrl"] for one in run["interrupts"]]
    (again,) = [one["connectUrl"] for one in (await ada.get(f"{RUNS}/{run['runId']}")).json()["interrupts"]]
    items = (await ada.get("/agent/v1/interrupts")).json()["interrupts"]
    assert len({link, again, *(one["connectUrl"] for one in items)}) == 4
    seen = (await reader.get(f"{RUNS}/{run['runId']}")).json()
    assert [one["type"] for one in seen["interrupts"]] == ["connect"]
    assert "connectUrl" not in seen["interrupts"][0]
    assert (await browsed(stage, link)).status_code == 200
    for parked in (run, second):
        ended = await finished(ada, (await ada.get(f"{RUNS}/{parked['runId']}")).json())
        assert (ended["status"], ended["output"]["status"]) == ("done", 200)
    assert (await browsed(stage, link)).status_code == 400
    assert len([form for form in server.forms if form["grant_type"] == "authorization_code"]) == 1


async def test_a_link_does_not_change_the_tag_of_its_run(stage: World, service: tuple[Service, str]) -> None:
    """Each read has a new link, and nothing else is new."""
    _, url = service
    ada = await stage.user()
    run = await ran(ada, await deployed(ada, calling(f"{url}/api", await made(ada, body(url)))))
    reads = [await ada.get(f"{RUNS}/{run['runId']}") for _ in range(2)]
    assert reads[0].json() != reads[1].json()
    etag = reads[0].headers["ETag"]
    assert etag == reads[1].headers["ETag"]
    assert (await ada.post(f"{RUNS}/{run['runId']}/cancel", headers={"If-Match": etag})).status_code == 202


async def test_a_look_at_a_link_does_not_use_it_up(stage: World, service: tuple[Service, str]) -> None:
    """Previews of links send HEAD, to the link of an interrupt and to the way back; only GET ends something."""
    _, url = service
    ada = await stage.user()
    run = await ran(ada, await deployed(ada, calling(f"{url}/api", await made(ada, body(url)))))
    link, browser = run["interrupts"][0]["connectUrl"], await stage.client()
    for _ in range(2):
        assert (await browser.head(link)).status_code == 204
    begun = await browser.get(link)
    assert begun.status_code == 303
    async with httpx.AsyncClient(trust_env=False, timeout=HANG) as outside:
        back = (await outside.get(begun.headers["Location"])).headers["Location"]
    assert (await browser.head(back)).status_code == 204
    assert (await browser.get(back)).status_code == 200
    assert (await finished(ada, (await ada.get(f"{RUNS}/{run['runId']}")).json()))["status"] == "done"


async def test_a_read_with_the_tag_of_a_run_renews_its_links(stage: World, service: tuple[Service, str]) -> None:
    """A 304 would leave the reader with a link that was used or is too old; without a link it is a 304 as ever."""
    _, url = service
    ada = await stage.user()
    run = await ran(ada, await deployed(ada, calling(f"{url}/api", await made(ada, body(url)))))
    one = f"{RUNS}/{run['runId']}"
    tag = {"If-None-Match": (await ada.get(one)).headers["ETag"]}
    again = await ada.get(one, headers=tag)
    assert (again.status_code, again.headers["ETag"]) == (200, tag["If-None-Match"])
    assert again.json()["interrupts"][0]["connectUrl"] != run["interrupts"][0]["connectUrl"]
    reader = await stage.user("bob", scopes=["workflows:read"])
    assert (await reader.get(one, headers=tag)).status_code == 304


async def test_a_connection_of_each_user(stage: World, service: tuple[Service, str]) -> None:
    """Status, authorization and use are the caller's; a run uses that of its starter."""
    server, url = service
    ada, bob = await stage.user("ada"), await stage.user("bob")
    row = await made(ada, body(url, ownership="user"))
    await authorized(stage, ada, row)
    assert [(await status(one, row))[0] for one in (ada, bob)] == ["connected", "needs_authorization"]
    number = await deployed(ada, calling(f"{url}/api", row))
    assert (await ran(ada, number))["status"] == "done"
    run = await ran(bob, number)
    assert "connectUrl" in run["interrupts"][0]
    seen = (await ada.get(f"{RUNS}/{run['runId']}")).json()
    assert "connectUrl" not in seen["interrupts"][0]
    await browsed(stage, run["interrupts"][0]["connectUrl"])
    assert (await finished(bob, (await bob.get(f"{RUNS}/{run['runId']}")).json()))["status"] == "done"
    tokens = [headers["authorization"] for _, headers in server.calls]
    assert len(tokens) == len(set(tokens)) == 2


async def test_client_credentials(stage: World, service: tuple[Service, str]) -> None:
    """The connection gets a token by itself; nobody authorizes it."""
    server, url = service
    server.lifetime = 0
    ada = await stage.user()
    row = await made(ada, body(url, grant="client_credentials", authorizeUrl=None))
    assert await status(ada, row) == ("connected", None)
    refused = assert_envelope(await ada.post(f"{BASE}/{row}/authorize"), 409, "CONFLICT", "ALREADY_EXISTS")
    assert refused["info"]["reason"] == "not_oauth"
    number = await deployed(ada, calling(f"{url}/api", row))
    assert [(await ran(ada, number))["status"] for _ in range(2)] == ["done"] * 2
    assert {form["grant_type"] for form in server.forms} == {"client_credentials"}
    assert len(server.forms) == 2
    await ada.patch(f"{BASE}/{row}", json={"config": {"clientSecret": "wrong"}})
    run = await ran(ada, number)
    assert run["interrupts"][0]["type"] == "connect"
    assert await status(ada, row) == ("error", "the authorization server responded `invalid_client`")


async def test_many_calls_refresh_once(stage: World, service: tuple[Service, str]) -> None:
    """Calls at the same time replace an expired token once: a refresh token is never used twice."""
    server, url = service
    ada = await stage.user()
    row = await made(ada, body(url))
    server.lifetime = 0
    await authorized(stage, ada, row)
    server.lifetime = 3_600
    params = {"url": f"{url}/api", "connection": row}
    number = await deployed(
        ada, chain(node("call", "action", toolId="core.http", params=params, forEach="[1, 2, 3, 4, 5, 6]"))
    )
    run = await ran(ada, number)
    assert (run["status"], [one["status"] for one in run["output"]]) == ("done", [200] * 6), run
    assert (server.reuses, len(server.forms)) == (0, 2)


async def test_a_deleted_connection_is_revoked(stage: World, service: tuple[Service, str]) -> None:
    """Both tokens of every user; what the service still refuses does not keep the connection."""
    server, url = service
    ada = await stage.user()
    row = await made(ada, body(url, ownership="user"))
    await authorized(stage, ada, row)
    assert (await ada.delete(f"{BASE}/{row}")).status_code == 200
    assert [token.rpartition("-")[0] for token in server.revoked] == ["canary-refresh", "canary-access"]
    assert (await ada.post(f"{BASE}/{row}/authorize")).status_code == 404


async def test_a_changed_receiver_needs_a_new_authorization(stage: World, service: tuple[Service, str]) -> None:
    """Further hosts, another client and another owner do not get tokens that were granted before."""
    _, url = service
    ada = await stage.user()
    row = await made(ada, body(url))
    for change in ({"config": {"hosts": ["evil.example"]}}, {"config": {"clientId": "x"}}, {"ownership": "user"}):
        await ada.patch(f"{BASE}/{row}", json={"ownership": "organization", "config": {"clientId": CLIENT}})
        await authorized(stage, ada, row)
        assert (await status(ada, row))[0] == "connected"
        changed = await ada.patch(f"{BASE}/{row}", json=change)
        assert changed.json()["status"] == "needs_authorization", changed.text


@pytest.mark.parametrize(
    "change",
    [
        {"ownership": "organization"},
        {"provider": "other"},
        {"config": {"clientId": "other"}},
        {"config": {"hosts": ["evil.example"]}},
        {"config": {"tokenUrl": "https://evil.example/token"}},
    ],
)
async def test_an_authorization_of_a_connection_that_changes(
    stage: World, service: tuple[Service, str], change: Json
) -> None:
    """Nobody but the connection that the user saw gets the code or the tokens, by a link or by `authorize`."""
    server, url = service
    ada, bob = await stage.user("ada"), await stage.user("bob", scopes=["connections:read", "connections:write"])
    secret = None if "provider" in change or "tokenUrl" in change.get("config", {}) else SECRET
    row = await made(ada, body(url, ownership="user", clientSecret=secret))
    run = await ran(ada, await deployed(ada, calling(f"{url}/api", row)))
    begun = (await ada.post(f"{BASE}/{row}/authorize")).json()["url"]
    changed = await bob.patch(f"{BASE}/{row}", json=change)
    assert changed.status_code == 200, changed.text
    for link in (begun, run["interrupts"][0]["connectUrl"]):
        page = await browsed(stage, link)
        assert (page.status_code, "try again" in page.text) == (400, True)
    assert server.forms == []
    assert [(await status(one, row)) for one in (ada, bob)] == [("needs_authorization", None)] * 2


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"authorizeUrl": None}, "config.authorizeUrl"), ({"hosts": ["http://x.org"]}, "config.hosts[0]"),
        ({"scopes": ["a", "b c"]}, "config.scopes[1]"), ({"scopes": ['a"']}, "config.scopes[0]"),
        ({"grant": "client_credentials", "clientSecret": None}, "config.clientSecret"),
        ({"grant": "x"}, "config.grant"),
        ({"tokenAuth": "x"}, "config.tokenAuth"), ({"revocationUrl": "x"}, "config.revocationUrl"),
        ({"ownership": "x"}, "ownership"),
        ({"ownership": "user", "grant": "client_credentials"}, "ownership"),
    ],
)  # fmt: skip
async def test_bad_bodies(stage: World, change: Json, path: str) -> None:
    """Each error names the field; nothing is stored."""
    ada = await stage.user()
    answer = await ada.post(BASE, json=body("http://127.0.0.1:9", **change))
    assert answer.status_code == 422, answer.text
    assert path in [issue["path"] for issue in answer.json()["error"]["info"]["errors"]]
    assert (await ada.get(BASE)).json()["connections"] == []


async def test_null_in_the_config_of_a_create(stage: World) -> None:
    """It is the same as absent, for the optional fields of each kind."""
    ada = await stage.user()
    configs: dict[str, Json] = {
        "oauth2": {**body("http://127.0.0.1:9")["config"], "clientSecret": None, "revocationUrl": None, "hosts": None},
        "api_key": {"apiKey": "secret", "header": None, "hosts": None},
        "mcp": {"url": "http://127.0.0.1:9", "headers": None, "clientId": None, "scopes": None},
    }
    for kind, config in configs.items():
        answer = await ada.post(BASE, json={"name": "CRM", "provider": "crm", "kind": kind, "config": config})
        assert answer.status_code == 201, answer.text
        assert answer.json()["config"].keys() == {name for name, value in config.items() if value is not None}
    needed = {"name": "CRM", "provider": "crm", "kind": "api_key", "config": {"apiKey": None}}
    assert (await ada.post(BASE, json=needed)).status_code == 400
