"""`wfcore run` where several people would have to decide, and where somebody else was quicker."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from wfcore.cli.main import main
from wfcore.runtime.runs.runs import Runs


def run(folder: Path, capsys: pytest.CaptureFixture[str], structure: Any, *arguments: str) -> tuple[int, Any, str]:
    """Status, output and what was told."""
    file = folder / "w.json"
    file.write_text(json.dumps({"workflowStructure": structure}))
    status = main(["run", str(file), *arguments])
    captured = capsys.readouterr()
    return status, json.loads(captured.out) if captured.out else None, captured.err


def approvals(*settings: dict[str, Any]) -> Any:
    """Approvals side by side behind the start."""
    nodes = [{"id": f"ask{n}", "type": "humanApproval", "data": data} for n, data in enumerate(settings)]
    edges = [{"id": f"e{n}", "source": "start", "target": f"ask{n}"} for n in range(len(nodes))]
    return {"nodes": [{"id": "start", "type": "start"}, *nodes], "edges": edges}


def test_one_person_stands_in_for_several_approvers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two different approvers, of whom none may have started the run: each gets a user id of its own."""
    asks = approvals({"message": "m", "requiredApprovals": 2, "allowSelfApproval": False})
    status, output, _ = run(tmp_path, capsys, asks, "--yes")
    assert (status, output["decision"], output["decidedBy"]) == (0, "approve", ["local-2", "local-3"])


def test_named_approvers_are_stood_in_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An approval that only a certain address may give can be given at the terminal."""
    asks = approvals({"approvers": {"emails": ["boss@example.com"]}})
    status, output, _ = run(tmp_path, capsys, asks, "--yes")
    assert (status, output["decidedBy"]) == (0, ["local"])


def test_several_open_questions_are_answered_one_after_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two approvals wait at once; each answer is a turn, and every node is shown as done once."""
    status, output, told = run(tmp_path, capsys, approvals({"message": "a"}, {"message": "b"}), "--no")
    assert status == 0
    assert {node: each["decision"] for node, each in output.items()} == {"ask0": "deny", "ask1": "deny"}
    assert [told.count(f"✔ {node} ") for node in ("start", "ask0", "ask1")] == [1, 1, 1]


def test_an_answer_that_comes_too_late_is_told_and_the_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else decides while the question is open: the run ends as they decided."""
    resume = Runs.resume

    async def after_another(self: Runs, me: Any, run_id: str, body: Any) -> Any:
        await resume(self, me, run_id, {**body, "decision": "deny"})
        return await resume(self, me, run_id, body)

    monkeypatch.setattr(Runs, "resume", after_another)
    status, output, told = run(tmp_path, capsys, approvals({"message": "a"}), "--yes")
    assert (status, output["decision"]) == (0, "deny")
    assert "too late: " in told


def lines(monkeypatch: pytest.MonkeyPatch, *given: str) -> None:
    """A pipe on stdin that holds these lines."""
    text = "".join(f"{line}\n" for line in given)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


FORM = {"type": "object", "required": ["why"], "properties": {"why": {"type": "string"}, "sum": {"default": 3}}}


def test_the_lines_of_a_pipe_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is no decision is asked for again; then come the fields of the form, a blank line leaving the default."""
    lines(monkeypatch, "perhaps", "approve", "late", "")
    status, output, told = run(tmp_path, capsys, approvals({"formSchema": FORM}))
    assert (status, output["data"]) == (0, {"why": "late", "sum": 3}), told


def test_a_form_without_fields_is_answered_as_a_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A schema that is no object's is asked for as JSON, until it fits."""
    lines(monkeypatch, "approve", "", "7")
    status, output, told = run(tmp_path, capsys, approvals({"formSchema": {"type": "integer"}}))
    assert (status, output["data"]) == (0, 7)
    assert "data: must be integer" in told


def test_a_pipe_that_ends_answers_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question without a line is an error that says what to give, in the middle of a form too."""
    lines(monkeypatch, "approve")
    status, output, told = run(tmp_path, capsys, approvals({"formSchema": FORM}))
    assert (status, output) == (1, None)
    assert "--yes or --no" in told
    assert "the run ended as cancelled" in told


def test_yes_takes_the_defaults_of_a_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--yes approves with them where they fit; where they do not, the run is cancelled, not left waiting."""
    optional = {"properties": FORM["properties"]}
    status, output, _ = run(tmp_path, capsys, approvals({"formSchema": optional}), "--yes")
    assert (status, output["data"]) == (0, {"sum": 3})
    status, output, told = run(tmp_path, capsys, approvals({"formSchema": FORM}), "--yes")
    assert (status, output) == (1, None)
    assert "data.why" in told
    assert "the run ended as cancelled" in told


def test_a_selection_of_skills_that_are_not_there_cannot_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file may hold an `agentSelection`; its skills are looked for in the database, which has none."""
    file = tmp_path / "w.yaml"
    file.write_text("agentSelection: {agents: [{agent_id: 7, priority_order: 1}]}")
    assert main(["run", str(file), "--input", "{}"]) == 1
    assert "7" in capsys.readouterr().err


def test_the_input_can_come_from_stdin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--input -` reads it there, and a value that begins with a hyphen is no option."""
    file = tmp_path / "w.yaml"
    file.write_text(
        "workflowStructure:\n  nodes:\n  - {id: s, type: start}\n"
        "  - {id: t, type: action, data: {toolId: core.transform, params: {value: '{{ input.n + 1 }}'}}}\n"
        "  edges: [{id: e, source: s, target: t}]\n"
    )
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"n": 4}')))
    assert main(["run", str(file), "--input", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == 5


@pytest.mark.parametrize("command", [["validate", "w.yaml"], ["simulate", "w.yaml"], ["openapi"]])
def test_every_command_takes_a_file_of_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    """Those that open no database read it too: what is wrong in it is wrong usage."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.yaml").write_text("workflowStructure: {nodes: [{id: s, type: start}], edges: []}")
    (tmp_path / "good.toml").write_text("port = 0\n[limits]\nmax_node_visits = 5\n")
    (tmp_path / "bad.toml").write_text("[limits]\nmax_node_visits = 0\n")
    assert main([*command, "--config", "good.toml"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert main([*command, "--config", "bad.toml"]) == 2
    assert "limits.max_node_visits" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["validate", "w.yaml"], ["openapi"]])
def test_every_command_takes_a_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    """Those that need none take it too, and leave it alone."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.yaml").write_text("workflowStructure: {nodes: [{id: s, type: start}], edges: []}")
    assert main([*command, "--database", "sqlite:///other.db"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert not (tmp_path / "other.db").exists()
