"""The declared shapes of events are those of the events that runs have had."""

from typing import Final

import jsonschema_rs
from frozen import FOLDER, Frozen

from wfcore.domain.json.codec import schemas_of
from wfcore.domain.run.events import EVENTS

JOURNALS: Final = [Frozen.read(file) for file in sorted(FOLDER.glob("*.jsonl"))]

ELSEWHERE: Final = {("node_skipped", "reason"), ("interrupt", "connectionId")}
"""Fields that no journal has; tests of cycles and of connections have them."""


def test_every_event_has_the_fields_of_its_kind() -> None:
    """The declared ones with values of their types, and no others. Each declared field is in some journal."""
    shapes, seen = schemas_of(EVENTS.values(), "#/$defs/"), set[tuple[str, str]]()
    for kind, shape in EVENTS.items():
        own = shapes[shape.__name__] | {"additionalProperties": False, "$defs": shapes}
        check = jsonschema_rs.validator_for(own)
        for event in (event for frozen in JOURNALS for event in frozen.events if event["kind"] == kind):
            check.validate(event)
            seen |= {(kind, name) for name in event}
    wanted = {(str(kind), name) for kind, shape in EVENTS.items() for name in shapes[shape.__name__]["properties"]}
    assert {field for field in wanted - seen if field[1] not in ("path", "items")} == ELSEWHERE
