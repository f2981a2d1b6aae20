"""Members, groups, organizations and access tokens."""

from datetime import UTC, datetime

from wfcore.domain.people.people import AccessToken, Group, Member, Organization
from wfcore.domain.resources.access import Role

AT = datetime(2026, 1, 1, tzinfo=UTC)


def test_values_are_equal_by_their_fields() -> None:
    """Two equal records are one value, usable as a key."""
    for one, same, other in (
        (Organization("o", "Acme", AT), Organization("o", "Acme", AT), Organization("p", "Acme", AT)),
        (Group("g", "Sales"), Group("g", "Sales"), Group("g", "Legal")),
    ):
        assert {one, same} == {one}
        assert one != other


def test_defaults() -> None:
    """A member's e-mail is verified unless it is said otherwise; a token has no end."""
    assert Member("u", "u@x.org", None, Role.MEMBER, frozenset()).email_verified
    token = AccessToken("Ab3dE6gH", "hash", "u", "ci", ("workflows:read",), AT)
    assert (token.expires_at, token.revoked_at) == (None, None)
