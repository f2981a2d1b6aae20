"""Starting runs (interface, Run-resume).

A run is one turn of an execution. Its id is the Idempotency-Key, otherwise the body's `runId`, otherwise new. A request
with the same id, caller, target and body joins the existing run; any other request with that id is a Conflict that
reveals nothing of the run.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Self, Unpack

from msgspec import structs

from wfcore.api.runs import (
    Chat,
    ChatFields,
    CreateRun,
    CreateRunFields,
    RunAction,
    RunActionFields,
)
from wfcore.domain.json.values import UNSET, given, to_json
from wfcore.domain.kernel.errors import Issue, NotFound, refuse
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.run import entries as e
from wfcore.domain.run.machine.machine import Machine
from wfcore.ports.journal import (
    Append,
    Execution,
    NewExecution,
    NewRun,
    RunExists,
    StarterKind,
    run_info,
    thread_of_run,
)
from wfcore.ports.repositories.audit import AuditRow
from wfcore.runtime.agents.attachments import Attachments
from wfcore.runtime.common.authorization import check_not_limited, conflict, needs
from wfcore.runtime.common.bodies import Tree
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.requests import thread_of
from wfcore.runtime.common.run_views import RunView, Turn
from wfcore.runtime.execution.append import Projection, new_run, settled
from wfcore.runtime.execution.driver import Driver
from wfcore.runtime.execution.plans import Plans
from wfcore.runtime.runs.bodies import (
    RequestedRun,
    Sent,
    action_body,
    chat_body,
    request_fingerprint,
    requests_debug,
    run_fields,
    start_body,
)
from wfcore.runtime.runs.reading import RunReading
from wfcore.runtime.runs.targets import Target, Targets
from wfcore.runtime.runs.within import ports_within

NOTHING: Mapping[str, JSON] = {}


class RunStarting(RunReading):
    """The use cases that start a run."""

    """The run API (interface, `/agent/v1`)."""

    def __init__(self, ports: Ports, plans: Plans, driver: Driver) -> None:
        super().__init__(ports, plans)
        self._driver = driver
        self._targets = Targets(ports, plans)
        self._attachments = Attachments(ports)

    # Starting

    @needs("workflows:invoke")
    def start(
        self,
        me: Principal,
        body: CreateRun | Tree | None = None,
        *,
        key: str | None = None,
        connection: object | None = None,
        **fields: Unpack[CreateRunFields],
    ) -> Turn:
        """Start a run, or join the one that the same key, caller and body started. Durable when awaited.

        With `connection` it is written in the caller's transaction, on the same database: the run exists if and only if
        the caller commits, and begins then. ValueError for a connection to another database or without a transaction.
        The fields are those of `CreateRun`; `workflow` and `skill` are short for the ids. Errors: Invalid, NotFound,
        Forbidden; Conflict with `info.reason`
        `not_deployed`, `deleted` or `key_reused`.
        """
        if connection is not None:
            started = self._within(connection, lambda runs: runs.start(me, body, key=key, **fields))
            return Turn(started, self.batches, self._ports.loop)
        return Turn(self._checked_start(me, body, fields, key), self.batches, self._ports.loop)

    @needs("workflows:invoke")
    def chat(
        self,
        me: Principal,
        skill: int | None = None,
        body: Chat | Tree | None = None,
        *,
        key: str | None = None,
        **fields: Unpack[ChatFields],
    ) -> Turn:
        """Send a message to a skill, or to the assistant: starts or joins a run as `start` does."""
        return Turn(self._chat(me, skill, body, fields, key), self.batches, self._ports.loop)

    @needs("workflows:invoke")
    def start_from(self, me: Principal, channel: StarterKind, body: Tree, *, key: str | None) -> Turn:
        """Start a run for a message of a channel, as `start` does; its record names the channel."""
        return Turn(self._checked_start(me, body, {}, key, channel), self.batches, self._ports.loop)

    async def _within(self, connection: object, use: Callable[[Self], Awaitable[RunView]]) -> RunView:
        """Call `use` with the same use cases in the caller's transaction."""
        journal = await self._ports.journal.within(connection)
        plans = self._plans.within(journal)  # a run that began in the transaction is read there
        return await use(type(self)(ports_within(self._ports, journal), plans, self._driver))

    async def _checked_start(
        self,
        me: Principal,
        body: CreateRun | Tree | None,
        fields: Mapping[str, object],
        key: str | None,
        by: StarterKind = "person",
    ) -> RunView:
        parsed, tree = start_body(body, fields, key, self._ports.settings.attachments)
        return await self._start(me, parsed, tree, key, by=by)

    async def _chat(
        self, me: Principal, skill: int | None, body: Chat | Tree | None, fields: Mapping[str, object], key: str | None
    ) -> RunView:
        if skill == 0:
            raise NotFound
        target = {"assistant": True} if skill is None else {"skillId": skill}
        message = to_json(chat_body(body, fields, key))
        return await self._checked_start(me, {**message, **target}, {}, key)

    async def start_for(
        self,
        deployer: Principal,
        workflow_id: int,
        run_id: str,
        given: Mapping[str, JSON],
        more: Mapping[str, JSON],
        *,
        by: StarterKind,
        fingerprint: bytes | None = None,
    ) -> RunView:
        """Start or join the run of a trigger, as `start` does for the deployer of the workflow.

        `fingerprint` identifies the request where that is not its whole input.
        """
        body = CreateRun(workflow_id=workflow_id, input=dict(given), origin="other")
        return await self._start(deployer, body, to_json(body), run_id, more, fingerprint, by)

    async def _start(
        self,
        me: Principal,
        body: CreateRun,
        tree: Tree,
        key: str | None,
        more: Mapping[str, JSON] = NOTHING,
        fingerprint: bytes | None = None,
        by: StarterKind = "person",
    ) -> RunView:
        """`more` are fields of the expression variable `run` in addition to those of `tree`, the object of the body."""
        chosen, fingerprint = key or given(body.run_id), fingerprint or request_fingerprint(me, "run", tree)
        if chosen and await self._is_begun(me, chosen):
            return await self._join(me, chosen, fingerprint)
        target, values = await self._targets.of(me, body), {} if body.input is UNSET else body.input
        schema = target.plan.nodes[target.plan.start].schema
        if schema is not None:
            issues = schema.check(values, "input")
            if issues and body.input is UNSET:
                refuse([Issue("input", "is required", "required")])
            refuse(issues, as_invalid=True)
        config = await self._targets.config(me.org_uuid, target, body.config)
        attached = await self._attachments.save(me, body.attachments)
        run = self._requested_run(me, chosen, fingerprint, body, by)
        debug = await self._targets.debug(me, target) if requests_debug(body) else NOTHING
        return await self.launch(me, target, run, values, {**run_fields(tree), **debug, **more, **config, **attached})

    @needs("workflows:invoke")
    def act(
        self,
        me: Principal,
        body: RunAction | Tree | None = None,
        *,
        key: str | None = None,
        **fields: Unpack[RunActionFields],
    ) -> Turn:
        """Run a single action with the caller's access (interface, Execute a workflow action); otherwise as `start`.

        Errors: Invalid, also for an unknown tool and for parameters that do not match its schema; Conflict.
        """
        return Turn(self._act(me, body, fields, key), self.batches, self._ports.loop)

    async def _act(
        self, me: Principal, sent: RunAction | Tree | None, fields: Mapping[str, object], key: str | None
    ) -> RunView:
        check_not_limited(me)
        body = action_body(me, sent, fields, key)
        chosen, tree = key or given(body.run_id), to_json(body)
        fingerprint = request_fingerprint(me, "action", tree)
        if chosen and await self._is_begun(me, chosen):
            return await self._join(me, chosen, fingerprint)
        run = self._requested_run(me, chosen, fingerprint, body)
        readable = {"id": run.id, "userId": me.user_id, "threadId": run.thread_id, **run_fields(tree)}
        target, action, params = await self._targets.action(me, body, readable)
        return await self.launch(me, target, run, params, {**run_fields(tree), "action": action})

    async def launch(
        self, me: Principal, target: Target, run: RequestedRun, given: JSON, info: Mapping[str, JSON]
    ) -> RunView:
        """Write the first entry of a checked request; `info` are the request's fields of the variable `run`."""
        new = NewExecution(me.org_uuid, target.kind, target.resource_id, target.variation_id, me.user_id,
                           run.thread_id, target.is_draft, run.started_by)  # fmt: skip
        machine = Machine(target.plan, [] if target.plan.needs_driver else None)  # events are for readers of open runs
        actor, limits = e.Actor(me.user_id, me.email), self._ports.settings.limits
        now, readable = self._ports.clock.now(), {**run_info(new.kind, new.resource_id, new.thread_id), **info}
        started = e.Started(now, run.id, actor, given, readable, limits, target.refusal, run.key)
        machine.apply(started)
        try:
            return structs.replace(await self._begin(new, machine, (started,), run), is_new=True)
        except RunExists:
            return await self._join(me, run.id, run.fingerprint)

    async def _begin(
        self,
        new: NewExecution,
        machine: Machine,
        entries: Sequence[e.Entry],
        request: RequestedRun,
        *,
        forked_from: str | None = None,
        audit: Sequence[AuditRow] = (),
    ) -> RunView:
        """Write the first entries. This worker drives the run at once if it has free capacity and the organization has
        no limit of concurrent runs, otherwise it is queued. A machine that collects events has all of them.

        A run that waits or ends at once needs no driver: this write settles it.
        """
        is_open, waiting = machine.turn_open, tuple(machine.interrupts.values())
        events, machine.sink = machine.take_events(), None  # a run that does not exist yet has no subscribers
        worker = self._ports.dispatcher.worker if is_open else None
        run = new_run(machine, new.user_id, request.fingerprint, None, queued=is_open and worker is None,
                      started_by=new.started_by, origin=request.origin, forked_from=forked_from)  # fmt: skip
        projection = Projection.of(self._ports, new)
        if not is_open:
            rows = projection.rows(machine, ())
            rows = structs.replace(rows, audit=audit) if audit else rows
            append = settled(machine, 0, entries, begun=run, projected=rows)
        else:
            append = Append(0, entries, run, (), waiting, updates_claim=True, wakes=True, claimed_by=worker,
                            notices=projection.notices(machine), audit=audit,
                            verdict=projection.verdict(machine))  # fmt: skip
        execution = await self._ports.journal.begin(new, append)
        if is_open:
            self._drive(execution, machine)
            if events:
                self._pasts.begin(execution, events, machine if execution.claimed_by is None else None)
        return RunView((run if execution.claimed_by == worker else run.queued()).row(execution), waiting)

    def _drive(self, execution: Execution, machine: Machine) -> None:
        """Drive the execution here if the last append claimed it for this worker, otherwise wake any worker."""
        if execution.claimed_by is None:
            self._ports.dispatcher.wake(execution.ref, machine.length)
        else:
            self._ports.dispatcher.adopt(execution.ref)
            self._driver.warm(execution, machine)

    def _drive_claimed(
        self, execution: Execution, machine: Machine, run: NewRun, worker: int | None, epoch: int | None
    ) -> NewRun:
        """Drive the execution as after an append that returned this epoch. Returns the run, queued without a claim."""
        self._drive(execution.claimed(None if epoch is None else worker, epoch), machine)
        return run if epoch is not None else run.queued()

    async def _is_begun(self, me: Principal, key: str | None) -> bool:
        """Whether there is a run whose id a client has chosen."""
        return bool(key) and await self._ports.journal.find_run(me.org_uuid, key or "") is not None

    async def _join(self, me: Principal, run_id: str, fingerprint: bytes) -> RunView:
        """The run that an equal request made before; Conflict for a different request."""
        row = await self._ports.journal.find_run(me.org_uuid, run_id)
        if row is None and await self._ports.journal.is_deleted(me.org_uuid, run_id):
            raise conflict(f"the run `{run_id}` was deleted", "deleted")
        if row is None or row.fingerprint != fingerprint or row.user_id != me.user_id:
            raise conflict(f"the run id `{run_id}` was used for another request", "key_reused")
        _, _, can_use = await self._visible(me, run_id)
        return await self._view(me, row, can_use)

    def _requested_run(
        self, me: Principal, chosen: str | None, fingerprint: bytes, body: Sent, by: StarterKind = "person"
    ) -> RequestedRun:
        """A client's id need not be unique across organizations, so the effects of its run use a new key."""
        new, origin = self._ports.ids.uuid(), given(body.origin) or "api"
        key = new if chosen else ""
        named = thread_of(me, given(body.file_thread_id), given(body.session_id))
        return RequestedRun(chosen or new, fingerprint, named or thread_of_run(new), key, by, origin)
