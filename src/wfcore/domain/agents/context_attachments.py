"""The attachments of a run as a part of the message to an agent.

In the journal, in a composed context and in the conversation the message has `attachments`: storage keys and token
estimates. A key identifies the content, so the digest of a context covers the content too. For a call of the model,
`with_content` replaces the keys by content, in this message and in earlier ones. Images become images of the message.
Documents follow the text as data, each in a block that its content cannot close: the whole text if it fits into half of
the context window, else its summary. A document without a summary that does not fit is refused.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from wfcore.domain.agents.context_messages import Message
from wfcore.domain.agents.context_text import Fact, data_blocks, size_tokens, tokens
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.json_readers import as_integer, as_number, as_objects, as_text, optional_object
from wfcore.domain.kernel.json_type import JSON

IMAGE_TOKENS: Final = 1_600
"""The estimate for an image: about what providers count for the largest image that they accept."""
_INTRO: Final = tokens(data_blocks([Fact("document", "1", "")])[0]) + 1


@attrs.frozen
class AttachmentBlock:
    """One attachment in a context: its estimated tokens, and why it is in the context."""

    source: str
    key: str
    tokens: int
    why: str


@attrs.frozen
class Attached:
    """The attachments of a context: `human` extends its message, `parts` become segments."""

    human: Mapping[str, JSON] = attrs.field(factory=dict)
    parts: Sequence[AttachmentBlock] = ()
    issues: Sequence[Issue] = ()


def attached(stored: Mapping[str, JSON] | None, limit: int | None = None) -> Attached:
    """The attachments in a run's state for a message, with at most `limit` tokens of documents; None means no limit."""
    if not stored:
        return Attached()
    images = [_image(image) for image in as_objects(stored["images"])]
    parts = [AttachmentBlock("image", as_text(image["storageKey"]), IMAGE_TOKENS, "attached") for image in images]
    documents, issues = list[JSON](), list[Issue]()
    for index, document in enumerate(as_objects(stored["documents"])):
        entry, part = _fitted(index, document, limit)
        if entry is None or part is None:
            message = f"must fit into the {limit} tokens left for documents, or have a summary that does"
            issues.append(Issue(f"attachments.documents[{index}]", message, "contextWindow"))
            continue
        documents.append({**entry, "tokens": part.tokens})
        parts.append(part)
        limit = None if limit is None else limit - part.tokens
    return Attached({"attachments": {"images": images, "documents": documents}}, parts, issues)


def tokens_of(attachments: Mapping[str, JSON] | None) -> int:
    """The estimate for the attachments of a message."""
    entries = (entry for kind in (attachments or {}).values() for entry in as_objects(kind))
    return sum(as_integer(entry["tokens"]) for entry in entries)


def keys_of(message: Message) -> Iterator[str]:
    """The keys of the content that `with_content` needs for a message."""
    for entries in (optional_object(message.get("attachments")) or {}).values():
        yield from (as_text(entry["storageKey"]) for entry in as_objects(entries) if "storageKey" in entry)


def with_content(message: Message, contents: Mapping[str, bytes]) -> Message:
    """The message for the model; `contents` has the content of its keys."""
    given = optional_object(message.get("attachments"))
    if given is None:
        return message
    images = [
        {"mimeType": image["mimeType"], "data": base64.b64encode(contents[as_text(image["storageKey"])]).decode()}
        for image in as_objects(given["images"])
    ]
    documents = as_objects(given["documents"])
    facts = [_fact(index, each, _text(each, contents)) for index, each in enumerate(documents)]
    rest = {name: value for name, value in message.items() if name != "attachments"}
    text = "\n".join([as_text(message["content"]), *data_blocks(facts)])
    return {**rest, "content": text, **({"images": images} if images else {})}


def _image(image: Mapping[str, JSON]) -> dict[str, JSON]:
    return {"mimeType": image["mimeType"], "storageKey": image["storageKey"], "tokens": IMAGE_TOKENS}


def _fitted(
    index: int, document: Mapping[str, JSON], limit: int | None
) -> tuple[dict[str, JSON] | None, AttachmentBlock | None]:
    """The entry of a document in the message, and its part; no part if neither text nor summary fits."""
    key = as_text(document["storageKey"])
    named: dict[str, JSON] = {"name": document["fileName"]} if document.get("fileName") else {}
    whole = {**named, "storageKey": key}
    size = _INTRO + _fact(index, whole).tokens + size_tokens(int(as_number(document["sizeBytes"])))
    if limit is None or size <= limit:
        return whole, AttachmentBlock("document", key, size, "attached")
    summary = as_text(document.get("summary") or "")
    summed = {**named, "summary": summary}
    size = _INTRO + _fact(index, summed, summary).tokens
    if not summary or size > limit:
        return None, None
    return summed, AttachmentBlock("document", key, size, "attached; only its summary fits")


def _fact(index: int, document: Mapping[str, JSON], text: str = "") -> Fact:
    name = as_text(document.get("name", ""))
    title = f"summary of {name}".strip() if "summary" in document else name
    return Fact("document", str(index + 1), text, title)


def _text(document: Mapping[str, JSON], contents: Mapping[str, bytes]) -> str:
    if "summary" in document:
        return as_text(document["summary"])
    return contents[as_text(document["storageKey"])].decode()
