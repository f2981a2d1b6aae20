"""`wfcore replay`: runs of a database and recorded files, with this release and with a changed workflow."""

import json
from pathlib import Path
from typing import Any

import pytest
from managing import ASK, Organization

from wfcore.testing import ReplayDiffers, replays, sketch

OTHER = sketch("s -> w", "w -approved-> t", w={"type": "humanApproval", "message": "Refund?"}, t={
    "toolId": "core.transform", "params": {"value": "{{ input.order + 1 }}"}
})  # fmt: skip


@pytest.fixture
def answered(acme: Organization) -> Organization:
    """The run `r` was approved, and has ended."""
    acme.deployed(("Refund", ASK))
    acme.call("run", "start", "refund", "--input", '{"order": 9}', "--key", "r", "--follow")
    acme.call("answer", "r", "approve", "--follow")
    return acme


def workflow(structure: Any, name: str = "changed.json") -> str:
    Path(name).write_text(json.dumps({"workflowStructure": structure}))
    return name


def test_a_run_and_its_file(answered: Organization) -> None:
    """No difference with this release: by the id of any turn, and from the saved file without a database."""
    found = answered.call("replay", "r", "--save", "r.jsonl")
    assert (found.status, found.json) == (0, {"entries": 2, "turns": 2, "difference": None})
    Path("wfcore.db").unlink()
    again = answered.call("replay", "r.jsonl")
    assert (again.status, again.json) == (0, found.json)


def test_a_changed_workflow(answered: Organization) -> None:
    """The first difference on both streams, and status 1; nothing is saved."""
    found = answered.call("replay", "r", "--workflow", workflow(OTHER), "--save", "r.jsonl")
    words = "the end of run"
    assert (found.status, found.json["difference"]["message"].startswith(words)) == (1, True)
    assert (found.err.startswith(words), "`output` is 10, recorded 9" in found.err) == (True, True)
    assert not Path("r.jsonl").exists()
    same = answered.call("replay", "r", "--workflow", workflow(ASK, "same.json"))
    assert same.json["difference"] is None


def test_what_cannot_be_replayed(answered: Organization) -> None:
    """An unknown run, a file that is not a recording, a graph that cannot run, and no member."""
    assert answered.call("replay", "nothing").status == 1
    refused = answered.call("replay", workflow(ASK))
    assert (refused.status, "not a recording" in refused.err or "recording" in refused.err) == (2, True)
    Path("binary").write_bytes(b"\xff")
    binary = answered.call("replay", "binary")
    assert (binary.status, "`binary` is not a recording" in binary.err) == (2, True)
    broken = answered.call("replay", "r", "--workflow", workflow(sketch("s -> a", a={"type": "nothing"})))
    assert (broken.status, "nodes[1].type" in broken.err) == (2, True)


def test_a_member_is_needed(answered: Organization, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WFCORE_USER_ID")
    assert "--user-id" in answered.call("replay", "r").err


def test_a_single_action_has_no_workflow(answered: Organization) -> None:
    """Its recording can be replayed, but not with a workflow."""
    lines = [{"recording": 1}, {"execution": {"kind": "assistant", "resourceId": None, "structure": None}}]
    Path("a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    refused = answered.call("replay", "a.jsonl", "--workflow", workflow(ASK))
    assert (refused.status, "only a run of a workflow" in refused.err) == (2, True)


def test_replays_of_a_product(answered: Organization) -> None:
    """`wfcore.testing.replays` has each file of a directory; `check` takes any form of a workflow."""
    Path("recordings").mkdir()
    answered.call("replay", "r", "--save", "recordings/refund.jsonl")
    [recorded] = replays("recordings")
    assert str(recorded) == "refund"
    for same in (None, ASK, {"workflowStructure": ASK}, workflow(ASK)):
        recorded.check(same)
    with pytest.raises(ReplayDiffers, match=r"refund\.jsonl` differs: .*`output` is 10, recorded 9") as raised:
        recorded.check(OTHER)
    assert raised.value.difference.after == 0
    with pytest.raises(Exception, match="workflowStructure"):
        recorded.check(sketch("s -> a", a={"type": "nothing"}))
    with pytest.raises(FileNotFoundError, match="`wfcore replay RUN --save"):
        replays(".")
