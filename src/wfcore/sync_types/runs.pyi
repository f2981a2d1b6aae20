# Written by tests/typing/write_sync_types.py

from collections.abc import Generator, Mapping, Sequence
from typing import Unpack

from wfcore.api.repairs import ForkFields, ForkRun, RetryFields, RetryRun, RetryRuns
from wfcore.api.runs import (
    Chat,
    ChatFields,
    CreateRun,
    CreateRunFields,
    ResumeRun,
    ResumeRunFields,
    RunAction,
    RunActionFields,
)
from wfcore.domain.agents.suggestions import Suggestion
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.run.events import Event
from wfcore.domain.run.recording import Recording
from wfcore.runtime.common.bodies import Tree
from wfcore.runtime.common.run_views import InboxItem, RunView
from wfcore.runtime.runs.evaluations import EvaluationResults, EvaluationView
from wfcore.runtime.runs.filters import RunFilters
from wfcore.runtime.runs.graph import RunGraph
from wfcore.runtime.runs.repairs import RepairOutcome
from wfcore.runtime.runs.stats import RunStats

class SyncRunReading:
    """Reads runs."""

    def get(self, me: Principal, run_id: str) -> RunView:
        """The run's record. An approver without use sees only the interrupts that it can decide, and no result."""

    def page(
        self,
        me: Principal,
        *,
        limit: int = 25,
        before: int | None = None,
        workflow: int | None = None,
        skill: int | None = None,
        **filters: Unpack[RunFilters],
    ) -> list[RunView]:
        """Runs of resources that the caller can use, and its own runs of the assistant and of actions; newest first."""

    def stats(self, me: Principal, *, since: int | None = None, until: int | None = None) -> RunStats:
        """The runs that `page` lists for a period, counted. Epoch milliseconds; default: the last 24 hours."""

    def graph(self, me: Principal, run_id: str, *, path: tuple[str, ...] = (), base: str = "") -> RunGraph:
        """What the nodes of the run's execution have done up to now, all its turns together; or of the child at `path`."""

    def record(self, me: Principal, run_id: str) -> Recording:
        """The run's execution, to be replayed: its journal with all inputs and outputs, what it ran, and how its turns
        ended. Errors: NotFound; Forbidden, as for events."""

    def events(self, me: Principal, run_id: str, *, after: int = 0) -> list[Event]:
        """The run's events so far with a `seq` greater than `after`. NotFound; Forbidden, as for `follow`."""

    def follow(self, me: Principal, run_id: str, *, after: int = 0) -> Generator[Event]:
        """The run's events after `after`, live, until its terminal one: every durable event once, in order."""

    def result(self, run: RunView, timeout: float | None = None) -> JSON:
        """The output of the run's execution, when it has ended: also after interrupts and the turns that resume it."""

    def interrupts(self, me: Principal, *, limit: int = 25, before: int = ...) -> tuple[list[InboxItem], int | None]:
        """The open interrupts that the caller can decide, newest first, and the `before` of the next page."""

class SyncRunStarting(SyncRunReading):
    """The use cases that start a run."""

    def start(
        self,
        me: Principal,
        body: CreateRun | Tree | None = None,
        *,
        key: str | None = None,
        connection: object | None = None,
        **fields: Unpack[CreateRunFields],
    ) -> RunView:
        """Start a run, or join the one that the same key, caller and body started. Durable when awaited."""

    def chat(
        self,
        me: Principal,
        skill: int | None = None,
        body: Chat | Tree | None = None,
        *,
        key: str | None = None,
        **fields: Unpack[ChatFields],
    ) -> RunView:
        """Send a message to a skill, or to the assistant: starts or joins a run as `start` does."""

    def act(
        self,
        me: Principal,
        body: RunAction | Tree | None = None,
        *,
        key: str | None = None,
        **fields: Unpack[RunActionFields],
    ) -> RunView:
        """Run a single action with the caller's access (interface, Execute a workflow action); otherwise as `start`."""

class SyncRuns(SyncRunStarting):
    """The run API (interface, `/agent/v1`)."""

    def resume(
        self,
        me: Principal,
        run_id: str,
        body: ResumeRun | Tree | None = None,
        *,
        key: str | None = None,
        if_match: str | None = None,
        connection: object | None = None,
        **fields: Unpack[ResumeRunFields],
    ) -> RunView:
        """Continue an interrupted execution in a new run, with decisions on its open interrupts: all or none of them."""

    def cancel(self, me: Principal, run_id: str, *, if_match: str | None = None) -> RunView:
        """Cancel an active or parked run. Conflict when it has already ended, or `stale` as for `resume`."""

    def interrupt(self, me: Principal, run_id: str, *, if_match: str | None = None) -> RunView:
        """Park the run at its next step. A resume without a decision continues it. Conflict as for `cancel`."""

class SyncRepairableRuns(SyncRuns):
    """The run API with its repairs."""

    def retry(
        self,
        me: Principal,
        run_id: str,
        body: RetryRun | Tree | None = None,
        *,
        key: str | None = None,
        if_match: str | None = None,
        **fields: Unpack[RetryFields],
    ) -> RunView:
        """Continue a failed or cancelled run in a new turn, where it failed; completed nodes keep their results."""

    def retry_all(self, me: Principal, body: RetryRuns | Tree | None = None, **fields: object) -> list[RepairOutcome]:
        """Retry the failed and cancelled runs that a filter selects and nobody has retried, each by itself."""

    def fork(
        self,
        me: Principal,
        run_id: str,
        body: ForkRun | Tree | None = None,
        *,
        key: str | None = None,
        **fields: Unpack[ForkFields],
    ) -> RunView:
        """Begin a new execution with what the run has done, before the last visit of the node `before`."""

    def delete(self, me: Principal, run_id: str, *, if_match: str | None = None) -> RunView:
        """Delete the whole execution of a run that has ended; requires manage of its target, and no use."""

class SyncEvaluations:
    """Runs the cases of a skill and reads their results. Both require manage of the skill, running them use too."""

    def run(self, me: Principal, skill: int, view: str = "draft", *, key: str | None = None) -> EvaluationView:
        """Begin a run for each case of the draft, which is the active variation without a draft, or of that one."""

    def results(self, me: Principal, skill: int, variations: Sequence[str] | None = None) -> EvaluationResults:
        """The newest result of each case of these variations; by default of the draft and the active one."""

class SyncChanges:
    """Follows what changes in the caller's organization."""

    def follow(self, me: Principal) -> Generator[list[Mapping[str, JSON]]]:
        """The changes that the caller may see when they arrive, live, in batches, without end."""

class SyncSuggestions:
    """Suggested prompts. Data that the caller cannot see has no influence on them."""

    def suggest(self, me: Principal) -> list[Suggestion]:
        """At most four. Those from conversations require `conversations:read`, from workflows `workflows:read`."""
