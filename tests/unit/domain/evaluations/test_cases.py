"""Which `evaluations` a skill takes, and the path of each fault."""

from typing import Any

import pytest

from wfcore.api.resources import PatchSkill
from wfcore.domain.evaluations.cases import MOST_CASES, PARAMETERS, case_issues, cases_of
from wfcore.domain.json.codec import check
from wfcore.domain.json.values import to_json
from wfcore.domain.resources.content import SkillContent

GOOD: dict[str, Any] = {
    "contains": "tea", "matches": "^t.a$", "equals": None, "jsonSchema": {"type": "string"}, "cel": "cost < 1.0",
    "toolCalled": "look", "notToolCalled": "look", "judge": "it is polite",
}  # fmt: skip
"""For each kind of check a value of the field that it requires."""


def case(*checks: Any, **more: Any) -> dict[str, Any]:
    return {"id": "a", "input": {"message": "hi"}, "checks": list(checks), **more}


def one(kind: str, **more: Any) -> dict[str, Any]:
    return {"kind": kind, PARAMETERS[kind][0]: GOOD[kind], **more}  # type: ignore[index]


FULL = {
    **case(*map(one, PARAMETERS)),
    "name": "All kinds",
    "input": {"message": "hi", "userContext": {"userId": "u", "timezone": "Europe/Berlin"}},
    "tools": {"look": {"found": 1}, "mcp.crm.find": None},
    "required": True,
}


def test_what_is_taken_is_kept() -> None:
    """Every kind of check is valid with its field, and a case is stored as it was sent."""
    assert check(PatchSkill, {"evaluations": [FULL]}) == []
    assert case_issues([FULL]) == []
    assert [to_json(each) for each in cases_of(SkillContent(evaluations=[FULL]))] == [FULL]


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"input": {"message": "hi"}, "checks": [one("judge")]}, "id"),
        (case(one("judge"), id="a b"), "id"),
        (case(one("judge"), input={}), "input.message"),
        (case(one("judge"), input={"message": ""}), "input.message"),
        (case(one("judge"), input={"message": "x", "userContext": {"age": 1}}), "input.userContext.age"),
        (case(), "checks"),
        (case({"kind": "guess"}), "checks[0].kind"),
        (case(one("judge", other=1)), "checks[0].other"),
        (case(one("judge"), tools=[]), "tools"),
        (case(one("judge"), required="yes"), "required"),
        (case(one("judge"), extra=1), "extra"),
    ],
)
def test_faults_of_the_shape(given: Any, path: str) -> None:
    """Each fault names its path; the rules do not look at a case of invalid shape."""
    assert [issue.path for issue in check(PatchSkill, {"evaluations": [given]})] == [f"evaluations[0].{path}"]
    assert case_issues([given]) == []


@pytest.mark.parametrize(
    ("checked", "path", "rule"),
    [
        ({"kind": "contains", "value": 3}, "value", "type_of_value"),
        ({"kind": "contains", "value": ""}, "value", "type_of_value"),
        ({"kind": "matches", "pattern": "("}, "pattern", "pattern"),
        ({"kind": "matches", "pattern": r"(a)\1"}, "pattern", "pattern"),
        ({"kind": "jsonSchema", "schema": {"type": "thing"}}, "schema.type", "schema"),
        ({"kind": "cel", "expression": "output =="}, "expression", "expression"),
        ({"kind": "cel", "expression": "input.x"}, "expression", "expression"),
        ({"kind": "equals"}, "value", "required_if"),
        ({"kind": "judge", "criteria": "x", "tool": "look"}, "tool", "unsupported"),
        ({"kind": "toolCalled", "tool": "look", "model": "m"}, "model", "unsupported"),
    ],
)
def test_faults_of_checks(checked: Any, path: str, rule: str) -> None:
    """A pattern is RE2, an expression reads `output`, `toolCalls` and `cost`; a field of another kind is refused."""
    found = case_issues([case(one("judge"), checked)])
    assert [(issue.path, issue.rule) for issue in found] == [(f"evaluations[0].checks[1].{path}", rule)]


def test_an_unknown_variable_is_named_with_those_that_exist() -> None:
    (issue,) = case_issues([case({"kind": "cel", "expression": "input.x"})])
    assert issue.message == "unknown variable `input`: use `output`, `toolCalls` or `cost`"


def test_faults_among_cases() -> None:
    """Two cases with one id, an unknown time zone, and too many cases."""
    zone = case(one("judge"), id="b", input={"message": "x", "userContext": {"timezone": "Mars"}})
    found = case_issues([case(one("judge")), zone, case(one("judge"))])
    assert [issue.path for issue in found] == ["evaluations[1].input.userContext.timezone", "evaluations[2].id"]
    many = [case(one("judge"), id=f"c{number}") for number in range(MOST_CASES + 1)]
    assert [(issue.path, issue.rule) for issue in case_issues(many)] == [("evaluations", "maxItems")]


def test_what_is_not_a_list_is_skipped() -> None:
    assert case_issues(None) == case_issues({}) == case_issues([None, 3]) == []
