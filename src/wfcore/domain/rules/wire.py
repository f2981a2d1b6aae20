"""What a simulation and verdicts look like on the wire (interface, `POST /api/v1/workflows/simulate`)."""

from collections.abc import Iterable, Mapping, Sequence

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.rules.checking import CounterExample, Verdict
from wfcore.domain.rules.pictures import mermaid, svg
from wfcore.domain.run.simulation import Simulation


def simulation_to_wire(found: Simulation) -> dict[str, JSON]:
    """The paths, and what can be said of all of them."""
    return {
        "complete": found.complete,
        "paths": [
            {"end": path.end, "steps": _steps(path.steps), "output": list(path.output), "failed": path.failed}
            for path in found.paths
        ],
        "neverReached": list(found.never_reached),
        "canFail": list(found.can_fail),
        "canExpire": list(found.can_expire),
        "deadEnds": _steps(found.dead_ends),
    }


def verdicts_to_wire(structure: Mapping[str, JSON], verdicts: Iterable[Verdict]) -> list[JSON]:
    """Each verdict, a broken one with its counter-example: as steps, as a path of node ids, in Mermaid and in SVG."""
    return [
        {
            "rule": str(verdict.rule),
            "status": verdict.status,
            "decidedBy": verdict.decided_by,
            "complete": verdict.complete,
            "counterExample": _example(structure, verdict.counter_example),
        }
        for verdict in verdicts
    ]


def _example(structure: Mapping[str, JSON], example: CounterExample | None) -> JSON:
    if example is None:
        return None
    return {
        "steps": _steps(example.steps),
        "what": example.what,
        "path": list(example.path),
        "mermaid": mermaid(structure, example),
        "svg": svg(example),
    }


def _steps(steps: Sequence[tuple[str, str]]) -> list[JSON]:
    return [{"nodeId": name, "outcome": outcome} for name, outcome in steps]
