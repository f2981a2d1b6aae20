"""Ids that lead to an organization without showing it."""

from uuid import UUID

import uuid_utils

from wfcore.adapters.sharding.public_ids import PublicIds
from wfcore.domain.kernel.ids import is_uuid
from wfcore.ports.shards import locator_of

IDS, OTHERS = PublicIds("key"), PublicIds("another key")
ORG, OTHER = "01a204b9-c142-7754-a0cc-3bf53e3f5175", "01a204b9-c142-7754-a0cc-3bf53e3f5176"


def test_an_id_leads_to_its_organization() -> None:
    """A UUID stays one, of version 8, and keeps its place in time; another text gets a suffix."""
    plain = str(uuid_utils.uuid7())
    made = IDS.named(plain, ORG)
    assert is_uuid(made)
    assert (UUID(made).version, made[:14], made[15:28]) == (8, plain[:14], plain[15:28])
    assert IDS.named("a" * 43, ORG)[:44] == "a" * 43 + "-"
    for org in (ORG, OTHER):
        for one in (plain, "a" * 43):
            assert IDS.locator(IDS.named(one, org)) == locator_of(org)


def test_other_ids_lead_nowhere() -> None:
    """Those of the time before the shards, and texts of strangers."""
    for one in (str(uuid_utils.uuid7()), "a" * 43, "", "-", "a-0000000g", "\u0661-00000000", "a-00000000\n"):
        assert IDS.locator(one) is None


def test_ids_of_one_organization_cannot_be_recognized() -> None:
    """Without the key, their ends differ as those of random ids; with it, those of any two organizations are equal."""
    made = [IDS.named(str(uuid_utils.uuid7()), ORG) for _ in range(64)]
    assert len({one[-8:] for one in made}) == len(made)
    assert locator_of(ORG) not in [OTHERS.locator(one) for one in made]
