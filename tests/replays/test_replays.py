"""Journals that earlier programs wrote lead to what they led to then: for ever, once a release has been tagged."""

import json
from collections import Counter
from typing import Any, get_args

import msgspec
import pytest
from frozen import FOLDER, Frozen, Json, default_of, fold
from rereading import reread

from wfcore.domain.run.effects import Effect
from wfcore.domain.run.entries import TAGS, VERSION, encode_entry
from wfcore.domain.run.events import EventKind
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.plan import Plan
from wfcore.domain.run.versions import decode_stored

FILES = sorted(FOLDER.glob("*.jsonl"))
NAMES = [file.stem for file in FILES]
JOURNALS = [Frozen.read(file) for file in FILES]


def reread_with_sink(machine: Machine, first: Plan) -> Machine:
    """The machine from its snapshot, which goes on collecting events."""
    again = reread(machine, first)
    again.sink = machine.sink
    return again


def text(value: Any) -> str:
    """The value as JSON: 1 is not 1.0."""
    return json.dumps(value, sort_keys=True)


def without_empty(then: Json) -> Json:
    """Without the empty arrays of effects: the default of some is a tuple, which a snapshot reads as a list."""
    return {**then, "new": [{name: value for name, value in new.items() if value != []} for new in then["new"]]}


@pytest.mark.parametrize("frozen", JOURNALS, ids=NAMES)
class TestOfOneJournal:
    """What its file says of it."""

    def test_it_leads_to_the_same(self, frozen: Frozen) -> None:
        """After every entry the same status, effects, interrupts and next deadline; in the end the same events, state
        and rows of runs.
        """
        folded = fold(frozen)
        for number, (then, expected) in enumerate(zip(folded.thens, frozen.thens, strict=True), 1):
            assert (number, then) == (number, expected)
        assert folded.events == frozen.events
        assert folded.state == frozen.state
        assert folded.runs == frozen.runs

    def test_it_leads_to_the_same_by_snapshots(self, frozen: Frozen) -> None:
        """One is written and read after every entry."""
        folded = fold(frozen, reread_with_sink)
        assert text(list(map(without_empty, folded.thens))) == text(list(map(without_empty, frozen.thens)))
        assert text(folded.events) == text(frozen.events)
        assert text(folded.state) == text(frozen.state)

    def test_its_entries_are_written_as_they_were(self, frozen: Frozen) -> None:
        """An entry of this version has one text: what this release reads it also writes."""
        for text in frozen.entries:
            if json.loads(text)[1] == VERSION:
                assert encode_entry(decode_stored(text)).decode() == text


def test_every_field_of_every_entry_is_in_some_journal() -> None:
    """With a value of its own, not the one that is left out."""
    seen = {
        (type(entry), field.name)
        for frozen in JOURNALS
        for entry in frozen.decoded()
        for field in msgspec.structs.fields(type(entry))
        if getattr(entry, field.name) != default_of(field)
    }
    wanted = {(entry, field.name) for entry in TAGS for field in msgspec.structs.fields(entry)}
    assert wanted - seen == set()


def test_every_event_and_every_effect_is_in_some_journal() -> None:
    """By kind."""
    events = Counter(event["kind"] for frozen in JOURNALS for event in frozen.events)
    effects = Counter(name.split()[0] for frozen in JOURNALS for then in frozen.thens for name in then["pending"])
    assert set(events) == {str(kind) for kind in EventKind}
    assert set(effects) == {effect.__name__ for effect in get_args(Effect)}
