"""`wfcore simulate`: every end that the runs of a workflow file can come to."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from wfcore.cli.files import read_input, read_workflow
from wfcore.cli.opening import IN_MEMORY, Config, UnusedDatabase, print_result, say

if TYPE_CHECKING:
    from wfcore.domain.graph.limits import GraphLimits
    from wfcore.domain.kernel.errors import Issue
    from wfcore.domain.kernel.json_type import JSON
    from wfcore.domain.run.simulation import Path, Simulation

MaxPaths = Annotated[int, Parameter(validator=Number(gte=1))]


def simulate(
    file: str,
    /,
    *,
    input: str | None = None,
    max_paths: MaxPaths = 200,
    database: UnusedDatabase = IN_MEMORY,
    config: Config = None,
) -> int:
    """Try every outcome of every node of a workflow file, and call nothing: the paths in words, and as JSON.

    Fails when the graph cannot run, no path comes to `done`, a cycle cannot be left, an expression is known to end
    the run in error, or, without an input, a node is never reached.

    Parameters
    ----------
    file
        YAML or JSON with the fields of the create body.
    input
        The run's input as JSON; @FILE reads it from a file, - from stdin. Without it conditions on it go every way.
    max_paths
        Break off after so many paths.
    """
    from wfcore.domain.graph.structure import structure_of
    from wfcore.domain.run import simulation
    from wfcore.settings.installation import load

    given = None if input is None else read_input(input)
    body = read_workflow(file)
    issues = _issues(body, load(config).settings().graph)
    for issue in issues:
        say(f"error: `{issue.path}`: {issue.message}")
    if issues:
        return 1
    found = simulation.simulate(structure_of(body), given, max_paths)
    for line in _told(found):
        say(line)
    print_result(_to_wire(found))
    return int(not found.sound or (given is None and bool(found.never_reached)))


class _Everything:
    """A catalog in which nothing is missing: nothing is called."""

    def tool(self, _: str, /) -> bool:
        return True

    def skill(self, _: int, /) -> bool:
        return True


def _issues(body: dict[str, Any], limits: "GraphLimits") -> "list[Issue]":
    """The errors for which the graph could not run, whatever tools and skills there are."""
    from wfcore.domain.graph.rules import deploy_issues, write_issues
    from wfcore.domain.graph.structure import parse_graph, selection_issues, structure_of

    found = write_issues(body["workflowStructure"], limits=limits) if body.get("workflowStructure") is not None else []
    found += selection_issues(body["agentSelection"]) if body.get("agentSelection") is not None else []
    found = found or deploy_issues(parse_graph(structure_of(body)), _Everything())
    return [issue for issue in found if issue.severity == "error"]


def _told(found: "Simulation") -> Iterator[str]:
    for path in found.paths:
        yield f"{path.end:8}{_in_words(path)}"
    if not found.complete:
        yield f"broken off after {len(found.paths)} paths: there are more (--max-paths)"
    lists = {
        "never reached": found.never_reached,
        "can end the run in error": found.can_fail,
        "can expire": found.can_expire,
        "leads nowhere": [f"{name} {outcome}" for name, outcome in found.dead_ends],
    }
    yield from (f"{what}: {', '.join(names)}" for what, names in lists.items() if names)


def _in_words(path: "Path") -> str:
    steps = ", ".join(name if outcome == "done" else f"{name} {outcome}" for name, outcome in path.steps)
    return f"{steps or 'start'}" + (f" (output: {', '.join(path.output)})" if path.output else "")


def _to_wire(found: "Simulation") -> "Mapping[str, JSON]":
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


def _steps(steps: tuple[tuple[str, str], ...]) -> "list[JSON]":
    return [{"nodeId": name, "outcome": outcome} for name, outcome in steps]
