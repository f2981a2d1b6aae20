"""The part of the storage contract for context items, connections, their grants, delegations and policies."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from wfcore.domain.agents.connection_grants import ConnectionGrant
from wfcore.domain.agents.connections import Connection, ConnectionKind, ConnectionStatus, Ownership
from wfcore.domain.agents.context_items import ContextItem
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.people.delegations import Delegation
from wfcore.domain.people.erasure import Erasure
from wfcore.domain.resources.resource import Kind
from wfcore.domain.rules.policies import Policy
from wfcore.ports.storage import Duplicate, Stale, Storage
from wfcore.testing.contracts.storage.values import ORG, OTHER_ORG, at, new_member


def new_item(id: str) -> ContextItem:
    return ContextItem(id, "Tone", "Be kind.\n", at(1), at(2))


def new_connection(id: str) -> Connection:
    config: dict[str, JSON] = {"z": [1.0], "a": "x"}
    sealed = {"headers.B": "1.k.x", "headers.A": "1.k.y"}
    return Connection(id, "Desk", "desk", ConnectionKind.MCP, config, sealed)


def new_policy(id: str) -> Policy:
    require: dict[str, JSON] = {"approval": {"requiredApprovals": 2, "groups": ["g"]}}
    return Policy(id, "Refunds", {"tool": "send_*"}, require, "warning")


def rows_of(work: Any, name: str) -> Any:
    return getattr(work, name)


def new_delegation(id: str) -> Delegation:
    return Delegation(id, "ann", "bob", at(3), (2, 1))


def new_erasure(id: str) -> Erasure:
    member = attrs.evolve(new_member("ann"), groups=frozenset("h"))
    return Erasure(id, "bob", member, True, ((Kind.SKILL, 2), (Kind.WORKFLOW, 1)), frozenset("b"))


KINDS = pytest.mark.parametrize(("name", "new"), [
    ("context_items", new_item), ("connections", new_connection), ("delegations", new_delegation),
    ("policies", new_policy), ("erasures", new_erasure),
])  # fmt: skip
New = Callable[[str], Any]


class OrgRowsContract:
    """Inherit `StorageContract`, not this class."""

    @KINDS
    async def test_rows_are_read_as_written(self, store: Storage, name: str, new: New) -> None:
        """Every field is stored, JSON verbatim; an id is added once, and another organization does not see it."""
        async with store.transaction(ORG) as work:
            rows = rows_of(work, name)
            await rows.add(new("a"))
            assert repr(await rows.get("a")) == repr(new("a"))
            assert await rows.get("a") == new("a")
            assert await rows.get("b") is None
            with pytest.raises(Duplicate):
                await rows.add(new("a"))
        async with store.transaction(OTHER_ORG) as work:
            rows = rows_of(work, name)
            assert [await rows.get("a"), await rows.page(limit=9)] == [None, []]
            await rows.add(new("a"))
            await rows.remove("a")
        async with store.reading(ORG) as work:
            assert await rows_of(work, name).get("a") == new("a")

    @KINDS
    async def test_rows_are_paged_by_id(self, store: Storage, name: str, new: New) -> None:
        """By id, ascending, after a given one, without removed rows."""
        async with store.transaction(ORG) as work:
            rows = rows_of(work, name)
            for row_id in ("c", "a", "d", "b"):
                await rows.add(new(row_id))
            await rows.remove("c")
            await rows.remove("nobody")
            assert [row.id for row in await rows.page(limit=2)] == ["a", "b"]
            assert [row.id for row in await rows.page(limit=2, after="b")] == ["d"]

    async def test_the_delegations_of_a_user(self, store: Storage) -> None:
        """Those from and to the user, by id, without those of others and of other organizations."""
        async with store.transaction(ORG) as work:
            for new in ("c", "ann", "bob"), ("a", "bob", "ann"), ("b", "bob", "cy"), ("d", "ann", "cy"):
                await work.delegations.add(Delegation(*new))
        async with store.transaction(OTHER_ORG) as work:
            await work.delegations.add(Delegation("e", "ann", "bob"))
            assert [row.id for row in await work.delegations.of("ann")] == ["e"]
        async with store.reading(ORG) as work:
            for user, expected in (("ann", ["a", "c", "d"]), ("bob", ["a", "b", "c"]), ("cy", ["b", "d"]), ("zed", [])):
                assert [row.id for row in await work.delegations.of(user)] == expected

    async def test_who_is_a_delegate(self, store: Storage) -> None:
        """Whoever somebody delegates to, in the organization of the delegation and as long as it is there."""
        async with store.transaction(ORG) as work:
            await work.delegations.add(Delegation("a", "ann", "bob"))
            assert not await store.is_delegate(ORG, "bob")
        assert await store.is_delegate(ORG, "bob")
        assert not await store.is_delegate(ORG, "ann")
        assert not await store.is_delegate(OTHER_ORG, "bob")
        assert not await store.is_delegate("33333333-3333-4333-8333-333333333333", "bob")
        async with store.transaction(ORG) as work:
            await work.delegations.remove("a")
        assert not await store.is_delegate(ORG, "bob")

    async def test_rows_are_replaced_as_a_whole(self, store: Storage) -> None:
        """`save` replaces every field; `Stale` if the row was removed, and nothing is written."""
        item = attrs.evolve(new_item("a"), title="New", content="c", updated_at=at(9))
        connection = Connection(
            "a", "N", "P", ConnectionKind.OAUTH2, {}, {}, ConnectionStatus.ERROR, at(7), "why", Ownership.USER, "1.k.c"
        )
        policy = Policy("a", "P", {"agent": True}, {"timeout": True})
        async with store.transaction(ORG) as work:
            for rows, old, new in (
                (work.context_items, new_item("a"), item), (work.connections, new_connection("a"), connection),
                (work.delegations, new_delegation("a"), Delegation("a", "cy", "di")),
                (work.policies, new_policy("a"), policy), (work.erasures, new_erasure("a"), Erasure("a", "bob", None)),
            ):  # fmt: skip
                with pytest.raises(Stale):
                    await rows.save(new)  # type: ignore[arg-type]
                await rows.add(old)  # type: ignore[arg-type]
                await rows.save(new)  # type: ignore[arg-type]
                assert await rows.get("a") == new

    async def test_grants_are_rows_of_their_connection(self, store: Storage) -> None:
        """Every field is stored; the grants of a connection follow each other by id; an id is added once."""
        mine = ConnectionGrant("c", "ada:1", "1.k.z", 9, True, ConnectionStatus.EXPIRED, "why", 7)
        ours, other = ConnectionGrant("c", ""), ConnectionGrant("d", "ada:1")
        async with store.transaction(ORG) as work:
            for grant in (mine, other, ours):
                await work.connection_grants.add(grant)
            with pytest.raises(Duplicate):
                await work.connection_grants.add(mine)
        async with store.transaction(ORG) as work:
            assert repr(await work.connection_grants.get(mine.id)) == repr(mine)
            assert await work.connection_grants.get(mine.id) == mine
            assert await work.connection_grants.page(limit=2, after="c:") == [mine, other]
            changed = attrs.evolve(mine, sealed="", expires_at=None, can_refresh=False, reason=None, leased_until=0)
            await work.connection_grants.save(changed)
            await work.connection_grants.remove(other.id)
            with pytest.raises(Stale):
                await work.connection_grants.save(other)
        async with store.reading(ORG) as work:
            assert await work.connection_grants.page(limit=9) == [ours, changed]
        async with store.reading(OTHER_ORG) as work:
            assert await work.connection_grants.page(limit=9) == []
