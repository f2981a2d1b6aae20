"""`wfcore simulate`: what stands on stdout, what on stderr, and the exit status."""

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
    """Status, result and what was told."""
    file = folder / "w.json"
    file.write_text(json.dumps(body))
    status = main(["simulate", str(file), *arguments])
    captured = capsys.readouterr()
    return status, json.loads(captured.out) if captured.out else None, captured.err


def test_paths_are_told_in_words_and_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A refund with a tool that nobody has here: every path, one line each, and what is worth knowing beneath."""
    status, result, told = simulate(tmp_path, capsys, {"workflowStructure": REFUND})
    assert status == 0
    assert told.splitlines() == [
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
        (sketch("start -> a", "a -nowhere-> b"), (), 1, "error: `workflowStructure.edges[1].sourceHandle`"),
        ({"nodes": [{"id": 1}]}, (), 1, "error: `workflowStructure.nodes[0].id`"),
        (None, (), 1, "a graph must have a `start` node"),
    ],
)
def test_what_is_wrong_with_a_workflow_is_its_status(
    structure: Any, arguments: tuple[str, ...], status: int, words: str,
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """0 for a workflow whose runs can come to their end, 1 where they cannot or a node is there for nothing; with an
    input it is natural that some nodes are not reached.
    """
    got, _, told = simulate(tmp_path, capsys, {"workflowStructure": structure}, *arguments)
    assert words in told
    assert got == status


def test_a_selection_of_agents_is_a_workflow_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The older way to write one; its skills need not be here."""
    body = {"agentSelection": {"agents": [{"agent_id": 7, "priority_order": 1}]}}
    status, result, _ = simulate(tmp_path, capsys, body)
    assert (status, [path["end"] for path in result["paths"]]) == (0, ["done", "error"])


def test_an_input_that_the_start_forbids_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As with `wfcore run`: status 2, the field is named, and there is no result."""
    needs: Any = {"inputSchema": {"type": "object", "required": ["n"]}}
    body = {"workflowStructure": sketch("start -> a", start=needs)}
    status, result, told = simulate(tmp_path, capsys, body, "--input", "{}")
    assert (status, result) == (2, None)
    assert told.startswith("error: `input.n`")


def test_names_do_not_command_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An escape in the id of a node is shown, not obeyed."""
    _, _, told = simulate(tmp_path, capsys, {"workflowStructure": sketch("start -> a\x1b[2J")})
    assert "\x1b" not in told
    assert "a\\u001b[2J" in told


def test_no_database_is_needed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--database` is taken as by every command, and left alone."""
    file = tmp_path / "made.db"
    status, _, _ = simulate(tmp_path, capsys, {"workflowStructure": REFUND}, "--database", f"sqlite:///{file}")
    assert (status, file.exists()) == (0, False)
