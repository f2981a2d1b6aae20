"""Stored entries of other releases."""

import json
from typing import Any

import pytest

from wfcore.domain.kernel.errors import Unavailable
from wfcore.domain.run.entries import VERSION, Actor, Paused, Succeeded, encode_entry
from wfcore.domain.run.versions import LIFTS, NewerEntry, decode_stored
from wfcore.testing.contracts.journal_values import EVERY_ENTRY


def older(version: int, tag: str, *fields: Any) -> str:
    return json.dumps([tag, version, *fields])


def from_minus_one(tag: str, fields: list[Any]) -> tuple[str, list[Any]]:
    """Times were in seconds."""
    return tag, [fields[0] * 1000, *fields[1:]]


def from_zero(tag: str, fields: list[Any]) -> tuple[str, list[Any]]:
    """`hold` was the tag of `pause`, and its user a text."""
    if tag == "hold":
        return "pause", [fields[0], {"user_id": fields[1], "email": None}]
    return tag, fields


MADE_UP = {-1: from_minus_one, 0: from_zero}


def test_every_entry_of_this_version_is_decoded_as_it_is() -> None:
    """No function is called for what this release has written, whatever the entry."""
    for entry in EVERY_ENTRY:
        assert decode_stored(encode_entry(entry), {}) == entry


def test_an_older_entry_is_lifted_version_by_version() -> None:
    """Each function makes one step; entries that a step does not concern pass through it."""
    assert decode_stored(older(0, "hold", 5000, "ann"), MADE_UP) == Paused(5000, Actor("ann"))
    assert decode_stored(older(-1, "hold", 5, "ann"), MADE_UP) == Paused(5000, Actor("ann"))
    assert decode_stored(older(-1, "ok", 5, 1, 1, 0, 1, "x"), MADE_UP) == Succeeded(5000, 1, 1, 0, 1, "x")


def test_every_older_version_has_a_function() -> None:
    """The table has no gap: the first version was 1."""
    assert sorted(LIFTS) == list(range(1, VERSION))


def test_an_entry_of_a_newer_release_names_both_versions() -> None:
    """It is not a defect of the run: the error is the one of a store that is not available."""
    with pytest.raises(NewerEntry, match=rf"version `{VERSION + 1}`, .* up to `{VERSION}`: use the newer release"):
        decode_stored(older(VERSION + 1, "new", 1))
    assert issubclass(NewerEntry, Unavailable)


@pytest.mark.parametrize(
    "line",
    ["", "{}", "[]", '["ok"]', older(0, "pause", 1), older(VERSION, "nonsense", 1), '["ok","1",1]', '["ok",null,1]'],
)
def test_a_line_of_no_release_is_refused(line: str) -> None:
    """ValueError, for text that is not an entry and for a version that no function lifts."""
    with pytest.raises(ValueError):
        decode_stored(line)
