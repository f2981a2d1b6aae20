"""Escaping of untrusted text for a terminal."""

import re

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """The text with each control character as an escape such as `\\u001b`; line feeds and tabs stay.

    These are C0, C1 and the characters that change the direction of text (compare CVE-2021-42574): no tool, model or
    document can change how a prompt looks.
    """
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
