"""Access configurations as JSON: what each issue says and where, and that nothing is lost on the way in and out."""

from typing import Any

import attrs
import pytest

from wfcore.domain.kernel.errors import Issue
from wfcore.domain.resources import access
from wfcore.domain.resources.access import AccessConfig, Grant, GroupGrant, Principal, Role, SharedUser
from wfcore.domain.resources.access_checks import check_access

ORG = "0f8fad5b-d9cb-469f-a165-70867728950e"
SALES = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
NOW = "2026-02-02T00:00:00.000Z"
ANN = Principal(ORG, "u-ann", "ann@x.org", frozenset({SALES}), frozenset(), Role.MEMBER)
BITS = {"use": True, "manage": False}


def body(**fields: Any) -> dict[str, Any]:
    return {"visibility": "shared", **fields}


READONLY = "only an ownership transfer can change the owner"


CONFIG_KEYS = "`visibility`, `groupPermissions`, `sharedWith`, `ownerUserId`, `ownerEmail`, `guardrails`"


@pytest.mark.parametrize(
    ("data", "path", "message", "rule"),
    [
        ([], "", "must be an object", "type"),
        (body(more=1), ".more", f"is not a known key: use {CONFIG_KEYS}", "unknown"),
        ({}, ".visibility", "`visibility` is required", "required"),
        ({"visibility": 1}, ".visibility", "must be a string", "type"),
        ({"visibility": "public"}, ".visibility", "`public` is not one of `shared`, `private`", "enum"),
        (body(groupPermissions=[]), ".groupPermissions", "must be an object", "type"),
        (
            body(groupPermissions={"g1": BITS}),
            ".groupPermissions.g1",
            "`g1` is not a UUID in lower case with hyphens",
            "uuid",
        ),
        (
            body(groupPermissions={ORG: BITS}),
            f".groupPermissions.{ORG}",
            f"unknown group `{ORG}`: the organization does not have it",
            "group",
        ),
        (body(groupPermissions={SALES: None}), f".groupPermissions.{SALES}", "must be an object", "type"),
        (
            body(groupPermissions={SALES: {**BITS, "own": True}}),
            f".groupPermissions.{SALES}.own",
            "is not a known key: use `use`, `manage`",
            "unknown",
        ),
        (
            body(groupPermissions={SALES: {"manage": True}}),
            f".groupPermissions.{SALES}.use",
            "`use` is required",
            "required",
        ),
        (
            body(groupPermissions={SALES: {"use": True}}),
            f".groupPermissions.{SALES}.manage",
            "`manage` is required",
            "required",
        ),
        (
            body(groupPermissions={SALES: {"use": 1, "manage": True}}),
            f".groupPermissions.{SALES}.use",
            "must be a boolean",
            "type",
        ),
        (
            body(groupPermissions={SALES: {"use": True, "manage": None}}),
            f".groupPermissions.{SALES}.manage",
            "must be a boolean",
            "type",
        ),
        (body(sharedWith={}), ".sharedWith", "must be an array", "type"),
        (body(sharedWith=["a@x.org"]), ".sharedWith[0]", "must be an object", "type"),
        (body(sharedWith=[{}]), ".sharedWith[0].email", "`email` is required", "required"),
        (body(sharedWith=[{"email": 1}]), ".sharedWith[0].email", "must be a string", "type"),
        (
            body(sharedWith=[{"email": "a@x.org", "role": "x"}]),
            ".sharedWith[0].role",
            "is not a known key: use `email`, `addedAt`, `addedBy`, `userId`",
            "unknown",
        ),
        (
            body(sharedWith=[{"email": "a@x.org", "userId": 7}]),
            ".sharedWith[0].userId",
            "must be a string",
            "type",
        ),
        (
            body(sharedWith=[{"email": "a@x.org", "userId": ""}]),
            ".sharedWith[0].userId",
            "must not be empty",
            "length",
        ),
        (
            body(sharedWith=[{"email": "nobody"}]),
            ".sharedWith[0].email",
            "`nobody` is not a valid ASCII e-mail address",
            "email",
        ),
        (
            body(sharedWith=[{"email": "a@x.org"}, {"email": "b@x.org"}, {"email": "A@x.org"}]),
            ".sharedWith[2].email",
            "`a@x.org` is already in the list",
            "duplicate",
        ),
        (body(ownerUserId="u-bob"), ".ownerUserId", READONLY, "readonly"),
        (body(ownerEmail="bob@x.org"), ".ownerEmail", READONLY, "readonly"),
        (body(ownerUserId=7), ".ownerUserId", "must be a string", "type"),
        (body(guardrails={}), ".guardrails", "must be an array", "type"),
    ],
)
def test_each_issue(data: Any, path: str, message: str, rule: str) -> None:
    """It has the path of the value, what is allowed in words, and the rule."""
    assert check_access(data, current=None, groups={SALES}) == [Issue(f"accessConfig{path}", message, rule)]


@pytest.mark.parametrize("owner", [{"ownerUserId": "ann@x.org"}, {"ownerEmail": "u-ann"}])
def test_an_address_is_not_a_user_id(owner: dict[str, str]) -> None:
    """The two fields of the owner are compared each with its own value."""
    (issue,) = check_access(body(**owner), current=CONFIG, groups=None)
    assert issue == Issue(f"accessConfig.{next(iter(owner))}", READONLY, "readonly")


@pytest.mark.parametrize(("email", "rules"), [("Ann@X.org", []), ("an@x.org", ["readonly"]), ("nobody", ["readonly"])])
def test_the_address_of_the_owner_is_compared_in_lower_case(email: str, rules: list[str]) -> None:
    """As the addresses of `sharedWith` are; for a resource without one, no text is the owner's."""
    found = check_access(body(ownerEmail=email), current=CONFIG, groups=None)
    assert [issue.rule for issue in found] == rules
    (without,) = check_access(body(ownerEmail=email), current=attrs.evolve(CONFIG, owner_email=None), groups=None)
    assert without.rule == "readonly"


def test_all_issues_of_one_body() -> None:
    """A refused value hides no other."""
    data = body(visibility="x", groupPermissions={"g": {}}, sharedWith=[{"email": 1}, {}], ownerUserId="u", more=1)
    found = check_access(data, current=None, groups=None)
    assert sorted((issue.path.removeprefix("accessConfig."), issue.rule) for issue in found) == [
        ("groupPermissions.g", "uuid"),
        ("groupPermissions.g.manage", "required"),
        ("groupPermissions.g.use", "required"),
        ("more", "unknown"),
        ("ownerUserId", "readonly"),
        ("sharedWith[0].email", "type"),
        ("sharedWith[1].email", "required"),
        ("visibility", "enum"),
    ]


def test_a_member_is_in_the_group_of_the_organization() -> None:
    """Beside the groups of the principal."""
    assert ANN.all_groups() == {SALES, ORG}
    assert ANN.subjects == {"u:u-ann", "e:ann@x.org", f"g:{SALES}", f"g:{ORG}"}


def test_what_a_new_resource_has() -> None:
    """Everybody in the organization uses and manages it, and nobody is named but the owner."""
    expected = AccessConfig("shared", {ORG: GroupGrant(use=True, manage=True)}, (), "u-ann", "ann@x.org")
    assert access.default_access(ORG, ANN) == expected


def test_the_groups_of_a_body_are_kept() -> None:
    """Each with its own two rights."""
    other = {"use": False, "manage": True}
    made = access.apply_access(body(groupPermissions={SALES: BITS, ORG: other}), None, ANN, NOW)
    assert made.group_permissions == {SALES: GroupGrant(True, False), ORG: GroupGrant(False, True)}


CONFIG = AccessConfig(
    "shared",
    {SALES: GroupGrant(True, False), ORG: GroupGrant(False, True)},
    (SharedUser("a@x.org", NOW, "u-ann", "u-a"), SharedUser("b@x.org", NOW, "u-ann")),
    "u-ann",
    "ann@x.org",
    ("redact-emails",),
)
WIRE = {
    "visibility": "shared",
    "groupPermissions": {SALES: {"use": True, "manage": False}, ORG: {"use": False, "manage": True}},
    "sharedWith": [
        {"email": "a@x.org", "addedAt": NOW, "addedBy": "u-ann", "userId": "u-a"},
        {"email": "b@x.org", "addedAt": NOW, "addedBy": "u-ann"},
    ],
    "ownerUserId": "u-ann",
    "ownerEmail": "ann@x.org",
    "guardrails": ["redact-emails"],
}


@pytest.mark.parametrize("guardrails", [(), ("redact-emails",)])
def test_the_wire_and_back(guardrails: tuple[str, ...]) -> None:
    """A configuration is read as it was written; guardrails are left out where there are none."""
    config = attrs.evolve(CONFIG, guardrails=guardrails)
    wire = {key: value for key, value in WIRE.items() if key != "guardrails" or guardrails}
    assert access.to_wire(config) == wire
    assert access.from_wire(wire) == config


@pytest.mark.parametrize(("letter", "kind"), [("g", "group"), ("u", "user"), ("e", "email")])
def test_a_grant_on_the_wire(letter: str, kind: str) -> None:
    """Its subject and the type of it, its two rights, and the rule it comes from."""
    assert Grant(f"{letter}:x", use=True, manage=False, by="group").to_wire() == {
        "subjectType": kind,
        "subject": "x",
        "use": True,
        "manage": False,
        "rule": "group",
    }
