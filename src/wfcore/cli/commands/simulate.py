"""`wfcore simulate`: every path that a run of a workflow file can take."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from wfcore.cli.common import IN_MEMORY, Config, UnusedDatabase, print_message, print_result
from wfcore.cli.files import read_input, read_workflow

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
    """Try every outcome of every node of a workflow file, without calling anything. Prints the paths as text and JSON.

    Fails when the graph cannot run, no path ends as `done`, a cycle has no exit, an expression is known to end the
    run with an error, or, without an input, a node is never reached.

    Parameters
    ----------
    file
        YAML or JSON with the fields of the create body.
    input
        The run's input as JSON; @FILE reads it from a file, - from stdin. Default: conditions take every branch.
    max_paths
        Stop after this number of paths.
    """
    from wfcore.domain.graph.structure import structure_of
    from wfcore.domain.run import simulation
    from wfcore.settings.installation import load

    given = None if input is None else read_input(input)
    body = read_workflow(file)
    issues = _issues(body, load(config).settings().graph)
    for issue in issues:
        print_message(f"error: `{issue.path}`: {issue.message}")
    if issues:
        return 1
    found = simulation.simulate(structure_of(body), given, max_paths)
    for line in _report_lines(found):
        print_message(line)
    print_result(_to_wire(found))
    return int(not found.sound or (given is None and bool(found.never_reached)))


class _CompleteCatalog:
    """A catalog that contains every tool and skill: none is called."""

    def tool(self, _: str, /) -> bool:
        return True

    def skill(self, _: int, /) -> bool:
        return True


def _issues(body: dict[str, Any], limits: "GraphLimits") -> "list[Issue]":
    """The errors that prevent the graph from running, with any tools and skills."""
    from wfcore.domain.graph.rules import deploy_issues, write_issues
    from wfcore.domain.graph.structure import parse_graph, selection_issues, structure_of

    found = write_issues(body["workflowStructure"], limits=limits) if body.get("workflowStructure") is not None else []
    found += selection_issues(body["agentSelection"]) if body.get("agentSelection") is not None else []
    found = found or deploy_issues(parse_graph(structure_of(body)), _CompleteCatalog())
    return [issue for issue in found if issue.severity == "error"]


def _report_lines(found: "Simulation") -> Iterator[str]:
    for path in found.paths:
        yield f"{path.end:8}{_path_text(path)}"
    if not found.complete:
        yield f"stopped after {len(found.paths)} paths: there are more (--max-paths)"
    lists = {
        "never reached": found.never_reached,
        "can end the run in error": found.can_fail,
        "can expire": found.can_expire,
        "leads nowhere": [f"{name} {outcome}" for name, outcome in found.dead_ends],
    }
    yield from (f"{what}: {', '.join(names)}" for what, names in lists.items() if names)


def _path_text(path: "Path") -> str:
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
