"""A storage compared with plain dicts, over random sequences of operations."""

import asyncio
from collections.abc import Coroutine
from itertools import count
from typing import Any, ClassVar, TypeVar

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from wfcore.domain.resources.access import AccessConfig
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.resource import Resource
from wfcore.ports.storage import Duplicate, Stale, Storage
from wfcore.testing.contracts.storage.values import (
    access_configs,
    all_pages,
    at,
    changed,
    is_listed,
    new_organization,
    new_resource,
    new_variation,
    principal,
)

T = TypeVar("T")

CALLERS = (principal("u1", "u1@x.org"), principal("u2"))

_numbers = st.integers(1, 4)
_names = st.sampled_from(["v1", "v2"])
_fresh = count(1)


class StorageMachine(RuleBasedStateMachine):
    """Set `runner` and `store` in a subclass. Each example has its own organization."""

    runner: ClassVar[asyncio.Runner]
    store: ClassVar[Storage]

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    @initialize()
    def begin(self) -> None:
        self.org = f"machine-{next(_fresh)}"
        self.last = 0
        self.rows: dict[int, Resource] = {}
        self.deployed: dict[tuple[int, str], bool] = {}
        self.run(self.store.add_organization(new_organization(self.org)))

    @rule(access=access_configs, slug=st.sampled_from(["", "a", "b"]), fails=st.booleans())
    def create(self, access: AccessConfig, slug: str, fails: bool) -> None:
        """A failed transaction uses neither its id nor its slug."""
        number = self.last + 1
        made = attrs.evolve(new_resource(number, slug=slug, access=access), org_uuid=self.org)
        taken = made.slug in {row.slug for row in self.rows.values()}

        async def work() -> None:
            async with self.store.transaction(self.org) as unit:
                assert await unit.workflows.next_id() == number
                await unit.workflows.add(made)
                if fails:
                    raise KeyError

        try:
            self.run(work())
        except Duplicate:
            assert taken
        except KeyError:
            assert fails
            assert not taken
        else:
            self.last, self.rows[number] = number, made

    @rule(number=_numbers, access=access_configs, status=st.sampled_from(Status), behind=st.integers(0, 1))
    def save(self, number: int, access: AccessConfig, status: Status, behind: int) -> None:
        """A save with a revision that is not the latest is stale."""
        row = self.rows.get(number) or attrs.evolve(new_resource(number), org_uuid=self.org)
        old = attrs.evolve(row, revision=row.revision - behind)
        new = changed(row, access=access, status=status, name=f"n{row.revision}")

        async def work() -> None:
            async with self.store.transaction(self.org) as unit:
                await unit.workflows.save(old, new)

        try:
            self.run(work())
        except Stale:
            assert behind or number not in self.rows
        else:
            assert not behind
            self.rows[number] = new

    @rule(number=_numbers, name=_names)
    def add_variation(self, number: int, name: str) -> None:
        """A variation id is unique in a resource."""
        if number not in self.rows:
            return

        async def work() -> None:
            async with self.store.transaction(self.org) as unit:
                await unit.workflows.add_variation(number, new_variation(name))

        try:
            self.run(work())
        except Duplicate:
            assert (number, name) in self.deployed
        else:
            assert (number, name) not in self.deployed
            self.deployed[number, name] = False

    @rule(number=_numbers, name=_names, drop=st.booleans())
    def deploy_or_drop(self, number: int, name: str, drop: bool) -> None:
        """A deployed variation is not dropped; an unknown one is not deployed."""

        async def work() -> None:
            async with self.store.transaction(self.org) as unit:
                if drop:
                    await unit.workflows.drop_variation(number, name)
                else:
                    await unit.workflows.save_variation(number, new_variation(name, deployed_at=at(2)))

        try:
            self.run(work())
        except Stale:
            assert not drop
            assert (number, name) not in self.deployed
            return
        if not drop:
            assert (number, name) in self.deployed
            self.deployed[number, name] = True
        elif not self.deployed.get((number, name), True):
            del self.deployed[number, name]

    @invariant()
    def agrees(self) -> None:
        """Every read returns what the dicts have."""
        self.run(self._agrees())

    async def _agrees(self) -> None:
        async with self.store.reading(self.org) as unit:
            for number in range(1, self.last + 2):
                assert await unit.workflows.get(number) == self.rows.get(number)
                names = [v.id for v in await unit.workflows.variations(number, limit=9)]
                assert names == [name for name in ("v2", "v1") if self.deployed.get((number, name))]
            for caller in CALLERS:
                mine = attrs.evolve(caller, org_uuid=self.org)
                expected = [row for _, row in sorted(self.rows.items()) if is_listed(row, mine, None)]
                assert await all_pages(unit, mine, 2) == expected
