"""`wfcore simulate`: stdout, stderr and the exit status."""

import json
from pathlib import Path
from typing import Any

import pytest

from wfcore.cli.main import main
from wfcore.testing.histories import sketch

ASK: Any = {"type": "humanApproval", "timeoutSeconds": 60}
REFUND = sketch("start -> ask", "ask -approved-> pay", "ask -denied-> tell", ask=ASK)
BIG: Any = {"type": "condition", "branches": [{"handle": "big", "when": "input.n > 10"}]}
CHOICE = sketch("start -> c", "c -big-> ask", "c -else-> pay", c=BIG, ask={"type": "humanApproval"})


def simulate(folder: Path, capsys: pytest.CaptureFixture[str], body: Any, *arguments: str) -> tuple[int, Any, str]:
    """Exit status, result and stderr."""
    file = folder / "w.json"
    file.write_text(json.dumps(body))
    status = main(["simulate", str(file), *arguments])
    captured = capsys.readouterr()
    return status, json.loads(captured.out) if captured.out else None, captured.err


def test_paths_are_printed_as_text_and_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A refund with tools that do not exist here: a line per path, then a summary."""
    status, result, stderr = simulate(tmp_path, capsys, {"workflowStructure": REFUND})
    assert status == 0
    assert stderr.splitlines() == [
        "done    ask approved, pay (output: pay)",
        "error   ask approved, pay failed",
        "done    ask denied, tell (output: tell)",
        "error   ask denied, tell failed",
        "done    ask expired, tell (output: tell)",
        "can end the run in error: pay, tell",
        "can expire: ask",
    ]
    assert result["paths"][1] == {
        "end": "error",
        "steps": [{"nodeId": "ask", "outcome": "approved"}, {"nodeId": "pay", "outcome": "failed"}],
        "output": [],
        "failed": "pay",
    }
    assert {key: value for key, value in result.items() if key != "paths"} == {
        "complete": True, "neverReached": [], "canFail": ["pay", "tell"], "canExpire": ["ask"], "deadEnds": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("structure", "arguments", "status", "words"),
    [
        (CHOICE, (), 0, "can end the run in error: pay"),
        (CHOICE, ("--input", '{"n": 11}'), 0, "never reached: pay"),
        (CHOICE, ("--input", "{}"), 1, "error   c expression"),
        (CHOICE, ("--max-paths", "1"), 0, "stopped after 1 paths"),
        (sketch("start -> a", a={"toolId": "core.fail"}), (), 1, "error   a failed"),
        (sketch("start -> ask", "ask -expired-> a", ask={"type": "humanApproval"}), (), 1, "never reached: a"),
        (sketch("start -> ask", "ask -denied-> a", ask=ASK), (), 0, "leads nowhere: ask approved"),
        (sketch("start -> a", "a -nowhere-> b"), (), 1, ":1: `workflowStructure.edges[1].sourceHandle`"),
        ({"nodes": [{"id": 1}]}, (), 1, ":1: `workflowStructure.nodes[0].id`"),
        (None, (), 1, "a graph must have a `start` node"),
    ],
)
def test_the_exit_status_says_whether_runs_can_end(
    structure: Any, arguments: tuple[str, ...], status: int, words: str,
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """1 when no run can end or a node is unreachable; with an input, unreachable nodes are allowed."""
    got, _, stderr = simulate(tmp_path, capsys, {"workflowStructure": structure}, *arguments)
    assert words in stderr
    assert got == status


def test_an_agent_selection_is_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The earlier form of a workflow; its skills need not exist here."""
    body = {"agentSelection": {"agents": [{"agent_id": 7, "priority_order": 1}]}}
    status, result, _ = simulate(tmp_path, capsys, body)
    assert (status, [path["end"] for path in result["paths"]]) == (0, ["done", "error"])


def test_an_invalid_input_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As in `wfcore run`: status 2, an error that names the field, and no result."""
    needs: Any = {"inputSchema": {"type": "object", "required": ["n"]}}
    body = {"workflowStructure": sketch("start -> a", start=needs)}
    status, result, stderr = simulate(tmp_path, capsys, body, "--input", "{}")
    assert (status, result) == (2, None)
    assert stderr.startswith("error: `input.n`")


def test_names_are_escaped_on_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A control character in a node id is printed as an escape."""
    _, _, stderr = simulate(tmp_path, capsys, {"workflowStructure": sketch("start -> a\x1b[2J")})
    assert "\x1b" not in stderr
    assert "a\\u001b[2J" in stderr


def test_no_database_is_needed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--database` is accepted as by every command, and not used."""
    file = tmp_path / "made.db"
    status, _, _ = simulate(tmp_path, capsys, {"workflowStructure": REFUND}, "--database", f"sqlite:///{file}")
    assert (status, file.exists()) == (0, False)


def test_rules_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each has a verdict; one that does not hold is status 1, with the counter-example as steps and as pictures."""
    holds = "--rule", "never pay without approved ask", "--rule", "always ends in pay or tell or in error"
    status, result, stderr = simulate(tmp_path, capsys, {"workflowStructure": REFUND}, *holds)
    assert (status, [one["status"] for one in result["rules"]]) == (0, ["holds", "holds"])
    assert "holds: never pay without approved ask\n" in stderr
    broken = *holds, "--rule", "never tell without denied ask"
    status, result, stderr = simulate(tmp_path, capsys, {"workflowStructure": REFUND}, *broken)
    assert status == 1
    assert "broken: never tell without denied ask\n1. ask: expired\nthen `tell` begins\nflowchart TD\n" in stderr
    example = result["rules"][2].pop("counterExample")
    assert result["rules"][2] == {
        "rule": "never tell without denied ask", "status": "broken", "decidedBy": "simulation", "complete": True,
    }  # fmt: skip
    assert example["steps"] == [{"nodeId": "ask", "outcome": "expired"}]
    assert (example["what"], example["path"]) == ("`tell` begins", ["start", "ask", "tell"])
    assert example["mermaid"].startswith("flowchart TD")
    assert example["svg"].startswith("<svg")


@pytest.mark.parametrize(
    ("rule", "words"),
    [("never", "is not a rule: use `never NODE`"), ("never nobody", "unknown node `nobody`: use one of `start`")],
)
def test_an_invalid_rule_is_wrong_usage(
    rule: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2, with what is allowed; nothing is evaluated."""
    status, result, stderr = simulate(tmp_path, capsys, {"workflowStructure": REFUND}, "--rule", rule)
    assert (status, result) == (2, None)
    assert words in stderr
