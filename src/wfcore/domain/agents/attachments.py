"""Attachments of a run: what may be attached, how it is kept, and what a body has to say of it (interface, Resume).

Content is kept apart from the run, under a key that the server makes of it: its SHA-256 and its media type. So a key
names every byte, the same content is kept once, and what a run carries are keys. A body brings content along (`data`
of an image, `parsedContent` of a document) or names by its key what was uploaded before; `uploadId`, `storageKey` and
`rawContentStorageKey` are that same key.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final

import attrs

from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.json_type import JSON

TEXT: Final = "text/plain"

SUFFIXES: Final[Mapping[str, str]] = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    TEXT: "txt",
}
"""The media types that are kept, and how keys of such content end."""

_TYPES: Final = {suffix: media_type for media_type, suffix in SUFFIXES.items()}
_KEY: Final = re.compile(r"[0-9a-f]{64}\.([a-z]+)", re.ASCII)
_BEGINNINGS: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
"""How images of each type begin (WHATWG MIME Sniffing, 6.1)."""
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f]")

_FIELDS: Final = ("storageKey", "rawContentStorageKey", "uploadId")
"""The fields of an attachment that name an upload."""


@attrs.frozen
class AttachmentLimits:
    """How many attachments a body may have, images and documents together, and how many bytes each."""

    count: int = 10
    size: int = 5 * 2**20


# Content


def media_type_of(data: bytes) -> str | None:
    """What the bytes are, whatever anybody says of them; None for what is not kept."""
    for beginning, media_type in _BEGINNINGS.items():
        if data.startswith(beginning):
            return media_type
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return TEXT if text and not _CONTROL.search(text) else None


def key_of(data: bytes, media_type: str) -> str:
    """What content of this type is kept under."""
    return f"{sha256(data).hexdigest()}.{SUFFIXES[media_type]}"


def type_of_key(key: str) -> str | None:
    """The media type of what is kept under a key; None for what is no key."""
    parts = _KEY.fullmatch(key)
    return _TYPES.get(parts[1]) if parts else None


def content_of(text: str) -> bytes:
    """The bytes that base64 with padding stands for (RFC 4648, 4); ValueError for anything else."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def misnamed(claimed: str | None, media_type: str) -> bool:
    """Whether somebody says that the content is of another type than it is. Text is `text/*`, or JSON."""
    named = (claimed or "").partition(";")[0].strip().lower()
    if named in ("", "application/octet-stream", media_type):
        return False
    if media_type == "image/jpeg":
        return named != "image/jpg"
    return media_type != TEXT or not (named.startswith("text/") or named == "application/json")


# Bodies


def naming(attachment: Mapping[str, JSON]) -> list[str]:
    """The fields by which an image or a document names an upload; none when all of it is in the body."""
    return [name for name in _FIELDS if name in attachment]


def attachment_issues(attachments: Mapping[str, JSON], limits: AttachmentLimits) -> list[Issue]:
    """What is wrong with attachments that have their shape, as far as the body tells."""
    images, documents = attachments.get("images") or [], attachments.get("documents") or []
    if len(images) + len(documents) > limits.count:
        return [Issue("attachments", f"must have at most {limits.count} entries together", "maxItems")]
    return [
        *(issue for place, image in _placed("images", images) for issue in _image_issues(place, image, limits)),
        *(issue for place, each in _placed("documents", documents) for issue in _document_issues(place, each, limits)),
    ]


def _placed(kind: str, entries: Sequence[JSON]) -> Iterator[tuple[str, JSON]]:
    return ((f"attachments.{kind}[{index}]", entry) for index, entry in enumerate(entries))


def _image_issues(place: str, image: Mapping[str, JSON], limits: AttachmentLimits) -> Iterator[Issue]:
    named = naming(image)
    if "data" in image:
        yield from (Issue(f"{place}.{name}", "stands beside `data`", "exclusive") for name in named)
        yield from _data_issues(place, image, limits)
    elif not named:
        yield Issue(f"{place}.data", "is required where no upload is named", "required_if")
    else:
        yield from _key_issues(place, image, named)
        media_type = type_of_key(image[named[0]])
        if media_type == TEXT:
            yield Issue(f"{place}.{named[0]}", "is no image", "mediaType")
        elif media_type and misnamed(image.get("mimeType"), media_type):
            yield _misnaming(place, media_type)


def _data_issues(place: str, image: Mapping[str, JSON], limits: AttachmentLimits) -> Iterator[Issue]:
    if len(image["data"]) > 4 * (limits.size // 3 + 1):
        yield _too_large(f"{place}.data", limits)
        return
    try:
        content = content_of(image["data"])
    except ValueError:
        yield Issue(f"{place}.data", "must be base64 with padding", "base64")
        return
    media_type = media_type_of(content)
    if len(content) > limits.size:
        yield _too_large(f"{place}.data", limits)
    elif media_type in (None, TEXT):
        yield Issue(f"{place}.data", "must be an image: PNG, JPEG, GIF or WebP", "mediaType")
    elif misnamed(image.get("mimeType"), str(media_type)):
        yield _misnaming(place, str(media_type))


def _document_issues(place: str, document: Mapping[str, JSON], limits: AttachmentLimits) -> Iterator[Issue]:
    named = naming(document)
    yield from _key_issues(place, document, named)
    if "parsedContent" in document:
        yield from _text_issues(f"{place}.parsedContent", document["parsedContent"], limits)
    elif not named:
        yield Issue(f"{place}.parsedContent", "is required where no upload is named", "required_if")
    elif type_of_key(document[named[0]]) not in (None, TEXT):
        yield Issue(f"{place}.parsedContent", "is required where the upload is no text", "required_if")


def _text_issues(path: str, text: str, limits: AttachmentLimits) -> Iterator[Issue]:
    content = text.encode()
    if len(content) > limits.size:
        yield _too_large(path, limits)
    elif media_type_of(content) != TEXT:
        yield Issue(path, "must be text, without control characters", "mediaType")


def _key_issues(place: str, entry: Mapping[str, JSON], named: Sequence[str]) -> Iterator[Issue]:
    if len({entry[name] for name in named}) > 1:
        yield Issue(f"{place}.{named[0]}", f"names another upload than `{named[1]}`", "exclusive")


def _misnaming(place: str, media_type: str) -> Issue:
    return Issue(f"{place}.mimeType", f"the image is `{media_type}`", "mediaType")


def _too_large(path: str, limits: AttachmentLimits) -> Issue:
    return Issue(path, f"must have at most {limits.size} bytes", "maxBytes")
