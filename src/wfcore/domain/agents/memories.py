"""Memories of a skill: update masks, the hash of a text, its words and their weights (interface, Memory)."""

import hashlib
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Final

from wfcore.domain.agents.stems import stem
from wfcore.domain.json.codec import dumps
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.json_readers import as_object, as_text
from wfcore.domain.kernel.json_type import JSON

FIELDS = ("memory", "metadata")

MAX_METADATA: Final = 65_536
"""Bytes of the metadata of one memory as JSON: lists, searches and contexts hold that of many."""

_WORD: Final = re.compile(r"[^\W_]+")
_WORD_LENGTH: Final = 128

Path = tuple[str, ...]
"""A field that an update changes: `("memory",)`, `("metadata",)`, or `("metadata", key)` for one key of it."""


def text_hash(text: str) -> str:
    """SHA-256 of the text in UTF-8, 64 hexadecimal digits: equal texts have equal hashes."""
    return hashlib.sha256(text.encode()).hexdigest()


def words_of(text: str) -> set[str]:
    """The stems of the distinct words of a text: letters and digits of every script, without case and accents.

    A word is cut to 128 characters. Forms of an English word have one stem (`stem`).
    """
    letters = text if text.isascii() else _without_accents(text)
    return {stem(word[:_WORD_LENGTH]) for word in _WORD.findall(letters.casefold())}


def weights_of(counts: Mapping[str, int]) -> dict[str, int]:
    """The weight of each word in a search, from the number of memories of the skill that have it, which is above 0.

    It is between 1 and 1,000, and the smaller the more memories have the word: 1,000 for one, half of that for three.
    Integers make the sums, and so the order, equal in every store.
    """
    return {word: max(1, round(1_000 / math.log2(1 + count))) for word, count in counts.items()}


def _without_accents(text: str) -> str:
    return "".join(each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each))


def mask_paths(mask: str | None, body: Mapping[str, JSON]) -> list[Path]:
    """The fields that an `updateMask` names; without a mask those of the body (interface, Update a memory of a scope).

    The text after the first dot is one key of the metadata, with any further dots.
    """
    if mask is None:
        return [(field,) for field in FIELDS if isinstance(body, Mapping) and field in body]
    return [tuple(path.split(".", 1)) for path in dict.fromkeys(mask.split(","))]


def mask_issues(paths: Iterable[Path], body: Mapping[str, JSON]) -> list[Issue]:
    """One issue for each path that is not a field of a memory, or that the body does not have."""
    return [Issue("updateMask", problem, "query") for path in paths if (problem := _problem(path, body))]


def metadata_issues(body: Mapping[str, JSON]) -> list[Issue]:
    """An issue for metadata that are too large."""
    metadata = body.get("metadata")
    if not isinstance(metadata, Mapping) or len(dumps(metadata).encode()) <= MAX_METADATA:
        return []
    return [Issue("metadata", f"must have at most {MAX_METADATA} bytes as JSON", "maxBytes")]


def _problem(path: Path, body: Mapping[str, JSON]) -> str | None:
    shown = "`" + ".".join(path)[:100] + "`"
    if path[0] not in FIELDS or (path[0] == "memory" and len(path) > 1):
        return f"{shown} is not one of `memory`, `metadata`, `metadata.<key>`"
    holder: JSON = body
    for step in path:
        if not isinstance(holder, Mapping) or step not in holder:
            return f"{shown} is not in the body"
        holder = holder[step]
    return None


def revised(
    text: str, metadata: Mapping[str, JSON], paths: Iterable[Path], body: Mapping[str, JSON]
) -> tuple[str, Mapping[str, JSON]]:
    """Text and metadata, with the fields of the paths replaced by those of the body."""
    for path in paths:
        if path == ("memory",):
            text = as_text(body["memory"])
        elif path == ("metadata",):
            metadata = as_object(body["metadata"])
        else:
            metadata = {**metadata, path[1]: as_object(body["metadata"])[path[1]]}
    return text, metadata
