"""The part of the storage contract for workflows, skills and variations."""

from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wfcore.domain.resources.access import AccessConfig, GroupGrant, Principal
from wfcore.domain.resources.content import WorkflowContent
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.resource import Kind, OwnershipTransfer
from wfcore.ports.storage import Duplicate, IdempotencyRecord, Stale, Storage
from wfcore.testing.contracts.storage.values import (
    FULL,
    ORG,
    OTHER_ORG,
    access_configs,
    all_pages,
    at,
    changed,
    is_listed,
    new_resource,
    new_variation,
    principal,
    principals,
    undone,
)

EVERYBODY = principal()


class ResourcesContract:
    """Inherit `StorageContract`, not this class."""

    async def test_ids_are_unique(self, store: Storage) -> None:
        """`next_id` counts from 1 and never repeats an id, also if it was not used."""
        for expected in (1, 2, 3):
            async with store.transaction(ORG) as work:
                assert await work.workflows.next_id() == expected

    async def test_a_resource_is_read_as_written(self, store: Storage) -> None:
        """Every field is equal to the written one."""
        async with store.transaction(ORG) as work:
            await work.workflows.add(new_resource(1))
            await work.workflows.add(FULL)
        async with store.reading(ORG) as work:
            assert await work.workflows.get(1) == new_resource(1)
            assert await work.workflows.get(FULL.id) == FULL
            assert await work.workflows.get(99) is None
            assert await work.workflows.slugs_taken([FULL.slug, "free", "r1"]) == {FULL.slug, "r1"}
            assert await work.workflows.slugs_taken([]) == set()

    async def test_a_peek_reads_committed_data(self, store: Storage) -> None:
        """`peek` returns the same as `get`, of its own organization only, and nothing of an open transaction."""
        async with store.transaction(ORG) as work:
            await work.workflows.add(new_resource(1))
            await work.workflows.add(FULL)
            assert await store.find_resource(ORG, Kind.WORKFLOW, 1) is None
        assert await store.find_resource(ORG, Kind.WORKFLOW, 1) == new_resource(1)
        assert await store.find_resource(ORG, Kind.WORKFLOW, FULL.id) == FULL
        assert await store.find_resource(ORG, Kind.SKILL, 1) is None
        assert await store.find_resource(ORG, Kind.WORKFLOW, 99) is None
        assert await store.find_resource(OTHER_ORG, Kind.WORKFLOW, 1) is None
        assert await store.find_resource("33333333-3333-4333-8333-333333333333", Kind.WORKFLOW, 1) is None
        renamed = changed(new_resource(1), name="renamed")
        async with store.transaction(ORG) as work:
            await work.workflows.save(new_resource(1), renamed)
            assert await store.find_resource(ORG, Kind.WORKFLOW, 1) == new_resource(1)
        assert await store.find_resource(ORG, Kind.WORKFLOW, 1) == renamed

    async def test_the_names_of_resources(self, store: Storage) -> None:
        """`resource_names`: of those of the kind and the organization that exist."""
        async with store.transaction(ORG) as work:
            await work.workflows.add(new_resource(1))
            await work.workflows.add(FULL)
        names = {1: new_resource(1).name, FULL.id: FULL.name}
        assert await store.resource_names(ORG, Kind.WORKFLOW, [FULL.id, 99, 1]) == names
        for org, kind, ids in ((ORG, Kind.WORKFLOW, []), (ORG, Kind.SKILL, [1]), (OTHER_ORG, Kind.WORKFLOW, [1])):
            assert await store.resource_names(org, kind, ids) == {}

    async def test_a_stale_save_changes_nothing(self, store: Storage) -> None:
        """`Stale` if the row has changed since it was read; the first write remains."""
        first = new_resource(1)
        second = changed(first, name="second")
        async with store.transaction(ORG) as work:
            await work.workflows.add(first)
            await work.workflows.save(first, second)
            with pytest.raises(Stale):
                await work.workflows.save(first, changed(first, name="late"))
            with pytest.raises(Stale):
                await work.workflows.save(new_resource(7), changed(new_resource(7)))
        async with store.reading(ORG) as work:
            assert await work.workflows.get(1) == second

    async def test_grants_follow_the_access(self, store: Storage) -> None:
        """After a save the pages follow the new access configuration only."""
        mine = AccessConfig("private", {}, (), "u1", None)
        theirs = AccessConfig("private", {}, (), "u2", None)
        old = new_resource(1, access=mine)
        async with store.transaction(ORG) as work:
            await work.workflows.add(old)
            assert await work.workflows.page(principal("u1"), limit=9) == [old]
            new = changed(old, access=theirs)
            await work.workflows.save(old, new)
            assert await work.workflows.page(principal("u1"), limit=9) == []
            assert await work.workflows.page(principal("u2"), limit=9) == [new]

    async def test_transfers_are_found_by_their_parties(self, store: Storage) -> None:
        """Of one kind and organization, deleted ones too, by id; a request of other users is not found."""
        async with store.transaction(OTHER_ORG) as work:
            await work.workflows.add(attrs.evolve(FULL, kind=Kind.WORKFLOW, org_uuid=OTHER_ORG))
        async with store.transaction(ORG) as work:
            mine = attrs.evolve(FULL, id=9, slug="nine", deleted_at=None, status=Status.ACTIVE)
            theirs = OwnershipTransfer("u3", None, "u2", at(3))
            others = (attrs.evolve(FULL, id=1, slug="one", pending_transfer=theirs), new_resource(2))
            for resource in (mine, FULL, *others):
                await work.resources(FULL.kind).add(resource)
        async with store.reading(ORG) as work:
            assert await work.resources(FULL.kind).offers_of("u1") == [FULL, mine]
            assert await work.resources(FULL.kind).offers_of("u2") == [others[0], FULL, mine]
            assert await work.resources(FULL.kind).offers_of("u4") == []
            assert await work.skills.offers_of("u2") == []

    async def test_deleted_resources_are_listed_for_managers(self, store: Storage) -> None:
        """`status` None: all except deleted ones. `deleted`: only those that the principal can manage."""
        use_only = AccessConfig("shared", {ORG: GroupGrant(True, False)}, (), None, None)
        async with store.transaction(ORG) as work:
            await work.workflows.add(new_resource(1, status=Status.ACTIVE))
            await work.workflows.add(new_resource(2, status=Status.DELETED))
            await work.workflows.add(new_resource(3, status=Status.DELETED, access=use_only))
            assert [r.id for r in await work.workflows.page(EVERYBODY, limit=9)] == [1]
            assert [r.id for r in await work.workflows.page(EVERYBODY, limit=9, status="deleted")] == [2]
            assert [r.id for r in await work.workflows.page(EVERYBODY, limit=9, status="active")] == [1]
            assert await work.workflows.page(EVERYBODY, limit=9, status="draft") == []

    async def test_resources_with_a_schedule_are_listed(self, store: Storage) -> None:
        """`scheduled`: only those with `is_scheduled`, in the order, pages and states of the list."""
        by_owner = AccessConfig("private", {}, (), "u1", "u1@x.org")
        made = [new_resource(1, status=Status.ACTIVE), new_resource(4, status=Status.ACTIVE, access=by_owner)]
        made += [new_resource(number, status=status) for number, status in ((3, Status.ACTIVE), (5, Status.DELETED))]
        async with store.transaction(ORG) as work:
            await work.workflows.add(new_resource(2, status=Status.ACTIVE))
            for one in made:
                await work.workflows.add(attrs.evolve(one, is_scheduled=True))
            await work.skills.add(attrs.evolve(new_resource(1, Kind.SKILL), is_scheduled=True))

            async def listed(**where: Any) -> list[int]:
                rows = await work.workflows.page(EVERYBODY, **({"limit": 9} | where), scheduled=True)
                return [row.id for row in rows]

            assert await listed() == [1, 3]
            assert await listed(status="active", limit=1) == [1]
            assert await listed(status="active", after=1) == [3]
            assert await listed(status="deleted") == [5]
            assert await listed(query="r3") == [3]
            await work.workflows.save(made[0], changed(made[0], is_scheduled=False))
            assert await listed() == [3]

    @pytest.mark.parametrize(
        ("query", "ids"),
        [("refund", [1, 2]), ("REFUND", [1, 2]), ("%", [3]), ("_", []), ("É", [4]), ("é", []), ("zz", []),
         ("", [1, 2, 3, 4]), ("r" * 100_000, [])],
    )  # fmt: skip
    async def test_a_query_is_plain_text(self, store: Storage, query: str, ids: list[int]) -> None:
        """Name or slug contains it, ASCII letters in either case; it has no wildcards."""
        async with store.transaction(ORG) as work:
            await work.workflows.add(new_resource(1, name="Refunds"))
            await work.workflows.add(new_resource(2, name="x", slug="a-refund"))
            await work.workflows.add(new_resource(3, name="100 %"))
            await work.workflows.add(new_resource(4, name="É"))
            found = await work.workflows.page(EVERYBODY, limit=9, query=query)
            assert [r.id for r in found] == ids

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        configs=st.lists(st.tuples(access_configs, st.sampled_from(Status)), max_size=7),
        caller=principals,
        limit=st.integers(1, 4),
        status=st.sampled_from([None, *Status]),
    )
    async def test_pages_follow_derive(
        self,
        store: Storage,
        configs: list[tuple[AccessConfig, Status]],
        caller: Principal,
        limit: int,
        status: Status | None,
    ) -> None:
        """Resources that the principal can use or manage, by id ascending, at most `limit`: the pages together
        have each resource that `derive` allows once."""
        made = [new_resource(i, access=a, status=s) for i, (a, s) in enumerate(configs, 1)]
        async with undone(store) as work:
            for resource in reversed(made):
                await work.workflows.add(resource)
            found = await all_pages(work, caller, limit, status)
        assert found == [r for r in made if is_listed(r, caller, status)]

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        configs=st.lists(st.tuples(access_configs, st.sampled_from(Status)), max_size=5),
        caller=principals,
        ids=st.sets(st.integers(1, 6)),
    )
    async def test_the_visible_ones_of_some(
        self, store: Storage, configs: list[tuple[AccessConfig, Status]], caller: Principal, ids: set[int]
    ) -> None:
        """`visible`: of these ids, the resources that `derive` allows, without deleted ones, by id ascending."""
        made = [new_resource(i, access=a, status=s) for i, (a, s) in enumerate(configs, 1)]
        async with undone(store) as work:
            for resource in reversed(made):
                await work.workflows.add(resource)
            await work.skills.add(new_resource(6, Kind.SKILL))
            found = await work.workflows.visible(caller, ids)
        assert found == [r for r in made if r.id in ids and is_listed(r, caller, None)]

    # Variations

    async def test_content_is_verbatim(self, store: Storage) -> None:
        """JSON is stored verbatim: key order, number types and any text. A later change of a written or read value
        does not reach the store."""
        content: dict[str, Any] = {
            "z": 1,
            "a": [1.0, 10**30, -0.0, True, None, "\u2028\ud7ff\x01😀"],
            "m": {"b": {}, "a": []},
        }
        variation = new_variation("v1", content=WorkflowContent(workflow_structure=content))
        async with store.transaction(ORG) as work:
            await work.workflows.add(new_resource(1))
            await work.workflows.add_variation(1, variation)
            before = repr(content)
            content["z"] = 2
            for _ in range(2):
                read = await work.workflows.variation(1, "v1")
                assert read
                assert repr(read.workflow.workflow_structure) == before
                content_read: Any = read.workflow.workflow_structure
                content_read["a"].clear()
            with pytest.raises(Duplicate):
                await work.workflows.add_variation(1, variation)

    async def test_only_the_deployment_of_a_variation_changes(self, store: Storage) -> None:
        """`save_variation` replaces `deployed_at` and `deployed_by` alone; `Stale` if it was removed."""
        draft = new_variation("v1")
        deployed = attrs.evolve(draft, deployed_at=at(5), deployed_by="u2")
        async with store.transaction(ORG) as work:
            await work.workflows.add(new_resource(1))
            await work.workflows.add_variation(1, draft)
            await work.workflows.save_variation(
                1, attrs.evolve(deployed, content=WorkflowContent(trigger={"other": 1}))
            )
            assert await work.workflows.variation(1, "v1") == deployed
            with pytest.raises(Stale):
                await work.workflows.save_variation(1, new_variation("v2"))
            assert await work.workflows.variation(1, "v2") is None

    async def test_deployed_variations_come_latest_first(self, store: Storage) -> None:
        """Deployed variations, latest deployment first, then by id; `before` continues after one, also within one
        millisecond."""
        async with store.transaction(ORG) as work:
            await work.workflows.add(new_resource(1))
            for name, day in {"a": 1, "b": 3, "c": 3, "d": 2, "e": None}.items():
                when = None if day is None else at(day)
                await work.workflows.add_variation(1, new_variation(name, deployed_at=when))
            pages = [await work.workflows.variations(1, limit=2)]
            while pages[-1]:
                pages.append(await work.workflows.variations(1, limit=2, before=pages[-1][-1].id))
            assert [[v.id for v in page] for page in pages] == [["c", "b"], ["d", "a"], []]
            assert await work.workflows.variations(1, limit=2, before="nobody") == []

    async def test_only_drafts_are_dropped(self, store: Storage) -> None:
        """`drop_variation` deletes a draft; a variation that was ever deployed remains."""
        async with store.transaction(ORG) as work:
            await work.workflows.add(new_resource(1))
            await work.workflows.add_variation(1, new_variation("draft"))
            await work.workflows.add_variation(1, new_variation("deployed", deployed_at=at(2)))
            for name in ("draft", "deployed", "nobody"):
                await work.workflows.drop_variation(1, name)
            assert await work.workflows.variation(1, "draft") is None
            assert await work.workflows.variation(1, "deployed")

    async def test_an_idempotency_record_is_stored_once(self, store: Storage) -> None:
        """`Duplicate` if the user has used the key; another user, kind or organization has separate keys."""
        kept, other = IdempotencyRecord("f", {"z": [1.0, None], "a": "é"}), IdempotencyRecord("g", {})
        async with store.transaction(ORG) as work:
            await work.idempotency.add("workflow", "u1", "k", kept)
            with pytest.raises(Duplicate):
                await work.idempotency.add("workflow", "u1", "k", other)
            await work.idempotency.add("workflow", "u2", "k", other)
            await work.idempotency.add("skill", "u1", "k", other)
            for _ in range(2):
                found = await work.idempotency.find("workflow", "u1", "k")
                assert found is not None
                assert repr(found) == repr(kept)
                response: Any = found.response
                response["z"].clear()
            assert await work.idempotency.find("workflow", "u2", "k") == other
            assert await work.idempotency.find("skill", "u1", "k") == other
            assert await work.idempotency.find("workflow", "u1", "other") is None
        async with store.reading(OTHER_ORG) as work:
            assert await work.idempotency.find("workflow", "u1", "k") is None
