"""The description of the end user in an agent's context (interface, `userContext`).

It is data of the caller, who can write anything there: it chooses no identity and no access.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from wfcore.domain.agents.context_text import Fact
from wfcore.domain.json.values import UNSET, UnsetType, creation
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.json_readers import optional_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.triggers.schedule import time_zones, zone_issues

_LINES: Final = {"name": "Name", "email": "E-mail", "timezone": "Time zone"}
_WHY: Final = "the end user of the run"


@creation
class UserContext:
    email: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    timezone: str | UnsetType = UNSET
    user_id: str | UnsetType = UNSET


def end_user_fact(user: Mapping[str, JSON], at: int) -> Fact | None:
    """Name, e-mail, time zone, and the date and weekday there at `at` (epoch milliseconds); None without any of them.

    A time zone that is not an IANA name has no date.
    """
    known = {name: optional_text(user.get(name)) for name in _LINES}
    lines = [f"{title}: {known[name]}" for name, title in _LINES.items() if known[name]]
    zone = known["timezone"]
    if zone in time_zones():
        lines.append(f"Date there: {datetime.fromtimestamp(at / 1000, UTC).astimezone(ZoneInfo(zone)):%A, %Y-%m-%d}")
    if not lines:
        return None
    return Fact("endUser", optional_text(user.get("userId")) or "end-user", "\n".join(lines), why=_WHY)


def end_user_id(user: JSON) -> str:
    """The id of the end user, whose memories are chosen and written; "" without one."""
    return (optional_text(user.get("userId")) or "") if isinstance(user, Mapping) else ""


def end_user_issues(user: JSON) -> list[Issue]:
    """The errors of a `userContext` of valid shape: its time zone must be an IANA name."""
    zone = user.get("timezone") if isinstance(user, Mapping) else None
    return zone_issues("userContext.timezone", zone) if isinstance(zone, str) else []
