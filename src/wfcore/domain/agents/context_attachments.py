"""How the attachments of a run become a part of the message that an agent is told.

In the journal, in a composed context and in the conversation the message has `attachments`: keys, which name every
byte, so that the digest of a context binds the content as well, and the tokens of each as estimated. `shown` puts the
content in their place when the model is called, of this message and of those that went before it. Images go along as
images. Documents stand below the text as data, each in a block that it cannot end: the whole text where half of the
context window has room for it, else its summary; one that has no summary either is refused.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from wfcore.domain.agents.context_messages import Message
from wfcore.domain.agents.context_text import Fact, size_tokens, tokens, told_as_data
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.json_type import JSON

IMAGE_TOKENS: Final = 1_600
"""The estimate for an image: about what providers count for one that is as large as they take."""
_INTRO: Final = tokens(told_as_data([Fact("document", "1", "")])[0]) + 1


@attrs.frozen
class AttachmentBlock:
    """One attachment in a context: its tokens as estimated, and why it is in as it is."""

    source: str
    key: str
    tokens: int
    why: str


@attrs.frozen
class Attached:
    """What a context has of attachments: `human` goes into its message, `parts` tell of it."""

    human: Mapping[str, JSON] = attrs.field(factory=dict)
    parts: Sequence[AttachmentBlock] = ()
    issues: Sequence[Issue] = ()


def attached(carried: Mapping[str, JSON] | None, room: int | None = None) -> Attached:
    """What is told of attachments as a run carries them, with so many tokens for documents; None: all of them."""
    if not carried:
        return Attached()
    images = [_picture(image) for image in carried["images"]]
    parts = [AttachmentBlock("image", image["storageKey"], IMAGE_TOKENS, "attached") for image in images]
    documents, issues = list[JSON](), list[Issue]()
    for index, document in enumerate(carried["documents"]):
        told, part = _fitted(index, document, room)
        if part is None:
            message = f"takes more than the {room} tokens that are left for documents, and has no summary"
            issues.append(Issue(f"attachments.documents[{index}]", message, "contextWindow"))
            continue
        documents.append({**told, "tokens": part.tokens})
        parts.append(part)
        room = None if room is None else room - part.tokens
    return Attached({"attachments": {"images": images, "documents": documents}}, parts, issues)


def tokens_of(attachments: Mapping[str, JSON] | None) -> int:
    """The estimate for the attachments of a message."""
    return sum(entry["tokens"] for entries in (attachments or {}).values() for entry in entries)


def keys_of(message: Message) -> Iterator[str]:
    """The keys whose content a message needs to be shown."""
    for entries in (message.get("attachments") or {}).values():
        yield from (entry["storageKey"] for entry in entries if "storageKey" in entry)


def shown(message: Message, contents: Mapping[str, bytes]) -> Message:
    """The message as a model gets it, `contents` being what is kept under its keys."""
    given = message.get("attachments")
    if given is None:
        return message
    images = [
        {"mimeType": image["mimeType"], "data": base64.b64encode(contents[image["storageKey"]]).decode()}
        for image in given["images"]
    ]
    facts = [_fact(index, each, _text(each, contents)) for index, each in enumerate(given["documents"])]
    rest = {name: value for name, value in message.items() if name != "attachments"}
    text = "\n".join([message["content"], *told_as_data(facts)])
    return {**rest, "content": text, **({"images": images} if images else {})}


def _picture(image: Mapping[str, JSON]) -> dict[str, JSON]:
    return {"mimeType": image["mimeType"], "storageKey": image["storageKey"], "tokens": IMAGE_TOKENS}


def _fitted(index: int, document: Mapping[str, JSON], room: int | None) -> tuple[JSON, AttachmentBlock | None]:
    """What is told of a document, and the part that this is; no part where nothing of it fits."""
    key, named = document["storageKey"], {"name": document["fileName"]} if document.get("fileName") else {}
    whole = {**named, "storageKey": key}
    size = _INTRO + _fact(index, whole).tokens + size_tokens(int(document["sizeBytes"]))
    if room is None or size <= room:
        return whole, AttachmentBlock("document", key, size, "attached")
    summed = {**named, "summary": document.get("summary") or ""}
    size = _INTRO + _fact(index, summed, summed["summary"]).tokens
    if not summed["summary"] or size > room:
        return None, None
    return summed, AttachmentBlock("document", key, size, "attached; its summary, as the whole has no room")


def _fact(index: int, document: Mapping[str, JSON], text: str = "") -> Fact:
    name = document.get("name", "")
    title = f"summary of {name}".strip() if "summary" in document else name
    return Fact("document", str(index + 1), text, title)


def _text(document: Mapping[str, JSON], contents: Mapping[str, bytes]) -> str:
    return document["summary"] if "summary" in document else contents[document["storageKey"]].decode()
