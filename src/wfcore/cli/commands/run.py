"""`wfcore run`: a workflow file, run here."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import CycloptsError, Parameter

from wfcore.cli.approvals import ApprovalPrompt
from wfcore.cli.files import load_tools, read_input, read_workflow
from wfcore.cli.opening import (
    IN_MEMORY,
    LOCAL,
    Config,
    Database,
    Flag,
    Tools,
    local_principal,
    opened,
    print_result,
    say,
)
from wfcore.cli.progress import Progress

if TYPE_CHECKING:
    from wfcore.bootstrap import Core
    from wfcore.domain.resources.access import Principal
    from wfcore.domain.run.state import Interrupt
    from wfcore.runtime.resources.base import ResourceView
    from wfcore.runtime.runs.runs import RunView


async def run(
    file: str,
    /,
    *,
    input: Annotated[str, Parameter(allow_leading_hyphen=True)] = "{}",
    tools: Tools = [],  # noqa: B006  (never changed)
    yes: Flag = False,
    no: Flag = False,
    database: Database = IN_MEMORY,
    config: Config = None,
) -> int:
    """Run a workflow file here, without a server: shows its progress, asks at approvals, prints the output as JSON.

    Parameters
    ----------
    file
        YAML or JSON with the fields of the create body.
    input
        The run's input as JSON; @FILE reads it from a file, - from stdin.
    yes
        Approve whatever asks.
    no
        Deny whatever asks.
    """
    if yes and no:
        raise CycloptsError(msg="--yes and --no exclude each other")
    given, body = read_input(input), read_workflow(file)
    always: Literal["approve", "deny"] | None = "approve" if yes else "deny" if no else None
    async with opened(database, config, tools=load_tools(tools), worker=True) as core:
        me = await local_principal(core)
        flow = await _deploy(core, me, body)
        if flow is None or flow.variation is None:
            return 1
        with Progress(body["name"], flow.variation.content["workflowStructure"] or {}) as progress:
            ended = await _to_the_end(core, me, flow.id, given, ApprovalPrompt(progress, always))
    return _report(ended)


async def _deploy(core: "Core", me: "Principal", body: dict[str, Any]) -> "ResourceView | None":
    """The deployed workflow; None, having said why, when it cannot run."""
    errors = [issue for issue in await core.workflows.validate(me, body) if issue.severity == "error"]
    for issue in errors:
        say(f"error: `{issue.path}`: {issue.message}")
    if errors:
        return None
    made = await core.workflows.create(me, body)
    return await core.workflows.deploy(me, made.id)


async def _to_the_end(
    core: "Core", me: "Principal", number: int, given: dict[str, Any], answers: ApprovalPrompt
) -> "RunView":
    """Run turn after turn: what waits at the end of one is answered, and that begins the next."""
    turn = await core.runs.start(me, workflow=number, input=given)
    while True:
        async for event in await core.runs.follow(me, turn.id):
            answers.progress.show(event)
        turn = await core.runs.get(me, turn.id)
        if turn.status != "interrupted":
            return turn
        following = await _answer(core, me, turn, answers)
        if following is None:
            return await core.runs.cancel(me, turn.id)
        turn = following


async def _answer(core: "Core", me: "Principal", turn: "RunView", answers: ApprovalPrompt) -> "RunView | None":
    """Answer the first of the open interrupts: the next turn. None when there is nobody to ask."""
    from wfcore.domain.kernel.errors import Conflict

    if turn.row.resumed_by is None:
        asked = turn.interrupts[0]
        answer = answers.to(asked)
        if answer is None:
            return None
        try:
            return await core.runs.resume(_approver(core, asked), turn.id, {"interruptId": asked.id, **answer})
        except Conflict as error:
            say(f"too late: {error.message}")
            turn = await core.runs.get(me, turn.id)
    return turn if turn.row.resumed_by is None else await core.runs.get(me, turn.row.resumed_by)


def _approver(core: "Core", asked: "Interrupt") -> "Principal":
    """At this terminal one person stands in for every approver, each with a user id of its own."""
    number = len(asked.answers) + 1 + (not asked.allow_self)
    user = "local" if number == 1 else f"local-{number}"
    return core.principal(LOCAL, user, email=next(iter(asked.emails), None), groups=asked.groups)


def _report(ended: "RunView") -> int:
    if ended.status == "done":
        print_result(ended.output)
        return 0
    error = (ended.row.result or {}).get("error") or {}
    say(f"the run ended as {ended.status}" + (f": {error['message']}" if "message" in error else ""))
    return 1
