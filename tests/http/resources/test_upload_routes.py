"""Attachments over HTTP: uploads, and bodies with inline or uploaded attachments, on both transports."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from clients import INVALID, LARGE, POLL, Json, World, assert_envelope, deployed, frames, new_world, node, serving
from waiting import HANG

import wfcore.bootstrap
from wfcore.adapters.http import app
from wfcore.adapters.models.openai import OpenAIModel
from wfcore.domain.agents.attachments import AttachmentLimits, key_of
from wfcore.runtime.common.installation import Settings
from wfcore.testing.contracts.models import PIXEL

pytestmark = pytest.mark.anyio

IMAGE = base64.b64decode(PIXEL)
UPLOADS, RUNS = "/agent/v1/uploads", "/agent/v1/runs"
AGENT = {
    "nodes": [node("start", "start"), node("ask", "agent", message="look")],
    "edges": [{"id": "e", "source": "start", "target": "ask"}],
}


def typed(media_type: str) -> dict[str, str]:
    return {"Content-Type": media_type}


async def upload(client: httpx.AsyncClient, data: bytes = IMAGE, media_type: str = "image/png") -> str:
    answer = await client.post(UPLOADS, content=data, headers=typed(media_type))
    assert answer.status_code == 201, answer.text
    return str(answer.json()["storageKey"])


class TestUploads:
    """`POST /agent/v1/uploads`: the bytes are the body."""

    async def test_the_response_of_an_upload(self, either: World) -> None:
        """201 with the id for bodies, the same on repetition; type and size are those of the bytes."""
        ada = await either.user()
        for _ in range(2):
            answer = await ada.post(UPLOADS, content=IMAGE, headers=typed("image/png"))
            key = key_of(IMAGE, "image/png")
            assert (answer.status_code, answer.json()) == (
                201, {"uploadId": key, "storageKey": key, "mimeType": "image/png", "sizeBytes": len(IMAGE)},
            )  # fmt: skip

    @pytest.mark.parametrize(("data", "media_type"), [
        (b"", "image/png"), (IMAGE, "image/gif"), (b"{}", "image/png"), (b"MZ\0", "application/octet-stream"),
        (b"%PDF-1.7\0", "application/pdf"),
    ])  # fmt: skip
    async def test_invalid_requests_are_refused(self, world: World, data: bytes, media_type: str) -> None:
        """Neither image nor text, or another type than `Content-Type`: 422."""
        answer = await (await world.user()).post(UPLOADS, content=data, headers=typed(media_type))
        assert assert_envelope(answer, *INVALID)["info"]["errors"][0]["rule"] == "mediaType"

    async def test_one_byte_too_many(self, either: World) -> None:
        """413 with the limit, whether the length is declared or the body comes in pieces."""
        ada, most = await either.user(), AttachmentLimits().size

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(most // 65_536 + 1):
                yield b"x" * 65_536

        for content in (b"x" * (most + 1), pieces()):
            answer = await ada.post(UPLOADS, content=content, headers=typed("text/plain"))
            assert assert_envelope(answer, *LARGE)["info"] == {"maxBytes": most}

    async def test_an_upload_needs_credential_and_scope(self, world: World) -> None:
        """401 without a credential, 403 without the scope: in both cases the body is not read."""
        nobody, reader = await world.client(), await world.user("r", scopes=["workflows:read"])
        for client, status in ((nobody, 401), (reader, 403)):
            assert (await client.post(UPLOADS, content=b"\0", headers=typed("image/png"))).status_code == status


class TestBodies:
    """`attachments` of runs, resumes and chats."""

    async def test_inline_and_uploaded_are_equal(self, either: World) -> None:
        """Inline and uploaded attachments give the same run and result, streamed and polled."""
        ada = await either.user()
        number, key = await deployed(ada, AGENT), await upload(ada)
        outputs = []
        inline = {"data": PIXEL, "mimeType": "image/png", "name": "p.png"}
        for image in (inline, {"storageKey": key}, {"uploadId": key}):
            attachments = {"images": [image], "documents": [{"parsedContent": "x", "fileName": "a.pdf"}]}
            answer = await ada.post(RUNS, json={"workflowId": number, "input": {}, "attachments": attachments})
            last = frames(answer.text)[-1][1]
            assert (answer.status_code, last["kind"]) == (200, "done"), answer.text
            outputs.append(last["output"])
        assert len({*outputs}) == 1
        assert "You said: look\n" in outputs[0]

    async def test_the_same_body_joins_and_another_does_not(self, either: World) -> None:
        """With one key, the same attachment joins on either transport, and other bytes are 409."""
        ada = await either.user()
        number, headers = await deployed(ada, AGENT), {"Idempotency-Key": "k"}
        body: Json = {"workflowId": number, "input": {}, "attachments": {"images": [{"data": PIXEL}]}}
        first = await ada.post(RUNS, json=body, headers=headers)
        assert (await ada.post(RUNS, json=body, headers=headers)).text == first.text
        assert (await ada.post(RUNS, json=body, headers=headers | POLL)).json() == {"runId": "k", "status": "done"}
        other = body | {"attachments": {"images": [{"data": base64.b64encode(b"GIF89a").decode()}]}}
        assert (await ada.post(RUNS, json=other, headers=headers)).status_code == 409

    async def test_a_foreign_key_is_422(self, either: World) -> None:
        """Another organization's upload, a path and an unknown key get the same response, apart from the request id."""
        ada, errors = await either.user(), set[str]()
        there = await new_world(either.core, either.connect, either.closing)
        foreign = await upload(await there.user("mallory"))
        number = await deployed(ada, AGENT)
        for name in (foreign, f"{'0' * 64}.png", f"../{there.org}/{foreign}", f"/etc/{foreign}", "..", "\U0001f600"):
            attachments = {"documents": [{"parsedContent": "x", "rawContentStorageKey": name}]}
            for path, body in (
                (RUNS, {"workflowId": number, "input": {}}),
                ("/agent/v1/assistant/chat", {"message": "m"}),
            ):
                for headers in ({}, POLL):
                    answer = await ada.post(path, json=body | {"attachments": attachments}, headers=headers)
                    error = assert_envelope(answer, *INVALID)
                    errors.add(json.dumps([error["message"], error["info"]]))
        assert len(errors) == 1
        assert '"attachments.documents[0].rawContentStorageKey"' in next(iter(errors))
        assert (await ada.get(RUNS)).json()["runs"] == []


class Wire:
    """A Chat Completions server that replies `seen` and keeps the requests."""

    def __init__(self) -> None:
        self.sent: list[Json] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.sent.append(json.loads(body))
        chunk = {"choices": [{"index": 0, "delta": {"content": "seen"}, "finish_reason": "stop"}]}
        data = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        await send({"type": "http.response.body", "body": data})


@asynccontextmanager
async def with_model_server(database: str, **settings: Any) -> AsyncIterator[tuple[World, Wire]]:
    """An organization over sockets, with a model on a real server."""
    wire = Wire()
    async with AsyncExitStack() as closing:
        port = await closing.enter_async_context(serving(wire))
        model = OpenAIModel("m", base_url=f"http://127.0.0.1:{port}/v1")
        core = await closing.enter_async_context(
            wfcore.bootstrap.open(
                database,
                models={"default": model},
                settings=Settings(synchronous="NORMAL", grace=0, **settings),
            )
        )
        closing.push_async_callback(model.close)
        own = await closing.enter_async_context(serving(app(core, secret=b"s" * 32)))
        connect = partial(httpx.AsyncClient, base_url=f"http://127.0.0.1:{own}", timeout=HANG, trust_env=False)
        yield await new_world(core, connect, closing), wire


def written(place: Path) -> tuple[dict[str, bytes], bytes]:
    """The files of attachments by name, and all bytes of the database."""
    kept = {path.name: path.read_bytes() for path in (place / "app.db.blobs").rglob("*") if path.is_file()}
    return kept, b"".join(path.read_bytes() for path in place.glob("app.db*") if path.is_file())


async def test_image_and_text_reach_the_model(tmp_path: Path) -> None:
    """The model's request has the exact bytes of the uploaded image, and the text of the document."""
    async with with_model_server(f"sqlite:///{tmp_path}/app.db") as (world, wire):
        ada = await world.user()
        skill = (await ada.post("/api/v1/skills", json={"name": "Reader", "instructions": ["Be brief."]})).json()["id"]
        await ada.post(f"/api/v1/skills/{skill}/deploy")
        attachments = {
            "images": [{"storageKey": await upload(ada)}],
            "documents": [{"uploadId": await upload(ada, b"14 days", "text/plain"), "fileName": "terms.txt"}],
        }
        body = {"message": "what is it?", "attachments": attachments}
        answer = await ada.post(f"/agent/v1/skills/{skill}/chat", json=body)
        assert frames(answer.text)[-1][1]["output"] == "seen", answer.text
        [request] = wire.sent
        text, image = request["messages"][-1]["content"]
        assert image == {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
        assert text["text"].startswith("what is it?\n")
        assert 'document {"id":"1","title":"terms.txt"}>\n14 days\n</' in text["text"]
        kept, rows = await asyncio.to_thread(written, tmp_path)
        assert kept == {key_of(IMAGE, "image/png"): IMAGE, key_of(b"14 days", "text/plain"): b"14 days"}
        assert [part in rows for part in (PIXEL.encode(), IMAGE, b"14 days", b"what is it?")] == [False] * 3 + [True]
