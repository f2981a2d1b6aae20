"""Hooks: what an organization's own addresses are notified of (interface, decisions on hooks).

A message is a Standard Webhook: `{"type", "timestamp", "data"}`, signed with the secret of the hook.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, get_args

import attrs

from wfcore.domain.json.codec import iso_ms
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.kernel.urls import URL_RULE, is_url
from wfcore.domain.projections.notices import Notice

HookEvent = Literal[
    "interrupt.opened",
    "interrupt.reminded",
    "interrupt.resolved",
    "run.finished",
    "run.failed",
    "schedule.paused",
    "evaluation.failed",
]
EVENTS: Final[tuple[str, ...]] = get_args(HookEvent)

DeliveryState = Literal["pending", "delivered", "failed"]

OLD_SECRET_MS: Final = 24 * 3_600_000
"""Milliseconds after a rotation in which the former secret signs too."""

MOST_FORMER: Final = 10
"""The most earlier secrets that sign a message beside the current one."""

FIRST_WAIT, LONGEST_WAIT = 5_000, 6 * 3_600_000
"""Milliseconds until a delivery is retried: after the first attempt, and at most. In between they double."""

MOST_TRIES: Final = 24
"""Attempts of a delivery: with these intervals, over three days."""


@attrs.frozen
class Hook:
    """One hook. `user_id` is its maker: it reports what that user may use.

    `sealed` is the secret, `former` the one before, which signs until `former_until` (epoch milliseconds); after it,
    separated by blanks, stand earlier ones that sign as well, each as `END@SEALED`. `secret` is the secret in clear
    text, only in the result of its creation and rotation.
    """

    id: str
    url: str
    events: tuple[str, ...]
    workflow_id: int | None
    is_enabled: bool
    user_id: str
    sealed: str = attrs.field(repr=False)
    former: str | None = attrs.field(default=None, repr=False)
    former_until: int = 0
    secret: str | None = attrs.field(default=None, repr=False)

    @property
    def subscribed(self) -> tuple[str, ...]:
        """The events that are reported now."""
        return self.events if self.is_enabled else ()

    def former_secrets(self, now: int) -> list[tuple[int, str]]:
        """The sealed earlier secrets that sign at `now`, the latest first, each with its end."""
        if self.former is None:
            return []
        latest, *others = self.former.split()
        ends = [(self.former_until, latest)]
        for one in others:
            end, _, sealed = one.partition("@")
            ends.append((int(end), sealed))
        return [(end, sealed) for end, sealed in ends if now < end]

    def rotated(self, sealed: str, now: int) -> "Hook":
        """The hook with a new secret. The earlier ones sign until the end of their time."""
        others = self.former_secrets(now)[: MOST_FORMER - 1]
        return self._with(sealed, [(now + OLD_SECRET_MS, self.sealed), *others])

    def sealed_anew(self, anew: Callable[[str], str], now: int) -> "Hook":
        """The hook with `anew` of its sealed secrets, and without earlier ones that do not sign any more."""
        return self._with(anew(self.sealed), [(end, anew(one)) for end, one in self.former_secrets(now)])

    def _with(self, sealed: str, earlier: Sequence[tuple[int, str]]) -> "Hook":
        if not earlier:
            return attrs.evolve(self, sealed=sealed, former=None, former_until=0)
        (until, latest), *others = earlier
        former = " ".join([latest, *(f"{end}@{one}" for end, one in others)])
        return attrs.evolve(self, sealed=sealed, former=former, former_until=until)

    def to_wire(self) -> dict[str, JSON]:
        wire: dict[str, JSON] = {
            "id": self.id,
            "url": self.url,
            "events": list(self.events),
            "filter": {"workflowId": self.workflow_id},
            "isEnabled": self.is_enabled,
            "createdBy": self.user_id,
        }
        return wire if self.secret is None else wire | {"secret": self.secret}


def hook_issues(tree: Mapping[str, JSON]) -> list[Issue]:
    """The faults of a hook's body that its shape does not show."""
    issues, url, events = [], tree.get("url"), tree.get("events")
    if isinstance(url, str) and not is_url(url):
        issues.append(Issue("url", URL_RULE, "url"))
    if isinstance(events, list):
        repeated = [place for place, event in enumerate(events) if event in events[:place]]
        issues += [Issue(f"events[{place}]", f"`{events[place]}` is given twice", "unique") for place in repeated]
    return issues


def message_of(notice: Notice, org: str, base: str | None) -> dict[str, JSON]:
    """The body of the message. `base` is the address of the server, for the link to the studio; None: without it."""
    return {
        "type": notice.event,
        "timestamp": iso_ms(notice.at),
        "data": {name: value for name, value in _data(notice, org, base).items() if value not in (None, "")},
    }


def _data(notice: Notice, org: str, base: str | None) -> dict[str, JSON]:
    waits = notice.event in ("interrupt.opened", "interrupt.reminded")
    page = f"inbox/{notice.interrupt_id}" if waits else f"runs/{notice.run_id}"
    return {
        "orgUuid": org,
        f"{notice.kind}Id": notice.resource_id,
        "runId": notice.run_id,
        "interruptId": notice.interrupt_id,
        "url": f"{base.rstrip('/')}/studio/{page}" if base and notice.run_id else None,
        "status": notice.status,
        "decision": notice.decision,
    }


def wait_after(tries: int) -> int | None:
    """Milliseconds until the next attempt after this many have failed; None when there is none."""
    return None if tries >= MOST_TRIES else min(FIRST_WAIT * 2 ** (tries - 1), LONGEST_WAIT)
