"""Versions, rollbacks, future firings and run history, through the library."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from bench import Bench, act, agent, one, paths

from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid, Malformed, NotFound

pytestmark = pytest.mark.anyio

PLAIN = one(act("echo", value=1))
OTHER = one(act("echo", value=2))
DAILY = {"trigger_type": "schedule", "schedule": {"frequency": "daily", "timezone": "UTC", "time_of_day": "09:30"}}


async def two_deployed(bench: Bench) -> tuple[int, str, str]:
    """A workflow that was deployed twice, and the ids of both variations."""
    flows, number = bench.core.workflows, await bench.deployed(PLAIN)
    first = (await flows.get(bench.me, number)).resource.active_variation_id
    bench.clock.advance(1)
    await flows.patch(bench.me, number, structure=OTHER)
    second = (await flows.deploy(bench.other, number)).resource.active_variation_id
    assert first
    assert second
    return number, first, second


class TestVariations:
    """Deployed variations are immutable and kept."""

    async def test_the_latest_deployment_comes_first(self, bench: Bench) -> None:
        """Rows name creator and deployer, and which is active; drafts are not listed."""
        number, first, second = await two_deployed(bench)
        await bench.core.workflows.patch(bench.me, number, structure=PLAIN)
        rows = [row.to_wire() for row in await bench.core.workflows.variations(bench.me, number)]
        assert [(row["id"], row["isActive"]) for row in rows] == [(second, True), (first, False)]
        assert [(row["createdBy"], row["deployedBy"]) for row in rows] == [("me", "other"), ("me", "me")]
        assert rows[0]["deployedAt"] > rows[1]["deployedAt"]
        assert rows[0].keys() == {"id", "deployedAt", "deployedBy", "createdAt", "createdBy", "isActive"}

    async def test_variations_are_paged(self, bench: Bench) -> None:
        """At most `limit`, after one of them; a hidden workflow and one that was never deployed have none."""
        number, first, second = await two_deployed(bench)
        flows = bench.core.workflows
        page = await flows.variations(bench.me, number, limit=1)
        behind = await flows.variations(bench.me, number, limit=1, before=page[0].id)
        assert [row.id for row in (*page, *behind)] == [second, first]
        hidden = (await flows.create(bench.other, name="f", access={"visibility": "private"})).id
        assert await flows.variations(bench.other, hidden) == []
        with pytest.raises(NotFound):
            await flows.variations(bench.me, hidden)

    async def test_a_rollback_deploys_again(self, bench: Bench) -> None:
        """The old variation is active again, deployed now by the caller; nothing is copied."""
        number, first, second = await two_deployed(bench)
        flows = bench.core.workflows
        bench.clock.advance(1)
        view = await flows.rollback(bench.other, number, variation_id=first)
        assert (view.resource.active_variation_id, view.resource.has_unpublished_changes) == (first, False)
        assert view.variation
        assert view.variation.workflow.workflow_structure == PLAIN
        assert view.variation.deployed_by == "other"
        assert [row.id for row in await flows.variations(bench.me, number)] == [first, second]
        again = await flows.rollback(bench.me, number, {"variationId": first})
        assert again.etag == view.etag

    async def test_a_draft_outlasts_a_rollback(self, bench: Bench) -> None:
        """A pending draft stays, unless it equals the newly active content."""
        number, first, second = await two_deployed(bench)
        flows = bench.core.workflows
        draft = (await flows.patch(bench.me, number, structure=one(act("echo", value=3)))).resource.draft_variation_id
        assert (await flows.rollback(bench.me, number, variation_id=first)).resource.draft_variation_id == draft
        await flows.patch(bench.me, number, structure=OTHER)
        assert (await flows.rollback(bench.me, number, variation_id=second)).resource.draft_variation_id is None

    async def test_invalid_rollbacks(self, bench: Bench) -> None:
        """An unknown variation is 422, a draft 409; a draft or deleted workflow, and an outdated ETag, 409."""
        number, first, _ = await two_deployed(bench)
        flows = bench.core.workflows
        other = await bench.deployed(PLAIN)
        foreign = (await flows.get(bench.me, other)).resource.active_variation_id
        for unknown in ("nope", foreign):
            with pytest.raises(Invalid) as error:
                await flows.rollback(bench.me, number, variation_id=unknown)
            assert paths(error) == {("variationId", "reference")}
        edited = await flows.patch(bench.me, number, structure=PLAIN)
        for wanted, etag, reason in (
            (edited.resource.draft_variation_id, None, "not_deployed"),
            (first, '"x"', "stale"),
        ):
            with pytest.raises(Conflict) as found:
                await flows.rollback(bench.me, number, {"variationId": wanted}, if_match=etag)
            assert found.value.info["reason"] == reason
        new = (await flows.create(bench.me, name="f")).id
        await flows.delete(bench.me, number)
        for wrong in (new, number):
            with pytest.raises(Conflict):
                await flows.rollback(bench.me, wrong, variation_id=first)
        with pytest.raises(Malformed):
            await flows.rollback(bench.me, number, {})

    async def test_a_rollback_is_checked_like_a_deploy(self, bench: Bench) -> None:
        """Content that cannot run any more, because a skill was deleted, does not become active again."""
        skill = (await bench.core.skills.create(bench.me, name="s")).id
        await bench.core.skills.deploy(bench.me, skill)
        flows, number = bench.core.workflows, await bench.deployed(one(agent(agent_id=skill)))
        first = (await flows.get(bench.me, number)).resource.active_variation_id
        await flows.patch(bench.me, number, structure=PLAIN)
        deployed = await flows.deploy(bench.me, number)
        await bench.core.skills.delete(bench.me, skill)
        with pytest.raises(Invalid) as error:
            await flows.rollback(bench.me, number, variation_id=first)
        assert paths(error) == {("workflowStructure.nodes[1].data.agent_id", "reference")}
        assert (await flows.get(bench.me, number)).etag == deployed.etag

    async def test_a_rollback_keeps_a_schedule_only_where_there_is_one(self, bench: Bench) -> None:
        """`isEnabled` becomes false when the newly active content has no schedule."""
        flows, number = bench.core.workflows, await bench.deployed(PLAIN)
        first = (await flows.get(bench.me, number)).resource.active_variation_id
        await flows.patch(bench.me, number, trigger=DAILY)
        await flows.deploy(bench.me, number)
        assert (await flows.toggle(bench.me, number)).resource.is_enabled
        assert not (await flows.rollback(bench.me, number, variation_id=first)).resource.is_enabled


class TestNextRuns:
    """Future firings of the active variation's schedule."""

    async def test_firings_of_the_active_schedule(self, bench: Bench) -> None:
        """In order, strictly after now, enabled or not; a draft's schedule does not count."""
        flows, number = bench.core.workflows, await bench.deployed(PLAIN)
        assert await flows.next_runs(bench.me, number) == []
        await flows.patch(bench.me, number, trigger=DAILY)
        assert await flows.next_runs(bench.me, number) == []
        await flows.deploy(bench.me, number)
        found = await flows.next_runs(bench.me, number)
        now = bench.core.ports.now()
        assert len(found) == 10
        assert now < found[0].at <= now + timedelta(days=1)
        assert all((firing.at.hour, firing.at.minute) == (9, 30) for firing in found)
        assert datetime.fromisoformat(found[0].local) == found[0].at

    async def test_the_number_of_firings(self, bench: Bench) -> None:
        """More than 100 counts as 100, less than one is refused; hidden and unknown workflows are not found."""
        flows, number = bench.core.workflows, await bench.deployed(PLAIN, trigger=DAILY)
        assert [len(await flows.next_runs(bench.me, number, count=n)) for n in (1, 100, 101)] == [1, 100, 100]
        with pytest.raises(Malformed):
            await flows.next_runs(bench.me, number, count=0)
        with pytest.raises(NotFound):
            await flows.next_runs(bench.me, 99)
        never = (await flows.create(bench.me, name="f", trigger=DAILY)).id
        assert await flows.next_runs(bench.me, never) == []


class TestRuns:
    """Run history."""

    async def test_history_is_newest_first_and_of_one_workflow(self, bench: Bench) -> None:
        """All users' runs of the workflow, page by page, and no other workflow's."""
        number, other = await bench.deployed(PLAIN), await bench.deployed(PLAIN)
        flows, made = bench.core.workflows, []
        for who in (bench.me, bench.other, bench.me):
            run = await bench.core.runs.start(who, workflow=number, input={})
            await bench.ended(run)
            bench.clock.advance(1)
            made.append(run.id)
        await bench.ended(await bench.core.runs.start(bench.me, workflow=other, input={}))
        page = await flows.runs(bench.other, number, limit=2)
        last = page[-1].row
        rest = await flows.runs(bench.other, number, limit=2, before=last.key)
        assert [run.id for run in (*page, *rest)] == made[::-1]
        assert {run.status for run in page} == {"done"}

    async def test_history_requires_use(self, bench: Bench) -> None:
        """A manager without use is refused; for strangers the workflow does not exist."""
        team = (await bench.core.directory.create_group(bench.org, "team")).id
        manager = bench.person("manager", groups=[team])
        access: dict[str, Any] = {"visibility": "shared", "groupPermissions": {team: {"use": False, "manage": True}}}
        flows = bench.core.workflows
        number = (await flows.create(manager, name="f", access=access)).id
        with pytest.raises(Forbidden) as error:
            await flows.runs(manager, number)
        assert error.value.info == {"canUse": False}
        for unknown in (number, 99):
            with pytest.raises(NotFound):
                await flows.runs(bench.me, unknown)
