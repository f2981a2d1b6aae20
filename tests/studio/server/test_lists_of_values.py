"""The studio lists values that a form offers: they are those of the server."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest

from wfcore.domain.channels.hooks import HookEvent
from wfcore.domain.resources.access import TOKEN_SCOPES
from wfcore.domain.rules.policies import CONDITIONS, REQUIREMENTS
from wfcore.domain.triggers.schedule import WEEKDAYS, Frequency
from wfcore.runtime.common.audit import ACTIONS

STUDIO = Path(__file__).parents[3] / "studio/src"


@pytest.mark.parametrize(
    ("file", "name", "values"),
    [
        ("pages/admin/people.tsx", "SCOPES", TOKEN_SCOPES),
        ("pages/admin/hooks.tsx", "EVENTS", get_args(HookEvent)),
        ("pages/admin/policies.tsx", "WHENS", CONDITIONS),
        ("pages/admin/policies.tsx", "REQUIRES", REQUIREMENTS),
        (
            "pages/admin/AuditPage.tsx",
            "ACTIONS",
            [f"{kind}.{verb}" for kind, verbs in ACTIONS.items() for verb in verbs],
        ),
        ("builder/Settings.tsx", "FREQUENCIES", tuple(Frequency)),
        ("builder/Settings.tsx", "WEEKDAYS", WEEKDAYS),
    ],
)
def test_a_form_offers_all_values(file: str, name: str, values: Sequence[str]) -> None:
    """A value that is added to the server, and not to the form, fails here."""
    (listed,) = re.findall(rf"^const {name} = \[([^\]]*)\]", (STUDIO / file).read_text(), re.MULTILINE)
    assert re.findall(r'"([^"]+)"', listed) == list(values)
