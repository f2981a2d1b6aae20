"""What others wrote, on a terminal: shown, never obeyed."""

import re

_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """The text with whatever a terminal would obey as an escape such as `\\u001b`; line feeds and tabs stay.

    That is all of C0 and C1, and what turns the direction of text round (compare CVE-2021-42574): no tool, model or
    document can repaint a question that a person is asked.
    """
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
