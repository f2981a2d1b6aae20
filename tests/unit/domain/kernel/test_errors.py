"""The errors, their wire form, and the raising of issues."""

import pytest

from wfcore.domain.kernel import errors
from wfcore.domain.kernel.errors import Conflict, Invalid, Issue, Malformed, NotFound, WfcoreError, join_path, refuse

TYPE = Issue("a", "must be a string", "type")
RANGE = Issue("b", "must be at most 3", "range")
WARNING = Issue("c", "has no effect", "idle", "warning")


@pytest.mark.parametrize("kind", [one for one in WfcoreError.__subclasses__() if one.__module__ == errors.__name__])
def test_every_error_has_code_status_and_http(kind: type[WfcoreError]) -> None:
    """The docstring of the module lists every error with its HTTP status and its code."""
    assert errors.__doc__
    row = next(line for line in errors.__doc__.splitlines() if f" {kind.__name__} " in line)
    assert f" {kind.http} {kind.code} " in row


def test_the_wire_form() -> None:
    """`info` is present only if it is not empty."""
    assert Conflict("no", {"reason": "x"}).to_wire("r1") == {
        "code": "CONFLICT",
        "status": "ALREADY_EXISTS",
        "message": "no",
        "requestId": "r1",
        "info": {"reason": "x"},
    }
    assert "info" not in NotFound().to_wire("r1")
    assert NotFound().message == "not found"


@pytest.mark.parametrize("kind", [Malformed, Invalid])
def test_an_error_without_issues_has_one_about_the_request(kind: type[WfcoreError]) -> None:
    """What is given beside it stays; given issues do too, and other errors have none."""
    issue = {"path": "", "message": "no", "rule": "request"}
    assert kind("no", {"reason": "x"}).info == {"reason": "x", "errors": [issue]}
    assert kind("no", {"errors": []}).info == {"errors": []}
    assert "errors" not in Conflict("no").info


class TestRefuse:
    """Raising for the errors among issues."""

    def test_nothing_to_raise(self) -> None:
        """No issues and warnings raise nothing."""
        refuse([])
        refuse([WARNING])

    def test_all_errors_are_listed(self) -> None:
        """The message has the first error and the number of others; warnings are left out."""
        with pytest.raises(Invalid) as error:
            refuse([WARNING, RANGE, RANGE])
        assert error.value.message == "`b`: must be at most 3 (and 1 more)"
        assert error.value.info == {"errors": [RANGE.to_wire()] * 2}

    def test_an_issue_of_the_root(self) -> None:
        """The message of an issue without a path is that of the issue."""
        with pytest.raises(Malformed) as error:
            refuse([Issue("", "not JSON", "json")])
        assert error.value.message == "not JSON"

    def test_one_malformed_part_makes_the_request_malformed(self) -> None:
        """With `as_invalid` it is invalid all the same."""
        with pytest.raises(Malformed):
            refuse([RANGE, TYPE])
        with pytest.raises(Invalid):
            refuse([RANGE, TYPE], as_invalid=True)


@pytest.mark.parametrize(
    ("parent", "child", "path"),
    [("a", "b", "a.b"), ("a", "[0]", "a[0]"), ("", "b", "b"), ("a", "", "a"), ("", "", "")],
)
def test_join_path(parent: str, child: str, path: str) -> None:
    """Keys are joined by dots, indices by brackets."""
    assert join_path(parent, child) == path
