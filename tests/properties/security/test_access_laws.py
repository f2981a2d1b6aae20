"""Laws of access, over principals and configurations drawn from few names, so that they often match."""

import attrs
from hypothesis import given
from hypothesis import strategies as st

from wfcore.domain.resources import access
from wfcore.domain.resources.access import AccessConfig, GroupGrant, Principal, Role, SharedUser, derive
from wfcore.domain.resources.access_checks import check_access

UUIDS = st.sampled_from([f"00000000-0000-0000-0000-00000000000{n}" for n in range(4)])
USERS = st.sampled_from(["u1", "u2", "u3"])
EMAILS = st.sampled_from(["a@x.org", "b@x.org", "A@x.org", "\u212a@x.org", "k@x.org", "", "g:x"])
MAYBE_USER, MAYBE_EMAIL = st.none() | USERS, st.none() | EMAILS

PRINCIPALS = st.builds(
    Principal,
    org_uuid=UUIDS,
    user_id=USERS,
    email=MAYBE_EMAIL,
    groups=st.frozensets(UUIDS, max_size=2),
    scopes=st.frozensets(st.sampled_from(access.TOKEN_SCOPES), max_size=2),
    role=st.sampled_from(Role),
    email_verified=st.booleans(),
)
CONFIGS = st.builds(
    AccessConfig,
    visibility=st.sampled_from(["shared", "private"]),
    group_permissions=st.dictionaries(UUIDS, st.builds(GroupGrant, st.booleans(), st.booleans())),
    shared_with=st.lists(st.builds(SharedUser, EMAILS, st.just("t"), USERS, MAYBE_USER), max_size=3).map(tuple),
    owner_user_id=MAYBE_USER,
    owner_email=MAYBE_EMAIL,
    guardrails=st.sampled_from([(), ("x",)]),
)


def rights(decision: access.Access) -> tuple[bool, bool]:
    return decision.can_use, decision.can_manage


def rights_by_the_interface(who: Principal, config: AccessConfig) -> tuple[bool, bool]:
    """The rules of the interface as straight code, without grants and subjects."""
    if config.visibility == "shared":
        mine = [bits for uuid, bits in config.group_permissions.items() if uuid in {*who.groups, who.org_uuid}]
        return any(bits.use for bits in mine), any(bits.manage for bits in mine)
    usable = who.email if who.email_verified and who.email and who.email.isascii() and "@" in who.email else None
    email = usable.lower() if usable else None
    if config.owner_user_id is not None:
        owner = config.owner_user_id == who.user_id
    else:
        owner = email is not None and config.owner_email == email
    invited = any(
        entry.user_id == who.user_id if entry.user_id is not None else email is not None and entry.email == email
        for entry in config.shared_with
    )
    return owner or invited, owner


@given(PRINCIPALS, CONFIGS)
def test_interface(who: Principal, config: AccessConfig) -> None:
    """The derived rights are those of the interface, and there is a denial exactly without the right to manage."""
    decision = derive(who, config)
    assert rights(decision) == rights_by_the_interface(who, config)
    denial = {"shared": "needs_group_manage", "private": "not_owner"}[config.visibility]
    assert decision.manage_denial == (None if decision.can_manage else denial)


@given(PRINCIPALS, CONFIGS)
def test_index(who: Principal, config: AccessConfig) -> None:
    """Selecting grants by subjects decides as `derive` does, and a subject has one grant."""
    mine, grants = access.subjects(who), access.grants(config)
    found = [grant for grant in grants if grant.subject in mine]
    assert rights(derive(who, config)) == (
        any(grant.use for grant in found),
        any(grant.manage for grant in found),
    )
    assert len({grant.subject for grant in grants}) == len(grants)
    assert all(grant.use or grant.manage for grant in grants)


@given(PRINCIPALS, CONFIGS)
def test_explanation(who: Principal, config: AccessConfig) -> None:
    """A principal has a right exactly if a grant gives it, and every listed grant gives one."""
    decision = derive(who, config)
    assert decision.visible == bool(decision.rules)
    assert decision.can_manage == any("manage by" in str(rule) for rule in decision.rules)


@given(PRINCIPALS, CONFIGS, st.frozensets(UUIDS))
def test_groups_do_not_matter_to_private(who: Principal, config: AccessConfig, groups: frozenset[str]) -> None:
    """In a private resource no group of the caller and no groupPermissions change anything."""
    private = attrs.evolve(config, visibility="private")
    other = attrs.evolve(private, group_permissions={})
    assert derive(who, private) == derive(attrs.evolve(who, groups=groups), other)


@given(PRINCIPALS, CONFIGS)
def test_people_do_not_matter_to_shared(who: Principal, config: AccessConfig) -> None:
    """In a shared resource neither owner, entries nor the caller's identity change anything."""
    shared = attrs.evolve(config, visibility="shared")
    other = attrs.evolve(shared, owner_user_id=None, owner_email=None, shared_with=())
    assert derive(who, shared) == derive(attrs.evolve(who, user_id="stranger", email=None), other)


@given(PRINCIPALS, CONFIGS, UUIDS)
def test_a_group_never_removes_a_right(who: Principal, config: AccessConfig, group: str) -> None:
    """A principal in one more group keeps every right."""
    more = attrs.evolve(who, groups=who.groups | {group})
    assert all(now >= then for now, then in zip(rights(derive(more, config)), rights(derive(who, config)), strict=True))


@given(PRINCIPALS, CONFIGS)
def test_the_implicit_group(who: Principal, config: AccessConfig) -> None:
    """Listing the implicit group changes nothing: it is always in effect."""
    assert derive(attrs.evolve(who, groups=who.groups | {who.org_uuid}), config) == derive(who, config)


@given(PRINCIPALS, CONFIGS, st.sampled_from(Role), st.frozensets(st.sampled_from(access.TOKEN_SCOPES)))
def test_role_and_scopes_give_nothing(who: Principal, config: AccessConfig, role: Role, scopes: frozenset[str]) -> None:
    """No role and no token scope changes what a resource allows."""
    assert derive(attrs.evolve(who, role=role, scopes=scopes), config) == derive(who, config)


@given(CONFIGS)
def test_round_trip(config: AccessConfig) -> None:
    """A stored configuration is read back unchanged."""
    assert access.from_wire(access.to_wire(config)) == config


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["private", "shared", "a@x.org"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["visibility", "groupPermissions", "sharedWith", "email", "userId", "use", "manage", "zz"])
            | UUIDS,
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@given(
    JUNK
    | st.fixed_dictionaries(
        {"visibility": st.sampled_from(["shared", "private"])},
        optional={"sharedWith": JUNK, "groupPermissions": JUNK},
    ),
    PRINCIPALS,
    st.none() | CONFIGS,
)
def test_a_checked_body_can_be_applied(data: access.JSON, who: Principal, current: AccessConfig | None) -> None:
    """The check never raises; a body without issues can be applied and keeps the server's values."""
    if check_access(data, current=current, groups=None):
        return
    config = access.apply_access(data, current, who, "now")
    known = {entry.email: entry for entry in current.shared_with} if current else {}
    assert config.visibility == data["visibility"]
    assert config.visibility == "shared" or not config.group_permissions
    assert config.visibility == "shared" or (config.owner_user_id, config.owner_email) != (None, None)
    for entry in config.shared_with:
        before = known.get(entry.email, SharedUser("", "now", who.user_id))
        assert (entry.added_at, entry.added_by) == (before.added_at, before.added_by)
