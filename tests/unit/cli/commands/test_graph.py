"""`wfcore graph`: pictures on stdout, and flows of Python files for every command that reads a workflow file."""

import json
from pathlib import Path

import pytest

from wfcore.cli.main import main
from wfcore.testing.histories import sketch

FLOW = """
from wfcore import Flow

FLOW = Flow("Python")
FLOW.action("core.transform", value=FLOW.input.n)
WRONG = Flow("Wrong")
WRONG.approval(after=[])
OTHER = 5
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("flow_of_a_test.py").write_text(FLOW)
    Path("w.json").write_text(json.dumps({"workflowStructure": sketch("start -> a")}))
    Path("small.toml").write_text("[limits]\nmax_nodes = 1\n")
    Path("wrong.json").write_text(json.dumps({"workflowStructure": {"nodes": [{"id": "a", "type": "x"}]}}))
    Path("agents.json").write_text(json.dumps({"agentSelection": {"agents": [{"agent_id": 0}]}}))
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "status", "out", "err"),
    [
        (["graph", "w.json"], 0, "flowchart TD\n", ""),
        (["graph", "w.json", "--mermaid"], 0, "flowchart TD\n", ""),
        (["graph", "w.json", "--svg"], 0, "<svg xmlns=", ""),
        (["graph", "flow_of_a_test.py:FLOW"], 0, "flowchart TD\n", ""),
        (["graph", "w.json", "--config", "small.toml"], 1, "", "error: w.json:1: `workflowStructure.nodes`: "),
        (["graph", "wrong.json"], 1, "", "error: wrong.json:1: `workflowStructure.nodes[0].type`: "),
        (["graph", "agents.json"], 1, "", "error: agents.json:1: `agentSelection"),
        (["graph", "w.json", "--svg", "--mermaid"], 2, "", "error: use either --svg or --mermaid, not both"),
        (["graph", "flow_of_a_test.py:OTHER"], 2, "", "error: FILE: `flow_of_a_test.py:OTHER` is not a `wfcore.Flow`"),
        (["graph", "flow_of_a_test.py:NONE"], 2, "", "error: FILE: `flow_of_a_test.py` has no `NONE`"),
        (["graph", "flow_of_a_test.py:WRONG"], 2, "", "error: flow_of_a_test.py:7: node `approval`: it cannot be"),
        (["simulate", "flow_of_a_test.py:FLOW", "--input", '{"n": 1}'], 0, '{"complete":true', "done    transform"),
        (["validate", "flow_of_a_test.py:FLOW"], 0, '{"issues":[]}', ""),
    ],
)
@pytest.mark.usefixtures("folder")
def test_graph(arguments: list[str], status: int, out: str, err: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of JSON, or a flow; what is wrong is on stderr."""
    assert main(arguments) == status
    printed = capsys.readouterr()
    assert "".join(printed.out.split()).startswith("".join(out.split()))
    assert printed.err.startswith(err)
    assert bool(printed.out) is bool(out)
