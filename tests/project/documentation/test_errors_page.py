"""docs/reference/errors.md has every value of `code`, `rule` and `info.reason` that programs can compare."""

import re
from pathlib import Path

from error_values import values

import wfcore
from wfcore.domain.resources import lifecycle, ownership
from wfcore.domain.run.machine.states import output

PAGE = (Path(__file__).parents[3] / "docs/reference/errors.md").read_text()
DESCRIBED = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) - {"code"}
NOT_COMPARED = {
    "a run waits for your decision", "you talked about this lately",  # texts of suggestions
    "deliveries of events", "postings",  # names of loops in the log
    "illegal", "not_due", "plan_missing", "unknown_exit", "unknown_node", "wrong_decision",  # of the machine alone
    "stop", "tool_calls", "content_filter", "why",  # how a completion ends; a contract's own
}  # fmt: skip


def test_every_rule_is_described() -> None:
    """Each rule of an issue has a row that says what to do. They are found in calls with a position or a keyword, and
    in dictionaries.
    """
    found = values("rule")
    assert {"required", "reachable", "cycle", "self_revoking"} <= set(found)
    assert {rule: modules for rule, modules in found.items() if rule not in DESCRIBED} == {}


def test_every_reason_is_described() -> None:
    """Each reason has a row that says what to do."""
    known, found = DESCRIBED | NOT_COMPARED, values("reason")
    assert {"stale", "bounds", "not_owner", "last_owner"} <= set(found)
    assert {reason: modules for reason, modules in found.items() if reason not in known} == {}


def test_reasons_of_tables_are_described() -> None:
    """Those of states, of transfers and of failed runs."""
    tables = {*lifecycle.REASONS.values(), *ownership.REASONS.values(), *output.REASONS.values()}
    assert sorted(tables - DESCRIBED) == []


def test_every_code_is_described() -> None:
    """Each exception stands beside its code and its status."""
    kinds = [kind for kind in wfcore.WfcoreError.__subclasses__() if kind.__module__ == wfcore.WfcoreError.__module__]
    assert len(kinds) == 9
    for kind in kinds:
        (row,) = re.findall(rf"^\| `{kind.code}` \|(.*)\|", PAGE, re.MULTILINE)
        assert f"{kind.http} `{kind.__name__}`" in row


def test_nothing_else_is_described() -> None:
    """Each row of rules and reasons is a value of the source, so that a removed one leaves the page."""
    known = {*values("rule"), *values("reason"), *lifecycle.REASONS.values(), *ownership.REASONS.values()}
    codes = {kind.code for kind in wfcore.WfcoreError.__subclasses__()}
    assert sorted(DESCRIBED - known - codes - {*output.REASONS, *output.REASONS.values()}) == []
