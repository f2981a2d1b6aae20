"""Checks of what agents say, before anybody is told and anything is written (interface, AccessConfig: guardrails)."""

from collections.abc import Sequence
from typing import Protocol

import attrs

from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.json_type import JSON


@attrs.frozen
class Allowed:
    """The text may be said as it is."""


@attrs.frozen
class Replaced:
    """This is to be said in its place."""

    text: str


@attrs.frozen
class Blocked:
    """It is not to be said at all. `why` is told to everybody, so it repeats nothing of the text."""

    why: str


Verdict = Allowed | Replaced | Blocked


class Guardrail(Protocol):
    """Implementers: the same text always gets the same verdict, at once and without a touch of the outside world.

    `check` is asked of every whole text that an agent says. Where a run's clients take back what they were shown, it
    is asked of the text so far, too, up to the last white space. One that raises has blocked the text.
    """

    @property
    def name(self) -> str: ...

    def check(self, text: str) -> Verdict: ...


class Guardrails(Protocol):
    """The guardrails of one installation, as access configurations and runs name them: a name, or an object with the
    `name` and the options of that guardrail.
    """

    @property
    def everywhere(self) -> Sequence[Guardrail]:
        """Those that check every agent, named or not."""
        ...

    def get(self, named: JSON) -> Guardrail | None:
        """None for one that is not there, or whose options are wrong."""
        ...

    def issues(self, named: Sequence[JSON], path: str) -> list[Issue]:
        """Why these cannot be had, at wire paths below `path`."""
        ...
