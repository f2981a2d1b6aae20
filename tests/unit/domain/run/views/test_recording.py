"""Recordings: the first difference of a replay, and files. `tests/replays/test_recordings.py` replays all kinds of
runs.
"""

import json
from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from wfcore.domain.kernel.errors import Malformed
from wfcore.domain.run.entries import encode_entry
from wfcore.domain.run.plan import evaluation_plan
from wfcore.domain.run.recording import Recording, ReplayDifference
from wfcore.testing.histories import History, sketch

PAY = {"toolId": "pay", "params": {"amount": "{{ input.amount }}"}}
ASK = {"type": "humanApproval", "message": "Pay?", "approvers": {"emails": ["ann@example.org"], "groups": []}}
GRAPH = sketch("s -> look", "look -> ask", "ask -approved-> pay", look={"toolId": "look"}, ask=ASK, pay=PAY)


def changed(**data: Mapping[str, Any]) -> dict[str, Any]:
    """The graph with other data of some nodes."""
    edges = ("s -> look", "look -> ask", "ask -approved-> pay")
    return sketch(*edges, **{"look": {"toolId": "look"}, "ask": ASK, "pay": PAY, **data})


def recorded(graph: Any = GRAPH) -> Recording:
    """A run that looks, is approved, and pays; with marks."""
    history = History(graph, {"amount": 7})
    first = history.machine
    history.succeed("look", {"stock": 3})
    turns = [turn(history)]
    history.decide("ask").succeed("pay", "paid")
    assert history.machine is first
    entries = [encode_entry(entry).decode() for entry in history.entries]
    execution = {"kind": "workflow", "resourceId": 1, "structure": graph}
    return Recording(execution, [], entries, [*turns, turn(history)]).marked()


def turn(history: History) -> dict[str, Any]:
    machine = history.machine
    return {"runId": machine.run_id, "status": str(machine.status), "output": machine.output, "error": machine.error}


def difference(recording: Recording, graph: Any = None) -> str:
    found = recording.difference(graph)
    assert isinstance(found, ReplayDifference)
    return str(found)


def test_no_difference() -> None:
    """The same graph, and one whose positions and unknown keys differ."""
    recording = recorded()
    assert recording.difference() is None
    assert recording.difference(GRAPH) is None
    drawn = {**GRAPH, "nodes": [{**node, "position": {"x": 1, "y": 2}} for node in GRAPH["nodes"]]}
    assert recording.difference(drawn) is None


AT_START, AFTER_LOOK, AFTER_ASK = "entry 1 (`start`)", "entry 2 (`ok` of `look`)", "entry 3 (`resume`)"
LOOK, PAYS = (f"the call of a tool of `{node}` (visit 1, step 0, attempt 1)" for node in ("look", "pay"))
ASKS = "the approval of `ask` (visit 1, step -1)"


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        (
            changed(pay={"toolId": "pay", "params": {"amount": "{{ input.amount * 2 }}"}}),
            f"{AFTER_ASK}: {PAYS}: `params.amount` is 14, recorded 7",
        ),
        (changed(look={"toolId": "look", "timeoutSeconds": 5}), f"{AT_START}: {LOOK}: `timeout` is 5, recorded null"),
        (changed(ask={**ASK, "message": "No?"}), f'{AFTER_LOOK}: {ASKS}: `message` is "No?", recorded "Pay?"'),
        (
            changed(ask={**ASK, "approvers": {"emails": [], "groups": ["g"]}}),
            f"{AFTER_LOOK}: {ASKS}: `approvers.emails` is a list of 0, recorded a list of 1",
        ),
        (
            sketch("s -> look", "look -> pay", look={"toolId": "look"}, pay=PAY),
            f"{AFTER_LOOK}: {PAYS} is requested in addition",
        ),
        (
            sketch("s -> ask", "ask -approved-> pay", ask=ASK, pay=PAY),
            f"{AT_START}: {LOOK} is not requested any more",
        ),
        (
            sketch("s -> look", "s -> ask", look={"toolId": "look"}, ask=ASK),
            f"{AT_START}: {ASKS} is open in addition",
        ),
        (sketch("s -> look", look={"toolId": "look"}), f"{AFTER_LOOK}: {ASKS} is not open any more"),
        (changed(ask={**ASK, "remindAfterSeconds": 60}), f"{AFTER_LOOK}: `due` is 1800000060000, recorded null"),
    ],
)
def test_a_changed_workflow(graph: Any, words: str) -> None:
    """The first entry after which the run would have gone another way, and how."""
    assert difference(recorded(), graph) == f"after {words}"


def test_an_entry_that_cannot_follow() -> None:
    """An outcome that comes twice; and a decision of somebody who may not decide in the changed workflow."""
    recording = attrs.evolve(recorded(), marks=None)
    twice = attrs.evolve(recording, entries=[*recording.entries, recording.entries[-1]])
    assert difference(twice).startswith("after entry 4 (`ok`): this entry cannot follow any more: ")
    graph = changed(ask={**ASK, "allowSelfApproval": True})
    own = recorded(graph)
    assert difference(own, changed(ask={**ASK, "allowSelfApproval": False})) == (
        f"after {AFTER_LOOK}: {ASKS}: `allowSelfApproval` is false, recorded true"
    )


def test_a_retry_that_cannot_follow() -> None:
    """It names a node that the changed workflow does not have, and that no run has reached."""
    graph = sketch("s -> a", "a -> b", a={"toolId": "a"}, b={"toolId": "b"})
    history = History(graph, {}).fail("a", retryable=False)
    turns = [turn(history)]
    history.retry(skip=("a", "b"))
    entries = [encode_entry(entry).decode() for entry in history.entries]
    execution = {"kind": "workflow", "resourceId": 1, "structure": graph}
    recording = Recording(execution, [], entries, [*turns, turn(history)]).marked()
    assert recording.difference(graph) is None
    other = sketch("s -> a", "a -> c", a={"toolId": "a"}, c={"toolId": "b"})
    assert difference(recording, other).startswith("after entry 2 (`retry`): this entry cannot follow any more: ")


def test_an_evaluation() -> None:
    """Its plan comes from its case."""
    case = {"id": "c", "input": {"message": "hi"}, "checks": []}
    history = History(evaluation_plan(3, case), {})
    entries = [encode_entry(entry).decode() for entry in history.entries]
    execution = {"kind": "skill", "resourceId": 3, "structure": None, "case": case}
    recording = Recording(execution, [], entries, [turn(history)]).marked()
    assert recording.difference() is None
    assert difference(attrs.evolve(recording, execution={**execution, "resourceId": 4})).startswith("after entry 1")


def test_another_end() -> None:
    """Marks can be equal and the output different; the recorded end of a turn under way is not compared."""
    graph = sketch("s -> a", a={"toolId": "core.transform", "params": {"value": 1}})
    history = History(graph, {})
    entries = [encode_entry(entry).decode() for entry in history.entries]
    execution = {"kind": "workflow", "resourceId": 1, "structure": graph}
    recording = Recording(execution, [], entries, [turn(history)]).marked()
    assert recording.difference() is None
    other = sketch("s -> a", a={"toolId": "core.transform", "params": {"value": 2}})
    assert difference(recording, other) == "the end of run `run-1`: `output` is 2, recorded 1"
    stored = attrs.evolve(recording, turns=[{**recording.turns[0], "output": 3}])
    assert difference(stored) == "the end of run `run-1`: `output` is 1, recorded 3"
    running = attrs.evolve(recording, turns=[{**recording.turns[0], "status": "running", "output": None}])
    assert running.difference() is None
    assert difference(attrs.evolve(recording, turns=[])) == "the journal has 1 turns, recorded 0"


def test_another_release() -> None:
    """A mark that this release does not reach is a difference, at its entry."""
    recording = recorded()
    assert recording.marks is not None
    other = [*recording.marks]
    other[1] = {**other[1], "status": "running"}
    words = difference(attrs.evolve(recording, marks=other))
    assert words == 'after entry 2 (`ok` of `look`): `status` is "interrupted", recorded "running"'


def test_files() -> None:
    """What `lines` writes, `parse` reads, with marks and without."""
    marked = recorded()
    for recording in (marked, attrs.evolve(marked, marks=None)):
        assert Recording.parse("\n".join([*recording.lines(), ""])) == recording


@pytest.mark.parametrize(
    "text",
    ["", "no JSON", "[1]", '{"recording":1}', '{"recording":2}\n{"execution":{}}', '{"recording":1}\n{"execution":1}',
     '{"recording":1}\n{"execution":{}}\n{"entry":7}'],
)  # fmt: skip
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(Malformed, match="recording"):
        Recording.parse(text)


def test_a_line_is_compact() -> None:
    """One object a line, characters as they are."""
    graph = sketch("s -> a", a={"toolId": "tool", "name": "Prüfen"})
    recording = Recording({"kind": "workflow", "resourceId": 1, "structure": graph}, [], [], [])
    lines = list(recording.lines())
    assert "Prüfen" in lines[1]
    assert json.loads(lines[0]) == {"recording": 1}
