"""What is removed from a cassette, and what stays."""

import re
from typing import Any

import pytest

from wfcore.testing.redaction import Redactor

JWT = "eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.c2ln"


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({"apiKey": "k-1", "api_key": "k-2"}, {"apiKey": "***", "api_key": "***"}),
        ({"X-API-Key": "k-3"}, {"X-API-Key": "***"}),
        ({"headers": {"Authorization": "Basic dXNlcjpwYXNz"}}, {"headers": {"Authorization": "***"}}),
        ({"password": ["a", "b"], "tokens": 7}, {"password": "***", "tokens": 7}),
        ({"token": {"kind": "card", "secret": "x"}}, {"token": {"kind": "card", "secret": "***"}}),
        ({"secret": None, "password": False}, {"secret": None, "password": False}),
        ("call with Bearer abcdefgh123 now", "call with *** now"),
        ("sk-proj-0123456789abcdef and svc_0123456789abcdef_x", "*** and ***"),
        (f"it is {JWT}", "it is ***"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----", "***"),
        ('{"apiKey":"k","n":1}', '{"apiKey":"***","n":1}'),
        ('[{"a": 1}]', '[{"a": 1}]'),
        ("{not JSON, Bearer abcdefgh123}", "{not JSON, ***}"),
        ([1, 2.5, True, None, "plain"], [1, 2.5, True, None, "plain"]),
        ({"a Bearer abcdefgh123": 1}, {"a ***": 1}),
    ],
)  # fmt: skip
def test_known_secrets(given: Any, stored: Any) -> None:
    """Fields by their names, texts by their forms, also inside of a text that is JSON."""
    assert Redactor().of(given) == stored


def test_own_rules() -> None:
    """Texts, patterns and names of fields that a test suite adds; an empty text is not a rule."""
    redaction = Redactor(["ann@acme.example", re.compile(r"\d{4}-\d\d-\d\d"), ""], ["Account No"])
    given = {"to": "ann@acme.example on 2026-01-01", "accountNo": "1", "account_no": "2"}
    assert redaction.of(given) == {"to": "*** on ***", "accountNo": "***", "account_no": "***"}
