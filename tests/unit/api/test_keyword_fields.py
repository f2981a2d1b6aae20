"""Keyword arguments of use cases: the TypedDict beside a body has the names of the body's fields."""

import attrs
import pytest

from wfcore.api import runs

PAIRS = [
    (runs.CreateRun, runs.CreateRunFields, {"workflow", "skill"}, set()),
    (runs.ResumeRun, runs.ResumeRunFields, set(), {"run_id"}),
    (runs.Chat, runs.ChatFields, set(), set()),
    (runs.RunAction, runs.RunActionFields, set(), set()),
]
"""A body, its keyword arguments, the short names that only these have, and the fields that a use case takes itself."""


@pytest.mark.parametrize(
    ("body", "fields", "short", "elsewhere"), PAIRS, ids=lambda each: getattr(each, "__name__", "")
)
def test_every_field_is_a_keyword(body: type, fields: type, short: set[str], elsewhere: set[str]) -> None:
    """A field that is added to a body can be given as a keyword argument, too."""
    names = {field.name for field in attrs.fields(body)} - elsewhere
    assert fields.__annotations__.keys() == names | short
