"""Simulations and verdicts on the wire."""

from wfcore.domain.rules.checking import check_rules
from wfcore.domain.rules.pictures import mermaid, svg
from wfcore.domain.rules.rules import parse_rule
from wfcore.domain.rules.wire import simulation_to_wire, verdicts_to_wire
from wfcore.domain.run.simulation import simulate
from wfcore.testing.histories import sketch

GRAPH = sketch("s -> ask", "ask -approved-> pay", ask={"type": "humanApproval", "timeoutSeconds": 60})


def test_a_simulation() -> None:
    """Every path has its steps as node and outcome."""
    found = simulate(GRAPH)
    shown = simulation_to_wire(found)
    assert shown.keys() == {"complete", "paths", "neverReached", "canFail", "canExpire", "deadEnds"}
    assert shown["complete"] is True
    paths = {tuple((step["nodeId"], step["outcome"]) for step in path["steps"]): path for path in shown["paths"]}  # type: ignore[union-attr, call-overload, index]
    assert paths.keys() == {path.steps for path in found.paths}
    assert {path["end"] for path in paths.values()} == {path.end for path in found.paths}  # type: ignore[call-overload, index]
    assert shown["deadEnds"] == [{"nodeId": name, "outcome": outcome} for name, outcome in found.dead_ends]
    assert (shown["canFail"], shown["canExpire"]) == (list(found.can_fail), list(found.can_expire))


def test_verdicts() -> None:
    """A rule that holds has no counter-example; a broken one has its steps, its path and both pictures."""
    verdicts = check_rules(GRAPH, [parse_rule("never pay without approved ask"), parse_rule("never pay")])
    holds, broken = verdicts_to_wire(GRAPH, verdicts)
    assert isinstance(holds, dict)
    assert isinstance(broken, dict)
    assert (holds["rule"], holds["status"], holds["counterExample"]) == (
        "never pay without approved ask", verdicts[0].status, None,
    )  # fmt: skip
    example = verdicts[1].counter_example
    assert example is not None
    assert broken["counterExample"] == {
        "steps": [{"nodeId": name, "outcome": outcome} for name, outcome in example.steps],
        "what": example.what,
        "path": list(example.path),
        "mermaid": mermaid(GRAPH, example),
        "svg": svg(example),
    }
    assert (broken["decidedBy"], broken["complete"]) == (verdicts[1].decided_by, verdicts[1].complete)
