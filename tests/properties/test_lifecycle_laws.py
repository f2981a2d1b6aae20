"""The lifecycle of a resource against a simple model of the interface's state table, with every row taken."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from wfcore.domain.json.values import to_json
from wfcore.domain.kernel.errors import Conflict, Invalid
from wfcore.domain.resources import access
from wfcore.domain.resources import resource as resources
from wfcore.domain.resources.content import WorkflowContent, content_of
from wfcore.domain.resources.lifecycle import DEPLOYED, TABLE, IllegalMove, Operation, Status, move
from wfcore.domain.resources.resource import Change, Kind, Resource, Variation

ORG = "0f8fad5b-d9cb-469f-a165-70867728950e"
ANN = access.Principal(ORG, "u-ann", "ann@x.org", frozenset(), frozenset(), access.Role.MEMBER)
START = datetime(2026, 1, 1, tzinfo=UTC)

TRIGGERS = st.sampled_from([None, {"trigger_type": "manual"}, {"trigger_type": "schedule", "schedule": {"n": 1}}])
CHANGES = st.fixed_dictionaries(
    {}, optional={"trigger": TRIGGERS, "agentSelection": st.sampled_from([None, {"n": 1}, {"n": True}])}
)

Row = tuple[Status, Operation, bool]


@attrs.define
class Model:
    """The state of one resource by the interface, in few fields."""

    status: str = "draft"
    deployed: list[dict[str, Any]] = attrs.Factory(list)
    active: dict[str, Any] | None = None
    draft: dict[str, Any] | None = None
    enabled: bool = False

    def unpublished(self) -> bool:
        return self.draft is not None and (self.active is None or repr(self.draft) != repr(self.active))


class Lifecycle(RuleBasedStateMachine):
    """One resource, any operation at any time. `rows` has the variations as a store keeps them."""

    @initialize(content=CHANGES)
    def create(self, content: dict[str, Any]) -> None:
        self.rows: dict[str, Variation] = {}
        self.ticks = 0
        change = resources.create(
            Kind.WORKFLOW,
            org_uuid=ORG,
            id=1,
            slug="w",
            name="W",
            description=None,
            access=access.default_access(ORG, ANN),
            content=content_of(WorkflowContent, content),
            variation_id="v0",
            by="u-ann",
            now=START,
        )
        self.resource: Resource = change.resource
        self.store(change)
        empty = {"trigger": None, "workflowStructure": None, "agentSelection": None}
        self.model = Model(draft=empty | content)

    def store(self, change: Change) -> None:
        self.resource = change.resource
        if change.dropped:
            assert self.rows.pop(change.dropped).deployed_at is None, "a deployed variation is kept"
        if change.saved:
            before = self.rows.get(change.saved.id)
            assert before is None or before.content == change.saved.content, "content never changes"
            self.rows[change.saved.id] = change.saved

    def now(self) -> datetime:
        self.ticks += 1
        return START + timedelta(seconds=self.ticks)

    def row(self, variation_id: str | None) -> Variation | None:
        return self.rows[variation_id] if variation_id else None

    @property
    def active(self) -> Variation | None:
        return self.row(self.resource.active_variation_id)

    @property
    def draft(self) -> Variation | None:
        return self.row(self.resource.draft_variation_id)

    def attempt(self, legal: bool, act: Callable[[], Change], error: type[Exception] = IllegalMove) -> bool:
        """Apply an operation; an illegal one must raise and change nothing. A revision counts only changes."""
        before = self.resource
        if not legal:
            with pytest.raises(error):
                act()
            return False
        change = act()
        self.store(change)
        assert change.resource.revision - before.revision == int(change.resource is not before)
        assert (change.resource is before) == (change.resource == before)
        return True

    @rule(changes=CHANGES)
    def edit(self, changes: dict[str, Any]) -> None:
        model, new_id, now = self.model, f"v{self.ticks + 1}", self.now()
        base = self.draft or self.active
        content = content_of(WorkflowContent, (to_json(base.content) if base else {}) | changes)
        if self.attempt(
            model.status != "deleted",
            lambda: resources.edit_content(
                self.resource, self.active, self.draft, content, new_id=new_id, by="u-ann", now=now
            ),
        ):
            model.draft = (model.draft or model.active or {}) | changes
            if repr(model.draft) == repr(model.active):
                model.draft = None

    @rule(name=st.sampled_from(["W", "X"]))
    def rename(self, name: str) -> None:
        now = self.now()
        self.attempt(
            self.model.status != "deleted",
            lambda: resources.edit_details(
                self.resource, name=name, description=None, access=self.resource.access, now=now
            ),
        )

    @rule()
    def deploy(self) -> None:
        model, now = self.model, self.now()
        if self.attempt(
            model.status != "deleted",
            lambda: resources.deploy(self.resource, self.draft, by="u-ann", now=now),
        ):
            model.status = "active"
            if model.draft is not None:
                self.model_activate(model.draft)
                model.draft = None

    def model_activate(self, content: dict[str, Any]) -> None:
        self.model.active = content
        self.model.deployed.append(content)
        scheduled = (content["trigger"] or {}).get("trigger_type") == "schedule"
        self.model.enabled = self.model.enabled and scheduled

    @rule()
    def discard(self) -> None:
        now = self.now()
        if self.attempt(self.model.status == "active", lambda: resources.discard_draft(self.resource, now=now)):
            self.model.draft = None

    @rule(data=st.data())
    def rollback(self, data: st.DataObject) -> None:
        now, model = self.now(), self.model
        target = data.draw(st.sampled_from(sorted(self.rows.values(), key=lambda row: row.id)))
        legal = model.status == "active" and target.deployed_at is not None
        same = target.id == self.resource.active_variation_id
        if (
            self.attempt(
                legal,
                lambda: resources.rollback(self.resource, target, self.draft, by="u-ann", now=now),
                Conflict,
            )
            and not same
        ):
            self.model_activate(to_json(target.content))
            if repr(model.draft) == repr(model.active):
                model.draft = None

    @rule(wanted=st.none() | st.booleans())
    def toggle(self, wanted: bool | None) -> None:
        model, now = self.model, self.now()
        scheduled = bool(model.active and (model.active["trigger"] or {}).get("schedule"))
        target = (not model.enabled) if wanted is None else wanted
        error = Invalid if model.status == "active" else IllegalMove
        if self.attempt(
            model.status == "active" and (scheduled or not target),
            lambda: resources.toggle(self.resource, scheduled, wanted, now=now),
            error,
        ):
            model.enabled = target

    @rule()
    def delete(self) -> None:
        now = self.now()
        self.attempt(True, lambda: resources.delete(self.resource, now=now))
        self.model.status, self.model.enabled = "deleted", False

    @rule()
    def restore(self) -> None:
        now = self.now()
        self.attempt(True, lambda: resources.restore(self.resource, now=now))
        if self.model.status == "deleted":
            self.model.status = "active" if self.model.deployed else "draft"

    @rule(operation=st.sampled_from([Operation.RUN, Operation.RUN_DRAFT]))
    def run(self, operation: Operation) -> None:
        legal = {"draft": operation is Operation.RUN_DRAFT, "active": True, "deleted": False}[self.model.status]
        resource = self.resource

        def start() -> Change:
            status = resources.move(resource.status, operation, deployed=resource.ever_deployed)
            assert status is resource.status
            return Change(resource)

        self.attempt(legal, start)

    @invariant()
    def agrees(self) -> None:
        model, resource = self.model, self.resource
        assert resource.status == model.status
        assert resource.is_enabled == model.enabled
        assert resource.has_unpublished_changes == model.unpublished()
        assert repr(self.active and to_json(self.active.content)) == repr(model.active)
        assert repr(self.draft and to_json(self.draft.content)) == repr(model.draft)
        assert (resource.deleted_at is not None) == (model.status == "deleted")
        assert resource.updated_at <= START + timedelta(seconds=self.ticks)
        assert sum(row.deployed_at is not None for row in self.rows.values()) >= bool(model.deployed)
        undeployed = {row.id for row in self.rows.values() if row.deployed_at is None}
        assert undeployed == {resource.draft_variation_id} - {None}


@contextmanager
def recorded(taken: set[Row], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Add every row that `resources` takes in the block to `taken`."""

    def recording(status: Status, operation: Operation, *, deployed: bool = False) -> Status:
        reached = move(status, operation, deployed=deployed)
        taken.add((status, operation, deployed or status is Status.ACTIVE))
        return reached

    with monkeypatch.context() as patch:
        patch.setattr(resources, "move", recording)
        yield


def test_operations_follow_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any sequence of operations agrees with the model, and all together take every row of the table."""
    taken: set[Row] = set()
    with recorded(taken, monkeypatch):
        run_state_machine_as_test(
            Lifecycle,
            settings=settings(
                max_examples=150,
                stateful_step_count=25,
                derandomize=True,
                suppress_health_check=list(HealthCheck),
                database=None,
            ),
        )
    rows = {(status, op, ever) for status, row in TABLE.items() for op in row for ever in DEPLOYED[status]}
    assert taken == rows


SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, 1.0, 1.5, -0.0, "1", "", "true"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)


def spelled(value: Any) -> str:
    """A text that two values share exactly if they are the same JSON value."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key!r}:{spelled(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(spelled, value)) + "]"
    return repr(value + 0.0) if isinstance(value, int | float) and not isinstance(value, bool) else repr(value)


@given(VALUES, VALUES)
def test_same_json(a: Any, b: Any) -> None:
    """Two values are the same exactly if their canonical texts are."""
    assert resources.same_json(a, b) == (spelled(a).replace("-0.0", "0.0") == spelled(b).replace("-0.0", "0.0"))
    assert resources.same_json(a, a)
