"""`wfcore run start`, `list` and so on, `wfcore inbox` and `wfcore answer`: the runs of an organization."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Final, Literal

from cyclopts import App, CycloptsError, Parameter

from wfcore.cli.approvals import prompt_form
from wfcore.cli.client import TARGET, Api, CommandTarget, Json, Limit, Reference, at, connected
from wfcore.cli.commands.run import run
from wfcore.cli.common import at_interruption, print_message, print_result
from wfcore.cli.confirm import Yes, confirm
from wfcore.cli.files import read_input
from wfcore.cli.output import print_rows
from wfcore.cli.progress import Progress, chain
from wfcore.domain.json.parsing import parse_json
from wfcore.domain.kernel.errors import WfcoreError
from wfcore.domain.kernel.json_readers import as_object, as_objects, as_text, optional_text
from wfcore.domain.kernel.json_type import JSON

RUNS: Final = "/agent/v1/runs"

LOOK: Final = (0.1, 2.0)
"""Seconds between two looks at a run that is followed: of the first ones, and the longest."""

WATCH: Final = 0.5
"""The most seconds between two looks at a run that is watched."""

STATUSES: Final = {"done": 0, "error": 1, "cancelled": 3, "interrupted": 4}
"""The exit status after following a run, by what became of it."""

Version = Literal["pinned", "published", "draft"]
Follow = Annotated[
    bool, Parameter(name="--follow", negative=(), help="Wait until the run has ended, or waits for somebody.")
]
Watch = Annotated[
    bool, Parameter(name="--watch", negative=(), help="Follow the run, and show live what each node does.")
]

_COLUMNS: Final = {
    "runId": "RUN",
    "status": "STATUS",
    "target.type": "KIND",
    "target.id": "ID",
    "startedBy.userId": "BY",
    "origin": "ORIGIN",
    "createdAt": "STARTED",
    "finishedAt": "ENDED",
}
_MOVES: Final = {"runId": "RUN", "moved": "MOVED", "reason": "REASON", "differences": "DIFFERENCES"}
_RETRIES: Final = {
    "runId": "RUN",
    "moved": "RETRIED",
    "retriedBy": "NEW TURN",
    "reason": "REASON",
    "differences": "DIFFERENCES",
}
_INBOX: Final = {
    "runId": "RUN",
    "interruptId": "INTERRUPT",
    "type": "TYPE",
    "workflowName": "WORKFLOW",
    "message": "MESSAGE",
    "expiresAt": "EXPIRES",
}


async def start(
    reference: Annotated[str | None, Parameter(help="The number or the slug of a workflow.")] = None,
    /,
    *,
    skill: Annotated[str | None, Parameter(help="The number or the slug of a skill, instead of a workflow.")] = None,
    input: Annotated[str, Parameter(allow_leading_hyphen=True)] = "{}",
    message: str | None = None,
    draft: Annotated[bool, Parameter(negative=())] = False,
    key: str | None = None,
    follow: Follow = False,
    watch: Watch = False,
    target: CommandTarget = TARGET,
) -> int:
    """Start a run; prints its id. A server or worker of the database drives it; `--follow` drives it here.

    Parameters
    ----------
    input
        The run's input as JSON; @FILE reads it from a file, - from stdin.
    message
        The message of the run.
    draft
        Run the draft instead of the deployed variation.
    key
        The id of the run: starting it again with the same id and input does not start a second one.
    """
    if (reference is None) == (skill is None):
        raise CycloptsError(msg="name either a workflow or --skill")
    body: dict[str, JSON] = {} if message is None else {"message": message}
    if draft:
        body["version"] = "draft"
    async with connected(target) as api:
        if skill is None:
            body |= {"workflowId": await api.number_of("workflow", reference or ""), "input": read_input(input)}
        else:
            body["skillId"] = await api.number_of("skill", skill)
        return await _begun(api, RUNS, body, follow=follow, watch=watch, key=key)


async def list_runs(
    *,
    status: Literal["queued", "running", "interrupted", "done", "error", "cancelled"] | None = None,
    workflow: str | None = None,
    skill: str | None = None,
    origin: str | None = None,
    started_by: str | None = None,
    since: str | None = None,
    until: str | None = None,
    limit: Limit = 25,
    json: Json = False,
    target: CommandTarget = TARGET,
) -> None:
    """List runs, newest first.

    Parameters
    ----------
    workflow
        Only those of this workflow (number or slug).
    skill
        Only those of this skill (number or slug).
    origin
        Only those with this origin, such as `api`.
    started_by
        Only those that this user started.
    since
        Only those created at this time (RFC 3339) or later.
    until
        Only those created before this time (RFC 3339).
    limit
        The most rows.
    """
    async with connected(target) as api:
        numbers = {
            "workflowId": None if workflow is None else await api.number_of("workflow", workflow),
            "skillId": None if skill is None else await api.number_of("skill", skill),
        }
        rows = await api.pages(
            RUNS, "runs", limit, status=status, origin=origin, startedBy=started_by, since=since, until=until, **numbers
        )
    print_rows(rows, _COLUMNS, as_json=json)


async def show(run_id: str, /, *, target: CommandTarget = TARGET) -> None:
    """Print the record of a run as JSON."""
    async with connected(target) as api:
        print_result(await api.get(at(RUNS, run_id)))


async def follow(run_id: str, /, *, watch: Watch = False, target: CommandTarget = TARGET) -> int:
    """Wait until a run has ended or waits for somebody; prints its output as JSON.

    Exit status: 0 done, 1 error, 3 cancelled, 4 it waits for somebody.
    """
    async with connected(target) as api:
        return await _follow(api, run_id, watch=watch)


async def cancel(run_id: str, /, *, target: CommandTarget = TARGET) -> None:
    """Cancel a run."""
    async with connected(target) as api:
        print_result(await api.post(at(RUNS, run_id, "cancel")))


async def retry(
    run_id: str,
    /,
    *,
    version: Version = "pinned",
    skip: Annotated[list[str], Parameter(negative=())] = [],  # noqa: B006  (never changed)
    again: Annotated[list[str], Parameter(name="--from", negative=())] = [],  # noqa: B006  (never changed)
    output: Annotated[list[str], Parameter(negative=(), allow_leading_hyphen=True)] = [],  # noqa: B006  (never changed)
    follow: Follow = False,
    watch: Watch = False,
    target: CommandTarget = TARGET,
) -> int:
    """Continue a failed or cancelled run where it failed; prints the id of the new turn.

    Parameters
    ----------
    version
        The graph to continue with: the run's own, the deployed one, or the draft.
    skip
        A node to take as done, without an output; can be repeated.
    again
        A completed node to run again, with what follows it; can be repeated.
    output
        NODE=JSON: the output of a node, which is not run; can be repeated.
    """
    outputs: dict[str, JSON] = {}
    for text in output:
        node, _, value = text.partition("=")
        try:
            outputs[node] = parse_json(value.encode())
        except WfcoreError:
            raise CycloptsError(msg=f"--output: `{text}` must be NODE=JSON") from None
    body: dict[str, JSON] = {"version": version, "from": again, "skip": skip, "outputs": outputs}
    async with connected(target) as api:
        sent = {name: value for name, value in body.items() if value}
        return await _begun(api, at(RUNS, run_id, "retry"), sent, follow=follow, watch=watch)


async def retry_all(
    *,
    status: Literal["error", "cancelled"] = "error",
    workflow: str | None = None,
    since: str | None = None,
    until: str | None = None,
    version: Version = "pinned",
    preview: Annotated[bool, Parameter(negative=())] = False,
    yes: Yes = False,
    json: Json = False,
    target: CommandTarget = TARGET,
) -> int:
    """Retry the failed runs that nobody has retried, each where it failed: the newest 1,000 of those selected.

    Exit status: 1 if a run was not retried.

    Parameters
    ----------
    status
        Retry those that failed, or those that were cancelled.
    workflow
        Only those of this workflow (number or slug).
    since
        Only those created at this time (RFC 3339) or later.
    until
        Only those created before this time (RFC 3339).
    version
        The graph to continue with: the run's own, the deployed one, or the draft.
    preview
        Only list what would be retried.
    """
    if not preview:
        await confirm("retry these runs, with all effects of what they did not finish?", yes=yes)
    async with connected(target) as api:
        number = None if workflow is None else await api.number_of("workflow", workflow)
        selection = {"status": status, "workflowId": number, "since": since, "until": until}
        chosen: JSON = {name: value for name, value in selection.items() if value is not None}
        body: dict[str, JSON] = {"filter": chosen, "version": version, "preview": preview}
        with at_interruption("runs that were retried go on: the same command retries the others"):
            answer = as_object(await api.post(f"{RUNS}/retry", body))
    rows = as_objects(answer["runs"])
    from wfcore.runtime.runs.repairs import MOST_RETRIED

    if len(rows) >= MOST_RETRIED:
        print_message(f"{len(rows)} runs are the most of one command: --until TIME selects those before them")
    return _print_outcomes(rows, _RETRIES, as_json=json)


async def fork(
    run_id: str,
    /,
    *,
    before: str,
    version: Version = "pinned",
    input: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    follow: Follow = False,
    watch: Watch = False,
    target: CommandTarget = TARGET,
) -> int:
    """Start a new run with the results that another one had before a node; prints its id.

    Parameters
    ----------
    before
        The node from which on the new run works.
    version
        The graph of the new run: the other run's own, the deployed one, or the draft.
    input
        Another input, as JSON; @FILE reads it from a file, - from stdin.
    """
    body: dict[str, JSON] = {"before": before, "version": version}
    if input is not None:
        body["input"] = read_input(input)
    async with connected(target) as api:
        return await _begun(api, at(RUNS, run_id, "fork"), body, follow=follow, watch=watch)


async def move(
    reference: Reference,
    runs: Annotated[list[str], Parameter(negative=(), help="Ids of runs of the workflow.")] = [],  # noqa: B006  (never changed)
    /,
    *,
    all: Annotated[bool, Parameter(negative=(), help="All its waiting runs.")] = False,
    json: Json = False,
    target: CommandTarget = TARGET,
) -> int:
    """Move waiting runs of a workflow to its deployed variation, where they fit.

    Exit status: 1 if a run was not moved.
    """
    if bool(runs) == all:
        raise CycloptsError(msg="name runs, or pass --all")
    async with connected(target) as api:
        number = await api.number_of("workflow", reference)
        body: dict[str, JSON] = {"all": True} if all else {"runIds": [*runs]}
        answer = as_object(await api.post(f"/api/v1/workflows/{number}/move-runs", body))
    return _print_outcomes(as_objects(answer["runs"]), _MOVES, as_json=json)


def _print_outcomes(rows: Sequence[Mapping[str, JSON]], columns: Mapping[str, str], *, as_json: bool) -> int:
    """Print what became of each run. Returns the exit status."""
    if not rows:
        print_message("there is no such run: nothing was changed")
    texts = ["; ".join(as_text(one["message"]) for one in as_objects(row["differences"])) for row in rows]
    shown = [{**row, "differences": text} for row, text in zip(rows, texts, strict=True)]
    print_rows(rows if as_json else shown, columns, as_json=as_json)
    return 1 if any(row["moved"] is False for row in rows) else 0


async def delete(run_id: str, /, *, yes: Yes = False, target: CommandTarget = TARGET) -> None:
    """Delete an ended run with its events."""
    await confirm(f"delete run {run_id} for ever?", yes=yes)
    async with connected(target) as api:
        print_result(await api.delete(at(RUNS, run_id)))


async def inbox(
    *, workflow: Reference | None = None, limit: Limit = 25, json: Json = False, target: CommandTarget = TARGET
) -> None:
    """List what waits for the member's decision, newest first."""
    async with connected(target) as api:
        number = None if workflow is None else await api.number_of("workflow", workflow)
        rows = await api.pages("/agent/v1/interrupts", "interrupts", limit, workflowId=number)
    print_rows(rows, _INBOX, as_json=json)


async def answer(
    run_id: str,
    decision: Literal["approve", "deny", "connected", "cancelled"],
    /,
    *,
    interrupt: str | None = None,
    data: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    follow: Follow = False,
    watch: Watch = False,
    target: CommandTarget = TARGET,
) -> int:
    """Decide an interrupt of a run; prints the id of the turn that continues it.

    Parameters
    ----------
    interrupt
        The interrupt, where several wait.
    data
        The answers of the approval's form as JSON; @FILE reads them from a file, - from stdin. Without it, an approval
        at the terminal prompts for each field.
    """
    body: dict[str, JSON] = {"decision": decision}
    if interrupt is not None:
        body["interruptId"] = interrupt
    if data is not None:
        body["data"] = read_input(data, "--data")
    async with connected(target) as api:
        if decision == "approve" and data is None and sys.stdin.isatty():
            body |= await _form_data(api, run_id, interrupt)
        return await _begun(api, at(RUNS, run_id, "resume"), body, follow=follow, watch=watch)


async def _form_data(api: Api, run_id: str, interrupt: str | None) -> dict[str, JSON]:
    """The `data` of the approval's form, from the terminal; empty without a form, or with several approvals."""
    record = as_object(await api.get(at(RUNS, run_id)))
    found = [one for one in as_objects(record["interrupts"]) if interrupt in (None, one["interruptId"])]
    schema = found[0].get("formSchema") if len(found) == 1 else None
    return {} if schema is None else {"data": prompt_form(schema)}


async def _begun(api: Api, path: str, body: JSON, *, follow: bool, watch: bool, key: str | None = None) -> int:
    """Begin a turn, print its id at once, and follow it if that is wanted."""
    accepted = as_object(await api.post(path, body, **({"idempotency_key": key} if key else {})))
    run_id = as_text(accepted["runId"])
    print(run_id, flush=True)  # noqa: T201
    if not (follow or watch):
        return 0
    async with api.driving(run_id):
        return await _follow(api, run_id, watch=watch)


async def _follow(api: Api, run_id: str, *, watch: bool) -> int:
    """Wait for the end of an execution, through all turns after this one."""
    if not watch:
        return _ended(await _last(api, run_id, LOOK[1]))
    nodes = await _nodes(api, run_id)
    with Progress(run_id, chain(nodes)) as progress:
        async for record in _records(api, run_id, WATCH):
            progress.show_graph(await _nodes(api, as_text(record["runId"])))
    return _ended(record)


async def _nodes(api: Api, run_id: str) -> Sequence[Mapping[str, JSON]]:
    return as_objects(as_object(await api.get(at(RUNS, run_id, "graph")))["nodes"])


async def _last(api: Api, run_id: str, longest: float) -> Mapping[str, JSON]:
    async for record in _records(api, run_id, longest):
        last = record
    return last


async def _records(api: Api, run_id: str, longest: float) -> AsyncIterator[Mapping[str, JSON]]:
    """The record of the execution at each look, until it has ended or waits for somebody."""
    wait, status = LOOK[0], ""
    while True:
        record = as_object(await api.get(at(RUNS, run_id)))
        yield record
        if record["status"] != status:
            status, wait = as_text(record["status"]), LOOK[0]
            print_message(f"{run_id}: {status}")
        later = optional_text(record["resumedBy"])
        if later is not None:
            run_id, status = later, ""
        elif status in STATUSES:
            return
        await asyncio.sleep(wait)
        wait = min(wait * 1.5, longest)


def _ended(record: Mapping[str, JSON]) -> int:
    if record["status"] == "error":
        print_message(f"error: {as_object(record['error'])['message']}")
    for interrupt in as_objects(record["interrupts"]):
        print_message(f"waits: {interrupt['interruptId']} {interrupt['message']}")
        decisions = "approve|deny" if interrupt["type"] == "approval" else "connected|cancelled"
        print_message(f"answer: wfcore answer {record['runId']} {decisions} --interrupt {interrupt['interruptId']}")
    if record["status"] == "done":
        print_result(record["output"])
    return STATUSES[as_text(record["status"])]


app = App(name="run", help="Run a workflow file without a server, or manage the runs of an organization.")
app.default(run)
for _command, _name in (
    (start, "start"), (list_runs, "list"), (show, "show"), (follow, "follow"), (cancel, "cancel"), (retry, "retry"),
    (retry_all, "retry-all"),
    (fork, "fork"), (move, "move"), (delete, "delete"),
):  # fmt: skip
    app.command(_command, name=_name)
