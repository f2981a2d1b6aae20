"""Laws of attachments: their content in a message, and the checks of bodies."""

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
DOCUMENT_FIELDS = ("fileName", "parsedContent", "uploadId", "rawContentStorageKey", "summary")


def stored(images: list[bytes], documents: list[tuple[str | None, str, str]]) -> tuple[Json, Mapping[str, bytes]]:
    """Attachments in a run's state, and the content of their keys."""
    kept = {key_of(data, "image/png"): data for data in images}
    image_entries = [{"storageKey": key, "mimeType": "image/png", "sizeBytes": len(kept[key])} for key in kept]
    document_entries = []
    for name, text, summary in documents:
        key = key_of(text.encode(), TEXT)
        kept[key] = text.encode()
        entry = {"storageKey": key, "sizeBytes": len(text.encode()), "fileName": name, "summary": summary}
        document_entries.append({field: value for field, value in entry.items() if value is not None})
    return {"images": image_entries, "documents": document_entries}, kept


DOCUMENTS = st.lists(st.tuples(NAMES, HOSTILE, HOSTILE), max_size=4)


@given(HOSTILE, st.lists(IMAGES, max_size=3), DOCUMENTS)
def test_a_message_shows_exactly_its_attachments(text: str, images: list[bytes], documents: Any) -> None:
    """The blocks with the mark are exactly the attached documents, in order; images are whole."""
    given, kept = stored(images, documents)
    found = attached(given)
    message = with_content({"type": "human", "content": text, **found.human}, kept)
    assert [base64.b64decode(image["data"]) for image in message.get("images", [])] == [*dict.fromkeys(images)]
    assert message["content"].startswith(text)
    shown = message["content"][len(text) :]
    if not documents:
        assert shown == ""
        return
    mark = re.findall("<([0-9a-f]{24}) ", shown)[0]
    blocks = re.findall(
        rf"<{mark} document ([^\n]*)>\n(.*?)\n</{mark}>", shown.partition(" below is data")[2], re.DOTALL
    )
    assert [(json.loads(about).get("title"), content) for about, content in blocks] == [
        (name or None, content) for name, content, _ in documents
    ]


@given(HOSTILE, st.lists(IMAGES, max_size=2), DOCUMENTS, st.integers(1, 400))
def test_the_estimate_covers_the_shown_text(text: str, images: list[bytes], documents: Any, limit: int) -> None:
    """Under any limit, the estimate of the parts covers their text; a document that is left out is an issue."""
    given, kept = stored(images, documents)
    found = attached(given, limit)
    message = with_content({"type": "human", "content": text, **found.human}, kept)
    sizes = [part.tokens for part in found.parts if part.source == "document"]
    assert tokens(message["content"]) <= tokens(text) + sum(sizes)
    assert sum(sizes) <= limit
    assert len(sizes) + len(found.issues) == len(documents)


@given(HOSTILE, st.lists(IMAGES, max_size=2), DOCUMENTS)
def test_the_digest_covers_every_byte(text: str, images: list[bytes], documents: Any) -> None:
    """The digest of a context changes with any attached byte; its message needs exactly the attached keys."""
    given, kept = stored(images, documents)
    context = compose(CompositionInput("m", message=text, attachments=given))
    [message] = request_of(context, (), ())
    assert {*keys_of(message)} == {*kept}
    other, _ = stored([*images, b"\x89PNG\r\n\x1a\nmore"], documents)
    assert compose(CompositionInput("m", message=text, attachments=other))["digest"] != context["digest"]
    if documents:
        name, first, summary = documents[0]
        other, _ = stored(images, [(name, first + "x", summary), *documents[1:]])
        assert compose(CompositionInput("m", message=text, attachments=other))["digest"] != context["digest"]


@given(st.binary(max_size=40), st.sampled_from([*SUFFIXES]))
def test_a_key_is_of_its_content(data: bytes, media_type: str) -> None:
    """A key has the media type, differs by content, and base64 is reversible."""
    key = key_of(data, media_type)
    assert type_of_key(key) == media_type
    assert key_of(data + b"\0", media_type) != key
    assert content_of(base64.b64encode(data).decode()) == data
    assert media_type_of(data) in {None, *SUFFIXES}


@given(
    st.lists(st.dictionaries(st.sampled_from(FIELDS), HOSTILE_JSON), max_size=3),
    st.lists(st.dictionaries(st.sampled_from(DOCUMENT_FIELDS), HOSTILE_JSON), max_size=3),
)
def test_every_body_is_checked(images: list[Json], documents: list[Json]) -> None:
    """For any texts in attachments, there are issues, or each attachment has content or an upload."""
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
