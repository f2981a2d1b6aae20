"""AG-UI clients: a request starts a run of a workflow or skill, or resumes the run of its thread that waits."""

from collections.abc import Mapping
from typing import Final

from wfcore.domain.channels.ag_ui import PAUSED, read_agent_input, resume_of, start_of
from wfcore.domain.kernel.json_readers import as_objects, as_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.resource import Kind
from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import RunFilter, RunRow
from wfcore.runtime.agents.context_sources import input_schema_of
from wfcore.runtime.common.authorization import authorize, conflict, needs
from wfcore.runtime.common.bodies import Tree
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.run_views import RunView, Turn, views
from wfcore.runtime.runs.runs import Runs

MOST_TURNS: Final = 100
"""How many of the latest turns of a thread are searched for an interrupt."""


class AgentClients:
    """Runs for AG-UI clients."""

    area = "workflows"

    def __init__(self, ports: Ports, runs: Runs) -> None:
        self._ports = ports
        self._runs = runs

    @needs("workflows:invoke")
    def run(self, me: Principal, kind: Kind, number: int, body: Tree) -> Turn:
        """Start a run with the last message of a `RunAgentInput`, or resume one with its `resume`.

        Its `runId` is the idempotency key. Errors: as for `Runs.start` and `Runs.resume`; NotFound or Forbidden without
        use of the workflow or skill; Conflict `not_interrupted` when no run of the thread waits for the first interrupt
        of `resume`.
        """
        return Turn(self._run(me, kind, number, body), self._runs.batches, self._ports.loop)

    async def _run(self, me: Principal, kind: Kind, number: int, body: Tree) -> RunView:
        given = read_agent_input(dict(body))
        key = as_text(given["runId"])
        authorize(me, await self._ports.storage.find_resource(me.org_uuid, kind, number), "use")
        if not given.get("resume"):
            with start_of(given, await self._schema(me, kind, number)).sent() as fields:
                return await self._runs.start(me, {f"{kind}Id": number, **fields}, key=key)
        entries = as_objects(given["resume"])
        waiting = await self._waiting(me, RunFilter(None, kind, number, as_text(given["threadId"])), given)
        waits = as_objects(waiting.to_wire()["interrupts"])
        types = {as_text(one["interruptId"]): as_text(one["type"]) for one in waits}
        with resume_of(entries, types).sent() as fields:
            return await self._runs.resume(me, waiting.id, fields, key=key)

    async def _schema(self, me: Principal, kind: Kind, number: int) -> Mapping[str, JSON] | None:
        """The input schema of the active variation; {} where the start says what is wrong, None of a skill."""
        if kind is Kind.SKILL:
            return None
        async with self._ports.storage.reading(me.org_uuid) as work:
            workflow = await work.workflows.get(number)
            active = await work.workflows.variation(number, (workflow and workflow.active_variation_id) or "")
        return {} if active is None else input_schema_of(active.workflow)

    async def _waiting(self, me: Principal, where: RunFilter, given: Mapping[str, JSON]) -> RunView:
        """The turn to resume: the one that an equal request resumed before, or the latest that waits for it."""
        first = as_text(as_objects(given["resume"])[0]["interruptId"])
        journal, org = self._ports.journal, me.org_uuid
        before = await journal.find_run(org, as_text(given["runId"]))
        if before is not None and before.parent_run_id is not None and _is_of(before, where):
            row = await journal.find_run(org, before.parent_run_id)
            return RunView(row or before)
        rows = await journal.list_runs(org, limit=MOST_TURNS, where=where, principal=me)
        for view in await views(journal, rows):
            paused = view.status is RunStatus.interrupted and view.resumed_by is None and not view.interrupts
            if first in {one.id for one in view.interrupts} or (first == PAUSED and paused):
                return view
        raise conflict(f"no run of this thread waits for `{first[:100]}`", "not_interrupted")


def _is_of(row: RunRow, where: RunFilter) -> bool:
    return (row.kind, row.resource_id) == (where.kind, where.resource_id)
