"""Memories of skills through the library: access, updates, and their stores."""

import asyncio
from typing import Any

import attrs
import pytest
from bench import Bench, opened, paths

from wfcore.adapters.inmemory.memories import InMemoryMemories
from wfcore.domain.agents.memories import MAX_METADATA, text_hash
from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid, Malformed, NotFound
from wfcore.ports.providers import Memory
from wfcore.runtime.common.preconditions import etag_of

pytestmark = pytest.mark.anyio


def shared(**groups: tuple[bool, bool]) -> dict[str, Any]:
    bits = {uuid: {"use": use, "manage": manage} for uuid, (use, manage) in groups.items()}
    return {"visibility": "shared", "groupPermissions": bits}


async def skill(bench: Bench, **fields: Any) -> int:
    return (await bench.core.skills.create(bench.me, name="Clerk", **fields)).id


def calls(bench: Bench, me: Any, number: int, id: str) -> dict[str, list[Any]]:
    """Every use case, by the grant that it requires."""
    cases = bench.core.memories
    return {
        "use": [
            lambda: cases.get(me, number, id),
            lambda: cases.page(me, number),
            lambda: cases.search(me, number, query="tea"),
        ],
        "manage": [
            lambda: cases.create(me, number, memory="new"),
            lambda: cases.patch(me, number, id, memory="new"),
            lambda: cases.delete(me, number, id),
        ],
    }


class TestAccess:
    """Reading requires use of the skill, changing manage."""

    async def test_scopes_are_checked_first(self, bench: Bench) -> None:
        """Reading requires `memories:read`, changing `memories:write`, for any skill and body; write includes read."""
        for scope, lacking in (("skills:write", "read"), ("skills:write", "write"), ("memories:read", "write")):
            me = attrs.evolve(bench.me, scopes=frozenset([scope]))
            for call in calls(bench, me, 999, "x")["use" if lacking == "read" else "manage"]:
                with pytest.raises(Forbidden) as error:
                    await call()
                assert error.value.info == {"missing": [f"memories:{lacking}"]}
        writer = attrs.evolve(bench.me, scopes=frozenset(["memories:write"]))
        assert await bench.core.memories.page(writer, await skill(bench)) == []

    async def test_memories_of_a_hidden_skill_do_not_exist(self, bench: Bench) -> None:
        """They give the same error as those of an unknown skill."""
        number = await skill(bench, access={"visibility": "private", "sharedWith": []})
        made = (await bench.core.memories.create(bench.me, number, memory="tea")).id
        for asked in (number, 999):
            every = calls(bench, bench.other, asked, made)
            for call in (*every["use"], *every["manage"]):
                with pytest.raises(NotFound) as error:
                    await call()
                assert (error.value.message, error.value.info) == ("not found", {})
        assert len(await bench.core.memories.page(bench.me, number)) == 1

    async def test_users_read_and_managers_change(self, bench: Bench) -> None:
        """Use without manage reads and changes nothing; manage without use changes and reads nothing: 403 each."""
        users, managers = [(await bench.core.directory.create_group(bench.org, name)).id for name in "ab"]
        number = await skill(
            bench, access=shared(**{users: (True, False), managers: (False, True), bench.org: (True, True)})
        )
        await bench.core.skills.patch(
            bench.person("boss", groups=[managers]), number,
            access=shared(**{users: (True, False), managers: (False, True)}),
        )  # fmt: skip
        user, manager = bench.person("user", groups=[users]), bench.person("boss", groups=[managers])
        made = (await bench.core.memories.create(manager, number, memory="tea")).id
        for call in calls(bench, user, number, made)["use"]:
            await call()
        for call in calls(bench, user, number, made)["manage"]:
            with pytest.raises(Forbidden) as error:
                await call()
            assert error.value.info == {"manageDenial": "needs_group_manage"}
        for call in calls(bench, manager, number, made)["use"]:
            with pytest.raises(Forbidden) as error:
                await call()
            assert error.value.info == {"canUse": False}
        for call in calls(bench, manager, number, made)["manage"]:
            await call()

    async def test_a_deleted_skill_keeps_its_memories(self, bench: Bench) -> None:
        """Users get 404; managers can read but not change them (409) until the skill is restored."""
        group = (await bench.core.directory.create_group(bench.org, "team")).id
        boss = bench.person("boss", groups=[group])
        access = shared(**{bench.org: (True, False), group: (True, True)})
        number = (await bench.core.skills.create(boss, name="Clerk", access=access)).id
        made = (await bench.core.memories.create(boss, number, memory="tea")).id
        await bench.core.skills.delete(boss, number)
        every = calls(bench, bench.other, number, made)
        for call in (*every["use"], *every["manage"]):
            with pytest.raises(NotFound):
                await call()
        for call in calls(bench, boss, number, made)["use"]:
            await call()
        for call in calls(bench, boss, number, made)["manage"]:
            with pytest.raises(Conflict) as conflict:
                await call()
            assert conflict.value.info["reason"] == "deleted"
        await bench.core.skills.restore(boss, number)
        assert [each.id for each in await bench.core.memories.page(bench.other, number)] == [made]


class TestChanges:
    """Interface, Memory and Update a memory of a scope."""

    async def test_a_memory_of_another_skill_does_not_exist(self, bench: Bench) -> None:
        """Reading, changing and deleting it through another skill is 404 and changes nothing."""
        one, other = await skill(bench), await skill(bench)
        made = await bench.core.memories.create(bench.me, one, memory="tea")
        cases = bench.core.memories
        for call in (cases.get, cases.patch, cases.delete):
            with pytest.raises(NotFound):
                await call(bench.me, other, made.id, **({"memory": "x"} if call == cases.patch else {}))
        assert await cases.search(bench.me, other, query="tea") == []
        assert await cases.get(bench.me, one, made.id) == made

    async def test_the_hash_follows_the_text_and_metadata_stays_verbatim(self, bench: Bench) -> None:
        """Hash and update time follow an update; metadata keeps order, null and nesting; the creation time stays."""
        number, cases = await skill(bench), bench.core.memories
        metadata: dict[str, Any] = {"z": None, "a": [1, 2.5, {"": "ü"}], "e": {}}
        made = await cases.create(bench.me, number, memory="tea", metadata=metadata)
        bench.clock.advance(5)
        changed = await cases.patch(bench.me, number, made.id, memory="coffee")
        assert changed == await cases.get(bench.me, number, made.id)
        wire = changed.to_wire()
        assert (wire["hash"], wire["memory"]) == (text_hash("coffee"), "coffee")
        assert list(wire["metadata"].items()) == list(metadata.items())
        assert wire["createdAt"] == made.to_wire()["createdAt"] < wire["updatedAt"]
        merged = await cases.patch(
            bench.me, number, made.id, memory="lost", metadata={"a": 1, "x": 2}, update_mask="metadata.a"
        )
        assert merged.memory.metadata == {**metadata, "a": 1}
        assert merged.memory.hash == text_hash("coffee")
        assert [each.id for each in await cases.search(bench.me, number, query="coffee")] == [made.id]
        assert await cases.search(bench.me, number, query="tea") == []

    async def test_an_update_of_nothing_changes_nothing(self, bench: Bench) -> None:
        """An empty body without a mask does not change the update time."""
        number = await skill(bench)
        made = await bench.core.memories.create(bench.me, number, memory="tea")
        bench.clock.advance(5)
        assert await bench.core.memories.patch(bench.me, number, made.id, {}) == made
        with pytest.raises(NotFound):
            await bench.core.memories.patch(bench.me, number, "none", {})

    async def test_errors_of_body_and_mask_are_reported_together(self, bench: Bench) -> None:
        """A body is checked before the skill is looked up, and every error is listed."""
        cases = bench.core.memories
        with pytest.raises(Malformed) as error:
            await cases.patch(bench.me, 999, "x", {"memory": 1, "x": 2}, update_mask="hash,metadata")
        assert paths(error) == {("memory", "type"), ("x", "unknown"), ("updateMask", "query")}
        assert len(error.value.info["errors"]) == 4
        for body, found in (
            ({}, {("memory", "required")}),
            ({"memory": " ", "id": "x"}, {("memory", "pattern"), ("id", "unknown")}),
            ({"memory": "m", "metadata": [], "userId": ""}, {("metadata", "type"), ("userId", "minLength")}),
        ):
            with pytest.raises((Malformed, Invalid)) as error:
                await cases.create(bench.me, 999, body)
            assert paths(error) == found
        for body, rule in (({}, "required"), ({"query": "x" * 2_001}, "maxLength"), ({"query": None}, "type")):
            with pytest.raises((Malformed, Invalid)) as error:
                await cases.search(bench.me, 999, body)
            assert paths(error) == {("query", rule)}

    async def test_updates_at_the_same_time_are_not_lost(self, bench: Bench) -> None:
        """Of eight concurrent updates of different metadata keys all take effect."""
        number, cases = await skill(bench), bench.core.memories
        made = await cases.create(bench.me, number, memory="tea")
        await asyncio.gather(
            *(
                cases.patch(bench.me, number, made.id, metadata={f"k{i}": i}, update_mask=f"metadata.k{i}")
                for i in range(8)
            )
        )
        assert (await cases.get(bench.me, number, made.id)).memory.metadata == {f"k{i}": i for i in range(8)}

    async def test_deleting_returns_the_memory_once(self, bench: Bench) -> None:
        """Of many concurrent deletes one gets the memory, the others 404; no list and no search has it afterwards."""
        number, cases = await skill(bench), bench.core.memories
        made = await cases.create(bench.me, number, memory="tea")
        results = await asyncio.gather(
            *(cases.delete(bench.me, number, made.id) for _ in range(5)), return_exceptions=True
        )
        assert [result for result in results if not isinstance(result, NotFound)] == [made]
        assert await cases.page(bench.me, number) == await cases.search(bench.me, number, query="tea") == []

    async def test_a_deleted_memory_does_not_return(self, bench: Bench) -> None:
        """A create repeated with its key returns the first response and restores no deleted memory: nothing of the text
        is stored with the key.
        """
        number, cases = await skill(bench), bench.core.memories
        made = await cases.create(bench.me, number, {"memory": "tea"}, key="k")
        await cases.delete(bench.me, number, made.id)
        assert await cases.create(bench.me, number, {"memory": "tea"}, key="k") == made
        assert await cases.page(bench.me, number) == await cases.search(bench.me, number, query="tea") == []
        async with bench.core.ports.storage.reading(bench.org) as work:
            kept = await work.idempotency.find("memory", bench.me.user_id, "k")
        assert kept is not None
        assert "tea" not in repr(kept)

    async def test_a_create_is_repeated_after_the_skill_is_deleted(self, bench: Bench) -> None:
        """It returns the first response; another key is a Conflict."""
        number, cases = await skill(bench), bench.core.memories
        made = await cases.create(bench.me, number, {"memory": "tea"}, key="k")
        await bench.core.skills.delete(bench.me, number)
        assert await cases.create(bench.me, number, {"memory": "tea"}, key="k") == made
        for key in ("other", None):
            with pytest.raises(Conflict):
                await cases.create(bench.me, number, {"memory": "tea"}, key=key)


async def test_text_and_metadata_have_limits(bench: Bench) -> None:
    """The metadata as a whole: a change of one key cannot pass the limit either. The text can change beside it."""
    number, cases = await skill(bench), bench.core.memories
    largest = {"a": "é" * (MAX_METADATA // 2 - 4)}
    made = await cases.create(bench.me, number, memory="t" * 100_000, metadata=largest)
    for change in (
        cases.create(bench.me, number, memory="tea", metadata={**largest, "b": 1}),
        cases.patch(bench.me, number, made.id, metadata={**largest, "b": 1}),
        cases.patch(bench.me, number, made.id, metadata={"b": 1}, update_mask="metadata.b"),
    ):
        with pytest.raises(Invalid) as error:
            await change
        assert paths(error) == {("metadata", "maxBytes")}
    for change in (
        cases.create(bench.me, number, memory="t" * 100_001),
        cases.patch(bench.me, number, made.id, memory="t" * 100_001),
    ):
        with pytest.raises(Invalid) as error:
            await change
        assert paths(error) == {("memory", "maxLength")}
    assert await cases.page(bench.me, number) == [made]
    assert (await cases.patch(bench.me, number, made.id, memory="new")).memory.metadata == largest


class Restless(InMemoryMemories):
    """A backend in which another update always comes first."""

    async def replace(self, org: str, skill_id: int, memory: Memory, *, old: Memory | None = None) -> bool:
        return False

    async def delete(self, org: str, skill_id: int, memory_id: str, *, old: Memory | None = None) -> bool:
        return False


class Overtaken(InMemoryMemories):
    """A backend in which another update comes between the read and the deletion."""

    async def delete(self, org: str, skill_id: int, memory_id: str, *, old: Memory | None = None) -> bool:
        found = await self.get(org, skill_id, memory_id)
        if found is not None and found.memory == "tea":
            await self.replace(org, skill_id, attrs.evolve(found, memory="newer"))
        return await super().delete(org, skill_id, memory_id, old=old)


async def test_a_deletion_obeys_its_tag_while_another_update_comes() -> None:
    """What its caller has not read stays; without a tag the memory is deleted as it is then, and returned so."""
    async with opened("sqlite://", memories=Overtaken()) as bench:
        number, cases = await skill(bench), bench.core.memories
        first, second = [await cases.create(bench.me, number, memory="tea") for _ in range(2)]
        with pytest.raises(Conflict) as error:
            await cases.delete(bench.me, number, first.id, if_match=etag_of(first.to_wire()))
        newer = await cases.get(bench.me, number, first.id)
        assert (newer.memory.memory, error.value.info["etag"]) == ("newer", etag_of(newer.to_wire()))
        assert (await cases.delete(bench.me, number, second.id)).memory.memory == "newer"


async def test_an_update_that_never_comes_first_is_a_conflict() -> None:
    """The number of retries is limited."""
    async with opened("sqlite://", memories=Restless()) as bench:
        number = await skill(bench)
        made = await bench.core.memories.create(bench.me, number, memory="tea")
        cases = bench.core.memories
        for change in (cases.patch(bench.me, number, made.id, memory="new"), cases.delete(bench.me, number, made.id)):
            with pytest.raises(Conflict) as error:
                await change
            assert error.value.info["reason"] == "stale"


async def test_the_default_and_a_given_backend(database: str) -> None:
    """In a file they outlive the process; a given backend is used instead."""
    async with opened(database) as bench:
        number = await skill(bench)
        made = await bench.core.memories.create(bench.me, number, memory="tea", user_id="u")
    async with opened(database, org=bench.org, memories=InMemoryMemories()) as other:
        assert await other.core.memories.page(other.me, number) == []
    async with opened(database, org=bench.org) as again:
        assert await again.core.memories.page(again.me, number, user_id="u") == [made]
        assert await again.core.memories.page(again.me, number, user_id="v") == []
