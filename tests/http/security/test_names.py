"""Names of every kind have a visible character and no control characters."""

import pytest
from clients import INVALID, Json, World, assert_envelope, flow

from wfcore.api.organization import CreateGroup
from wfcore.domain.json.codec import VISIBLE, check
from wfcore.domain.kernel.errors import Invalid

pytestmark = pytest.mark.anyio

INVISIBLE = [
    " ",
    "\u00a0\u3000",
    "\u200b",
    "\u2060\ufeff",
    "a\x07",
    "a\nb",
    "a\n",
    "\x1b[31mred",
    "a\x7f",
    "a\x85",
    "\u2800",
]
VISIBLE_ONES = ["a", " a ", "\u200bé", "\U0001f469\u200d\U0001f4bb", "名前", "a\u00a0b", "x" * 200]
CREATES: list[tuple[str, Json, str]] = [
    ("/api/v1/workflows", flow(), "name"),
    ("/api/v1/skills", {}, "name"),
    ("/api/v1/members", {"userId": "bob"}, "name"),
    ("/api/v1/groups", {}, "name"),
    ("/api/v1/tokens", {"scopes": []}, "name"),
    ("/api/v1/connections", {"provider": "p", "kind": "api_key", "config": {"apiKey": "k"}}, "name"),
    ("/api/v1/context-items", {"content": "c"}, "title"),
    ("/api/v1/policies", {"when": {"agent": True}, "require": {"timeout": True}}, "name"),
]


@pytest.mark.parametrize("name", INVISIBLE)
async def test_a_name_without_a_visible_character_is_refused(world: World, name: str) -> None:
    """422 with the rule `pattern`; of an organization and of groups of the operator too."""
    ada = await world.user(role="owner")
    for path, body, field in CREATES:
        error = assert_envelope(await ada.post(path, json={**body, field: name}), *INVALID)
        assert [(issue["path"], issue["rule"]) for issue in error["info"]["errors"]] == [(field, "pattern")]
    with pytest.raises(Invalid):
        await world.core.directory.create_organization(name)
    with pytest.raises(Invalid):
        await world.core.directory.create_group(world.org, name)


@pytest.mark.parametrize("name", VISIBLE_ONES)
def test_other_names_are_accepted(name: str) -> None:
    """Letters of every script, emoji with joiners, and blanks around."""
    assert check(CreateGroup, {"name": name}) == []
    assert VISIBLE.isascii()
