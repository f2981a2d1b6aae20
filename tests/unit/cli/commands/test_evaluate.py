"""`wfcore eval`: results, JUnit XML and the exit status."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from wfcore.cli.main import main

CASE: dict[str, Any] = {
    "id": "tea", "name": "Tea", "required": True, "input": {"message": "tea"},
    "checks": [{"kind": "contains", "value": "tea"}],
}  # fmt: skip
BAD = {**CASE, "id": "bad", "name": "Bad \u0001", "checks": [{"kind": "equals", "value": "\u0001<&>"}]}


def evaluate(folder: Path, capsys: pytest.CaptureFixture[str], body: Any, *arguments: str) -> tuple[int, Any, str]:
    """Exit status, result and stderr, with a scripted model that quotes the message."""
    file, config = folder / "helper.json", folder / "wfcore.toml"
    file.write_text(json.dumps(body))
    config.write_text('[models.default]\nprovider = "scripted"\n')
    status = main(["eval", str(file), "--config", str(config), *arguments])
    captured = capsys.readouterr()
    return status, json.loads(captured.out) if captured.out else None, captured.err


def test_a_skill_whose_cases_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found, stderr = evaluate(tmp_path, capsys, {"evaluations": [CASE]})
    assert (status, stderr) == (0, "passed  tea\n")
    assert [(row["caseId"], row["passed"]) for row in found["results"]] == [("tea", True)]


@pytest.mark.parametrize(("required", "status"), [(True, 1), (False, 0)])
def test_a_case_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str], required: bool, status: int) -> None:
    """Only a required one makes the command fail; the XML is well-formed whatever the texts hold."""
    junit = tmp_path / "junit.xml"
    body = {"name": "Helper", "evaluations": [CASE, {**BAD, "required": required}]}
    exit_status, found, stderr = evaluate(tmp_path, capsys, body, "--junit", str(junit))
    assert exit_status == status
    assert [row["passed"] for row in found["results"]] == [True, False]
    assert stderr.splitlines()[1] == ("failed  bad" if required else "failed  bad (not required)")
    assert stderr.splitlines()[2].startswith("        equals: the output is not")
    suite = ElementTree.parse(junit).getroot()[0]
    assert suite.attrib == {"name": "Helper", "tests": "2", "failures": "1", "errors": "0"}
    assert [case.get("name") for case in suite] == ["Tea", "Bad \ufffd"]
    assert [failure.get("type") for failure in suite.iter("failure")] == ["required" if required else "optional"]
    assert "equals: the output is not" in str(next(suite.iter("failure")).text)


def test_a_case_whose_model_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The reason is the error of its run, which the validation of the skill announces."""
    status, _, stderr = evaluate(tmp_path, capsys, {"model": "none", "evaluations": [CASE]})
    assert status == 1
    place, *lines = stderr.splitlines()
    assert place == f"error: {tmp_path / 'helper.json'}:1: `model`: there is no model `none`"
    assert lines == ["failed  tea", "        the model `none` is not configured"
    ]  # fmt: skip


def test_a_case_that_waits_for_a_person(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is nobody who could approve a second call of the model: the case has not passed."""
    calling = {"toolCalls": [{"name": "look"}]}
    monkeypatch.setattr("wfcore.adapters.models.scripted._unscripted", lambda _: calling)
    body = {"toolset": {"core.recall": {"enabled": True}}, "budget": {"maxTokens": 1}, "evaluations": [CASE]}
    status, found, _ = evaluate(tmp_path, capsys, body)
    assert status == 1
    assert (found["results"][0]["passed"], found["results"][0]["error"]) == (False, "the run was cancelled")


@pytest.mark.parametrize("body", [{}, {"evaluations": [{"id": "a"}]}, []])
def test_a_file_that_cannot_be_evaluated(tmp_path: Path, capsys: pytest.CaptureFixture[str], body: Any) -> None:
    assert evaluate(tmp_path, capsys, body)[0] == 2


def test_a_report_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, stderr = evaluate(tmp_path, capsys, {"evaluations": [CASE]}, "--junit", str(tmp_path))
    assert status == 2
    assert "cannot write" in stderr


def test_faults_of_the_file_have_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All of them at once, as `apply` prints them; a text that is not YAML is one fault."""
    file = tmp_path / "helper.yaml"
    file.write_text("name: Helper\nevaluations:\n- id: one\n  input: {message: hi}\n  checks: [{kind: nope}]\nuse: 3\n")
    assert main(["eval", str(file)]) == 2
    first, second, *rest = capsys.readouterr().err.splitlines()
    assert first.startswith(f"error: {file}:6: `use`: is not a known key: use `accessConfig`, ")
    assert second.startswith(f"  {file}:5: `evaluations[0].checks[0].kind`: `nope` is not one of")
    assert rest == []
    file.write_text("name: [\n")
    assert main(["eval", str(file)]) == 2
    assert capsys.readouterr().err.startswith(f"error: {file}: not YAML: line 2")
