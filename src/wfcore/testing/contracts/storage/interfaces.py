"""The part of the storage contract for interfaces."""

from typing import Any

import attrs
import pytest

from wfcore.domain.channels.interfaces import Interface, InterfaceKind
from wfcore.domain.kernel.ids import is_uuid
from wfcore.domain.resources.resource import Kind
from wfcore.ports.storage import Duplicate, FoundInterface, Stale, Storage
from wfcore.testing.contracts.storage.values import ORG, OTHER_ORG, at


def new_interface(id: str, workflow: int = 1) -> Interface:
    return Interface(id, workflow, InterfaceKind.MCP, {"z": [1.0], "a": None}, at(1))


class InterfacesContract:
    """Inherit `StorageContract`, not this class."""

    async def test_interfaces_are_read_as_written(self, store: Storage) -> None:
        """Every field is stored, `config` verbatim; a later change of the value does not reach the store."""
        row = new_interface("a")
        async with store.transaction(ORG) as work:
            await work.interfaces.add(row)
            await work.interfaces.add(new_interface("b"))
            for _ in range(2):
                found = await work.interfaces.get(1, "a")
                assert found == row
                assert repr(found.config) == repr(row.config)
                mutable: Any = found.config
                mutable["z"].clear()
            assert await work.interfaces.get(2, "a") is None
            assert await work.interfaces.get(1, "c") is None

    async def test_an_interface_is_added_once(self, store: Storage) -> None:
        """`Duplicate` if the workflow has an interface with this id; nothing is written."""
        first = new_interface("a")
        async with store.transaction(ORG) as work:
            await work.interfaces.add(first)
            with pytest.raises(Duplicate):
                await work.interfaces.add(attrs.evolve(first, config={}))
            await work.interfaces.add(new_interface("a", workflow=2))
            assert await work.interfaces.get(1, "a") == first

    async def test_interfaces_are_paged_by_id(self, store: Storage) -> None:
        """By id, ascending, after a given one; those of one workflow only."""
        async with store.transaction(ORG) as work:
            for name in ("c", "a", "b"):
                await work.interfaces.add(new_interface(name))
            await work.interfaces.add(new_interface("d", workflow=2))
            assert [row.id for row in await work.interfaces.page(1, limit=2)] == ["a", "b"]
            assert [row.id for row in await work.interfaces.page(1, limit=2, after="b")] == ["c"]

    async def test_interfaces_with_a_secret_are_paged(self, store: Storage) -> None:
        """Those of all workflows, by workflow and id, after a given one; without those of skills."""
        async with store.transaction(OTHER_ORG) as work:
            await work.interfaces.add(attrs.evolve(new_interface("a"), sealed="s"))
        async with store.transaction(ORG) as work:
            for number, name in ((10, "a"), (2, "c"), (2, "b"), (1, "d")):
                await work.interfaces.add(attrs.evolve(new_interface(name, workflow=number), sealed=f"s{name}"))
            await work.interfaces.add(new_interface("e", workflow=2))
            await work.interfaces.add(attrs.evolve(new_interface("f", workflow=2), target=Kind.SKILL, sealed="s"))
        async with store.reading(ORG) as work:
            first = await work.interfaces.signed(limit=2)
            assert [(row.resource_id, row.id, row.sealed) for row in first] == [(1, "d", "sd"), (2, "b", "sb")]
            then = await work.interfaces.signed(limit=9, after=(2, "b"))
            assert [(row.resource_id, row.id) for row in then] == [(2, "c"), (10, "a")]
            assert await work.interfaces.signed(limit=9, after=(10, "a")) == []

    async def test_only_config_and_secret_of_an_interface_change(self, store: Storage) -> None:
        """`save` replaces `config` and `sealed` alone; `Stale` if it was removed."""
        row = attrs.evolve(new_interface("a"), sealed="s1")
        other = attrs.evolve(row, kind=InterfaceKind.CHATAPP, config={"b": 1}, created_at=at(9), sealed="s2")
        async with store.transaction(ORG) as work:
            await work.interfaces.add(row)
            await work.interfaces.save(other)
            assert await work.interfaces.get(1, "a") == attrs.evolve(row, config={"b": 1}, sealed="s2")
            with pytest.raises(Stale):
                await work.interfaces.save(new_interface("b"))

    async def test_an_interface_is_found_by_its_id_alone(self, store: Storage) -> None:
        """`find_interface` returns it with its organization and workflow, as committed; None if it does not exist."""
        mine = new_interface(store.public_id(ORG, "01a204b9-c142-7754-a0cc-3bf53e3f5175"))
        theirs = new_interface(store.public_id(OTHER_ORG, "01a204b9-c142-7754-a0cc-3bf53e3f5176"), workflow=2)
        assert is_uuid(mine.id)
        for org, row in ((ORG, mine), (OTHER_ORG, theirs)):
            async with store.transaction(org) as work:
                await work.interfaces.add(row)
                await work.interfaces.save(attrs.evolve(row, config={"b": 1}))
        for org, row in ((ORG, mine), (OTHER_ORG, theirs)):
            assert await store.find_interface(row.id) == FoundInterface(org, attrs.evolve(row, config={"b": 1}))
        async with store.transaction(ORG) as work:
            await work.interfaces.remove(1, mine.id)
        assert [await store.find_interface(name) for name in (mine.id, "c", "")] == [None, None, None]

    async def test_interfaces_of_one_workflow_are_cleared(self, store: Storage) -> None:
        """`clear` removes all interfaces of a workflow of an organization and returns their number; `remove` one."""
        async with store.transaction(OTHER_ORG) as work:
            await work.interfaces.add(new_interface("a"))
        async with store.transaction(ORG) as work:
            for name in ("a", "b", "c"):
                await work.interfaces.add(new_interface(name))
            await work.interfaces.add(new_interface("a", workflow=2))
            await work.interfaces.remove(1, "b")
            await work.interfaces.remove(1, "nobody")
            assert await work.interfaces.get(1, "b") is None
            assert [await work.interfaces.clear(1), await work.interfaces.clear(1)] == [2, 0]
            assert len(await work.interfaces.page(2, limit=9)) == 1
        async with store.reading(OTHER_ORG) as work:
            assert len(await work.interfaces.page(1, limit=9)) == 1

    async def test_interfaces_of_a_skill_are_apart(self, store: Storage) -> None:
        """A skill and a workflow of the same number have rows of their own; both are found by id."""
        of_skill = attrs.evolve(new_interface("b"), target=Kind.SKILL)
        async with store.transaction(ORG) as work:
            await work.interfaces.add(attrs.evolve(of_skill, id="c"))
            await work.interfaces.add(of_skill)
            await work.interfaces.add(new_interface("a"))
            await work.interfaces.add(attrs.evolve(of_skill, id="d", resource_id=2))
            with pytest.raises(Duplicate):
                await work.interfaces.add(of_skill)
        async with store.transaction(ORG) as work:
            assert await work.interfaces.of_skill(1) == [of_skill, attrs.evolve(of_skill, id="c")]
            assert [row.id for row in await work.interfaces.page(1, limit=9)] == ["a"]
            assert await work.interfaces.get(1, "b") is None
            await work.interfaces.remove(1, "b")
            assert await work.interfaces.clear(1) == 1
            assert len(await work.interfaces.of_skill(1)) == 2
        async with store.transaction(OTHER_ORG) as work:
            assert await work.interfaces.of_skill(1) == []
        assert await store.find_interface("b") == FoundInterface(ORG, of_skill)
