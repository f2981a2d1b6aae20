"""Principals that an embedding product creates for its own users."""

from typing import Any

import pytest

import wfcore

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("argument", ["org", "user", "groups"])
async def test_a_record_instead_of_its_id_is_refused_by_name(argument: str) -> None:
    """`principal` refuses it, before a call reaches the database."""
    async with wfcore.open("sqlite://", worker=False) as core:
        org = await core.directory.create_organization("Acme")
        group = await core.directory.create_group(org.uuid, "Sales")
        given: dict[str, Any] = {"org": org.uuid, "user": "u1", "groups": [group.id]}
        assert core.principal(**given).groups == {group.id}
        wrong = {"org": org, "user": 7, "groups": [group]}
        with pytest.raises(TypeError, match=f"`{argument}`"):
            core.principal(**given | {argument: wrong[argument]})
