"""Attachments of a run: accepted content, its storage keys, and the rules for bodies (interface, Resume).

Content is stored apart from the run, under a key of its SHA-256 and its media type. So a key identifies the content
exactly, equal content is stored once, and a run has only keys. A body holds the content itself (`data` of an image,
`parsedContent` of a document) or the key of an upload; `uploadId`, `storageKey` and `rawContentStorageKey` are the
same key.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final

import attrs

from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.json_readers import as_objects, as_text, optional_text
from wfcore.domain.kernel.json_type import JSON

TEXT: Final = "text/plain"

SUFFIXES: Final[Mapping[str, str]] = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    TEXT: "txt",
}
"""The media types that are accepted, and the suffixes of their keys."""

_TYPES: Final = {suffix: media_type for media_type, suffix in SUFFIXES.items()}
_KEY: Final = re.compile(r"[0-9a-f]{64}\.([a-z]+)", re.ASCII)
_BEGINNINGS: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
"""The first bytes of each type of image (WHATWG MIME Sniffing, 6.1)."""
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f]")

_FIELDS: Final = ("storageKey", "rawContentStorageKey", "uploadId")
"""The fields of an attachment that name an upload."""


@attrs.frozen
class AttachmentLimits:
    """The most attachments of a body, images and documents together, and the most bytes of each."""

    count: int = 10
    size: int = 5 * 2**20


# Content


def media_type_of(data: bytes) -> str | None:
    """The media type of the bytes, found in the content itself; None for a type that is not accepted."""
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
    """The storage key of content of this type."""
    return f"{sha256(data).hexdigest()}.{SUFFIXES[media_type]}"


def type_of_key(key: str) -> str | None:
    """The media type of the content of a key; None for a text that is not a key."""
    parts = _KEY.fullmatch(key)
    return _TYPES.get(parts[1]) if parts else None


def content_of(text: str) -> bytes:
    """The bytes of a text in base64 with padding (RFC 4648, 4). Raises ValueError for any other text."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def contradicts_type(claimed: str | None, media_type: str) -> bool:
    """Whether the claimed media type contradicts the real one. `text/*` and JSON agree with text."""
    named = (claimed or "").partition(";")[0].strip().lower()
    if named in ("", "application/octet-stream", media_type):
        return False
    if media_type == "image/jpeg":
        return named != "image/jpg"
    return media_type != TEXT or not (named.startswith("text/") or named == "application/json")


# Bodies


def upload_fields(attachment: Mapping[str, JSON]) -> list[str]:
    """The fields of an image or a document that name an upload; empty if all of its content is in the body."""
    return [name for name in _FIELDS if name in attachment]


def attachment_issues(attachments: Mapping[str, JSON], limits: AttachmentLimits) -> list[Issue]:
    """The issues of attachments of the right shape that can be found without reading uploads."""
    images, documents = (as_objects(attachments.get(name) or ()) for name in ("images", "documents"))
    if len(images) + len(documents) > limits.count:
        return [Issue("attachments", f"must have at most {limits.count} entries together", "maxItems")]
    return [
        *(issue for path, image in _with_paths("images", images) for issue in _image_issues(path, image, limits)),
        *(issue for path, one in _with_paths("documents", documents) for issue in _document_issues(path, one, limits)),
    ]


def _with_paths(kind: str, entries: Sequence[Mapping[str, JSON]]) -> Iterator[tuple[str, Mapping[str, JSON]]]:
    return ((f"attachments.{kind}[{index}]", entry) for index, entry in enumerate(entries))


def _image_issues(path: str, image: Mapping[str, JSON], limits: AttachmentLimits) -> Iterator[Issue]:
    named = upload_fields(image)
    if "data" in image:
        yield from (Issue(f"{path}.{name}", "cannot be combined with `data`", "exclusive") for name in named)
        yield from _data_issues(path, image, limits)
    elif not named:
        yield Issue(f"{path}.data", "is required without an upload", "required_if")
    else:
        yield from _key_issues(path, image, named)
        media_type = type_of_key(as_text(image[named[0]]))
        if media_type == TEXT:
            yield Issue(f"{path}.{named[0]}", "must be the upload of an image", "mediaType")
        elif media_type and contradicts_type(optional_text(image.get("mimeType")), media_type):
            yield _wrong_type(path, media_type)


def _data_issues(path: str, image: Mapping[str, JSON], limits: AttachmentLimits) -> Iterator[Issue]:
    data = as_text(image["data"])
    if len(data) > 4 * (limits.size // 3 + 1):
        yield _too_large(f"{path}.data", limits)
        return
    try:
        content = content_of(data)
    except ValueError:
        yield Issue(f"{path}.data", "must be base64 with padding", "base64")
        return
    media_type = media_type_of(content)
    if len(content) > limits.size:
        yield _too_large(f"{path}.data", limits)
    elif media_type in (None, TEXT):
        yield Issue(f"{path}.data", "must be an image: PNG, JPEG, GIF or WebP", "mediaType")
    elif contradicts_type(optional_text(image.get("mimeType")), str(media_type)):
        yield _wrong_type(path, str(media_type))


def _document_issues(path: str, document: Mapping[str, JSON], limits: AttachmentLimits) -> Iterator[Issue]:
    named = upload_fields(document)
    yield from _key_issues(path, document, named)
    if "parsedContent" in document:
        yield from _text_issues(f"{path}.parsedContent", as_text(document["parsedContent"]), limits)
    elif not named:
        yield Issue(f"{path}.parsedContent", "is required without an upload", "required_if")
    elif type_of_key(as_text(document[named[0]])) not in (None, TEXT):
        yield Issue(f"{path}.parsedContent", "is required if the upload is not text", "required_if")


def _text_issues(path: str, text: str, limits: AttachmentLimits) -> Iterator[Issue]:
    content = text.encode()
    if len(content) > limits.size:
        yield _too_large(path, limits)
    elif media_type_of(content) != TEXT:
        yield Issue(path, "must be text, without control characters", "mediaType")


def _key_issues(path: str, entry: Mapping[str, JSON], named: Sequence[str]) -> Iterator[Issue]:
    if len({as_text(entry[name]) for name in named}) > 1:
        yield Issue(f"{path}.{named[0]}", f"must name the same upload as `{named[1]}`", "exclusive")


def _wrong_type(path: str, media_type: str) -> Issue:
    return Issue(f"{path}.mimeType", f"must be `{media_type}`, the type of the image", "mediaType")


def _too_large(path: str, limits: AttachmentLimits) -> Issue:
    return Issue(path, f"must have at most {limits.size} bytes", "maxBytes")
