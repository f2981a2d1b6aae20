"""The laws of access, over principals and configurations drawn from few names, so that they meet."""

import attrs
from hypothesis import given
from hypothesis import strategies as st

from wfcore.domain.resources import access
from wfcore.domain.resources.access import AccessConfig, GroupGrant, Principal, Role, SharedUser, derive

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


def told_by_the_interface(who: Principal, config: AccessConfig) -> tuple[bool, bool]:
    """The access part of the interface as plain sentences, without lines and subjects."""
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
    """What is derived is what the interface's sentences say, with a denial exactly when it must be."""
    decision = derive(who, config)
    assert rights(decision) == told_by_the_interface(who, config)
    denial = {"shared": "needs_group_manage", "private": "not_owner"}[config.visibility]
    assert decision.manage_denial == (None if decision.can_manage else denial)


@given(PRINCIPALS, CONFIGS)
def test_index(who: Principal, config: AccessConfig) -> None:
    """Selecting stored lines by stored subjects decides as `derive` does, and a subject has one line."""
    mine, lines = access.subjects(who), access.grants(config)
    found = [line for line in lines if line.subject in mine]
    assert rights(derive(who, config)) == (
        any(line.use for line in found),
        any(line.manage for line in found),
    )
    assert len({line.subject for line in lines}) == len(lines)
    assert all(line.use or line.manage for line in lines)


@given(PRINCIPALS, CONFIGS)
def test_explanation(who: Principal, config: AccessConfig) -> None:
    """Something is allowed exactly when a rule says so, and every rule told gives something."""
    decision = derive(who, config)
    assert decision.visible == bool(decision.rules)
    assert decision.can_manage == any("manage by" in str(rule) for rule in decision.rules)


@given(PRINCIPALS, CONFIGS, st.frozensets(UUIDS))
def test_groups_never_matter_to_private(who: Principal, config: AccessConfig, groups: frozenset[str]) -> None:
    """In a private resource no group of the caller and no groupPermissions change anything."""
    private = attrs.evolve(config, visibility="private")
    other = attrs.evolve(private, group_permissions={})
    assert derive(who, private) == derive(attrs.evolve(who, groups=groups), other)


@given(PRINCIPALS, CONFIGS)
def test_people_never_matter_to_shared(who: Principal, config: AccessConfig) -> None:
    """In a shared resource neither owner, entries nor the caller's identity change anything."""
    shared = attrs.evolve(config, visibility="shared")
    other = attrs.evolve(shared, owner_user_id=None, owner_email=None, shared_with=())
    assert derive(who, shared) == derive(attrs.evolve(who, user_id="stranger", email=None), other)


@given(PRINCIPALS, CONFIGS, UUIDS)
def test_a_group_never_takes_away(who: Principal, config: AccessConfig, group: str) -> None:
    """One group more leaves every right there was."""
    more = attrs.evolve(who, groups=who.groups | {group})
    assert all(now >= then for now, then in zip(rights(derive(more, config)), rights(derive(who, config)), strict=True))


@given(PRINCIPALS, CONFIGS)
def test_the_implicit_group(who: Principal, config: AccessConfig) -> None:
    """Listing the organization's own group changes nothing: it was always in effect."""
    assert derive(attrs.evolve(who, groups=who.groups | {who.org_uuid}), config) == derive(who, config)


@given(PRINCIPALS, CONFIGS, st.sampled_from(Role), st.frozensets(st.sampled_from(access.TOKEN_SCOPES)))
def test_role_and_scopes_give_nothing(who: Principal, config: AccessConfig, role: Role, scopes: frozenset[str]) -> None:
    """No role and no token scope changes what a resource allows."""
    assert derive(attrs.evolve(who, role=role, scopes=scopes), config) == derive(who, config)


@given(CONFIGS)
def test_round_trip(config: AccessConfig) -> None:
    """What is stored is read again as it was."""
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
def test_check_guards_apply(data: access.JSON, who: Principal, current: AccessConfig | None) -> None:
    """No value makes the check raise, and what it lets pass can be applied and keeps the server's values."""
    if access.check_access(data, current=current, groups=None):
        return
    config = access.apply_access(data, current, who, "now")
    known = {entry.email: entry for entry in current.shared_with} if current else {}
    assert config.visibility == data["visibility"]
    assert config.visibility == "shared" or not config.group_permissions
    assert config.visibility == "shared" or (config.owner_user_id, config.owner_email) != (None, None)
    for entry in config.shared_with:
        before = known.get(entry.email, SharedUser("", "now", who.user_id))
        assert (entry.added_at, entry.added_by) == (before.added_at, before.added_by)
