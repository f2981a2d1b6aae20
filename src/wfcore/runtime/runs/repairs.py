"""Repairs of runs: retry, fork and delete (interface, Retry, Fork and Delete).

A retry is a new turn of an execution that failed or was cancelled; a fork is a new execution that begins with a copy of
the entries of another one. Both are one append: a crash leaves them done or not begun.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Unpack

import attrs

from wfcore.api.repairs import ForkFields, ForkRun, RetryFields, RetryRun, RetryRuns
from wfcore.domain.graph.node_types import NodeType
from wfcore.domain.json.codec import from_ms
from wfcore.domain.json.values import UNSET, given, to_json
from wfcore.domain.kernel.errors import Conflict, Forbidden, Issue, NotFound, WfcoreError, refuse
from wfcore.domain.kernel.ids import is_run_id
from wfcore.domain.kernel.json_readers import as_list
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.run import entries as e
from wfcore.domain.run.machine.entries.repair_entries import approvals_of, decided_at, has_begun
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.machine.states.interrupts import exit_by_hand
from wfcore.domain.run.plan import Plan
from wfcore.domain.run.state import IllegalEntry, RunStatus
from wfcore.ports.journal import (
    Append,
    Execution,
    JournalConflict,
    NewExecution,
    RunChange,
    RunExists,
    RunFilter,
    RunRow,
)
from wfcore.runtime.common.audit import run_row
from wfcore.runtime.common.authorization import administer, conflict, needs
from wfcore.runtime.common.bodies import Tree, parsed
from wfcore.runtime.common.run_views import RunView, Turn
from wfcore.runtime.execution.append import Projection, new_run, settled
from wfcore.runtime.resources.policy_checks import by_hand_issues
from wfcore.runtime.runs.bodies import RequestedRun, of_the_client, short_fingerprint
from wfcore.runtime.runs.filters import filter_issues, filter_of
from wfcore.runtime.runs.reading import LATEST
from wfcore.runtime.runs.runs import TRIES, Runs
from wfcore.runtime.runs.targets import Chosen

MOST_RETRIED: Final = 1_000
"""The most runs that one request retries."""

RETRYABLE: Final = frozenset({RunStatus.error, RunStatus.cancelled})


@attrs.frozen
class RepairOutcome:
    """What became of one run. `retried_by` is the new turn; None in a preview."""

    run_id: str
    moved: bool
    differences: Sequence[JSON] = ()
    reason: str | None = None
    retried_by: str | None = None

    def to_wire(self) -> dict[str, JSON]:
        return {
            "runId": self.run_id, "moved": self.moved, "differences": list(self.differences), "reason": self.reason,
            "retriedBy": self.retried_by,
        }  # fmt: skip


class RepairableRuns(Runs):
    """The run API with its repairs."""

    # Retry

    @needs("workflows:invoke")
    def retry(
        self,
        me: Principal,
        run_id: str,
        body: RetryRun | Tree | None = None,
        *,
        key: str | None = None,
        if_match: str | None = None,
        **fields: Unpack[RetryFields],
    ) -> Turn:
        """Continue a failed or cancelled run in a new turn, where it failed; completed nodes keep their results.

        `outputs`, `skip` and the version `draft` require manage. Errors: Invalid, NotFound, Forbidden; Conflict with
        `info.reason` `not_retryable`, `already_retried`, `already_resumed`, `incompatible` (with `differences`),
        `not_deployed`, `deleted` or `key_reused`, or `stale` when the ETag of the run's record is not in `if_match`.
        """
        return Turn(self._retry(me, run_id, body, fields, key, if_match), self.batches, self._ports.loop)

    async def _retry(
        self,
        me: Principal,
        run_id: str,
        sent: RetryRun | Tree | None,
        fields: Mapping[str, object],
        key: str | None = None,
        if_match: str | None = None,
    ) -> RunView:
        body = parsed(RetryRun, sent, fields, names=RETRY_NAMES, key=key)
        fingerprint = short_fingerprint([me.user_id, f"retry {run_id}", to_json(body)])
        row, execution, can_use = await self._visible(me, run_id)
        new_id = key or self._ports.ids.uuid()
        if await self._is_begun(me, key):
            return await self._join(me, new_id, fingerprint)
        if not can_use:
            raise Forbidden("retrying a run requires use of its target", {"canUse": False})
        if given(body.outputs) or given(body.skip):
            await self._authorize_manage(me, execution)
        for _ in range(TRIES):
            try:
                await self._check_match(me, run_id, if_match)
                row = await self._ports.journal.find_run(me.org_uuid, run_id) or row
                machine, entry = await self._retry_entry(me, row, execution, body, new_id)
                return await self._write_retry(me, row, execution, machine, entry, fingerprint)
            except JournalConflict:
                continue
            except RunExists:
                return await self._join(me, new_id, fingerprint)
            except Conflict:
                if not await self._is_begun(me, key):  # by an equal request, since the first look
                    raise
                return await self._join(me, new_id, fingerprint)
        raise conflict("the run changes too often; try again", "busy")

    async def _retry_entry(
        self, me: Principal, row: RunRow, execution: Execution, body: RetryRun, new_id: str
    ) -> tuple[Machine, e.Retried]:
        """The machine of the run and the entry that it can take, after every check."""
        _check_kind(execution)
        _check_status(row)
        machine = await self._machine(execution)
        if machine.run_id != row.id:
            raise conflict(f"run `{row.id}` was already retried", "already_retried")
        chosen = await self._chosen(me, execution, machine, given(body.version) or "pinned")
        outputs, skip = given(body.outputs) or {}, tuple(given(body.skip) or ())
        again = tuple(dict.fromkeys(given(body.from_) or ()))
        _refuse_unknown(chosen.plan, {"from": again, "outputs": tuple(outputs), "skip": skip})
        now, actor = max(self._ports.clock.now(), machine.at), e.Actor(me.user_id, me.email)
        entry = e.Retried(now, new_id, actor, chosen.pinned, chosen.is_draft, again, outputs, skip, chosen.refusal,
                          of_the_client(machine.info) or None)  # fmt: skip
        await self._plans.load(me.org_uuid, [entry], machine)
        try:
            machine.check(entry)
        except IllegalEntry as error:
            raise _refused(error, skip) from None
        await self._check_policies(me, execution, machine, chosen, entry)
        return machine, entry

    async def _check_policies(
        self, me: Principal, execution: Execution, machine: Machine, chosen: Chosen, entry: e.Retried
    ) -> None:
        """Invalid if an output given by hand approves what a policy leaves to people."""
        approved = [
            node.id
            for node in chosen.plan.nodes
            if node.kind is NodeType.HUMAN_APPROVAL
            and node.id in entry.outputs
            and exit_by_hand(node, entry.outputs[node.id], entry.by, entry.at)[1] == "approved"
        ]
        if not approved:
            return
        running = chosen.pinned or machine.pinned or (execution.kind, execution.resource_id, execution.variation_id)
        _, number, variation_id = running
        refuse(await by_hand_issues(self._ports.storage, me, number or 0, variation_id or "", approved))

    async def _write_retry(
        self, me: Principal, row: RunRow, execution: Execution, machine: Machine, entry: e.Retried, fingerprint: bytes
    ) -> RunView:
        """Write the new turn, and drive it here."""
        expected, worker = machine.length, self._ports.dispatcher.worker
        self._collect_events(execution.ref, machine)
        machine.apply(entry)
        old = RunChange(row.id, row.status, machine.at, retried_by=entry.run_id)
        queued = machine.turn_open and worker is None
        run = new_run(machine, me.user_id, fingerprint, row.id, queued=queued, origin=row.origin)
        rows = Projection.of(self._ports, execution).rows(machine, (), (entry,), row.id)
        if machine.turn_open:
            waiting = tuple(machine.interrupts.values())
            append = Append(expected, (entry,), run, (old,), waiting, updates_claim=True, wake_at=0, claimed_by=worker,
                            **rows.fields())  # fmt: skip
        else:
            append = settled(machine, expected, (entry,), begun=run, changes=(old,), projected=rows)
        epoch = await self._ports.journal.append(execution.ref, append)
        await self._publish(execution, machine)
        if machine.turn_open:
            run = self._drive_claimed(execution, machine, run, worker, epoch)
        return RunView(run.row(execution), tuple(machine.interrupts.values()))

    @needs("workflows:invoke")
    async def retry_all(
        self, me: Principal, body: RetryRuns | Tree | None = None, **fields: object
    ) -> list[RepairOutcome]:
        """Retry the failed and cancelled runs that a filter selects and nobody has retried, each by itself.

        With `preview` nothing changes, and the outcomes say what would happen. Errors: Invalid; Malformed.
        """
        wanted = parsed(RetryRuns, body, fields, filter_issues)
        version, preview = given(wanted.version) or "pinned", bool(given(wanted.preview))
        outcomes = []
        for row in await self._retryable(me, filter_of(wanted.filter)):
            try:
                outcomes.append(await self._retry_one(me, row.id, version, preview))
            except WfcoreError as error:
                reason = str(error.info.get("reason") or error.code.lower())
                outcomes.append(RepairOutcome(row.id, False, as_list(error.info.get("differences") or ()), reason))
        return outcomes

    async def _retry_one(self, me: Principal, run_id: str, version: str, preview: bool) -> RepairOutcome:
        if not preview:
            view = await self._retry(me, run_id, {"version": version}, {})
            return RepairOutcome(run_id, True, retried_by=view.id)
        row, execution, _ = await self._visible(me, run_id)
        await self._retry_entry(me, row, execution, parsed(RetryRun, {"version": version}, {}), "preview")
        return RepairOutcome(run_id, True)

    async def _retryable(self, me: Principal, where: RunFilter) -> list[RunRow]:
        """The runs that the filter selects and that can be retried as far as their rows show, newest first."""
        found: list[RunRow] = []
        before: int | None = LATEST
        while before is not None and len(found) < MOST_RETRIED:
            rows = await self._ports.journal.list_runs(me.org_uuid, limit=500, before=before, where=where, principal=me)
            found += [row for row in rows if row.status in RETRYABLE and row.retried_by is None and _reaches(me, row)]
            before = rows[-1].key if len(rows) == 500 else None
        return found[:MOST_RETRIED]

    # Fork

    @needs("workflows:invoke")
    def fork(
        self,
        me: Principal,
        run_id: str,
        body: ForkRun | Tree | None = None,
        *,
        key: str | None = None,
        **fields: Unpack[ForkFields],
    ) -> Turn:
        """Begin a new execution with what the run has done, before the last visit of the node `before`.

        The source goes on undisturbed. Approvals are requested again when the input or the graph differs. Errors as for
        `retry`; Conflict with `info.reason` `not_reached` when the node has not begun.
        """
        return Turn(self._fork(me, run_id, body, fields, key), self.batches, self._ports.loop)

    async def _fork(
        self, me: Principal, run_id: str, sent: ForkRun | Tree | None, fields: Mapping[str, object], key: str | None
    ) -> RunView:
        body = parsed(ForkRun, sent, fields, key=key)
        fingerprint = short_fingerprint([me.user_id, f"fork {run_id}", to_json(body)])
        _, execution, can_use = await self._visible(me, run_id)
        if key and await self._is_begun(me, key):
            return await self._join(me, key, fingerprint)
        if not can_use:
            raise Forbidden("forking a run requires use of its target", {"canUse": False})
        _check_kind(execution)
        run = RequestedRun(
            key or self._ports.ids.uuid(), fingerprint, "thread_" + self._ports.ids.uuid().replace("-", ""),
            self._ports.ids.uuid() if key else "", "person", "api",
        )  # fmt: skip
        machine, entries, approved = await self._before(execution, body.before)
        entry = await self._fork_entry(me, execution, machine, approved, body, run)
        await self._plans.load(me.org_uuid, [entry], machine)
        try:
            machine.apply(entry)
        except IllegalEntry as error:
            raise _refused(error) from None
        new = NewExecution(me.org_uuid, execution.kind, execution.resource_id, execution.variation_id, me.user_id,
                           run.thread_id, execution.is_draft, run.started_by)  # fmt: skip
        decided = Projection.of(self._ports, execution).rows(machine, (), (entry,), run_id).audit
        try:
            return await self._begin(new, machine, (*entries, entry), run, forked_from=run_id, audit=decided)
        except RunExists:
            return await self._join(me, run.id, fingerprint)

    async def _before(self, execution: Execution, name: str) -> tuple[Machine, list[e.Entry], set[str]]:
        """The entries with which the last visit of a node stands, the machine after them, and the nodes in which they
        decide approvals.
        """
        entries = await self._ports.journal.read(execution.ref)
        machine = Machine(await self._plans.of(execution, entries))
        await self._plans.load(execution.ref.org, entries, machine)
        last, decided = 0, dict[str, int]()
        for entry in entries:
            waiting = tuple(machine.interrupts.values())
            machine.apply(entry)
            for node in decided_at(waiting, machine.state):
                decided.setdefault(node, machine.length)
            if isinstance(entry, e.Forked):
                last = 0  # visits in the source were made for another input
            if has_begun(machine.root, name):
                last = machine.length
        if last == 0:
            _refuse_unknown(machine.plan, {"before": (name,)})
            raise conflict(f"the run has not reached node `{name}`", "not_reached")
        if last < machine.length:
            machine = Machine(await self._plans.of(execution, entries), plans=machine.plans)
            for entry in entries[:last]:
                machine.apply(entry)
        machine.take_records()
        return machine, entries[:last], {node for node, length in decided.items() if length <= last}

    async def _fork_entry(
        self,
        me: Principal,
        execution: Execution,
        machine: Machine,
        approved: Collection[str],
        body: ForkRun,
        run: RequestedRun,
    ) -> e.Forked:
        chosen = await self._chosen(me, execution, machine, given(body.version) or "pinned")
        _refuse_unknown(chosen.plan, {"before": (body.before,)})
        schema = chosen.plan.nodes[chosen.plan.start].schema
        if body.input is not UNSET and schema is not None:
            refuse(schema.check(body.input, "input"), as_invalid=True)
        again = [body.before]
        if body.input is not UNSET or chosen.pinned is not None:
            names = {node.id for node in chosen.plan.nodes}
            again += sorted((approvals_of(machine.root, approved) & names) - {body.before})
        now, actor = max(self._ports.clock.now(), machine.at), e.Actor(me.user_id, me.email)
        info: dict[str, JSON] = {"threadId": run.thread_id, **of_the_client(machine.info)}
        new_input = () if body.input is UNSET else (body.input,)
        return e.Forked(
            now, run.id, actor, run.key, tuple(again), chosen.pinned, chosen.is_draft, new_input, chosen.refusal, info
        )

    # Delete

    @needs("workflows:write")
    async def delete(self, me: Principal, run_id: str, *, if_match: str | None = None) -> RunView:
        """Delete the whole execution of a run that has ended; requires manage of its target, and no use.

        Its ids stay taken. Its usage and the messages of its conversation stay. Errors: NotFound, Forbidden; Conflict
        with `info.reason` `not_ended`, or `stale` when the ETag of the run's record is not in `if_match`.
        """
        for _ in range(TRIES):
            found = await self._ports.journal.find_turn(me.org_uuid, run_id) if is_run_id(run_id) else None
            if found is None or not me.reaches(found[0].kind, found[0].resource_id):
                raise NotFound
            row, execution = found
            await self._authorize_manage(me, execution)
            await self._check_match(me, run_id, if_match)
            machine = await self._machine(execution)
            if not machine.ended:
                raise conflict(
                    f"the execution of run `{row.id}` has not ended", "not_ended", status=str(machine.status)
                )
            now = from_ms(self._ports.clock.now())
            audit = run_row(now, me.user_id, "run.delete", run_id, row, {"executionStartedBy": row.root_user_id})
            try:
                await self._ports.journal.delete(execution.ref, machine.length, (audit,))
            except JournalConflict:
                continue
            return RunView(row)
        raise conflict("the run changes too often; try again", "busy")

    # Parts

    async def _authorize_manage(self, me: Principal, execution: Execution) -> None:
        """What has no resource is managed by its starter, and by admins."""
        if execution.resource_id is not None:
            await self._targets.authorize(me, execution, "manage")
        elif me.user_id != execution.user_id:
            try:
                administer(me)
            except Forbidden:
                raise NotFound from None

    async def _chosen(self, me: Principal, execution: Execution, machine: Machine, version: str) -> Chosen:
        """The variation that the run goes on with."""
        if version == "draft":
            await self._authorize_manage(me, execution)
        return await self._targets.chosen(me, execution, machine, version)


RETRY_NAMES: Final = {"nodes": "from"}
"""Short keyword arguments of the library, in addition to the wire names in snake case."""


def _reaches(me: Principal, row: RunRow) -> bool:
    """Whether the credential reaches the run."""
    return me.reaches(row.kind, row.resource_id)


def _check_kind(execution: Execution) -> None:
    """A verdict is about one content, so that a run of an evaluation cannot go on with another one."""
    if execution.started_by == "evaluation":
        raise conflict("this is the run of an evaluation: run the evaluation again", "evaluation")


def _check_status(row: RunRow) -> None:
    """Conflict unless the row is that of a failed or cancelled run that nobody has retried."""
    if row.retried_by is not None:
        raise conflict(f"run `{row.id}` was already retried", "already_retried", retriedBy=row.retried_by)
    if row.resumed_by is not None:
        raise conflict(f"run `{row.id}` was already resumed", "already_resumed")
    if row.status not in RETRYABLE:
        message = f"run `{row.id}` is `{row.status}`: use a run that is `error` or `cancelled`"
        raise conflict(message, "not_retryable", status=str(row.status))


def _refuse_unknown(plan: Plan, names: Mapping[str, Sequence[str]]) -> None:
    """Invalid for every name that is not a node of the plan."""
    known = {node.id for node in plan.nodes}
    refuse([
        Issue(_path(field, name, index), f"there is no node `{name[:80]}`", "reference")
        for field, given in names.items()
        for index, name in enumerate(given)
        if name not in known
    ])  # fmt: skip


def _path(field: str, name: str, index: int) -> str:
    if field == "before":
        return field
    return f"outputs.{name}" if field == "outputs" else f"{field}[{index}]"


def _refused(error: IllegalEntry, skip: Sequence[str] = ()) -> WfcoreError:
    """The error for a client, of an entry that cannot happen."""
    if error.reason == "unknown_exit":
        name = str(error.info["nodeId"])
        path = _path("skip", name, skip.index(name)) if name in skip else _path("outputs", name, 0)
        try:
            refuse([Issue(path, str(error), "exit")], as_invalid=True)
        except WfcoreError as refused:
            return refused
    return Conflict(str(error), error.info)
