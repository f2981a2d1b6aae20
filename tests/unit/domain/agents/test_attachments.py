"""Attachments: media types, storage keys, and the checks of a body."""

import base64
from typing import Any

import pytest

from wfcore.domain.agents.attachments import (
    TEXT,
    AttachmentLimits,
    attachment_issues,
    content_of,
    contradicts_type,
    key_of,
    media_type_of,
    type_of_key,
    upload_fields,
)

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)
LIMITS = AttachmentLimits(count=2, size=30)
IMAGE_KEY, TEXT_KEY = key_of(PNG, "image/png"), key_of(b"hi", TEXT)


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


class TestContent:
    """Content and its keys."""

    @pytest.mark.parametrize(
        ("data", "media_type"),
        [
            (PNG, "image/png"),
            (b"\xff\xd8\xff\xe0", "image/jpeg"),
            (b"GIF87a", "image/gif"),
            (b"GIF89a", "image/gif"),
            (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
            (b"RIFF\0\0\0\0WAVE", None),
            ("Grüße\n\t".encode(), TEXT),
            (b"", None),
            (b"a\0b", None),
            (b"\xff\xfe", None),
        ],
    )
    def test_media_types(self, data: bytes, media_type: str | None) -> None:
        """The first bytes decide; text is UTF-8 without control characters."""
        assert media_type_of(data) == media_type

    def test_keys(self) -> None:
        """A key has the hash of the content and a suffix of its type."""
        assert type_of_key(IMAGE_KEY) == "image/png"
        assert type_of_key(TEXT_KEY) == TEXT
        for text in ("", "x.png", f"{'a' * 64}.exe", f"{'a' * 64}.png\n"):
            assert type_of_key(text) is None

    def test_base64(self) -> None:
        """Padding is required, and other characters are refused."""
        assert content_of("aGk=") == b"hi"
        for text in ("aGk", "aG k=", "ä"):
            with pytest.raises(ValueError, match=r"."):
                content_of(text)

    @pytest.mark.parametrize(
        ("claimed", "media_type", "contradicts"),
        [
            (None, "image/png", False),
            ("application/octet-stream", "image/png", False),
            ("Image/PNG; x=1", "image/png", False),
            ("image/gif", "image/png", True),
            ("image/jpg", "image/jpeg", False),
            ("image/png", "image/jpeg", True),
            ("text/markdown", TEXT, False),
            ("application/json", TEXT, False),
            ("image/png", TEXT, True),
        ],
    )
    def test_claimed_types(self, claimed: str | None, media_type: str, contradicts: bool) -> None:
        """Any text type and JSON agree with text; `image/jpg` agrees with JPEG."""
        assert contradicts_type(claimed, media_type) is contradicts


class TestBodies:
    """Attachments of a body."""

    @pytest.mark.parametrize(
        ("image", "found"),
        [
            ({"data": encoded(PNG)}, []),
            ({"data": encoded(PNG), "mimeType": "image/gif"}, [("mimeType", "mediaType")]),
            ({"data": encoded(PNG), "uploadId": "x"}, [("uploadId", "exclusive")]),
            ({"data": "?"}, [("data", "base64")]),
            ({"data": encoded(b"hi")}, [("data", "mediaType")]),
            ({"data": encoded(PNG + bytes(15))}, [("data", "maxBytes")]),
            ({"data": encoded(bytes(999))}, [("data", "maxBytes")]),
            ({}, [("data", "required_if")]),
            ({"storageKey": IMAGE_KEY, "uploadId": IMAGE_KEY}, []),
            ({"storageKey": IMAGE_KEY, "uploadId": "x"}, [("storageKey", "exclusive")]),
            ({"storageKey": TEXT_KEY}, [("storageKey", "mediaType")]),
            ({"storageKey": IMAGE_KEY, "mimeType": "image/gif"}, [("mimeType", "mediaType")]),
            ({"uploadId": "x"}, []),
        ],
    )
    def test_images(self, image: dict[str, Any], found: list[tuple[str, str]]) -> None:
        """An image has its content or the key of an upload, and the type that it claims."""
        issues = attachment_issues({"images": [image]}, LIMITS)
        assert [(issue.path, issue.rule) for issue in issues] == [
            (f"attachments.images[0].{field}", rule) for field, rule in found
        ]

    @pytest.mark.parametrize(
        ("document", "found"),
        [
            ({"parsedContent": "hi"}, []),
            ({"parsedContent": ""}, [("parsedContent", "mediaType")]),
            ({"parsedContent": "a\0"}, [("parsedContent", "mediaType")]),
            ({"parsedContent": "x" * 31}, [("parsedContent", "maxBytes")]),
            ({"parsedContent": "hi", "uploadId": IMAGE_KEY}, []),
            ({}, [("parsedContent", "required_if")]),
            ({"uploadId": TEXT_KEY}, []),
            ({"uploadId": IMAGE_KEY}, [("parsedContent", "required_if")]),
            ({"uploadId": TEXT_KEY, "rawContentStorageKey": "x"}, [("rawContentStorageKey", "exclusive")]),
        ],
    )
    def test_documents(self, document: dict[str, Any], found: list[tuple[str, str]]) -> None:
        """A document has its text or the upload of a text."""
        issues = attachment_issues({"documents": [document]}, LIMITS)
        assert [(issue.path, issue.rule) for issue in issues] == [
            (f"attachments.documents[0].{field}", rule) for field, rule in found
        ]

    def test_the_number_is_bounded(self) -> None:
        """Images and documents count together; too many of them are not checked."""
        assert attachment_issues({"images": [], "documents": None}, LIMITS) == []
        [issue] = attachment_issues({"images": [{}, {}], "documents": [{}]}, LIMITS)
        assert (issue.path, issue.rule) == ("attachments", "maxItems")

    def test_fields_of_uploads(self) -> None:
        """The fields have an order."""
        assert upload_fields({"uploadId": "a", "storageKey": "a", "data": "b"}) == ["storageKey", "uploadId"]
