"""Shapes repeat the values of an enumeration or of a port as literals: what a type checker cannot compare."""

from collections.abc import Iterable
from typing import Any, get_args, get_type_hints

import attrs
import pytest

from wfcore.api.changes import ChangeDto
from wfcore.api.management import MissedSlot, SchedulePause
from wfcore.api.organization import PolicyRequire, PolicyWhen, RoleName
from wfcore.api.resources import OtherTrigger, ScheduleDto, ScheduleTrigger, Weekday
from wfcore.api.usage import UsageReport
from wfcore.domain.graph.node_types import NodeType, NodeTypeName
from wfcore.domain.json.values import wire_name
from wfcore.domain.resources.access import Role
from wfcore.domain.resources.lifecycle import Status, StatusName
from wfcore.domain.rules.policies import CONDITIONS, REQUIREMENTS
from wfcore.domain.run.state import RunStatus, RunStatusName
from wfcore.domain.triggers.schedule import TRIGGER_TYPES, WEEKDAYS, Frequency
from wfcore.ports.changes import KINDS, What
from wfcore.ports.repositories.schedules import MissReason, PauseReason
from wfcore.ports.repositories.usage import GROUPS


def _of(shape: Any, field: str) -> tuple[Any, ...]:
    return get_args(get_type_hints(shape)[field])


def _keys(shape: type[Any]) -> tuple[str, ...]:
    return tuple(wire_name(field) for field in attrs.fields(shape))


@pytest.mark.parametrize(
    ("named", "values"),
    [
        (get_args(NodeTypeName), NodeType),
        (_keys(PolicyWhen), CONDITIONS),
        (_keys(PolicyRequire), REQUIREMENTS),
        (get_args(StatusName), Status),
        (get_args(RunStatusName), RunStatus),
        (get_args(RoleName), Role),
        (_of(ScheduleDto, "frequency"), Frequency),
        (get_args(Weekday), WEEKDAYS),
        (_of(ScheduleTrigger, "trigger_type") + _of(OtherTrigger, "trigger_type"), TRIGGER_TYPES),
        (_of(MissedSlot, "reason"), get_args(MissReason)),
        (_of(ChangeDto, "what"), get_args(What)),
        (_of(ChangeDto, "kind"), ("hello", *KINDS)),
        (_of(UsageReport, "groupBy"), GROUPS),
    ],
    ids=str,
)
def test_a_shape_has_all_values(named: Iterable[str], values: Iterable[str]) -> None:
    """A value that is added to one of the two, and not to the other, fails here."""
    assert list(named) == list(values)


def test_a_pause_has_the_reasons_of_the_scheduler() -> None:
    """The shape of a pause has further reasons: why a schedule that nobody disabled does not fire."""
    assert set(_of(SchedulePause, "reason")) > set(get_args(PauseReason))
