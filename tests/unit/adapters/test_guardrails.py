"""The built-in guardrails and their catalog (interface, AccessConfig: guardrails)."""

from collections.abc import Sequence
from time import process_time
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import cpu_limit

from wfcore.adapters.guardrails import WITHOUT_OPTIONS, GuardrailCatalog
from wfcore.ports.guardrails import Allowed, Blocked, Replaced, Verdict

SECRETS = [
    "sk-proj-Abc123Def456Ghi789Jkl0", "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\nMIIEow", "Bearer 7d5b3f0a9c1e4b6d8f2a", "password: hunter2!",
    "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY",
]  # fmt: skip
HARMLESS = [
    "The order 4711 of Nov 3 is on its way.", "0190a6e4-7c3b-7f00-8a52-1f2e3d4c5b6a", "token-based-authentication-flow",
    "key-performance-indicators-2024", "Kapitel-3-der-Dokumentation-zur-Installation",
    "see https://example.org/docs/Chapter/3?page=12", "the password: please ask for it", "5 @ 3 EUR, foo@bar",
]  # fmt: skip


def judged(named: Any, text: str) -> Verdict:
    guardrail = GuardrailCatalog().get(named)
    assert guardrail is not None
    return guardrail.check(text)


@pytest.mark.parametrize("secret", SECRETS)
def test_secrets_are_redacted(secret: str) -> None:
    """Texts like a key, a token or a password are replaced, the words around them are not."""
    match judged("redact-secrets", f"Take {secret} now"):
        case Replaced(text):
            assert text.startswith("Take [secret]")
            assert not any(part in text for part in secret.split() if len(part) > 9 and part != "password:")
        case other:
            raise AssertionError(other)


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_text_stays(text: str) -> None:
    """Ordinary words, numbers, ids and links are allowed."""
    assert [rail.check(text) for rail in WITHOUT_OPTIONS.values()] == [Allowed(), Allowed()]


def test_addresses_are_redacted() -> None:
    """E-mail addresses of any alphabet are replaced, but no punctuation after them."""
    text = "Write to jo.doe+x@mail.example.co.uk, or to zoë@bücher.example."
    assert judged("redact-emails", text) == Replaced("Write to [email], or to [email].")


@given(st.lists(st.sampled_from([*SECRETS, *HARMLESS, "a@b.cc", "\n", "-", "key="]), max_size=6), st.data())
def test_what_is_redacted_of_a_beginning_is_the_beginning_of_what_is_redacted(parts: list[str], data: Any) -> None:
    """Cut at white space, text is redacted as in the whole, so that what was streamed need not be taken back; only
    where white space is part of a secret may more be redacted later."""
    text = " ".join(part for part in parts if " " not in part and "\n" not in part)
    cuts = [0, *(index + 1 for index, char in enumerate(text) if char == " ")]
    cut = data.draw(st.sampled_from(cuts))
    for rail in WITHOUT_OPTIONS.values():
        whole, begun = (_text(rail.check(part), part) for part in (text, text[:cut]))
        assert whole.startswith(begun)


def _text(verdict: Verdict, text: str) -> str:
    return verdict.text if isinstance(verdict, Replaced) else text


@pytest.mark.parametrize(
    ("named", "text", "why"),
    [
        ({"name": "block-patterns", "patterns": ["(?i)project x"]}, "About Project X", "pattern 1"),
        ({"name": "block-patterns", "patterns": ["a", "b$"]}, "xb", "pattern 2"),
        ({"name": "block-patterns", "patterns": ["z"]}, "xb", None),
        (
            {"name": "block-patterns", "patterns": ["x", "[ab]*a[ab]{900}0"]},
            "ab" * 99_000,
            "pattern 2 was not searched",
        ),
        ({"name": "json-schema", "schema": {"type": "object", "required": ["ok"]}}, '{"ok": 1}', None),
        ({"name": "json-schema", "schema": {"type": "object", "required": ["ok"]}}, '{"s3cret": 1}', "`required`"),
        ({"name": "json-schema", "schema": {}}, "plain words", "not valid JSON"),
    ],
)
def test_patterns_and_schemas_block(named: Any, text: str, why: str | None) -> None:
    """The reason repeats nothing of the text."""
    match judged(named, text):
        case Blocked(reason):
            assert why is not None
            assert why in reason
            assert text not in reason
            assert "s3cret" not in reason
        case verdict:
            assert (verdict, why) == (Allowed(), None)


@pytest.mark.parametrize(
    ("named", "found"),
    [
        (["redact-emails", {"name": "redact-secrets"}], []),
        ([5], [("g[0]", "type")]),
        ([{"patterns": ["a"]}], [("g[0]", "type")]),
        (["nope", {"name": "nope2"}], [("g[0]", "reference"), ("g[1]", "reference")]),
        ([{"name": "redact-emails", "mark": "x"}], [("g[0].mark", "unknown")]),
        (["block-patterns"], [("g[0].patterns", "patterns")]),
        ([{"name": "block-patterns", "patterns": ["(", 3, "a" * 2000]}],
         [(f"g[0].patterns[{number}]", "pattern") for number in range(3)]),
        ([{"name": "block-patterns", "patterns": []}], [("g[0].patterns", "patterns")]),
        ([{"name": "json-schema"}], [("g[0].schema", "required_if")]),
        ([{"name": "json-schema", "schema": {"type": 3}}], [("g[0].schema.type", "schema")]),
        (["redact-emails"] * 21, [("g", "maxItems")]),
    ],
)  # fmt: skip
def test_issues_have_paths(named: Sequence[Any], found: list[tuple[str, str]]) -> None:
    """Every issue of every named guardrail is reported; `get` returns None for an invalid one."""
    catalog = GuardrailCatalog()
    assert [(issue.path, issue.rule) for issue in catalog.issues(named, "g")] == found
    assert [catalog.get(one) is None for one in named[:1]] == [bool(found) and found[0][0] != "g"]


@attrs.frozen
class Polite:
    name: str = "polite"

    def check(self, text: str) -> Verdict:
        return Allowed()


def test_own_guardrails_are_added_to_the_built_in_ones() -> None:
    """They check every agent and can be named; an empty or used name is refused at once."""
    catalog = GuardrailCatalog([Polite()])
    assert catalog.everywhere == (Polite(),)
    assert (catalog.get("polite"), catalog.issues(["polite"], "g")) == (Polite(), [])
    for names in (["redact-emails"], ["json-schema"], [""], ["a", "a"]):
        with pytest.raises(ValueError, match="guardrail"):
            GuardrailCatalog([Polite(name) for name in names])


def test_hostile_text_is_checked_in_linear_time() -> None:
    """A quarter of a megabyte that is slow for backtracking engines takes a moment of CPU."""
    texts = ["a" * 250_000, "a.a@" * 60_000, "eyJ" + "a" * 250_000, "://" + "a:" * 120_000]
    began = process_time()
    for text in texts:
        for rail in WITHOUT_OPTIONS.values():
            rail.check(text)
    assert process_time() - began < cpu_limit(2)
