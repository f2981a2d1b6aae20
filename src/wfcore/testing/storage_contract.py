"""What every store of organizations, resources and members has to keep, as a suite to inherit.

An adapter's author writes one method:

    class TestMyStorage(StorageContract):
        async def open_storage(self, place: Path) -> Storage:
            return MyStorage(place / "data")

`open_storage` gives an upgraded store; `place` is an empty directory. Needs the extra `testing`.
"""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Coroutine, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wfcore.domain.access import AccessConfig, GroupGrant, Principal, Role
from wfcore.domain.errors import NotFound, Unavailable
from wfcore.domain.lifecycle import Status
from wfcore.domain.resources import Kind
from wfcore.ports.storage import Duplicate, Group, Kept, Member, Stale, Storage
from wfcore.testing.storage_values import (
    FULL,
    ORG,
    OTHER_ORG,
    access_configs,
    all_pages,
    at,
    changed,
    is_listed,
    new_member,
    new_organization,
    new_resource,
    new_token,
    new_variation,
    principal,
    principals,
    undone,
    what_is_written,
    write_everything,
)

EVERYBODY = principal()


class CancelAt:
    """Runs a coroutine in the present task and cancels that task at its `step`-th wait. `reached` tells if so."""

    def __init__(self, work: Coroutine[Any, Any, None], step: int) -> None:
        self.work, self.step, self.reached = work, step, False

    def __await__(self) -> Generator[Any, Any, None]:
        waits = self.work.__await__()
        count = 0
        for future in waits:
            count += 1
            if count == self.step:
                self.reached = True
                task = asyncio.current_task()
                assert task
                task.cancel()
            yield future


class StorageContract:
    """Inherit, name the class `Test...`, and write `open_storage`."""

    pytestmark = pytest.mark.anyio

    @abstractmethod
    async def open_storage(self, place: Path) -> Storage:
        """An upgraded store in an empty directory."""

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.fixture
    async def store(self, tmp_path: Path, anyio_backend: str) -> AsyncIterator[Storage]:
        store = await self.open_storage(tmp_path)
        await store.add_organization(new_organization(ORG))
        await store.add_organization(new_organization(OTHER_ORG))
        yield store
        await store.close()

    # Storage

    async def test_an_organization_is_found_by_its_uuid_and_listed_by_uuid(self, store: Storage) -> None:
        """Organizations are listed by UUID, ascending, after a given one."""
        assert await store.organization(ORG) == new_organization(ORG)
        assert await store.organization("nobody") is None
        assert [o.uuid for o in await store.organizations(limit=9)] == sorted([ORG, OTHER_ORG])
        assert [o.uuid for o in await store.organizations(limit=9, after=ORG)] == [OTHER_ORG]
        assert [o.uuid for o in await store.organizations(limit=1)] == [ORG]

    async def test_an_organization_is_added_once(self, store: Storage) -> None:
        """`Duplicate` when the UUID is taken; the first one stays."""
        with pytest.raises(Duplicate):
            await store.add_organization(attrs.evolve(new_organization(ORG), name="other"))
        assert await store.organization(ORG) == new_organization(ORG)

    async def test_an_unknown_organization_has_no_unit_of_work(self, store: Storage) -> None:
        """`NotFound` for an organization that does not exist, reading and writing alike."""
        for door in (store.transaction, store.reading):
            with pytest.raises(NotFound):
                async with door("nobody"):
                    pass

    async def test_upgrading_again_changes_nothing(self, store: Storage) -> None:
        """`upgrade`: nothing to do when it is there already; `check` then finds nothing wrong."""
        async with store.transaction(ORG) as work:
            await work.workflows.add(new_resource(1))
        await store.upgrade()
        assert await store.check() is None
        async with store.reading(ORG) as work:
            assert await work.workflows.get(1) == new_resource(1)

    async def test_a_closed_store_says_so(self, store: Storage) -> None:
        """After `close` everything is refused as unavailable, and `check` says it in words."""
        await store.close()
        await store.close()
        assert await store.check()
        for door in (store.transaction, store.reading):
            with pytest.raises(Unavailable):
                async with door(ORG):
                    pass
        with pytest.raises(Unavailable):
            await store.organization(ORG)

    async def test_an_exception_leaves_nothing(self, store: Storage) -> None:
        """A transaction that ends with an exception leaves nothing, whatever was written in it."""
        with pytest.raises(KeyError):
            async with store.transaction(ORG) as work:
                await write_everything(work)
                raise KeyError
        async with store.reading(ORG) as work:
            assert await what_is_written(work) == [False] * 6

    async def test_a_duplicate_leaves_the_transaction_usable(self, store: Storage) -> None:
        """`Duplicate` writes nothing, and the rest of the transaction stands."""
        async with store.transaction(ORG) as work:
            await work.workflows.add(new_resource(1))
            for taken in (new_resource(1, slug="free"), new_resource(2, slug="r1")):
                with pytest.raises(Duplicate):
                    await work.workflows.add(taken)
            await work.workflows.add(new_resource(3))
        async with store.reading(ORG) as work:
            assert [r.id for r in await work.workflows.page(EVERYBODY, limit=9)] == [1, 3]
            assert not await work.workflows.slug_taken("free")

    async def test_reading_leaves_nothing(self, store: Storage) -> None:
        """A view is without writing: what is tried in it is refused or forgotten."""
        with suppress(Exception):
            async with store.reading(ORG) as work:
                await write_everything(work)
        async with store.reading(ORG) as work:
            assert await what_is_written(work) == [False] * 6

    async def test_a_reader_does_not_wait_for_a_writer(self, store: Storage) -> None:
        """Readers never wait for writers, and see one state from their first look to their last."""
        async with store.transaction(ORG) as writer:
            await writer.workflows.add(new_resource(1))
            async with store.reading(ORG) as early:
                assert await early.workflows.get(1) is None
        async with store.reading(ORG) as reader:
            before = await reader.workflows.page(EVERYBODY, limit=9)
            async with store.transaction(ORG) as writer:
                await writer.workflows.add(new_resource(2))
            assert await reader.workflows.page(EVERYBODY, limit=9) == before

    async def test_writers_come_one_after_the_other(self, store: Storage) -> None:
        """Of writers that read, wait and write, none overwrites what another one wrote."""

        async def rename() -> None:
            async with store.transaction(ORG) as work:
                old = await work.workflows.get(1)
                assert old
                await asyncio.sleep(0)
                await work.workflows.save(old, changed(old, name=f"{old.name}x"))

        async with store.transaction(ORG) as work:
            await work.workflows.add(new_resource(1))
        async with asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(rename())
        async with store.reading(ORG) as work:
            found = await work.workflows.get(1)
            assert found
            assert (found.name, found.revision) == ("R1" + 8 * "x", 9)

    async def test_cancelled_at_any_wait_it_is_whole_or_nothing(self, store: Storage) -> None:
        """Shielded from cancellation: at whatever await it strikes, all is written or nothing, and the store
        goes on. What returned without an exception is written."""
        step, reached = 0, True
        while reached:
            step += 1
            org = f"org-{step}"
            await store.add_organization(new_organization(org))

            async def work_of(org: str = org) -> None:
                async with store.transaction(org) as work:
                    await write_everything(work)

            cancelled = CancelAt(work_of(), step)
            outcome = await asyncio.gather(asyncio.ensure_future(cancelled), return_exceptions=True)
            reached = cancelled.reached
            async with store.reading(org) as work:
                written = await what_is_written(work)
            assert written in ([True] * 6, [False] * 6)
            assert all(written) or outcome != [None]
        assert all(written)

    # Tenants

    async def test_organizations_see_nothing_of_each_other(self, store: Storage) -> None:
        """A repository belongs to one organization: every read of another one finds nothing, and every write
        of the same keys is free there."""
        async with store.transaction(ORG) as work:
            await write_everything(work)
        async with store.transaction(OTHER_ORG) as work:
            assert await what_is_written(work) == [False] * 6
            assert await work.workflows.page(EVERYBODY, limit=9) == []
            assert await work.workflows.variations(1, limit=9) == []
            assert await work.directory.members(limit=9) == []
            assert await work.directory.groups() == []
            with pytest.raises(Stale):
                await work.workflows.save(new_resource(1), changed(new_resource(1)))
            await work.directory.revoke_token("p", at(9))
            await write_everything(work)
        async with store.reading(ORG) as work:
            assert await work.directory.token("p") == new_token("p")

    async def test_workflows_and_skills_count_apart(self, store: Storage) -> None:
        """Ids and slugs are of one kind: workflows and skills do not meet."""
        async with store.transaction(ORG) as work:
            assert [await work.workflows.next_id(), await work.workflows.next_id()] == [1, 2]
            assert await work.skills.next_id() == 1
            await work.workflows.add(new_resource(1))
            assert not await work.skills.slug_taken("r1")
            await work.skills.add(new_resource(1, Kind.SKILL))
            assert await work.resources(Kind.SKILL).get(1) == new_resource(1, Kind.SKILL)

    # Resources

    async def test_ids_are_never_given_twice(self, store: Storage) -> None:
        """`next_id`: counted from 1, not given again even when nothing was made of it."""
        for expected in (1, 2, 3):
            async with store.transaction(ORG) as work:
                assert await work.workflows.next_id() == expected

    async def test_a_resource_is_read_as_it_was_written(self, store: Storage) -> None:
        """What is read is equal to what was written, every field of it."""
        async with store.transaction(ORG) as work:
            await work.workflows.add(new_resource(1))
            await work.workflows.add(FULL)
        async with store.reading(ORG) as work:
            assert await work.workflows.get(1) == new_resource(1)
            assert await work.workflows.get(FULL.id) == FULL
            assert await work.workflows.get(99) is None
            assert await work.workflows.slug_taken(FULL.slug)
            assert not await work.workflows.slug_taken("free")

    async def test_a_stale_save_changes_nothing(self, store: Storage) -> None:
        """`Stale` when the row has changed since it was read; the winner's stands."""
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
        """After a save the page shows what the new access gives, and no longer what the old one gave."""
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

    async def test_deleted_ones_are_listed_apart_for_managers(self, store: Storage) -> None:
        """`status` None: all but the deleted ones. `deleted`: only those the principal may manage."""
        use_only = AccessConfig("shared", {ORG: GroupGrant(True, False)}, (), None, None)
        async with store.transaction(ORG) as work:
            await work.workflows.add(new_resource(1, status=Status.ACTIVE))
            await work.workflows.add(new_resource(2, status=Status.DELETED))
            await work.workflows.add(new_resource(3, status=Status.DELETED, access=use_only))
            assert [r.id for r in await work.workflows.page(EVERYBODY, limit=9)] == [1]
            assert [r.id for r in await work.workflows.page(EVERYBODY, limit=9, status="deleted")] == [2]
            assert [r.id for r in await work.workflows.page(EVERYBODY, limit=9, status="active")] == [1]
            assert await work.workflows.page(EVERYBODY, limit=9, status="draft") == []

    @pytest.mark.parametrize(
        ("query", "ids"),
        [("refund", [1, 2]), ("REFUND", [1, 2]), ("%", [3]), ("_", []), ("É", [4]), ("é", []), ("zz", []),
         ("", [1, 2, 3, 4]), ("r" * 100_000, [])],
    )  # fmt: skip
    async def test_a_query_is_plain_text(self, store: Storage, query: str, ids: list[int]) -> None:
        """Name or slug contains it, ASCII letters in either case; no character of it is a wildcard."""
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
    async def test_pages_are_what_access_derives(
        self,
        store: Storage,
        configs: list[tuple[AccessConfig, Status]],
        caller: Principal,
        limit: int,
        status: Status | None,
    ) -> None:
        """Those the principal may use or manage, by id ascending, at most `limit`: the pages together are what
        `derive` allows, each once."""
        made = [new_resource(i, access=a, status=s) for i, (a, s) in enumerate(configs, 1)]
        async with undone(store) as work:
            for resource in reversed(made):
                await work.workflows.add(resource)
            found = await all_pages(work, caller, limit, status)
        assert found == [r for r in made if is_listed(r, caller, status)]

    # Variations

    async def test_content_is_verbatim(self, store: Storage) -> None:
        """JSON is kept verbatim: key order, number types and text of every kind; nobody's later change of the
        value that was written or read reaches the store."""
        content = {
            "z": 1,
            "a": [1.0, 10**30, -0.0, True, None, "\u2028\ud7ff\x01😀"],
            "m": {"b": {}, "a": []},
        }
        variation = new_variation("v1", content=content)
        async with store.transaction(ORG) as work:
            await work.workflows.add(new_resource(1))
            await work.workflows.add_variation(1, variation)
            before = repr(content)
            content["z"] = 2
            for _ in range(2):
                read = await work.workflows.variation(1, "v1")
                assert read
                assert repr(read.content) == before
                dict(read.content)["a"].clear()
            with pytest.raises(Duplicate):
                await work.workflows.add_variation(1, variation)

    async def test_only_the_deployment_of_a_variation_changes(self, store: Storage) -> None:
        """`save_variation` replaces what may change, `deployed_at` and `deployed_by`; `Stale` when it is gone."""
        draft = new_variation("v1")
        deployed = attrs.evolve(draft, deployed_at=at(5), deployed_by="u2")
        async with store.transaction(ORG) as work:
            await work.workflows.add(new_resource(1))
            await work.workflows.add_variation(1, draft)
            await work.workflows.save_variation(1, attrs.evolve(deployed, content={"other": 1}))
            assert await work.workflows.variation(1, "v1") == deployed
            with pytest.raises(Stale):
                await work.workflows.save_variation(1, new_variation("v2"))
            assert await work.workflows.variation(1, "v2") is None

    async def test_deployed_variations_come_latest_first(self, store: Storage) -> None:
        """The deployed ones, latest deployment first, then by id; `before` goes on behind one, also within
        one millisecond."""
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
        """`drop_variation` forgets a draft; what was ever deployed is kept."""
        async with store.transaction(ORG) as work:
            await work.workflows.add(new_resource(1))
            await work.workflows.add_variation(1, new_variation("draft"))
            await work.workflows.add_variation(1, new_variation("deployed", deployed_at=at(2)))
            for name in ("draft", "deployed", "nobody"):
                await work.workflows.drop_variation(1, name)
            assert await work.workflows.variation(1, "draft") is None
            assert await work.workflows.variation(1, "deployed")

    async def test_an_answer_is_kept_once(self, store: Storage) -> None:
        """`Duplicate` when this user's key is used already; another user's or kind's is another key."""
        kept, other = Kept("f", 1), Kept("g", 2)
        async with store.transaction(ORG) as work:
            await work.workflows.keep("u1", "k", kept)
            with pytest.raises(Duplicate):
                await work.workflows.keep("u1", "k", other)
            await work.workflows.keep("u2", "k", other)
            await work.skills.keep("u1", "k", other)
            assert await work.workflows.find_kept("u1", "k") == kept
            assert await work.workflows.find_kept("u2", "k") == other
            assert await work.workflows.find_kept("u1", "other") is None

    # Directory

    async def test_a_member_is_replaced_as_a_whole(self, store: Storage) -> None:
        """Add, or replace the member of the same user id: groups left out are left."""
        first = new_member("u1", groups=frozenset({"g1", "g2"}))
        second = Member("u1", None, None, Role.OWNER, frozenset({"g2"}), email_verified=False)
        async with store.transaction(ORG) as work:
            await work.directory.add_member(first)
            assert await work.directory.member("u1") == first
            await work.directory.add_member(second)
            assert await work.directory.member("u1") == second
            assert await work.directory.member_by_email("u1@x.org") is None
            assert await work.directory.member("u2") is None

    async def test_members_are_paged_by_user_id(self, store: Storage) -> None:
        """By user id, ascending, after a given one; of several with one e-mail, the first is found."""
        everybody = [new_member(name, email="one@x.org") for name in ("a", "b", "c")]
        async with store.transaction(ORG) as work:
            for member in reversed(everybody):
                await work.directory.add_member(member)
            assert await work.directory.members(limit=2) == everybody[:2]
            assert await work.directory.members(limit=2, after="b") == everybody[2:]
            assert await work.directory.member_by_email("one@x.org") == everybody[0]

    async def test_groups_are_found_by_id(self, store: Storage) -> None:
        """All groups, or those of these ids, by id ascending; `Duplicate` when the id is taken."""
        async with store.transaction(ORG) as work:
            for name in ("b", "a", "c"):
                await work.directory.add_group(Group(name, name.upper()))
            with pytest.raises(Duplicate):
                await work.directory.add_group(Group("a", "other"))
            assert await work.directory.groups() == [Group("a", "A"), Group("b", "B"), Group("c", "C")]
            assert await work.directory.groups(["c", "nobody", "a"]) == [Group("a", "A"), Group("c", "C")]
            assert await work.directory.groups([]) == []

    async def test_a_token_is_revoked_once(self, store: Storage) -> None:
        """`Duplicate` when the prefix is taken; a token stays revoked from the first time on."""
        token = new_token("p", expires_at=at(9))
        async with store.transaction(ORG) as work:
            await work.directory.add_token(token)
            with pytest.raises(Duplicate):
                await work.directory.add_token(new_token("p"))
            assert await work.directory.token("p") == token
            for when in (at(3), at(4)):
                await work.directory.revoke_token("p", when)
            assert await work.directory.token("p") == attrs.evolve(token, revoked_at=at(3))
            assert await work.directory.token("q") is None
