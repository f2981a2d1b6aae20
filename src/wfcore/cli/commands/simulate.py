"""`wfcore simulate`: every path that a run of a workflow file can take; `wfcore replay`: the path that a run took."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path as File
from typing import TYPE_CHECKING, Annotated

from cyclopts import CycloptsError, Parameter
from cyclopts.validators import Number

from wfcore.cli.client import member_of
from wfcore.cli.common import (
    DATABASE,
    IN_MEMORY,
    Config,
    Database,
    Schema,
    UnusedDatabase,
    open_core,
    print_message,
    print_result,
)
from wfcore.cli.files import read_input, read_workflow, shown_issues

if TYPE_CHECKING:
    from wfcore.domain.kernel.json_type import JSON
    from wfcore.domain.rules.checking import Verdict
    from wfcore.domain.run.recording import Recording
    from wfcore.domain.run.simulation import Path, Simulation

MaxPaths = Annotated[int, Parameter(validator=Number(gte=1))]


def simulate(
    file: str,
    /,
    *,
    input: str | None = None,
    rule: Annotated[list[str] | None, Parameter(negative=())] = None,
    max_paths: MaxPaths = 200,
    database: UnusedDatabase = IN_MEMORY,
    config: Config = None,
) -> int:
    """Try every outcome of every node of a workflow file, without calling anything. Prints the paths as text and JSON.

    Fails when the graph cannot run, no path ends as `done`, a cycle has no exit, an expression is known to end the
    run with an error, or, without an input, a node is never reached; with rules, also when one does not hold.

    Parameters
    ----------
    file
        YAML or JSON with the fields of the create body.
    input
        The run's input as JSON; @FILE reads it from a file, - from stdin. Default: conditions take every branch.
    rule
        A rule about all runs, such as "never pay without approved ask", "at most 1 mail", "always ends in paid or in
        error"; can be repeated.
    max_paths
        Stop after this number of paths.
    """
    from wfcore.domain.graph.rules import body_errors
    from wfcore.domain.graph.structure import structure_of_body
    from wfcore.domain.rules.checking import check_rules
    from wfcore.domain.rules.rules import parse_rule
    from wfcore.domain.rules.wire import simulation_to_wire, verdicts_to_wire
    from wfcore.domain.run import simulation
    from wfcore.settings.installation import load

    given = None if input is None else read_input(input)
    rules = [parse_rule(text, f"--rule {text}") for text in rule or ()]
    body = read_workflow(file)
    issues = body_errors(body, load(config).settings().graph)
    for line in shown_issues(file, issues):
        print_message(line)
    if issues:
        return 1
    structure = structure_of_body(body)
    verdicts = check_rules(structure, rules, given)
    found = simulation.simulate(structure, given, max_paths)
    for line in [*_report_lines(found), *_verdict_lines(structure, verdicts)]:
        print_message(line)
    wire = simulation_to_wire(found)
    print_result({**wire, "rules": verdicts_to_wire(structure, verdicts)} if rules else wire)
    unsound = not found.sound or (given is None and bool(found.never_reached))
    return int(unsound or not all(verdict.holds for verdict in verdicts))


def _verdict_lines(structure: "Mapping[str, JSON]", verdicts: "Sequence[Verdict]") -> Iterator[str]:
    from wfcore.domain.rules.pictures import mermaid

    for verdict in verdicts:
        yield from verdict.lines()
        if verdict.counter_example is not None:
            yield from mermaid(structure, verdict.counter_example).splitlines()


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


async def replay(
    run: str,
    /,
    *,
    workflow: str | None = None,
    save: Annotated[File | None, Parameter(negative=())] = None,
    org: str | None = None,
    user_id: str | None = None,
    database: Database = DATABASE,
    config: Config = None,
    schema: Schema = None,
) -> int:
    """Replay the journal of a run; prints the first difference as JSON. Calls nothing and changes nothing.

    Exit status: 0 no difference, 1 a difference.

    Parameters
    ----------
    run
        The id of a run of the database, or a file that `--save` wrote.
    workflow
        The file of a changed workflow: the outcomes of the run are replayed with its graph.
    save
        Write the recording to this file, for `wfcore.testing.replays`, unless there is a difference. It has the inputs
        and outputs of the run.
    org
        The UUID of the organization in the database.
    user_id
        The member of the organization who reads the run.
    """
    from wfcore.domain.graph.rules import body_errors
    from wfcore.domain.graph.structure import structure_of_body
    from wfcore.domain.kernel.errors import refuse

    structure = None
    if workflow is not None:
        body = read_workflow(workflow)
        refuse(body_errors(body))
        structure = structure_of_body(body)
    recording = _in_file(run) or await _recorded(run, org, user_id, database, config, schema)
    try:
        difference = recording.difference(structure)
    except ValueError as error:
        raise CycloptsError(msg=f"--workflow: {error}") from None
    if save is not None and difference is None:
        _write(save, recording.marked())
    entries: dict[str, JSON] = {"entries": len(recording.entries), "turns": len(recording.turns)}
    if difference is None:
        print_result({**entries, "difference": None})
        return 0
    print_message(str(difference))
    found: dict[str, JSON] = {"after": difference.after, "entry": difference.entry, "message": difference.message}
    print_result({**entries, "difference": found})
    return 1


def _in_file(run: str) -> "Recording | None":
    """The recording of a file; None if there is no such file."""
    from wfcore.domain.kernel.errors import Malformed
    from wfcore.domain.run.recording import Recording

    file = File(run)
    try:
        return Recording.parse(file.read_text("utf-8")) if file.is_file() else None
    except UnicodeDecodeError as error:
        raise Malformed(f"`{run}` is not a recording: {error}") from None


def _write(file: File, recording: "Recording") -> None:
    file.write_text("".join(f"{line}\n" for line in recording.lines()), "utf-8")


async def _recorded(
    run_id: str, org: str | None, user_id: str | None, database: str, config: str | None, schema: str | None
) -> "Recording":
    if not org or not user_id:
        raise CycloptsError(msg="a run of a database needs --org and --user-id (WFCORE_ORG, WFCORE_USER_ID)")
    async with open_core(database, config, schema) as core:
        return await core.runs.record(await member_of(core, org, user_id), run_id)
