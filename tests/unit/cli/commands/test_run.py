"""`wfcore run`: approvals, forms and input."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from wfcore.cli.main import main
from wfcore.runtime.runs.runs import Runs


def run(folder: Path, capsys: pytest.CaptureFixture[str], structure: Any, *arguments: str) -> tuple[int, Any, str]:
    """Exit status, output and stderr."""
    file = folder / "w.json"
    file.write_text(json.dumps({"workflowStructure": structure}))
    status = main(["run", str(file), *arguments])
    captured = capsys.readouterr()
    return status, json.loads(captured.out) if captured.out else None, captured.err


def approvals(*settings: dict[str, Any]) -> Any:
    """A graph of parallel approvals after the start node."""
    nodes = [{"id": f"ask{n}", "type": "humanApproval", "data": data} for n, data in enumerate(settings)]
    edges = [{"id": f"e{n}", "source": "start", "target": f"ask{n}"} for n in range(len(nodes))]
    return {"nodes": [{"id": "start", "type": "start"}, *nodes], "edges": edges}


def test_one_user_can_act_as_several_approvers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two different approvers, none of whom can have started the run: each gets its own user id."""
    structure = approvals({"message": "m", "requiredApprovals": 2, "allowSelfApproval": False})
    status, output, _ = run(tmp_path, capsys, structure, "--yes")
    assert (status, output["decision"], output["decidedBy"]) == (0, "approve", ["local-2", "local-3"])


def test_the_user_can_act_as_a_named_approver(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An approval that only one address can give can be given at the terminal."""
    structure = approvals({"approvers": {"emails": ["boss@example.com"]}})
    status, output, _ = run(tmp_path, capsys, structure, "--yes")
    assert (status, output["decidedBy"]) == (0, ["local"])


def test_open_approvals_are_decided_one_after_the_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two approvals are open at once; each decision is a turn, and every node is shown as done once."""
    status, output, stderr = run(tmp_path, capsys, approvals({"message": "a"}, {"message": "b"}), "--no")
    assert status == 0
    assert {node: each["decision"] for node, each in output.items()} == {"ask0": "deny", "ask1": "deny"}
    assert [stderr.count(f"✔ {node} ") for node in ("start", "ask0", "ask1")] == [1, 1, 1]


def test_a_late_decision_is_reported_and_the_run_continues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user decides while the prompt is open: the run ends with that decision."""
    resume = Runs.resume

    async def after_another(self: Runs, me: Any, run_id: str, body: Any) -> Any:
        await resume(self, me, run_id, {**body, "decision": "deny"})
        return await resume(self, me, run_id, body)

    monkeypatch.setattr(Runs, "resume", after_another)
    status, output, stderr = run(tmp_path, capsys, approvals({"message": "a"}), "--yes")
    assert (status, output["decision"]) == (0, "deny")
    assert "too late: " in stderr


def lines(monkeypatch: pytest.MonkeyPatch, *given: str) -> None:
    """Replace stdin by a pipe with these lines."""
    text = "".join(f"{line}\n" for line in given)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


FORM = {"type": "object", "required": ["why"], "properties": {"why": {"type": "string"}, "sum": {"default": 3}}}


def test_the_lines_of_a_pipe_decide(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another line than a decision prompts again; the form's fields follow, and a blank line keeps a default."""
    lines(monkeypatch, "perhaps", "approve", "late", "")
    status, output, stderr = run(tmp_path, capsys, approvals({"formSchema": FORM}))
    assert (status, output["data"]) == (0, {"why": "late", "sum": 3}), stderr


def test_a_form_without_fields_is_read_as_one_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A schema without properties is prompted for as JSON, until the value is valid."""
    lines(monkeypatch, "approve", "", "7")
    status, output, stderr = run(tmp_path, capsys, approvals({"formSchema": {"type": "integer"}}))
    assert (status, output["data"]) == (0, 7)
    assert "data: must be integer" in stderr


def test_a_pipe_that_ends_decides_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prompt without a line is an error that names the options to use, also within a form."""
    lines(monkeypatch, "approve")
    status, output, stderr = run(tmp_path, capsys, approvals({"formSchema": FORM}))
    assert (status, output) == (1, None)
    assert "--yes or --no" in stderr
    assert "the run ended as cancelled" in stderr


def test_yes_uses_the_defaults_of_a_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--yes approves with valid defaults; with invalid ones the run is cancelled and does not wait."""
    optional = {"properties": FORM["properties"]}
    status, output, _ = run(tmp_path, capsys, approvals({"formSchema": optional}), "--yes")
    assert (status, output["data"]) == (0, {"sum": 3})
    status, output, stderr = run(tmp_path, capsys, approvals({"formSchema": FORM}), "--yes")
    assert (status, output) == (1, None)
    assert "data.why" in stderr
    assert "the run ended as cancelled" in stderr


def test_a_selection_of_unknown_skills_cannot_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file can have an `agentSelection`; its skills must exist in the database."""
    file = tmp_path / "w.yaml"
    file.write_text("agentSelection: {agents: [{agent_id: 7, priority_order: 1}]}")
    assert main(["run", str(file), "--input", "{}"]) == 1
    assert "7" in capsys.readouterr().err


def test_the_input_can_come_from_stdin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--input -` reads the input there: a value that begins with a hyphen is not an option."""
    file = tmp_path / "w.yaml"
    file.write_text(
        "workflowStructure:\n  nodes:\n  - {id: s, type: start}\n"
        "  - {id: t, type: action, data: {toolId: core.transform, params: {value: '{{ input.n + 1 }}'}}}\n"
        "  edges: [{id: e, source: s, target: t}]\n"
    )
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"n": 4}')))
    assert main(["run", str(file), "--input", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == 5


def test_an_unknown_tool_names_the_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So does `validate`, on stderr; a file without one gets no such line."""
    structure = {
        "nodes": [{"id": "start", "type": "start"}, {"id": "pay", "type": "action", "data": {"toolId": "pay"}}],
        "edges": [{"id": "e", "source": "start", "target": "pay"}],
    }
    status, _, stderr = run(tmp_path, capsys, structure)
    assert (status, "unknown tool `pay`" in stderr, "`--tools MODULE:NAME`" in stderr) == (1, True, True)
    assert main(["validate", str(tmp_path / "w.json")]) == 1
    assert "`--tools MODULE:NAME`" in capsys.readouterr().err
    status, _, stderr = run(tmp_path, capsys, approvals({"message": 7}))
    assert (status, "--tools" in stderr) == (1, False)
