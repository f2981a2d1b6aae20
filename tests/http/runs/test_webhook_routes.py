"""Webhooks over HTTP: a manager reads URL and secret, a sender without a token starts runs (Standard Webhooks)."""

import asyncio
import json
import time
from typing import Any

import httpx
import pytest
from clients import World, assert_envelope, chain, counting, deployed, node, performed

from wfcore.domain.triggers.webhooks import sign

pytestmark = pytest.mark.anyio

TRIGGER = {"trigger_type": "webhook"}
BODY: Any = {"type": "order.paid", "n": 1}


async def hook(client: httpx.AsyncClient, number: int) -> dict[str, str]:
    answer = await client.get(f"/api/v1/workflows/{number}/webhook")
    assert answer.status_code == 200, answer.text
    found: dict[str, str] = answer.json()
    return found


def signed(secret: str, body: bytes, *, id: str = "msg_1", age: int = 0) -> dict[str, str]:
    at = int(time.time()) - age
    return {"webhook-id": id, "webhook-timestamp": str(at), "webhook-signature": sign(secret, id, at, body)}


async def post(
    sender: httpx.AsyncClient,
    there: dict[str, str],
    body: Any = BODY,
    *,
    id: str = "msg_1",
    age: int = 0,
    more: Any = None,
) -> httpx.Response:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await sender.post(
        there["url"], content=raw, headers=signed(there["secret"], raw, id=id, age=age) | (more or {})
    )


async def test_a_sender_starts_a_run(either: World) -> None:
    """202 with the run, the same response on repetition; the run has body and headers, without credentials."""
    ada, sender = await either.user(), await either.client()
    show = node("show", "condition", branches=[{"handle": "x", "when": "false"}])
    number = await deployed(ada, chain(show), trigger=TRIGGER)
    there = await hook(ada, number)
    assert there.keys() == {"url", "secret"}
    assert there["url"].startswith(("http://wfcore/webhooks/", "http://127.0.0.1:"))
    headers = {"Authorization": "Bearer canary", "Cookie": "canary", "X-Event": "paid"}
    first = await post(sender, there, more=headers)
    assert first.status_code == 202, first.text
    assert first.json().keys() == {"runId", "status"}
    for _ in range(2):
        again = await post(sender, there, age=10)
        assert (again.status_code, again.json()["runId"]) == (202, first.json()["runId"])
    record = await ada.get(f"/agent/v1/runs/{first.json()['runId']}")
    events = await ada.get(f"/agent/v1/runs/{first.json()['runId']}/events")
    assert record.json()["target"] == {"type": "workflow", "id": number}
    assert "canary" not in record.text + events.text
    assert len((await ada.get(f"/api/v1/workflows/{number}/runs")).json()["runs"]) == 1


async def test_fifty_deliveries_start_one_run(real_world: World) -> None:
    """Fifty concurrent deliveries of one message, over sockets, start one run, whose effect happens once."""
    ada, sender = await real_world.user(), await real_world.client()
    number = await deployed(ada, chain(counting(f"hook {real_world.org}")), trigger=TRIGGER)
    there = await hook(ada, number)
    answers = await asyncio.gather(*(post(sender, there, age=n % 9) for n in range(50)))
    assert {answer.status_code for answer in answers} == {202}
    (run_id,) = {answer.json()["runId"] for answer in answers}
    assert '"kind":"done"' in (await ada.get(f"/agent/v1/runs/{run_id}/events")).text
    assert performed[f"hook {real_world.org}"] == 1


async def test_invalid_deliveries_are_refused(either: World) -> None:
    """401 for a bad, old or missing signature, 404 for an unknown URL, 400 and 409 for signed messages; no details."""
    ada, sender = await either.user(), await either.client()
    number = await deployed(ada, chain(), trigger=TRIGGER)
    there = await hook(ada, number)
    wrong = there | {"secret": "whsec_" + "A" * 56}
    for answer in (
        await post(sender, wrong),
        await post(sender, there, age=301),
        await post(sender, there, age=-310),
        await sender.post(there["url"], json=BODY),
        await sender.post(there["url"], json=BODY, headers=signed(there["secret"], b"{}")),
        await ada.post(there["url"], json=BODY),
    ):
        error = assert_envelope(answer, 401, "UNAUTHORIZED", "UNAUTHENTICATED")
        assert error.keys() == {"code", "status", "message", "requestId"}
        assert answer.headers["WWW-Authenticate"] == "Webhook-Signature"
    unknown = await post(sender, there | {"url": there["url"][:-1]})
    never = await sender.get("/nothing/here", headers={"X-Request-Id": unknown.headers["X-Request-Id"]})
    assert_envelope(unknown, 404, "NOT_FOUND", "NOT_FOUND")
    assert unknown.content == never.content
    for body in (b"", b"7", b"{", b'{"a":1,"a":2}', b"[" * 99):
        assert_envelope(await post(sender, there, body), 400, "BAD_REQUEST", "INVALID_ARGUMENT")
    long = assert_envelope(await post(sender, there, id="m" * 256), 400, "BAD_REQUEST", "INVALID_ARGUMENT")
    assert [(entry["path"], entry["rule"]) for entry in long["info"]["errors"]] == [("webhook-id", "header")]
    assert (await post(sender, wrong, id="m" * 256)).status_code == 401
    assert_envelope(await sender.get(there["url"]), 405, "BAD_REQUEST", "INVALID_ARGUMENT")
    assert (await post(sender, there)).status_code == 202
    reused = await post(sender, there, {"else": 1})
    assert assert_envelope(reused, 409, "CONFLICT", "ALREADY_EXISTS")["info"]["reason"] == "key_reused"
    await ada.delete(f"/api/v1/workflows/{number}")
    assert_envelope(await post(sender, there), 404, "NOT_FOUND", "NOT_FOUND")


async def test_a_large_body_is_refused(either: World) -> None:
    """413 when it has more than 10 MiB, without reading it if the length is declared; 404 has precedence."""
    ada, sender = await either.user(), await either.client()
    there = await hook(ada, await deployed(ada, chain(), trigger=TRIGGER))
    big = signed(there["secret"], b"{}") | {"Content-Length": str(10 * 2**20 + 1)}
    if "wfcore" in there["url"]:  # over sockets a client sends what it announces
        assert_envelope(
            await sender.post(there["url"], content=b"{}", headers=big), 413, "BAD_REQUEST", "INVALID_ARGUMENT"
        )
        assert (await sender.post("/webhooks/x", content=b"{}", headers=big)).status_code == 404
    for size, status in ((2**20, 202), (10 * 2**20, 413)):
        body = b"[" + b" " * size + b"]"
        assert (await post(sender, there, body)).status_code == status


async def test_rotating(either: World) -> None:
    """The URL gets a new secret; the old one is refused, and a message signed with both is accepted."""
    ada, sender = await either.user(), await either.client()
    number = await deployed(ada, chain(), trigger=TRIGGER)
    old = await hook(ada, number)
    rotated = await ada.post(f"/api/v1/agents/{number}/webhook/rotate")
    new = rotated.json()
    assert (rotated.status_code, new["url"], new == old, await hook(ada, number) == new) == (
        200,
        old["url"],
        False,
        True,
    )
    assert_envelope(await post(sender, old), 401, "UNAUTHORIZED", "UNAUTHENTICATED")
    raw = json.dumps(BODY).encode()
    both = signed(new["secret"], raw)
    both["webhook-signature"] = f"{signed(old['secret'], raw)['webhook-signature']} {both['webhook-signature']}"
    assert (await sender.post(new["url"], content=raw, headers=both)).status_code == 202
