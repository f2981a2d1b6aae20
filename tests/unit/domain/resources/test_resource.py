"""Workflows and skills: each operation on examples, and the form on the wire."""

from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from wfcore.domain.json.values import changed, to_json
from wfcore.domain.kernel.errors import Conflict, Invalid
from wfcore.domain.resources import access
from wfcore.domain.resources import resource as resources
from wfcore.domain.resources.content import Content, WorkflowContent, content_of
from wfcore.domain.resources.lifecycle import IllegalMove, Status
from wfcore.domain.resources.resource import Change, Kind, OwnershipTransfer, Resource, Variation, same_json

ORG = "0f8fad5b-d9cb-469f-a165-70867728950e"
ANN = access.Principal(ORG, "u-ann", "ann@x.org", frozenset(), frozenset(), access.Role.MEMBER)
T0 = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
T1, T2, T3 = (T0 + timedelta(hours=hour) for hour in (1, 2, 3))
SCHEDULED = {"trigger": {"trigger_type": "schedule", "schedule": {"frequency": "hourly"}}}
MANUAL = {"trigger": {"trigger_type": "manual"}}


def created(content: dict[str, Any] | None = None, kind: Kind = Kind.WORKFLOW) -> Change:
    return resources.create(
        kind,
        org_uuid=ORG,
        id=7,
        slug="refunds",
        name="Refunds",
        description=None,
        access=access.default_access(ORG, ANN),
        content=content_of(resources.CONTENTS[kind], content or {}),
        variation_id="v1",
        by="u-ann",
        now=T0,
    )


def deployed(content: dict[str, Any] | None = None) -> tuple[Resource, Variation]:
    first = created(content)
    change = resources.deploy(first.resource, first.saved, by="u-dan", now=T1)
    assert change.saved is not None
    return change.resource, change.saved


def edited(resource: Resource, active: Variation, changes: dict[str, Any], new_id: str = "v2") -> Change:
    content = with_changes(active, changes)
    return resources.edit_content(resource, active, None, content, new_id=new_id, by="u-eve", now=T2)


def with_changes(base: Variation | None, changes: dict[str, Any]) -> Content:
    return content_of(WorkflowContent, {**(to_json(base.content) if base else {}), **changes})


class TestCreate:
    """A new resource is a draft of the caller."""

    def test_draft(self) -> None:
        """A new workflow is a disabled draft with one variation, whose unset fields are null."""
        change = created(MANUAL)
        resource = change.resource
        assert (resource.status, resource.is_enabled, resource.revision) == (Status.DRAFT, False, 1)
        assert (resource.active_variation_id, resource.draft_variation_id) == (None, "v1")
        assert resource.has_unpublished_changes
        assert change.saved == Variation("v1", WorkflowContent(trigger={"trigger_type": "manual"}), T0, "u-ann")

    def test_skill_content(self) -> None:
        """A skill's content has every field of its table, with its own empty defaults."""
        change, other = created({"model": "m"}, Kind.SKILL), created({}, Kind.SKILL)
        assert change.saved
        assert other.saved
        assert to_json(change.saved.content) == {
            "expectedOutput": "",
            "instructions": [],
            "model": "m",
            "toolset": {},
            "connectionSet": [],
            "contextSelections": [],
            "evaluations": [],
            "interfaces": [],
            "supervisionSubordinateIds": [],
            "supervisionSubordinateDescriptions": {},
            "budget": {},
        }
        assert change.saved.skill.toolset is not other.saved.skill.toolset


class TestEdit:
    """Interface, Versioning 3: a draft and an active variation."""

    def test_opens_a_draft(self) -> None:
        """An edit of an active resource creates a draft from the active content; the active variation stays."""
        resource, active = deployed(MANUAL)
        change = edited(resource, active, {"agentSelection": {"agents": []}})
        assert change.saved == Variation("v2", changed(active.workflow, agent_selection={"agents": []}), T2, "u-eve")
        assert (change.resource.active_variation_id, change.resource.draft_variation_id) == ("v1", "v2")
        assert (change.resource.updated_at, change.dropped) == (T2, None)

    def test_follows_a_draft(self) -> None:
        """A further edit starts from the draft and replaces it by another variation."""
        resource, active = deployed(MANUAL)
        draft = edited(resource, active, {"agentSelection": {"n": 1}})
        assert draft.saved
        content = with_changes(draft.saved, SCHEDULED)
        change = resources.edit_content(draft.resource, active, draft.saved, content, new_id="v3", by="u-eve", now=T3)
        assert change.saved
        assert to_json(change.saved.content) == {**to_json(draft.saved.content), **SCHEDULED}
        assert (change.resource.draft_variation_id, change.dropped) == ("v3", "v2")

    def test_back_to_the_active_one(self) -> None:
        """An edit that makes the draft equal to the active content drops the draft."""
        resource, active = deployed({"agentSelection": {"n": 1}})
        draft = edited(resource, active, {"agentSelection": {"n": True}})
        assert draft.saved
        assert draft.resource.has_unpublished_changes
        change = resources.edit_content(
            draft.resource,
            active,
            draft.saved,
            with_changes(draft.saved, {"agentSelection": {"n": 1.0}}),
            new_id="v3",
            by="u-eve",
            now=T3,
        )
        assert (change.saved, change.dropped, change.resource.draft_variation_id) == (None, "v2", None)
        assert not change.resource.has_unpublished_changes

    @pytest.mark.parametrize("changes", [{}, MANUAL])
    def test_nothing_new(self, changes: dict[str, Any]) -> None:
        """An edit to the same content changes nothing, with and without a draft."""
        resource, active = deployed(MANUAL)
        assert edited(resource, active, changes) == Change(resource)
        first = created(MANUAL)
        content = with_changes(first.saved, changes)
        change = resources.edit_content(first.resource, None, first.saved, content, new_id="v2", by="u-eve", now=T2)
        assert change.resource is first.resource
        assert (change.saved, change.dropped) == (None, None)

    @pytest.mark.parametrize("order", [1, -1])
    def test_a_node_without_data_has_the_default(self, order: int) -> None:
        """Absent `data` and `{}` are the same; other data differs."""
        plain = {"id": "s", "type": "start"}
        old, new = [{"workflowStructure": {"nodes": [node]}} for node in (plain, {**plain, "data": {}})][::order]
        resource, active = deployed(old)
        assert edited(resource, active, new) == Change(resource)
        assert edited(resource, active, {"workflowStructure": {"nodes": [{**plain, "data": {"x": 1}}]}}).saved
        assert to_json(active.content)["workflowStructure"] == old["workflowStructure"]

    def test_details(self) -> None:
        """Name, description and access are not content: the variations and the slug stay."""
        resource, _ = deployed()
        change = resources.edit_details(resource, name="Returns", description="d", access=resource.access, now=T2)
        assert (change.saved, change.dropped) == (None, None)
        assert change.resource == attrs.evolve(
            resource, name="Returns", description="d", updated_at=T2, revision=resource.revision + 1
        )


class TestDeploy:
    """Deploy and rollback."""

    def test_publishes(self) -> None:
        """The draft becomes the active variation, with who deployed it and when."""
        resource, active = deployed(MANUAL)
        assert resource.status is Status.ACTIVE
        assert (resource.active_variation_id, resource.draft_variation_id) == ("v1", None)
        assert not resource.has_unpublished_changes
        assert (active.deployed_at, active.deployed_by, active.created_by) == (T1, "u-dan", "u-ann")

    def test_without_a_draft(self) -> None:
        """Without a pending draft nothing changes."""
        resource, _ = deployed()
        assert resources.deploy(resource, None, by="u-ann", now=T2).resource is resource

    @pytest.mark.parametrize(("content", "enabled"), [(SCHEDULED, True), (MANUAL, False), ({"trigger": None}, False)])
    def test_schedule_switch(self, content: dict[str, Any], enabled: bool) -> None:
        """A deploy keeps the switch, but disables it if the new active variation has no schedule."""
        resource, active = deployed(SCHEDULED)
        resource = resources.toggle(resource, True, now=T2).resource
        draft = edited(resource, active, content | {"agentSelection": {"n": 2}})
        assert resources.deploy(draft.resource, draft.saved, by="u-ann", now=T3).resource.is_enabled is enabled
        off = attrs.evolve(draft.resource, is_enabled=False)
        assert not resources.deploy(off, draft.saved, by="u-ann", now=T3).resource.is_enabled

    def test_rollback(self) -> None:
        """A rollback deploys an old variation again and keeps a draft with other content."""
        resource, first = deployed(MANUAL)
        draft = edited(resource, first, SCHEDULED)
        second = resources.deploy(draft.resource, draft.saved, by="u-dan", now=T2)
        third = edited(second.resource, first, {"agentSelection": {"n": 3}}, "v3")
        change = resources.rollback(third.resource, first, third.saved, by="u-eve", now=T3)
        assert (change.resource.active_variation_id, change.resource.draft_variation_id) == ("v1", "v3")
        assert change.saved == attrs.evolve(first, deployed_at=T3, deployed_by="u-eve")
        assert change.dropped is None

    def test_rollback_to_the_content_of_the_draft(self) -> None:
        """A draft with the same content as the target of the rollback is dropped."""
        resource, first = deployed(MANUAL)
        draft = edited(resource, first, SCHEDULED)
        second = resources.deploy(draft.resource, draft.saved, by="u-dan", now=T2)
        assert second.saved
        again = edited(second.resource, second.saved, MANUAL, "v3")
        change = resources.rollback(again.resource, first, again.saved, by="u-eve", now=T3)
        assert (change.resource.draft_variation_id, change.dropped) == (None, "v3")
        assert change.resource.revision == again.resource.revision + 1

    def test_rollback_refused(self) -> None:
        """A variation that was never deployed is refused; a rollback to the active one changes nothing."""
        resource, first = deployed(MANUAL)
        draft = edited(resource, first, SCHEDULED)
        assert draft.saved
        with pytest.raises(Conflict) as caught:
            resources.rollback(draft.resource, draft.saved, draft.saved, by="u-eve", now=T3)
        assert caught.value.info == {"reason": "not_deployed"}
        assert resources.rollback(resource, first, None, by="u-eve", now=T3) == Change(resource)

    def test_discard(self) -> None:
        """Discarding drops the draft; a resource that was never deployed must keep it."""
        resource, active = deployed(MANUAL)
        draft = edited(resource, active, SCHEDULED)
        change = resources.discard_draft(draft.resource, now=T3)
        assert (change.dropped, change.resource.draft_variation_id) == ("v2", None)
        assert resources.discard_draft(resource, now=T3) == Change(resource)
        with pytest.raises(IllegalMove) as caught:
            resources.discard_draft(created().resource, now=T3)
        assert caught.value.info["reason"] == "not_deployed"


class TestToggle:
    """Enabling and disabling the schedule."""

    def test_flips_or_sets(self) -> None:
        """Without a value it toggles, with a value it sets; the same value changes nothing."""
        resource, _ = deployed(SCHEDULED)
        on = resources.toggle(resource, True, now=T2).resource
        assert on.is_enabled
        assert resources.toggle(on, True, True, now=T3).resource is on
        assert not resources.toggle(on, True, now=T3).resource.is_enabled
        assert not resources.toggle(on, True, False, now=T3).resource.is_enabled

    def test_without_a_schedule(self) -> None:
        """Enabling without a schedule in the active variation is invalid; disabling is allowed."""
        resource, _ = deployed(MANUAL)
        for wanted in (None, True):
            with pytest.raises(Invalid) as caught:
                resources.toggle(resource, False, wanted, now=T2)
            assert caught.value.info["errors"][0]["path"] == "isEnabled"
        assert resources.toggle(resource, False, False, now=T2).resource is resource


class TestDelete:
    """Delete and restore."""

    def test_soft(self) -> None:
        """A delete sets deletedAt and disables the schedule; a second one changes nothing."""
        resource, _ = deployed(SCHEDULED)
        on = resources.toggle(resource, True, now=T2).resource
        gone = resources.delete(on, now=T3).resource
        assert (gone.status, gone.deleted_at, gone.is_enabled) == (Status.DELETED, T3, False)
        assert resources.delete(gone, now=T3 + timedelta(hours=1)).resource is gone

    def test_restore(self) -> None:
        """A restore leads to active if the resource was ever deployed, else to draft; the schedule stays disabled."""
        resource, _ = deployed(SCHEDULED)
        on = resources.toggle(resource, True, now=T2).resource
        back = resources.restore(resources.delete(on, now=T3).resource, now=T3).resource
        assert (back.status, back.deleted_at, back.is_enabled) == (Status.ACTIVE, None, False)
        draft = created().resource
        assert resources.restore(resources.delete(draft, now=T1).resource, now=T2).resource.status is Status.DRAFT

    def test_live(self) -> None:
        """Restoring a live resource returns it unchanged, with its schedule."""
        resource, _ = deployed(SCHEDULED)
        on = resources.toggle(resource, True, now=T2).resource
        assert resources.restore(on, now=T3).resource is on
        assert resources.restore(created().resource, now=T3) == Change(created().resource)


class TestSameJson:
    """Equality of JSON values."""

    @pytest.mark.parametrize(("a", "b"), [(1, 1.0), (0, -0.0), ({"a": 1, "b": 2}, {"b": 2.0, "a": 1}), ([], [])])
    def test_same(self, a: Any, b: Any) -> None:
        """1 equals 1.0, and key order does not matter."""
        assert same_json(a, b)
        assert same_json(b, a)

    @pytest.mark.parametrize(
        ("a", "b"),
        [
            (1, True),
            (0, False),
            ({"a": [1]}, {"a": [True]}),
            (None, False),
            ([], {}),
            ("1", 1),
            ([1], [1, 2]),
            ({"a": None}, {}),
            (2**53 + 1, float(2**53)),
        ],
    )
    def test_different(self, a: Any, b: Any) -> None:
        """True is not a number, null is not absence, and a large integer does not equal a rounded one."""
        assert not same_json(a, b)
        assert not same_json(b, a)


class TestWire:
    """Interface, WorkflowDto and scope response."""

    def test_workflow(self) -> None:
        """An item of a list has every field in the interface's order, with nulls, without variation and transfer."""
        resource, _ = deployed()
        wire = resources.to_wire(resource, access.derive(ANN, resource.access))
        assert list(wire.items()) == [
            ("id", 7),
            ("slug", "refunds"),
            ("name", "Refunds"),
            ("description", None),
            ("status", "active"),
            ("type", "workflow"),
            ("orgUuid", ORG),
            ("activeVariationId", "v1"),
            ("draftVariationId", None),
            ("hasUnpublishedChanges", False),
            ("isEnabled", False),
            ("accessConfig", access.to_wire(resource.access)),
            ("createdAt", "2026-01-31T09:30:00.000Z"),
            ("updatedAt", "2026-01-31T10:30:00.000Z"),
            ("deletedAt", None),
            ("canManage", True),
            ("canUse", True),
            ("manageDenial", None),
        ]

    def test_skill(self) -> None:
        """A scope has no type and no isEnabled, and its variation is the last field."""
        change = created({"model": "m"}, Kind.SKILL)
        seen = access.derive(ANN, change.resource.access)
        wire = resources.to_wire(change.resource, seen, change.saved, with_variation=True)
        assert not {"type", "isEnabled"} & set(wire)
        assert list(wire)[-4:] == ["canManage", "canUse", "manageDenial", "variation"]
        assert wire["variation"]["model"] == "m"

    def test_variation(self) -> None:
        """A single read has the variation, or null."""
        change = created(MANUAL)
        seen = access.derive(ANN, change.resource.access)
        assert resources.to_wire(change.resource, seen, None, with_variation=True)["variation"] is None
        wire = resources.to_wire(change.resource, seen, change.saved, with_variation=True)
        assert wire["variation"] == MANUAL | {"workflowStructure": None, "agentSelection": None}
        assert list(wire).index("variation") == list(wire).index("createdAt") - 1

    def test_transfer_deleted_denied(self) -> None:
        """A pending transfer, a delete and a denial are on the wire, and the description is not."""
        transfer = OwnershipTransfer("u-new", None, "u-ann", T1)
        private = attrs.evolve(created().resource.access, visibility="private", owner_user_id="u-bob", owner_email=None)
        resource = attrs.evolve(
            resources.delete(created().resource, now=T2).resource, pending_transfer=transfer, access=private
        )
        wire = resources.to_wire(resource, access.derive(ANN, private))
        assert wire["pendingOwnershipTransfer"] == {
            "pendingOwnerUserId": "u-new",
            "pendingOwnerEmail": None,
            "requestedByUserId": "u-ann",
            "requestedAt": "2026-01-31T10:30:00.000Z",
        }
        assert (wire["status"], wire["deletedAt"]) == ("deleted", "2026-01-31T11:30:00.000Z")
        assert (wire["canManage"], wire["canUse"], wire["manageDenial"]) == (False, False, "not_owner")
