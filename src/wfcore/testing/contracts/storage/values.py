"""Values of the storage contract: small, distinct, some with every field set."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import attrs
from hypothesis import strategies as st

from wfcore.domain.people.people import AccessToken, Group, Member, Organization
from wfcore.domain.resources.access import (
    AccessConfig,
    GroupGrant,
    Principal,
    Role,
    SharedUser,
    derive,
)
from wfcore.domain.resources.content import Content, WorkflowContent
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.resource import Kind, OwnershipTransfer, Resource, Variation
from wfcore.ports.storage import IdempotencyRecord, Storage, UnitOfWork

ORG: Final = "11111111-1111-4111-8111-111111111111"
OTHER_ORG: Final = "22222222-2222-4222-8222-222222222222"
GROUP: Final = "33333333-3333-4333-8333-333333333333"


def at(day: int) -> datetime:
    """An instant of day `day`, with milliseconds that are not a whole second."""
    return datetime(2026, 1, 1, 9, 30, 0, 123_000, UTC) + timedelta(days=day)


def new_organization(uuid: str) -> Organization:
    return Organization(uuid, f"name of {uuid}", at(0))


def principal(user_id: str = "u0", email: str | None = None, *groups: str, verified: bool = True) -> Principal:
    return Principal(ORG, user_id, email, frozenset(groups), frozenset(), Role.MEMBER, verified)


FOR_ALL: Final = AccessConfig("shared", {ORG: GroupGrant(True, True)}, (), None, None)


def new_resource(
    number: int,
    kind: Kind = Kind.WORKFLOW,
    *,
    slug: str | None = None,
    name: str | None = None,
    status: Status = Status.DRAFT,
    access: AccessConfig = FOR_ALL,
) -> Resource:
    """A resource of `ORG` that its number identifies."""
    return Resource(
        kind=kind,
        org_uuid=ORG,
        id=number,
        slug=slug or f"r{number}",
        name=name or f"R{number}",
        description=None,
        status=status,
        access=access,
        created_at=at(0),
        updated_at=at(0),
    )


FULL: Final = attrs.evolve(
    new_resource(8, status=Status.DELETED, name="Ünïcode 😀"),
    description="what it does\nin lines",
    access=AccessConfig(
        "private",
        {},
        (SharedUser("a@x.org", "2026-01-01T00:00:00.000Z", "u1"), SharedUser("b@x.org", "", "u1", "u2")),
        "u1",
        "u1@x.org",
        ({"z": 1, "a": None},),
    ),
    active_variation_id="v1",
    draft_variation_id="v2",
    is_enabled=True,
    is_scheduled=True,
    pending_transfer=OwnershipTransfer("u2", None, "u1", at(3)),
    deleted_at=at(4),
    updated_at=at(5),
    revision=7,
)
"""A resource with no field at its default."""


def changed(resource: Resource, **fields: Any) -> Resource:
    """The next revision."""
    return attrs.evolve(resource, revision=resource.revision + 1, **fields)


def new_variation(name: str, *, content: Content | None = None, deployed_at: datetime | None = None) -> Variation:
    by = None if deployed_at is None else "u1"
    return Variation(name, content or WorkflowContent(), at(1), "u1", deployed_at, by)


def new_member(user_id: str, *, email: str | None = None, groups: frozenset[str] = frozenset()) -> Member:
    return Member(user_id, email or f"{user_id}@x.org", user_id.upper(), Role.MEMBER, groups)


def new_token(prefix: str, *, expires_at: datetime | None = None) -> AccessToken:
    return AccessToken(prefix, "hash", "u1", "name", ("workflows:write", "usage:read"), at(1), expires_at)


async def write_everything(work: UnitOfWork) -> None:
    """One row of every sort, for `what_is_written`."""
    number = await work.workflows.next_id()
    await work.workflows.add(new_resource(number))
    await work.workflows.add_variation(number, new_variation("v1", deployed_at=at(2)))
    await work.idempotency.add("workflow", "u1", "k", IdempotencyRecord("f", {"id": number}))
    await work.directory.add_member(new_member("u1", groups=frozenset({"g1"})))
    await work.directory.add_group(Group("g1", "G1"))
    await work.directory.add_token(new_token("p"))


async def what_is_written(work: UnitOfWork) -> list[bool]:
    """For each of the six rows of `write_everything`, whether it exists."""
    found = (
        await work.workflows.get(1),
        await work.workflows.variation(1, "v1"),
        await work.idempotency.find("workflow", "u1", "k"),
        await work.directory.member("u1"),
        await work.directory.groups(["g1"]),
        await work.directory.token("p"),
    )
    return [bool(row) for row in found]


@asynccontextmanager
async def undone(store: Storage) -> AsyncIterator[UnitOfWork]:
    """A transaction of `ORG` that is rolled back."""
    transaction = store.transaction(ORG)
    yield await transaction.__aenter__()
    with suppress(KeyError):
        await transaction.__aexit__(KeyError, KeyError("undone"), None)


async def all_pages(work: UnitOfWork, caller: Principal, limit: int, status: str | None = None) -> list[Resource]:
    """Every page of the workflows, one after the other; no page is longer than `limit`."""
    found: list[Resource] = []
    while page := await work.workflows.page(caller, limit=limit, after=found[-1].id if found else 0, status=status):
        assert len(page) <= limit
        found += page
    return found


def is_listed(resource: Resource, caller: Principal, status: str | None) -> bool:
    """Whether a list shows the resource, as `derive` decides."""
    access = derive(caller, resource.access)
    if status is None:
        return access.visible and resource.status != Status.DELETED
    allowed = access.can_manage if status == Status.DELETED else access.visible
    return allowed and resource.status == status


_users = st.sampled_from(["u1", "u2"])
_emails = st.sampled_from(["u1@x.org", "u2@x.org"])
_bits = st.builds(GroupGrant, st.booleans(), st.booleans())
_shared = st.builds(SharedUser, _emails, st.just(""), st.just("u1"), st.none() | _users)

access_configs: Final[st.SearchStrategy[AccessConfig]] = st.one_of(
    st.builds(
        AccessConfig,
        st.just("shared"),
        st.dictionaries(st.sampled_from([ORG, GROUP]), _bits),
        st.just(()),
        st.none() | _users,
        st.none(),
    ),
    st.builds(
        AccessConfig,
        st.just("private"),
        st.just({}),
        st.lists(_shared, max_size=2).map(tuple),
        st.none() | _users,
        st.none() | _emails,
    ),
)
"""Configurations over two groups, two users and two addresses."""

principals: Final[st.SearchStrategy[Principal]] = st.builds(
    lambda user, email, groups, verified: principal(user, email, *groups, verified=verified),
    _users,
    st.none() | _emails,
    st.sets(st.just(GROUP)),
    st.booleans(),
)
"""Callers of `ORG`, with or without a grant in such configurations."""
