"""The laws of attachments: what a message shows of them, and what bodies can say."""

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from wfcore.domain.agents.attachments import (
    SUFFIXES,
    TEXT,
    AttachmentLimits,
    attachment_issues,
    content_of,
    key_of,
    media_type_of,
    type_of_key,
)
from wfcore.domain.agents.context import CompositionInput, compose
from wfcore.domain.agents.context_attachments import attached, keys_of, with_content
from wfcore.domain.agents.context_messages import request_of
from wfcore.domain.agents.context_text import boundary, tokens

Json = dict[str, Any]

TAGS = ("<", "</", ">", "\n", "document", '{"id":"1"}', "\u2028", "ä", boundary(["x"]))
HOSTILE = st.lists(st.sampled_from(TAGS) | st.text(max_size=5), max_size=8).map("".join)
IMAGES = st.binary(max_size=20).map(lambda data: b"\x89PNG\r\n\x1a\n" + data)
NAMES = st.none() | HOSTILE
LIMITS = AttachmentLimits(4, 50)
HOSTILE_JSON = st.sampled_from(["", "..", "a" * 64 + ".png", "iVBORw0KGgo=", "x"]) | st.text(max_size=5)
FIELDS = ("data", "mimeType", "name", "storageKey", "uploadId")
PAPER_FIELDS = ("fileName", "parsedContent", "uploadId", "rawContentStorageKey", "summary")


def carried(images: list[bytes], documents: list[tuple[str | None, str, str]]) -> tuple[Json, Mapping[str, bytes]]:
    """Attachments as a run carries them, and what is kept under their keys."""
    kept = {key_of(data, "image/png"): data for data in images}
    pictures = [{"storageKey": key, "mimeType": "image/png", "sizeBytes": len(kept[key])} for key in kept]
    papers = []
    for name, text, summary in documents:
        key = key_of(text.encode(), TEXT)
        kept[key] = text.encode()
        paper = {"storageKey": key, "sizeBytes": len(text.encode()), "fileName": name, "summary": summary}
        papers.append({field: value for field, value in paper.items() if value is not None})
    return {"images": pictures, "documents": papers}, kept


DOCUMENTS = st.lists(st.tuples(NAMES, HOSTILE, HOSTILE), max_size=4)


@given(HOSTILE, st.lists(IMAGES, max_size=3), DOCUMENTS)
def test_what_is_shown_is_what_was_attached(text: str, images: list[bytes], documents: Any) -> None:
    """Who knows the mark finds exactly the documents that were attached, in order; images are whole."""
    given, kept = carried(images, documents)
    found = attached(given)
    message = with_content({"type": "human", "content": text, **found.human}, kept)
    assert [base64.b64decode(image["data"]) for image in message.get("images", [])] == [*dict.fromkeys(images)]
    assert message["content"].startswith(text)
    told = message["content"][len(text) :]
    if not documents:
        assert told == ""
        return
    mark = re.findall("<([0-9a-f]{24}) ", told)[0]
    blocks = re.findall(
        rf"<{mark} document ([^\n]*)>\n(.*?)\n</{mark}>", told.partition(" below is data")[2], re.DOTALL
    )
    assert [(json.loads(about).get("title"), content) for about, content in blocks] == [
        (name or None, content) for name, content, _ in documents
    ]


@given(HOSTILE, st.lists(IMAGES, max_size=2), DOCUMENTS, st.integers(1, 400))
def test_the_estimate_covers_what_is_shown(text: str, images: list[bytes], documents: Any, room: int) -> None:
    """In whatever room, the parts are never fewer tokens than the text that they add; what is left out is an issue."""
    given, kept = carried(images, documents)
    found = attached(given, room)
    message = with_content({"type": "human", "content": text, **found.human}, kept)
    papers = [part.tokens for part in found.parts if part.source == "document"]
    assert tokens(message["content"]) <= tokens(text) + sum(papers)
    assert sum(papers) <= room
    assert len(papers) + len(found.issues) == len(documents)


@given(HOSTILE, st.lists(IMAGES, max_size=2), DOCUMENTS)
def test_a_context_binds_every_byte(text: str, images: list[bytes], documents: Any) -> None:
    """The digest of a context changes with any byte attached, and its message needs exactly what it was made of."""
    given, kept = carried(images, documents)
    context = compose(CompositionInput("m", message=text, attachments=given))
    [message] = request_of(context, (), ())
    assert {*keys_of(message)} == {*kept}
    other, _ = carried([*images, b"\x89PNG\r\n\x1a\nmore"], documents)
    assert compose(CompositionInput("m", message=text, attachments=other))["digest"] != context["digest"]
    if documents:
        name, first, summary = documents[0]
        other, _ = carried(images, [(name, first + "x", summary), *documents[1:]])
        assert compose(CompositionInput("m", message=text, attachments=other))["digest"] != context["digest"]


@given(st.binary(max_size=40), st.sampled_from([*SUFFIXES]))
def test_a_key_is_of_its_content(data: bytes, media_type: str) -> None:
    """It tells its type, one content of one type has one, and base64 brings the bytes back."""
    key = key_of(data, media_type)
    assert type_of_key(key) == media_type
    assert key_of(data + b"\0", media_type) != key
    assert content_of(base64.b64encode(data).decode()) == data
    assert media_type_of(data) in {None, *SUFFIXES}


@given(
    st.lists(st.dictionaries(st.sampled_from(FIELDS), HOSTILE_JSON), max_size=3),
    st.lists(st.dictionaries(st.sampled_from(PAPER_FIELDS), HOSTILE_JSON), max_size=3),
)
def test_every_body_is_judged(images: list[Json], documents: list[Json]) -> None:
    """Whatever texts stand in attachments, there are issues or there is something to keep for each of them."""
    given: Json = {"images": images, "documents": documents}
    issues = attachment_issues(given, LIMITS)
    assert all(issue.path.startswith("attachments") for issue in issues)
    if issues:
        return
    for image in images:
        assert ("data" in image) != bool({"storageKey", "uploadId"} & {*image})
        assert "data" not in image or str(media_type_of(content_of(image["data"]))).startswith("image/")
    for document in documents:
        assert {"parsedContent", "uploadId", "rawContentStorageKey"} & {*document}
        assert "parsedContent" not in document or 0 < len(document["parsedContent"].encode()) <= LIMITS.size
