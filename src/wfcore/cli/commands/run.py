"""`wfcore run`: run a workflow file without a server."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import CycloptsError, Parameter

from wfcore.cli.approvals import ApprovalPrompt
from wfcore.cli.common import (
    IN_MEMORY,
    LOCAL,
    Config,
    Database,
    Flag,
    Schema,
    Tools,
    driving,
    local_principal,
    open_core,
    print_message,
    print_result,
)
from wfcore.cli.files import load_tools, read_input, read_workflow, shown_issues
from wfcore.cli.progress import Progress
from wfcore.domain.kernel.json_readers import as_object, as_text

if TYPE_CHECKING:
    from wfcore.core import Core
    from wfcore.domain.resources.access import Principal
    from wfcore.domain.run.state import Interrupt
    from wfcore.runtime.common.run_views import RunView
    from wfcore.runtime.resources.base import ResourceView


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
    schema: Schema = None,
) -> int:
    """Run a workflow file without a server. Shows the progress, prompts for approvals, prints the output as JSON.

    Parameters
    ----------
    file
        YAML or JSON with the fields of the create body.
    input
        The run's input as JSON; @FILE reads it from a file, - from stdin.
    yes
        Approve every approval.
    no
        Deny every approval.
    """
    if yes and no:
        raise CycloptsError(msg="use either --yes or --no")
    given, body = read_input(input), read_workflow(file)
    always: Literal["approve", "deny"] | None = "approve" if yes else "deny" if no else None
    async with open_core(database, config, schema, tools=load_tools(tools), models=True, migrate=True) as core:
        me = await local_principal(core)
        flow = await _deploy(core, me, file, body)
        if flow is None or flow.variation is None:
            return 1
        structure = flow.variation.workflow.workflow_structure or {}
        with Progress(as_text(body["name"]), structure) as progress:
            ended = await _run_to_end(core, me, flow.id, given, ApprovalPrompt(progress, always))
    return _report(ended)


async def _deploy(core: "Core", me: "Principal", file: str, body: dict[str, Any]) -> "ResourceView | None":
    """The deployed workflow; None, after printing the errors, when it cannot run."""
    errors = [issue for issue in await core.workflows.validate(me, body) if issue.severity == "error"]
    for line in shown_issues(file, errors):
        print_message(line)
    if errors:
        return None
    created = await core.workflows.create(me, body)
    return await core.workflows.deploy(me, created.id)


async def _run_to_end(
    core: "Core", me: "Principal", number: int, given: dict[str, Any], prompt: ApprovalPrompt
) -> "RunView":
    """Run turn after turn: a decision on the interrupts of one begins the next. Returns the last turn."""
    turn = await core.runs.start(me, workflow=number, input=given)
    while True:
        async with driving(core, turn.row.execution):
            async for event in await core.runs.follow(me, turn.id):
                prompt.progress.show(event)
        turn = await core.runs.get(me, turn.id)
        if turn.status != "interrupted":
            return turn
        following = await _resume(core, me, turn, prompt)
        if following is None:
            return await core.runs.cancel(me, turn.id)
        turn = following


async def _resume(core: "Core", me: "Principal", turn: "RunView", prompt: ApprovalPrompt) -> "RunView | None":
    """Decide the first open interrupt. Returns the next turn; None without a decision."""
    from wfcore.domain.kernel.errors import Conflict

    if turn.row.resumed_by is None:
        interrupt = turn.interrupts[0]
        decision = prompt.decide(interrupt)
        if decision is None:
            return None
        try:
            return await core.runs.resume(
                _approver(core, interrupt), turn.id, {"interruptId": interrupt.id, **decision}
            )
        except Conflict as error:
            print_message(f"too late: {error.message}")
            turn = await core.runs.get(me, turn.id)
    return turn if turn.row.resumed_by is None else await core.runs.get(me, turn.row.resumed_by)


def _approver(core: "Core", interrupt: "Interrupt") -> "Principal":
    """A principal for the next approval: the user acts as every approver, each with its own user id."""
    number = len(interrupt.answers) + 1 + (not interrupt.allow_self)
    user = "local" if number == 1 else f"local-{number}"
    return core.principal(LOCAL, user, email=next(iter(interrupt.emails), None), groups=interrupt.groups)


def _report(ended: "RunView") -> int:
    if ended.status == "done":
        print_result(ended.output)
        return 0
    error = as_object(ended.error or {})
    print_message(f"the run ended as {ended.status}" + (f": {error['message']}" if "message" in error else ""))
    return 1
