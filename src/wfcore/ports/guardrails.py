"""Checks of agents' texts before they are published or written (interface, AccessConfig: guardrails)."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import attrs

from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.json_type import JSON


@attrs.frozen
class Allowed:
    """The text passes unchanged."""


@attrs.frozen
class Replaced:
    """`text` takes the place of the checked text."""

    text: str


@attrs.frozen
class Blocked:
    """The text must not be published. `why` is shown to every reader, so it quotes nothing of the text."""

    why: str


Verdict = Allowed | Replaced | Blocked


class Guardrail(Protocol):
    """Implementers: a pure function of the text, without I/O.

    `check` is called with every complete text of an agent. Where the clients of a run can retract shown text, it is
    also called with the partial text, up to the last white space. A check that raises blocks the text.
    """

    @property
    def name(self) -> str:
        """The name by which configurations refer to it."""
        ...

    def check(self, text: str) -> Verdict:
        """What becomes of the text."""
        ...


@attrs.frozen
class GuardrailDescription:
    """A guardrail that configurations can name. `options` is the JSON Schema of its options; None without any.

    `everywhere`: it checks every agent, whether a configuration names it or not.
    """

    name: str
    description: str
    options: Mapping[str, JSON] | None = None
    everywhere: bool = False


class Guardrails(Protocol):
    """The guardrails of one installation. Access configurations and runs refer to one by its name, or by an object
    with its `name` and its options.
    """

    @property
    def everywhere(self) -> Sequence[Guardrail]:
        """Those that check every agent, whether it refers to them or not."""
        ...

    def described(self) -> Sequence[GuardrailDescription]:
        """All of them, by name."""
        ...

    def get(self, named: JSON) -> Guardrail | None:
        """The guardrail of this reference; None for an unknown name or invalid options."""
        ...

    def issues(self, named: Sequence[JSON], path: str) -> list[Issue]:
        """The errors of these references, at wire paths below `path`."""
        ...
