"""Attachments in the message to an agent."""

import base64
from typing import Any

from wfcore.domain.agents.attachments import TEXT, key_of
from wfcore.domain.agents.context_attachments import IMAGE_TOKENS, Attached, attached, keys_of, tokens_of, with_content

LONG = b"Refunds take 14 days. " * 20
PNG_KEY, LONG_KEY = key_of(b"png", "image/png"), key_of(LONG, TEXT)
IMAGE = {"storageKey": PNG_KEY, "mimeType": "image/png", "sizeBytes": 3}
DOCUMENT = {"storageKey": LONG_KEY, "sizeBytes": len(LONG), "fileName": "rules.md"}


def stored(*documents: dict[str, Any], images: Any = ()) -> dict[str, Any]:
    return {"images": list(images), "documents": list(documents)}


def test_nothing_attached() -> None:
    """A message without attachments does not change."""
    assert attached(None) == attached({}) == Attached()
    message = {"type": "human", "content": "hi"}
    assert with_content(message, {}) is message
    assert list(keys_of(message)) == []
    assert tokens_of(None) == 0


def test_whole_attachments() -> None:
    """Without a limit, images and documents are whole."""
    found = attached(stored(DOCUMENT, images=[IMAGE]))
    assert [(part.source, part.key) for part in found.parts] == [("image", PNG_KEY), ("document", LONG_KEY)]
    assert not found.issues
    message = {"type": "human", "content": "look", **found.human}
    assert list(keys_of(message)) == [PNG_KEY, LONG_KEY]
    assert tokens_of(message["attachments"]) == IMAGE_TOKENS + found.parts[1].tokens
    shown = with_content(message, {PNG_KEY: b"png", LONG_KEY: LONG})
    assert shown["images"] == [{"mimeType": "image/png", "data": base64.b64encode(b"png").decode()}]
    assert shown["content"].startswith("look\n")
    assert LONG.decode() in shown["content"]
    assert '"title":"rules.md"' in shown["content"]
    assert "attachments" not in shown


def test_a_summary_replaces_a_document_that_does_not_fit() -> None:
    """The message has no key of the document, only its summary."""
    found = attached(stored({**DOCUMENT, "summary": "About refunds"}), 100)
    assert found.human["attachments"]["documents"] == [
        {"name": "rules.md", "summary": "About refunds", "tokens": found.parts[0].tokens}
    ]
    message = {"type": "human", "content": "look", **found.human}
    assert list(keys_of(message)) == []
    shown = with_content(message, {})
    assert "About refunds" in shown["content"]
    assert '"title":"summary of rules.md"' in shown["content"]
    assert "images" not in shown


def test_a_document_without_a_summary_that_does_not_fit() -> None:
    """It is an issue, as is a summary that does not fit; other documents stay."""
    short = {"storageKey": key_of(b"a", TEXT), "sizeBytes": 1}
    found = attached(stored(DOCUMENT, {**DOCUMENT, "summary": "x" * 999}, short), 100)
    assert [issue.path for issue in found.issues] == ["attachments.documents[0]", "attachments.documents[1]"]
    assert [part.key for part in found.parts] == [short["storageKey"]]


def test_the_limit_is_for_all_documents_together() -> None:
    """Each document reduces what is left for the next one."""
    size = attached(stored(DOCUMENT)).parts[0].tokens
    assert len(attached(stored(DOCUMENT, DOCUMENT), 2 * size).parts) == 2
    assert len(attached(stored(DOCUMENT, DOCUMENT), 2 * size - 1).parts) == 1
