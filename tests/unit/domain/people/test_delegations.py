"""Delegations: for which runs and how long they hold, and the faults of their bodies."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfcore.domain.json.codec import from_ms
from wfcore.domain.people.delegations import Delegation, delegation_issues

AT = from_ms(1_000)


@pytest.mark.parametrize(
    ("workflows", "kind", "number", "covered"),
    [
        (None, "workflow", 7, True),
        (None, "skill", 7, True),
        (None, "assistant", None, True),
        ((7,), "workflow", 7, True),
        ((7,), "workflow", 8, False),
        ((7,), "skill", 7, False),
        ((7,), "assistant", None, False),
    ],
)
def test_which_runs_it_covers(workflows: Any, kind: str, number: int | None, covered: bool) -> None:
    """Without `workflowIds` all, else those of these workflows."""
    assert Delegation("d", "ann", "bob", None, workflows).covers(kind, number) is covered


def test_until_when_it_holds() -> None:
    """The end itself is not included."""
    assert Delegation("d", "ann", "bob").is_current(AT)
    assert Delegation("d", "ann", "bob", from_ms(1_001)).is_current(AT)
    assert not Delegation("d", "ann", "bob", AT).is_current(AT)


@given(st.fixed_dictionaries({}, optional={"until": st.one_of(st.none(), st.text(), st.integers()), "workflowIds":
       st.one_of(st.none(), st.lists(st.one_of(st.integers(), st.text())))}))  # fmt: skip
def test_any_tree_has_issues_or_none(tree: dict[str, Any]) -> None:
    """No tree raises; each value that comes again is an issue."""
    rows, places = tree.get("workflowIds") or [], {issue.path for issue in delegation_issues(tree)}
    assert {path for path in places if path.startswith("workflowIds")} == {
        f"workflowIds[{place}]" for place, row in enumerate(rows) if row in rows[:place]
    }


@pytest.mark.parametrize("until", ["tomorrow", "2026-01-01", "2026-01-01T00:00:00", "9999-12-31T23:59:59-23:59"])
def test_an_end_that_is_not_an_instant(until: str) -> None:
    """It names the field and shows the format."""
    (issue,) = delegation_issues({"until": until})
    assert (issue.path, issue.rule) == ("until", "format")
    assert "2026-01-02T03:04:05Z" in issue.message


def test_how_long_it_holds_and_for_whom() -> None:
    """Before `until`, not at it; it concerns who gives and who gets."""
    bounded = Delegation("d", "ann", "bob", AT)
    assert [bounded.is_current(from_ms(moment)) for moment in (999, 1_000, 1_001)] == [True, False, False]
    assert Delegation("d", "ann", "bob").is_current(AT)
    assert [bounded.concerns(user) for user in ("ann", "bob", "eve")] == [True, True, False]


def test_a_delegation_on_the_wire() -> None:
    """Without a limit its fields are null."""
    assert Delegation("d", "ann", "bob").to_wire() == {
        "id": "d", "from": "ann", "to": "bob", "until": None, "workflowIds": None,
    }  # fmt: skip
    limited = Delegation("d", "ann", "bob", AT, (7,)).to_wire()
    assert (limited["until"], limited["workflowIds"]) == ("1970-01-01T00:00:01.000Z", [7])


def test_a_workflow_that_is_named_twice() -> None:
    """Each repetition is reported at its position."""
    found = delegation_issues({"workflowIds": [7, 8, 7]})
    assert [(issue.path, issue.message, issue.rule) for issue in found] == [
        ("workflowIds[2]", "`7` is given twice", "unique")
    ]
