"""Access (interface, AccessConfig): decisions on examples, and the check of a body."""

from typing import Any

import attrs
import pytest

from wfcore.domain.resources import access
from wfcore.domain.resources.access import AccessConfig, GroupGrant, Principal, Role, SharedUser, derive
from wfcore.domain.resources.access_checks import check_access

ORG = "0f8fad5b-d9cb-469f-a165-70867728950e"
SALES = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
LEGAL = "16fd2706-8baf-433b-82eb-8c7fada847da"
THEN, NOW = "2026-01-01T00:00:00.000Z", "2026-02-02T00:00:00.000Z"

ANN = Principal(ORG, "u-ann", "ann@x.org", frozenset({SALES}), frozenset(), Role.MEMBER)
BOB = Principal(ORG, "u-bob", "bob@x.org", frozenset(), frozenset(), Role.OWNER)


def shared(**groups: tuple[bool, bool]) -> AccessConfig:
    uuids = {"org": ORG, "sales": SALES, "legal": LEGAL}
    permissions = {uuids[name]: GroupGrant(*bits) for name, bits in groups.items()}
    return AccessConfig("shared", permissions, (), "u-bob", "bob@x.org")


def private(*people: SharedUser, owner: tuple[str | None, str | None] = (None, None)) -> AccessConfig:
    return AccessConfig("private", {}, people, *owner)


class TestScopes:
    """Interface, Authentication 4: a token lacking a required scope."""

    @pytest.mark.parametrize(
        ("granted", "required", "missing"),
        [
            ({"workflows:read"}, ["workflows:read"], []),
            ({"workflows:write"}, ["workflows:read"], []),
            ({"workflows:write"}, ["workflows:invoke"], ["workflows:invoke"]),
            ({"workflows:invoke"}, ["workflows:read"], ["workflows:read"]),
            ({"workflows:read"}, ["workflows:write"], ["workflows:write"]),
            ({"skills:write"}, ["workflows:read", "skills:read"], ["workflows:read"]),
            ({":write"}, ["usage:read"], ["usage:read"]),
            (set(), ["tokens:write", "members:read"], ["tokens:write", "members:read"]),
        ],
    )
    def test_missing(self, granted: set[str], required: list[str], missing: list[str]) -> None:
        """Write includes read of the same area and nothing else; the order is kept."""
        assert access.missing_scopes(granted, required) == missing

    def test_all_scopes(self) -> None:
        """There are twenty-one scopes."""
        assert len(set(access.TOKEN_SCOPES)) == 21
        assert {"workflows:invoke", "tokens:write", "usage:read"} <= set(access.TOKEN_SCOPES)
        assert not {"tokens:read", "usage:write", "skills:invoke"} & set(access.TOKEN_SCOPES)


class TestShared:
    """`shared` uses only groupPermissions."""

    def test_default(self) -> None:
        """By default every member can use and manage, and the creator is the owner."""
        config = access.default_access(ORG, BOB)
        decision = derive(ANN, config)
        assert (decision.can_use, decision.can_manage, decision.manage_denial) == (True, True, None)
        assert [str(rule) for rule in decision.rules] == [f"use and manage by group `{ORG}`"]
        assert (config.owner_user_id, config.owner_email) == ("u-bob", "bob@x.org")

    def test_bits_are_independent(self) -> None:
        """One group gives use, another manage; manage does not include use."""
        assert not derive(ANN, shared(sales=(False, True))).can_use
        assert derive(ANN, shared(sales=(False, True))).can_manage
        both = derive(ANN, shared(sales=(False, True), org=(True, False)))
        assert [str(rule) for rule in both.rules] == [f"manage by group `{SALES}`", f"use by group `{ORG}`"]

    def test_owner_has_no_rights(self) -> None:
        """Neither ownership nor a role in the organization gives rights on a shared resource."""
        decision = derive(BOB, shared(sales=(True, True)))
        assert decision == access.Access(False, False, "needs_group_manage", ())
        assert not decision.visible

    def test_user_without_manage(self) -> None:
        """The denial of a user says that a group's manage is needed."""
        decision = derive(ANN, shared(sales=(True, False)))
        assert (decision.visible, decision.manage_denial) == (True, "needs_group_manage")


class TestPrivate:
    """`private` uses owner and sharedWith, not groups."""

    @pytest.mark.parametrize(
        ("owner", "rule"),
        [
            (("u-ann", None), "use and manage by ownerUserId `u-ann`"),
            ((None, "ann@x.org"), "use and manage by ownerEmail `ann@x.org`"),
        ],
    )
    def test_owner(self, owner: tuple[str | None, str | None], rule: str) -> None:
        """The owner matches by user id or, without one, by e-mail; the grant says which."""
        decision = derive(ANN, private(owner=owner))
        assert (decision.can_use, decision.can_manage, decision.manage_denial) == (True, True, None)
        assert [str(grant) for grant in decision.rules] == [rule]

    def test_recycled_address_of_the_owner(self) -> None:
        """An owner with a user id is that user: another user with the same address has no rights."""
        config = private(owner=("u-former", "ann@x.org"))
        assert not derive(ANN, config).visible
        assert derive(attrs.evolve(ANN, user_id="u-former", email="new@x.org"), config).can_manage

    def test_shared_with(self) -> None:
        """An entry gives use, not manage."""
        decision = derive(ANN, private(SharedUser("ann@x.org", THEN, "u-bob"), owner=("u-bob", None)))
        assert (decision.can_use, decision.can_manage, decision.manage_denial) == (True, False, "not_owner")
        assert [str(rule) for rule in decision.rules] == ["use by sharedWith `ann@x.org`"]

    def test_recycled_address(self) -> None:
        """An entry with a user id grants to that user: another user with the same address has no rights."""
        config = private(SharedUser("ann@x.org", THEN, "u-bob", user_id="u-former"))
        assert not derive(ANN, config).visible
        assert derive(attrs.evolve(ANN, user_id="u-former", email="new@x.org"), config).can_use

    @pytest.mark.parametrize("email", [None, "", "ann\u212a@x.org", "not an address"])
    def test_without_a_valid_address(self, email: str | None) -> None:
        """A principal without a valid address does not match an address, nor a similar one."""
        who = attrs.evolve(ANN, email=email)
        planted = private(
            SharedUser("ann\u212a@x.org", THEN, "u-bob"),
            SharedUser("annk@x.org", THEN, "u-bob"),
            SharedUser("", THEN, "u-bob"),
            owner=(None, email),
        )
        assert not derive(who, planted).visible

    def test_unverified(self) -> None:
        """An address that is not verified matches neither an entry nor the owner."""
        who = attrs.evolve(ANN, email_verified=False)
        entry = SharedUser("ann@x.org", THEN, "u-bob")
        assert not derive(who, private(entry, owner=(None, "ann@x.org"))).visible
        assert access.default_access(ORG, who).owner_email is None

    def test_upper_case(self) -> None:
        """A principal's address is compared in lower case."""
        assert derive(attrs.evolve(ANN, email="Ann@X.org"), private(owner=(None, "ann@x.org"))).can_manage

    def test_one_grant_for_each_subject(self) -> None:
        """An owner who is also in sharedWith has one grant, with the owner's rights."""
        config = private(SharedUser("bob@x.org", THEN, "u-eve", "u-bob"), owner=("u-bob", "bob@x.org"))
        assert [(grant.subject, grant.manage) for grant in access.grants(config)] == [("u:u-bob", True)]
        assert access.subjects(BOB) == ["e:bob@x.org", f"g:{ORG}", "u:u-bob"]


def faults(data: Any, current: AccessConfig | None = None, groups: set[str] | None = None) -> set[tuple[str, str]]:
    found = check_access(data, current=current, groups=groups)
    return {(issue.path.removeprefix("accessConfig").lstrip("."), issue.rule) for issue in found}


class TestCheck:
    """Every fault of a body, each under its wire path."""

    def test_all_at_once(self) -> None:
        """All faults are reported, each path once."""
        data = {
            "visibility": "public",
            "groupPermissions": {
                SALES.upper(): {"use": True, "manage": True},
                SALES: {"use": 1, "manage": None, "admin": True},
                LEGAL: {"use": True},
                ORG: True,
            },
            "sharedWith": [
                {"email": "a@x.org"},
                {"email": "A@X.org", "userId": 7},
                {"email": "K\u212a@x.org", "role": "x"},
                {"userId": ""},
                {"email": None, "addedAt": 3},
                "a@x.org",
            ],
            "ownerUserId": 5,
            "ownerEmail": "eve@x.org",
            "guardrails": {},
            "owner": "eve",
        }
        assert faults(data, groups={SALES, ORG}) == {
            ("visibility", "enum"),
            (f"groupPermissions.{SALES.upper()}", "uuid"),
            (f"groupPermissions.{SALES}.use", "type"),
            (f"groupPermissions.{SALES}.manage", "type"),
            (f"groupPermissions.{SALES}.admin", "unknown"),
            (f"groupPermissions.{LEGAL}", "group"),
            (f"groupPermissions.{LEGAL}.manage", "required"),
            (f"groupPermissions.{ORG}", "type"),
            ("sharedWith[1].email", "duplicate"),
            ("sharedWith[1].userId", "type"),
            ("sharedWith[2].email", "email"),
            ("sharedWith[2].role", "unknown"),
            ("sharedWith[3].email", "required"),
            ("sharedWith[3].userId", "length"),
            ("sharedWith[4].email", "type"),
            ("sharedWith[4].addedAt", "type"),
            ("sharedWith[5]", "type"),
            ("ownerUserId", "type"),
            ("ownerEmail", "readonly"),
            ("guardrails", "type"),
            ("owner", "unknown"),
        }

    @pytest.mark.parametrize("data", [None, [], "shared", 1, True])
    def test_not_an_object(self, data: Any) -> None:
        """A value that is not an object is one fault."""
        assert faults(data) == {("", "type")}

    @pytest.mark.parametrize(
        ("data", "fault"),
        [
            ({}, ("visibility", "required")),
            ({"visibility": None}, ("visibility", "type")),
            ({"visibility": "private", "groupPermissions": []}, ("groupPermissions", "type")),
            ({"visibility": "private", "sharedWith": {}}, ("sharedWith", "type")),
            ({"visibility": "private", "sharedWith": None}, ("sharedWith", "type")),
        ],
    )
    def test_shape(self, data: Any, fault: tuple[str, str]) -> None:
        """Visibility is required; null is neither an object nor an array."""
        assert faults(data) == {fault}

    def test_smallest_body(self) -> None:
        """Visibility is enough; groups are not looked up without a list of them; guardrails are free."""
        assert faults({"visibility": "private"}) == set()
        bits = {"use": True, "manage": False}
        assert faults({"visibility": "shared", "groupPermissions": {LEGAL: bits}, "guardrails": [1, {}]}) == set()

    def test_written_back(self) -> None:
        """A client can write back what it read, which gives the same configuration."""
        config = private(SharedUser("a@x.org", THEN, "u-else", "u-a"), owner=("u-bob", "bob@x.org"))
        wire = access.to_wire(config)
        assert faults(wire, config) == set()
        assert access.apply_access(wire, config, ANN, NOW) == config
        assert access.from_wire(wire) == config

    @pytest.mark.parametrize(
        "owner",
        [{"ownerUserId": None}, {"ownerUserId": "u-eve"}, {"ownerEmail": None}, {"ownerEmail": "e@x.org"}],
    )
    def test_owner_is_read_only(self, owner: dict[str, Any]) -> None:
        """An owner other than the current one is refused, null too; a new resource has no owner yet."""
        current = private(owner=("u-bob", "bob@x.org"))
        (path,) = owner
        assert faults({"visibility": "private"} | owner, current) == {(path, "readonly")}
        planted = {(path, "readonly")} if owner[path] else set()
        assert faults({"visibility": "private"} | owner) == planted

    @pytest.mark.parametrize("owner", [("u-ann", "ann@x.org"), (None, None), ("u-ann", None)])
    def test_a_creator_may_be_named(self, owner: tuple[str | None, str | None]) -> None:
        """On create the owner may be the writer, by id and by e-mail, or missing; another owner is refused."""
        data = {"visibility": "private", "ownerUserId": owner[0], "ownerEmail": owner[1]}
        assert check_access(data, current=None, groups=None, writer=ANN) == []
        assert access.apply_access(data, None, ANN, NOW).owner_user_id == "u-ann"
        found = check_access({**data, "ownerUserId": "u-bob"}, current=None, groups=None, writer=ANN)
        assert [(issue.path, issue.rule) for issue in found] == [("accessConfig.ownerUserId", "readonly")]

    def test_a_later_writer_is_not_the_owner(self) -> None:
        """Only on create the body can name the writer as the owner."""
        (issue,) = check_access(
            {"visibility": "private", "ownerUserId": "u-ann"},
            current=private(owner=("u-bob", None)),
            groups=None,
            writer=ANN,
        )
        assert (issue.path, issue.rule) == ("accessConfig.ownerUserId", "readonly")

    def test_long_values_are_cut(self) -> None:
        """A message shows at most 80 characters of a value."""
        (issue,) = check_access({"visibility": "x" * 999}, current=None, groups=None)
        assert "x" * 80 in issue.message
        assert "x" * 81 not in issue.message


class TestApply:
    """The configuration of a checked body."""

    def test_private_has_no_groups(self) -> None:
        """A private configuration is stored without groups, even if the body has some."""
        data = {"visibility": "private", "groupPermissions": {SALES: {"use": True, "manage": True}}}
        assert access.apply_access(data, None, ANN, NOW).group_permissions == {}

    @pytest.mark.parametrize("visibility", ["shared", "private"])
    def test_creator_owns(self, visibility: str) -> None:
        """The creator is the owner, of a shared and of a private resource."""
        config = access.apply_access({"visibility": visibility}, None, ANN, NOW)
        assert (config.owner_user_id, config.owner_email) == ("u-ann", "ann@x.org")

    def test_owner_stays(self) -> None:
        """A writer does not become the owner of a resource with an owner; a private one shuts the writer out."""
        config = access.apply_access({"visibility": "private"}, shared(sales=(True, True)), ANN, NOW)
        assert (config.owner_user_id, config.owner_email) == ("u-bob", "bob@x.org")
        assert access.revokes_self(ANN, config)
        assert not access.revokes_self(BOB, config)

    def test_writer_becomes_the_owner(self) -> None:
        """Without an owner the writer becomes it when the resource becomes private, not before."""
        ownerless = attrs.evolve(shared(sales=(True, True)), owner_user_id=None, owner_email=None)
        assert access.apply_access({"visibility": "private"}, ownerless, ANN, NOW).owner_user_id == "u-ann"
        assert access.apply_access({"visibility": "shared"}, ownerless, ANN, NOW).owner_user_id is None

    def test_an_owner_who_is_gone(self) -> None:
        """The writer becomes the owner when the resource becomes private, not before."""
        config = shared(sales=(True, True))
        assert (
            access.apply_access({"visibility": "private"}, config, ANN, NOW, owner_gone=True).owner_user_id == "u-ann"
        )
        assert access.apply_access({"visibility": "shared"}, config, ANN, NOW, owner_gone=True).owner_user_id == "u-bob"

    def test_entries(self) -> None:
        """Known entries keep who added them and when; new ones get the writer and the current time."""
        current = private(SharedUser("old@x.org", THEN, "u-bob", "u-old"), SharedUser("gone@x.org", THEN, "u-bob"))
        data = {
            "visibility": "private",
            "sharedWith": [
                {"email": "New@X.org", "addedAt": "1999", "addedBy": "eve", "userId": "u-new"},
                {"email": "Old@x.org", "addedAt": "1999", "addedBy": "eve"},
            ],
        }
        assert access.apply_access(data, current, ANN, NOW).shared_with == (
            SharedUser("new@x.org", NOW, "u-ann", "u-new"),
            SharedUser("old@x.org", THEN, "u-bob", "u-old"),
        )

    def test_missing_groups_are_empty(self) -> None:
        """Shared without groups gives rights to nobody, not even to the writer."""
        config = access.apply_access({"visibility": "shared"}, shared(sales=(True, True)), ANN, NOW)
        assert access.grants(config) == []
        assert access.revokes_self(ANN, config)


class TestWire:
    """The form on the wire and in a store."""

    def test_shape(self) -> None:
        """Nulls are present; an entry's userId and the guardrails only if set; keys are in order."""
        config = private(SharedUser("a@x.org", THEN, "u-bob"), owner=("u-bob", None))
        wire = access.to_wire(config)
        assert wire == {
            "visibility": "private",
            "groupPermissions": {},
            "sharedWith": [{"email": "a@x.org", "addedAt": THEN, "addedBy": "u-bob"}],
            "ownerUserId": "u-bob",
            "ownerEmail": None,
        }
        assert next(iter(wire)) == "visibility"

    def test_guardrails(self) -> None:
        """Guardrails are kept unchanged through check, store and response."""
        data = {"visibility": "private", "guardrails": [{"any": [1, None]}, "x"]}
        config = access.apply_access(data, None, ANN, NOW)
        assert access.to_wire(config)["guardrails"] == data["guardrails"]
        assert access.from_wire(access.to_wire(config)) == config

    def test_grants(self) -> None:
        """A grant has the type of its subject and its rule."""
        config = private(SharedUser("a@x.org", THEN, "u-bob"), owner=("u-bob", None))
        assert [grant.to_wire() for grant in access.grants(config)] == [
            {"subjectType": "user", "subject": "u-bob", "use": True, "manage": True, "rule": "ownerUserId"},
            {"subjectType": "email", "subject": "a@x.org", "use": True, "manage": False, "rule": "sharedWith"},
        ]


def test_a_credential_reaches_some_workflows() -> None:
    """One that is limited reaches only these workflows, whose ids are no ids of skills; another one reaches all."""
    limited = attrs.evolve(ANN, workflows=frozenset({7}))
    assert limited.reaches("workflow", 7)
    assert not limited.reaches("workflow", 8)
    assert not limited.reaches("skill", 7)
    assert not limited.reaches("assistant", None)
    assert ANN.reaches("skill", 7)
    assert ANN.reaches("assistant", None)
    assert not attrs.evolve(ANN, workflows=frozenset()).reaches("workflow", 7)
