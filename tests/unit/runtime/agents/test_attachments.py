"""Attachments as use cases: what is refused, what is stored, what a run keeps, and what a model receives."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from bench import Bench, Json, act, agent, ask, deployed_skill, graph, one, opened, paths, why

from wfcore.adapters.blobs import LocalBlobs
from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.domain.agents.attachments import AttachmentLimits, key_of
from wfcore.domain.agents.context_attachments import IMAGE_TOKENS
from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid, TooLarge, Unavailable, WfcoreError
from wfcore.domain.run.entries import encode_entry
from wfcore.ports.providers import ModelRequest
from wfcore.runtime.common.installation import Settings
from wfcore.testing.contracts.models import PIXEL

pytestmark = pytest.mark.anyio

IMAGE = base64.b64decode(PIXEL)
GIF = b"GIF89a" + bytes(8)
LIMITS = AttachmentLimits(count=4, size=2_000)
TEXT = "Refunds take 14 days."
FOREIGN = ("x", "../x", "/etc/passwd", "..", "", f"{'a' * 64}.txt", f"{'a' * 64}.exe", f"../{'a' * 64}.png",
           f"{'a' * 64}.png\n", f"file:///{'a' * 64}.png")  # fmt: skip


def image(data: bytes = IMAGE, **more: Any) -> Json:
    return {"data": base64.b64encode(data).decode(), **more}


def bringing(*images: Json, documents: Any = ()) -> Json:
    return {"message": "look", "attachments": {"images": list(images), "documents": list(documents)}}


@asynccontextmanager
async def scripted(
    *replies: Any, database: str = "sqlite://", **more: Any
) -> AsyncIterator[tuple[Bench, list[ModelRequest]]]:
    """A bench whose model says this, then `done`; and what it was asked."""
    asked: list[ModelRequest] = []
    left = list(replies)

    def reply(request: ModelRequest) -> Any:
        asked.append(request)
        return left.pop(0) if left else "done"

    settings = Settings(attachments=LIMITS)
    models = {"default": ScriptedModel(reply)}
    async with opened(database, models=models, settings=settings, **more) as bench:
        yield bench, asked


async def journal_of(bench: Bench) -> str:
    """All that the journal holds, as it is written."""
    refs = {row.execution for row in await rows_of(bench)}
    found = [entry for ref in refs for entry in await bench.core.ports.journal.read(ref)]
    return "\n".join(encode_entry(entry).decode() for entry in found)


async def rows_of(bench: Bench) -> list[Any]:
    return [view.row for view in await bench.core.runs.page(bench.me)]


def sent_message(request: ModelRequest) -> Any:
    return next(message for message in request.messages[::-1] if message["type"] == "human")


class TestUploads:
    """`upload` stores only content that a model can receive."""

    async def test_valid_uploads(self, bench: Bench) -> None:
        """The type follows from the bytes; equal bytes have the same key, for every user."""
        for data, claimed, media_type in (
            (IMAGE, None, "image/png"), (IMAGE, "image/png", "image/png"),
            (IMAGE, "application/octet-stream", "image/png"), (b"\xff\xd8\xff\xe0", "image/jpg", "image/jpeg"),
            (GIF, "image/gif; x=1", "image/gif"), (b"RIFF\0\0\0\0WEBPVP8 ", "IMAGE/WEBP", "image/webp"),
            (b"# a\r\n\tb", "text/markdown", "text/plain"), (b"{}", "application/json", "text/plain"),
            ("\ufeffn\u00e4".encode(), "text/plain; charset=utf-8", "text/plain"),
        ):  # fmt: skip
            found = await bench.core.attachments.upload(bench.me, data, claimed)
            assert (found.media_type, found.size, found.key) == (media_type, len(data), key_of(data, media_type))
            assert await bench.core.attachments.upload(bench.other, data) == found
            assert await bench.core.ports.blobs.get(bench.org, found.key) == data
            wire = found.to_wire()
            assert wire["uploadId"] == wire["storageKey"] == found.key

    @pytest.mark.parametrize("bench", ["memory"], indirect=True)
    async def test_invalid_uploads(self, bench: Bench) -> None:
        """Content that is neither image nor text, or differs from the declared type, is refused."""
        for data, claimed in (
            (b"", None), (b"\0", None), (b"\xff", "text/plain"), (b"a\x1bb", "text/plain"), (b"MZ\x90\0", None),
            (b"%PDF-1.7\n%\xe2\xe3", "application/pdf"), (IMAGE, "image/jpeg"), (IMAGE, "text/plain"),
            (IMAGE, "text/html"), (b"text", "image/png"), (b"<svg/>", "image/svg+xml"), (b"%PDF-", "application/pdf"),
        ):  # fmt: skip
            with pytest.raises(Invalid) as error:
                await bench.core.attachments.upload(bench.me, data, claimed)
            assert {rule for _, rule in paths(error)} == {"mediaType"}

    async def test_size_limit_and_scope(self) -> None:
        """One byte too many is refused; so is a token that cannot start runs."""
        async with scripted() as (bench, _):
            assert (await bench.core.attachments.upload(bench.me, b"x" * LIMITS.size)).size == LIMITS.size
            with pytest.raises(TooLarge) as error:
                await bench.core.attachments.upload(bench.me, b"x" * (LIMITS.size + 1))
            assert error.value.info == {"maxBytes": LIMITS.size}
            with pytest.raises(Forbidden):
                await bench.core.attachments.upload(bench.person("p", scopes=["workflows:read"]), b"x")


class TestBodies:
    """Validation of bodies: every error has its path, and no run starts."""

    @pytest.mark.parametrize(("attachments", "found"), [
        ({"images": [{}]}, {("images[0].data", "required_if")}),
        ({"images": [image(), {"data": "x"}]}, {("images[1].data", "base64")}),
        ({"images": [{"data": "\u00e4"}]}, {("images[0].data", "base64")}),
        ({"images": [{"data": "aGk=\n"}]}, {("images[0].data", "base64")}),
        ({"images": [image(b"text")]}, {("images[0].data", "mediaType")}),
        ({"images": [image(b"")]}, {("images[0].data", "mediaType")}),
        ({"images": [image(mimeType="image/jpeg")]}, {("images[0].mimeType", "mediaType")}),
        ({"images": [image(b"GIF89a" + bytes(2_000))]}, {("images[0].data", "maxBytes")}),
        ({"images": [image(b"GIF89a" + bytes(1_995))]}, {("images[0].data", "maxBytes")}),
        ({"images": [image(storageKey="x")]}, {("images[0].storageKey", "exclusive")}),
        ({"images": [{"storageKey": f"{'a' * 64}.png", "uploadId": "b"}]}, {("images[0].storageKey", "exclusive")}),
        ({"images": [{"storageKey": f"{'a' * 64}.txt"}]}, {("images[0].storageKey", "mediaType")}),
        ({"images": [{"uploadId": f"{'a' * 64}.png", "mimeType": "image/gif"}]}, {("images[0].mimeType", "mediaType")}),
        ({"documents": [{"fileName": "a.pdf"}]}, {("documents[0].parsedContent", "required_if")}),
        ({"documents": [{"parsedContent": ""}]}, {("documents[0].parsedContent", "mediaType")}),
        ({"documents": [{"parsedContent": "a\x1bb"}]}, {("documents[0].parsedContent", "mediaType")}),
        ({"documents": [{"parsedContent": "\u00e4" * 1_001}]}, {("documents[0].parsedContent", "maxBytes")}),
        ({"documents": [{"uploadId": f"{'a' * 64}.png"}]}, {("documents[0].parsedContent", "required_if")}),
        ({"documents": [{"parsedContent": "x", "sizeBytes": -1}]}, {("documents[0].sizeBytes", "minimum")}),
        ({"documents": [{"parsedContent": "x", "fileName": "x" * 256}]}, {("documents[0].fileName", "maxLength")}),
        ({"images": [image()] * 2, "documents": [{"parsedContent": "x"}] * 3}, {("", "maxItems")}),
    ])  # fmt: skip
    async def test_invalid_uploads(self, attachments: Json, found: set[tuple[str, str]]) -> None:
        """The same at a start, a chat and a resume: 422 with every error, and no run."""
        async with scripted() as (bench, _):
            number, flow, runs = await deployed_skill(bench), await bench.deployed(one(ask())), bench.core.runs
            waiting = await bench.ended(await runs.start(bench.me, workflow=flow, input={}))
            body = {"attachments": attachments}
            for turn in (
                runs.start(bench.me, {"skillId": number, "message": "m", **body}),
                runs.chat(bench.me, number, {"message": "m", **body}),
                runs.resume(bench.me, waiting.id, {"decision": "approve", **body}),
            ):
                with pytest.raises(Invalid) as error:
                    await turn
                assert paths(error) == {(f"attachments.{path}".rstrip("."), rule) for path, rule in found}
            assert [row.id for row in await rows_of(bench)] == [waiting.id]

    async def test_a_key_outside_of_the_organization(self, bench: Bench) -> None:
        """Any other name, of a file on the server or elsewhere, is 422 with the message for an unknown key."""
        number = await deployed_skill(bench)
        for name in FOREIGN:
            named = {"rawContentStorageKey": name, "parsedContent": "text"}
            with pytest.raises(Invalid) as error:
                await bench.core.runs.chat(bench.me, number, bringing(documents=[{"parsedContent": "text"}, named]))
            [fault] = error.value.info["errors"]
            assert fault == {"path": "attachments.documents[1].rawContentStorageKey", "rule": "reference",
                             "message": "is not an upload of this organization"}, name  # fmt: skip
        assert await bench.core.runs.page(bench.me) == []

    async def test_an_upload_of_another_organization(self, bench: Bench) -> None:
        """It gets the same error as a key that never existed; nothing is read or copied."""
        number = await deployed_skill(bench)
        them = bench.core.principal(str(uuid4()), "they", email="they@x.org")
        key = (await bench.core.attachments.upload(them, IMAGE)).key
        refused = []
        for name in (key, f"{'0' * 64}.png"):
            with pytest.raises(Invalid) as error:
                await bench.core.runs.chat(bench.me, number, bringing({"storageKey": name}))
            refused.append((error.value.message, error.value.info))
        assert refused[0] == refused[1]
        assert refused[0][1]["errors"][0]["path"] == "attachments.images[0].storageKey"
        assert await bench.core.ports.blobs.size(bench.org, key) is None

    async def test_the_same_attachment_twice_is_the_same_request(self, bench: Bench) -> None:
        """With one key a body joins in any key order; with one different byte attached it is a Conflict."""
        number = await deployed_skill(bench)
        body = bringing(image(name="a", mimeType="image/png"))
        first = await bench.core.runs.chat(bench.me, number, body, key="k")
        turned = json.loads(json.dumps(body, sort_keys=True))
        assert (await bench.core.runs.chat(bench.me, number, turned, key="k")).id == first.id
        with pytest.raises(Conflict):
            await bench.core.runs.chat(bench.me, number, bringing(image(GIF, name="a")), key="k")

    async def test_empty_lists(self, bench: Bench) -> None:
        """Empty lists attach nothing, and the run keeps nothing of them."""
        run = await bench.ran(
            one(act("core.transform", value="{{ has(run.attachments) }}")), attachments={"images": []}
        )
        assert run.output is False


class TestShown:
    """What a model receives, to the byte."""

    async def test_images_and_documents_reach_a_skill(self) -> None:
        """Images as base64, documents as data blocks after the message; inline and uploaded ones alike."""
        async with scripted() as (bench, asked):
            number = await deployed_skill(bench)
            upload = await bench.core.attachments.upload(bench.me, GIF)
            paper = await bench.core.attachments.upload(bench.me, b"from an upload")
            documents = [{"parsedContent": TEXT, "fileName": "terms.pdf"}, {"uploadId": paper.key}]
            body = bringing(image(), {"storageKey": upload.key, "uploadId": upload.key}, documents=documents)
            run = await bench.ended(await bench.core.runs.chat(bench.me, number, body))
            assert run.output == "done"
            message = sent_message(asked[0])
            assert message.keys() == {"type", "content", "images"}
            assert message["images"] == [
                {"mimeType": "image/png", "data": PIXEL},
                {"mimeType": "image/gif", "data": base64.b64encode(GIF).decode()},
            ]
            text = message["content"]
            assert text.startswith("look\n\nEach part from <")
            assert '{"id":"1","title":"terms.pdf"}>\n' + TEXT + "\n</" in text
            assert 'document {"id":"2"}>\nfrom an upload\n</' in text
            assert text.count(TEXT) == 1

    async def test_the_journal_has_only_keys(self) -> None:
        """The journal has keys, sizes and types, but neither bytes nor text nor base64."""
        async with scripted() as (bench, _):
            number = await deployed_skill(bench)
            documents = [
                {
                    "parsedContent": TEXT,
                    "fileName": "terms.pdf",
                    "sizeBytes": 7,
                    "originalSize": 9.0,
                    "mimeType": "application/pdf",
                    "storageFileName": "a.pdf",
                }
            ]
            body = bringing(image(name="photo.png"), documents=documents)
            await bench.ended(await bench.core.runs.chat(bench.me, number, body))
            written = await journal_of(bench)
            assert (TEXT in written, PIXEL in written) == (False, False)
            info = json.loads(written.splitlines()[0])[6]["attachments"]
            assert info == {
                "images": [{"storageKey": key_of(IMAGE, "image/png"), "mimeType": "image/png",
                            "sizeBytes": len(IMAGE), "name": "photo.png"}],
                "documents": [{"storageKey": key_of(TEXT.encode(), "text/plain"), "sizeBytes": len(TEXT),
                               "fileName": "terms.pdf", "mimeType": "application/pdf", "originalSize": 9.0,
                               "storageFileName": "a.pdf"}],
            }  # fmt: skip
            [context] = [entry for entry in map(json.loads, written.splitlines()) if "digest" in str(entry)]
            segments = {segment["source"]: segment["ref"] for segment in context[-1]["segments"]}
            assert segments["image"] == key_of(IMAGE, "image/png")
            assert segments["document"] == key_of(TEXT.encode(), "text/plain")

    async def test_no_document_can_end_its_block(self) -> None:
        """A text that contains the block of another run's documents stays within its own block."""
        async with scripted() as (bench, asked):
            number = await deployed_skill(bench)
            text = TEXT
            for _ in range(2):
                body = bringing(documents=[{"parsedContent": text, "fileName": "a\n</x>"}])
                await bench.ended(await bench.core.runs.chat(bench.me, number, body))
                text = sent_message(asked[-1])["content"]
            mark = text.split("<")[1].split()[0]
            inner = text.partition("\n<")[2]
            assert (text.count(f"</{mark}>"), inner.count(f"</{mark}>"), inner.endswith(f"</{mark}>")) == (2, 1, True)

    async def test_an_agent_without_a_skill_gets_them(self) -> None:
        """An agent node without a skill, with its own message, gets the run's attachments."""
        async with scripted() as (bench, asked):
            structure = one(agent(message="check {{ input.n }}"))
            documents = [{"parsedContent": TEXT}]
            body = {"attachments": {"images": [image()], "documents": documents}}
            assert (await bench.ran(structure, {"n": 4}, **body)).output == "done"
            message = sent_message(asked[0])
            assert message["content"].startswith("check 4\n")
            assert (TEXT in message["content"], len(message["images"])) == (True, 1)

    async def test_an_agent_without_a_skill_knows_the_end_user(self) -> None:
        """Its model receives the node's instructions, then the end user as data, then the message."""
        async with scripted() as (bench, asked):
            structure = one(agent(message="go", instructions="be short"))
            assert (await bench.ran(structure, user_context={"name": "Grace"})).output == "done"
            system, human = asked[0].messages
            assert (str(system["content"])[:8], human["content"]) == ("be short", "go")
            assert "Name: Grace" in str(system["content"])

    async def test_a_child_does_not_get_them(self) -> None:
        """A called workflow gets only its input."""
        async with scripted() as (bench, asked):
            inner = await bench.deployed(one(agent(message="inner")))
            outer = one(act("core.workflow", workflowId=inner, input={}))
            assert (await bench.ran(outer, attachments={"images": [image()]})).output == "done"
            assert sent_message(asked[0]) == {"type": "human", "content": "inner"}

    async def test_a_resume_replaces_them(self) -> None:
        """Attachments of a resume replace the earlier ones for the agents that follow."""
        async with scripted() as (bench, asked):
            structure = graph("s>a a>h h:approved>b", a=agent(message="first"), h=ask(), b=agent(message="second"))
            run = await bench.ran(structure, attachments={"images": [image()]})
            body = {"decision": "approve", "attachments": {"documents": [{"parsedContent": TEXT}]}}
            await bench.ended(await bench.core.runs.resume(bench.me, run.id, body))
            first, second = map(sent_message, asked)
            assert (len(first["images"]), TEXT in first["content"]) == (1, False)
            assert ("images" in second, TEXT in second["content"]) == (False, True)

    async def test_every_round_sends_them(self) -> None:
        """After a tool call the model gets the same message again."""
        call = {"content": "", "toolCalls": [{"id": "c", "name": "echo", "args": {"value": 1}}]}
        async with scripted(call) as (bench, asked):
            number = await deployed_skill(bench, toolset={"echo": {"enabled": True}})
            body = bringing(image(), documents=[{"parsedContent": TEXT}])
            await bench.ended(await bench.core.runs.chat(bench.me, number, body))
            assert len(asked) == 2
            assert sent_message(asked[0]) == sent_message(asked[1])

    @pytest.mark.parametrize("store", ["memory", "sqlite"])
    async def test_they_stay_in_the_conversation(self, store: str, database: str) -> None:
        """A later run in the thread gets the earlier message with its attachments, byte for byte."""
        async with scripted(database="sqlite://" if store == "memory" else database) as (bench, asked):
            number = await deployed_skill(bench)
            first = bringing(image(), documents=[{"parsedContent": TEXT}]) | {"fileThreadId": "t"}
            await bench.ended(await bench.core.runs.chat(bench.me, number, first))
            again = {"message": "and now?", "fileThreadId": "t"}
            await bench.ended(await bench.core.runs.chat(bench.me, number, again))
            earlier, *_, last = asked[1].messages
            assert earlier == sent_message(asked[0])
            assert last == {"type": "human", "content": "and now?"}
            view = await bench.core.contexts.compose(bench.me, number, message="m", file_thread_id="t")
            [sent] = [message for message in view.messages if "attachments" in message]
            assert {entry["storageKey"] for entries in sent["attachments"].values() for entry in entries} == {
                key_of(IMAGE, "image/png"), key_of(TEXT.encode(), "text/plain"),
            }  # fmt: skip
            [segment] = [part for part in view.context["segments"] if part["source"] == "conversation"]
            assert segment["tokens"] > IMAGE_TOKENS
            read = (await bench.core.conversations.get(bench.me, number, "t")).to_wire()["messages"]
            assert [message.get("attachments") for message in read] == [sent["attachments"], None, None, None]
            assert TEXT not in str(read)

    @pytest.mark.parametrize(("summary", "size", "expected"), [
        ("It is long.", 1_900, "summary"), (None, 1_900, "context"), (None, 300, "whole"),
        ("x" * 2_000, 1_900, "context"),
    ])  # fmt: skip
    async def test_a_document_that_does_not_fit(self, summary: str | None, size: int, expected: str) -> None:
        """Half of the window is for documents: beyond it a summary replaces the text, or the document is left out."""
        async with scripted() as (bench, asked):
            number = await deployed_skill(bench)
            document = {"parsedContent": "x" * size, "fileName": "a"} | ({"summary": summary} if summary else {})
            config = {"modelSettings": {"contextWindow": 1_000}}
            body = bringing(documents=[document]) | {"config": config}
            run = await bench.ended(await bench.core.runs.chat(bench.me, number, body))
            if expected == "context":
                assert why(run) == (run.error["message"], "context")
                assert "attachments.documents[0]" in run.error["message"]
                assert asked == []
            else:
                text = sent_message(asked[0])["content"]
                assert ("x" * size in text, "It is long." in text) == (expected == "whole", expected == "summary")
                assert ('"summary of a"' in text) == (expected == "summary")

    async def test_a_missing_attachment_fails_the_run(self) -> None:
        """The model is not called with a part of the attachments: the run's error names the missing one."""
        async with scripted("first") as (bench, asked):
            structure = graph("s>h h:approved>a", h=ask(), a=agent(message="m", retry={"maxAttempts": 3}))
            run = await bench.ran(structure, attachments={"images": [image()]})
            key = key_of(IMAGE, "image/png")
            assert await bench.core.ports.blobs.delete(bench.org, key)
            ended = await bench.ended(await bench.core.runs.resume(bench.me, run.id, decision="approve"))
            assert why(ended) == (f"the attachment `{key}` does not exist any more", "attachment_missing")
            assert asked == []


class TestStores:
    """The stores of attachments."""

    async def test_files_beside_an_embedded_database(self, database: str) -> None:
        """A waiting run gets its attachments in a process that opens the database later."""
        structure = graph("s>h h:approved>a", h=ask(), a=agent(message="m"))
        async with scripted(database=database) as (bench, _):
            run = await bench.ran(structure, attachments={"images": [image()]})
            org = bench.org
        file = Path(database.removeprefix("sqlite:///"))
        assert (file.parent / f"{file.name}.blobs" / org).is_dir()
        async with scripted(database=database, org=org, clock=bench.clock, ids=bench.core.ports.ids) as (again, asked):
            await again.ended(await again.core.runs.resume(again.me, run.id, decision="approve"))
            assert sent_message(asked[0])["images"] == [{"mimeType": "image/png", "data": PIXEL}]

    @pytest.mark.parametrize(("where", "refusal"), [("none", Invalid), ("broken", Unavailable)])
    async def test_an_unavailable_store(self, tmp_path: Path, where: str, refusal: type[WfcoreError]) -> None:
        """The request fails, and there is no run: for good without a directory. One without attachments succeeds."""
        (tmp_path / "file").write_bytes(b"")
        blobs = LocalBlobs(None if where == "none" else tmp_path / "file" / "below")
        async with scripted(blobs=blobs) as (bench, _):
            number = await deployed_skill(bench)
            with pytest.raises(refusal):
                await bench.core.runs.chat(bench.me, number, bringing(image()))
            assert await rows_of(bench) == []
            assert (await bench.ended(await bench.core.runs.chat(bench.me, number, message="m"))).output == "done"


async def test_only_documented_errors() -> None:
    """Any base64 and any keys lead to one of wfcore's errors."""
    async with scripted() as (bench, _):
        number = await deployed_skill(bench)
        for data in ("=", "A", "A===", "A" * 10_001, "\ufffd", " ", "AAAA====", "-_-_"):
            with pytest.raises(WfcoreError) as error:
                await bench.core.runs.chat(bench.me, number, bringing({"data": data}))
            assert type(error.value) is Invalid
