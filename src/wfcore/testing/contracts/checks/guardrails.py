"""The contract of guardrails, as a suite to inherit.

class TestMine(GuardrailContract):
    def make_guardrail(self) -> Guardrail:
        return Mine()
"""

from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from wfcore.ports.guardrails import Allowed, Blocked, Guardrail, Replaced

CANARY: Final = "canary-7c21"
TEXTS: Final = (
    "", " ", "a", "two words", "line\nbreaks\r\n\u2028", "Grüße 😀 ٣", '{"json": [1, null]}', "ann@acme.example",
    "sk-live-4711abcdEFGH9876zyxw", CANARY, f"{CANARY}@acme.example {CANARY}", "\x00\x1b[2J", "long " * 5_000,
)  # fmt: skip


class GuardrailContract:
    """Inherit, name the class `Test...`, and write `make_guardrail`."""

    @abstractmethod
    def make_guardrail(self) -> Guardrail:
        """A new guardrail."""

    def test_it_has_a_name(self) -> None:
        """The same each time, without spaces: configurations and records refer to it."""
        names = [self.make_guardrail().name for _ in range(2)]
        assert names[0] == names[1]
        assert names[0]
        assert names[0].split() == [names[0]]

    @pytest.mark.parametrize("text", TEXTS, ids=lambda text: repr(text[:12]))
    def test_every_text_has_a_verdict(self, text: str) -> None:
        """Always the same one, whatever was checked before."""
        guardrail = self.make_guardrail()
        first = guardrail.check(text)
        assert isinstance(first, Allowed | Replaced | Blocked)
        for other in TEXTS:
            guardrail.check(other)
        assert guardrail.check(text) == self.make_guardrail().check(text) == first

    def test_a_reason_quotes_nothing(self) -> None:
        """`why` has nothing of the blocked text, because every reader of the run sees it."""
        verdicts = [self.make_guardrail().check(text) for text in TEXTS]
        assert [verdict for verdict in verdicts if isinstance(verdict, Blocked) and CANARY in verdict.why] == []

    def test_checks_at_once(self) -> None:
        """Threads that check at the same time get the verdicts of one after the other."""
        guardrail = self.make_guardrail()
        expected = [self.make_guardrail().check(text) for text in TEXTS]
        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(guardrail.check, TEXTS * 8)) == expected * 8
