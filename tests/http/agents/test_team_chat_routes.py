"""Team chats over HTTP: a manager reads URL and secret, a team chat sends messages without a token."""

import json
import time
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import httpx
import pytest
from clients import Json, World, assert_envelope, chain, deployed, new_world, node
from slack_requests import VERIFICATION, form, message, press

import wfcore.bootstrap
from wfcore.adapters.http import app
from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.domain.channels.slack import FORM
from wfcore.domain.channels.slack import sign as sign_slack
from wfcore.domain.triggers.webhooks import sign
from wfcore.ports.providers import ModelRequest

pytestmark = pytest.mark.anyio

SAID: Json = {"type": "message", "channel": "c", "text": "hello", "ts": 1.5}
SHOW = node("show", "action", toolId="core.transform", params={"value": "{{ input.message }}"})
UNKNOWN = "01941f29-7c00-7000-8000-000000000002"


async def new_interface(client: httpx.AsyncClient, **config: Any) -> tuple[str, Json]:
    """The path of a new row, and its URL and secret."""
    number = await deployed(client, chain(SHOW))
    rows = f"/api/v1/workflows/{number}/interfaces"
    made = await client.post(rows, json={"kind": "teamchat", "config": config})
    assert made.status_code == 201, made.text
    place = f"{rows}/{made.json()['id']}"
    answer = await client.get(f"{place}/secret")
    assert answer.status_code == 200, answer.text
    return place, answer.json()


async def post(
    sender: httpx.AsyncClient, there: Json, said: Any = None, *, id: str = "m", url: str = ""
) -> httpx.Response:
    raw = said if isinstance(said, bytes) else json.dumps(SAID if said is None else said).encode()
    at = int(time.time())
    signature = sign(there["secret"], id, at, raw)
    headers = {"webhook-id": id, "webhook-timestamp": str(at), "webhook-signature": signature}
    return await sender.post(url or there["url"], content=raw, headers=headers)


async def test_a_team_chat_starts_a_run(either: World) -> None:
    """202 with the run, the same response on repetition; the run's origin is the team chat."""
    ada, sender = await either.user(), await either.client()
    place, there = await new_interface(ada)
    assert there.keys() == {"url", "secret"}
    assert there["url"].startswith(("http://wfcore/interfaces/teamchat/", "http://127.0.0.1:"))
    first = await post(sender, there)
    assert (first.status_code, first.json().keys()) == (202, {"runId", "status"})
    assert (await post(sender, there)).json()["runId"] == first.json()["runId"]
    events = await ada.get(f"/agent/v1/runs/{first.json()['runId']}/events")
    assert '"output":"hello"' in events.text
    assert there["secret"] not in (await ada.get(place)).text + events.text
    assert_envelope(await post(sender, there, {**SAID, "text": "other"}), 409, "CONFLICT", "ALREADY_EXISTS")


async def test_invalid_requests_are_refused(either: World) -> None:
    """A bad signature, an invalid message, one that is too large, another method, and an unknown URL."""
    ada, sender = await either.user(), await either.client()
    place, there = await new_interface(ada)
    forged = await post(sender, {**there, "secret": "whsec_" + "QUJD" * 10})
    assert_envelope(forged, 401, "UNAUTHORIZED", "UNAUTHENTICATED")
    assert forged.headers["WWW-Authenticate"] == "Webhook-Signature"
    assert_envelope(await sender.post(there["url"], json=SAID), 401, "UNAUTHORIZED", "UNAUTHENTICATED")
    pinged = await post(sender, there, {"type": "ping", "text": ""})
    error = assert_envelope(pinged, 400, "BAD_REQUEST", "INVALID_ARGUMENT")
    assert {issue["path"] for issue in error["info"]["errors"]} == {"type", "channel", "text"}
    error = assert_envelope(await post(sender, there, {**SAID, "channel": ""}), 422, "VALIDATION", "INVALID_ARGUMENT")
    assert [issue["path"] for issue in error["info"]["errors"]] == ["channel"]
    for raw, status in ((b"{", 400), (b"[]", 400), (b"1", 400), (b" " * (10 * 2**20 + 1), 413)):
        assert (await post(sender, there, raw)).status_code == status
    assert (await sender.get(there["url"])).status_code == 405
    await ada.delete(place)
    for url in (there["url"], f"/interfaces/teamchat/{UNKNOWN}", "/interfaces/teamchat/1"):
        assert_envelope(await post(sender, there, url=url), 404, "NOT_FOUND", "NOT_FOUND")


async def test_only_managers_see_the_secret(either: World) -> None:
    """Rotating changes the secret of the same URL; a member without manage can read neither."""
    ada = await either.user()
    place, there = await new_interface(ada)
    rotated = (await ada.post(f"{place}/secret/rotate")).json()
    assert (rotated["url"], rotated["secret"] == there["secret"]) == (there["url"], False)
    assert (await ada.get(f"{place}/secret")).json() == rotated
    private = {"accessConfig": {"visibility": "private"}}
    assert (await ada.patch(place.partition("/interfaces")[0], json=private)).status_code == 200
    bob = await either.user("bob")
    assert (await bob.get(f"{place}/secret")).status_code == 404
    assert (await bob.post(f"{place}/secret/rotate")).status_code == 404
    reader = await either.user("eve", scopes=["workflows:read"])
    assert (await reader.get(f"{place}/secret")).status_code == 403
    assert (await (await either.client()).get(f"{place}/secret")).status_code == 401


async def test_an_agent_receives_who_speaks() -> None:
    """The name and the e-mail address of each message's author, in one conversation."""
    requests = list[ModelRequest]()

    def reply(request: ModelRequest) -> str:
        requests.append(request)
        return "yes"

    async with (
        wfcore.bootstrap.open("sqlite://", secrets=b"k" * 32, models={"default": ScriptedModel(reply)}) as core,
        AsyncExitStack() as closing,
    ):
        transport = httpx.ASGITransport(app(core, secret=b"s" * 32))
        world = await new_world(
            core, partial(httpx.AsyncClient, transport=transport, base_url="http://wfcore"), closing
        )
        ada, sender = await world.user(), await world.client()
        skill = (await ada.post("/api/v1/skills", json={"name": "Helper", "instructions": ["Help."]})).json()["id"]
        await ada.post(f"/api/v1/skills/{skill}/deploy")
        number = await deployed(ada, chain(node("agent", "agent", agent_id=skill)))
        rows = f"/api/v1/workflows/{number}/interfaces"
        made = (await ada.post(rows, json={"kind": "teamchat"})).json()
        there = (await ada.get(f"{rows}/{made['id']}/secret")).json()
        speakers: list[Json] = [{"user": "U1", "name": "Grace", "email": "grace@x.org"}, {"user": "U2"}]
        for speaker in speakers:
            sent = await post(sender, there, SAID | speaker, id=speaker["user"])
            await ada.get(f"/agent/v1/runs/{sent.json()['runId']}/events")
    received = [" ".join(str(message["content"]) for message in request.messages) for request in requests]
    assert "Name: Grace\nE-mail: grace@x.org" in received[0]
    assert "Name: U2" in received[1]
    assert "yes" in received[1]


async def test_a_misspelled_key_is_refused(either: World) -> None:
    """With the key that exists, on create and on change."""
    ada = await either.user()
    place, _ = await new_interface(ada, postUrl="https://chat.example.org/hook")
    wrong = {"config": {"postURL": "https://chat.example.org/hook"}}
    for answer in (
        await ada.patch(place, json=wrong),
        await ada.post(place.rpartition("/")[0], json={"kind": "teamchat", **wrong}),
    ):
        error = assert_envelope(answer, 422, "VALIDATION", "INVALID_ARGUMENT")
        assert [(one["path"], one["rule"]) for one in error["info"]["errors"]] == [("config.postURL", "unknown")]


async def test_an_app_of_slack(either: World) -> None:
    """Its secrets are written and not read; signed events are received at the URL, and nothing else."""
    ada, sender = await either.user(role="owner"), await either.client()
    credentials = {"apiKey": "xoxb-canary", "hosts": ["slack.com"]}
    body = {"name": "S", "provider": "slack", "kind": "api_key", "config": credentials}
    connection = (await ada.post("/api/v1/connections", json=body)).json()["id"]
    config = {
        "format": "slack", "connectionId": connection, "signingSecret": "canary-signing-secret", "approvals": True,
        "apiUrl": "http://127.0.0.1:9/api",
    }  # fmt: skip
    rows = f"/api/v1/workflows/{await deployed(ada, chain(SHOW))}/interfaces"
    made = await ada.post(rows, json={"kind": "teamchat", "config": config})
    assert (made.status_code, made.json()["config"]) == (201, {**config, "signingSecret": {"set": True}})
    place, url = f"{rows}/{made.json()['id']}", made.json()["url"]
    again = await ada.patch(place, json={"config": made.json()["config"]})
    assert (again.status_code, "canary" in again.text) == (200, False)

    async def send(raw: bytes, kind: str = "application/json", secret: str = "canary-signing-secret") -> httpx.Response:
        at = str(int(time.time()))
        signed = {"X-Slack-Request-Timestamp": at, "X-Slack-Signature": sign_slack(secret, at, raw)}
        return await sender.post(url, content=raw, headers={**signed, "Content-Type": kind, "X-Slack-Retry-Num": "1"})

    verified = await send(json.dumps(VERIFICATION).encode())
    assert (verified.status_code, verified.json()) == (200, {"challenge": VERIFICATION["challenge"]})
    begun = [await send(json.dumps(message(text="hi")).encode()) for _ in range(2)]
    assert begun[0].json()["runId"] == begun[1].json()["runId"]
    assert '"output":"hi"' in (await ada.get(f"/agent/v1/runs/{begun[0].json()['runId']}/events")).text
    pressed = await send(form(press("T:C:1", "int_1")), FORM)
    assert (pressed.status_code, pressed.json()) == (200, {})
    assert_envelope(await send(b"{}", secret="x" * 20), 401, "UNAUTHORIZED", "UNAUTHENTICATED")
    assert_envelope(await send(b"{"), 400, "BAD_REQUEST", "INVALID_ARGUMENT")
    assert_envelope(await ada.get(f"{place}/secret"), 409, "CONFLICT", "ALREADY_EXISTS")
    assert_envelope(await post(sender, {"url": url.removesuffix("/slack"), "secret": "whsec_QQ=="}), 404, "NOT_FOUND",
                    "NOT_FOUND")  # fmt: skip
