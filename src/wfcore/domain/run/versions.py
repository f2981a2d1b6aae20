"""Stored entries of older releases, lifted to the layout of this one.

A stored entry is `[tag, version, field, ...]` (`entries`). A release that adds an entry, or changes the layout of one,
raises `VERSION` there and adds one function to `LIFTS`. The functions are applied in turn, so that each stays as it was
released; `tests/replays` keeps journals of every release. One journal may hold entries of several versions.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from wfcore.domain.kernel.errors import Unavailable
from wfcore.domain.run.entries import VERSION, Entry, decode_entry

Lift = Callable[[str, list[Any]], tuple[str, list[Any]]]
"""Tag and fields of an entry of one version, as the next version has them."""

LIFTS: Final[Mapping[int, Lift]] = {}
"""For each older version the function that lifts its entries to the next. Empty: version 1 is the first."""

_decode = msgspec.json.Decoder(list[Any]).decode
_encode = msgspec.json.Encoder().encode


class NewerEntry(Unavailable):
    """A newer release has written the entry: its processes can read it, this one cannot."""


def decode_stored(line: bytes | str, lifts: Mapping[int, Lift] = LIFTS) -> Entry:
    """The entry of one stored line, whatever release wrote it.

    Raises NewerEntry for a version above this release's; ValueError for a line that is not an entry of any release.
    """
    try:
        return decode_entry(line)  # almost all lines are of this version: they pay nothing for the others
    except ValueError:
        tag, version, *values = _decode(line)
        if version == VERSION or not isinstance(version, int):
            raise
    if version > VERSION:
        known = f"this release reads versions up to `{VERSION}`"
        raise NewerEntry(f"the journal has an entry of version `{version}`, {known}: use the newer release")
    while version < VERSION:
        if version not in lifts:
            raise ValueError(f"journal entry `{tag}` of version `{version}` is not known to this release")
        tag, values = lifts[version](tag, values)
        version += 1
    return decode_entry(_encode((tag, version, *values)))
