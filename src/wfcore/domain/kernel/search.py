"""The search of lists: plain text that a name contains, without wildcards."""

import string
from typing import Final

_ASCII_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def folded(text: str) -> str:
    """The text with its ASCII letters in lower case: all that databases fold alike."""
    return text.translate(_ASCII_LOWER)


def contains(query: str | None, *texts: str | None) -> bool:
    """Whether one of the texts contains the query, ASCII letters in either case. None excludes nothing."""
    return query is None or any(folded(query) in folded(text) for text in texts if text is not None)
