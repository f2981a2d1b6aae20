"""What is replaced in texts and values of a service: each form of a secret, whole or cut at the end."""

import base64
import time
from urllib.parse import quote, quote_plus

import pytest
from waiting import cpu_limit

from wfcore.domain.agents.secret_masks import SecretMask
from wfcore.domain.json.codec import dumps

SECRET = 'canary/5d8f "secret"+='
TOKEN = "canary-0123456789"


def shown(text: str, *secrets: str, shortest: int = 4) -> str:
    return SecretMask.of(secrets, shortest).text(text)


def basic(pair: str) -> str:
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        dumps(SECRET)[1:-1],
        quote(SECRET),
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        base64.b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(SECRET.encode()).decode(),
    ],
)
def test_a_form_of_a_secret(form: str) -> None:
    """In texts, and in strings and keys of values."""
    mask = SecretMask.of([SECRET, "other-secret"], 4)
    assert mask.text(f"401 for {form}!") == "401 for ***!"
    assert mask.value([{form: [form, 1, None]}]) == [{"***": ["***", 1, None]}]


@pytest.mark.parametrize("scheme", ["Bearer", "Token", "api-key"])
def test_credentials_without_their_scheme(scheme: str) -> None:
    """A service names the token alone as often as the whole header."""
    assert shown(f"bad token {TOKEN} in `{scheme} {TOKEN}`", f"{scheme} {TOKEN}") == "bad token *** in `***`"


def test_a_password_of_basic_credentials() -> None:
    """As the service has read it, or the user if the password is empty."""
    assert shown(f"ada:{TOKEN} is wrong: {TOKEN}", basic(f"ada:{TOKEN}")) == "*** is wrong: ***"
    assert shown(f"ada has no password {TOKEN}", basic(f"ada:{TOKEN}")) == "ada has no password ***"
    assert shown(f"no user {TOKEN}", basic(f"{TOKEN}:")) == "no user ***"
    assert shown("Basic ***", "Basic no-base64") == "Basic ***"


def test_a_short_part_of_a_secret() -> None:
    """It can be an ordinary word."""
    assert shown("the second of two", "secret second") == "the second of two"
    assert shown("the password", basic("ada:password")) == "the ***"
    assert shown("a password", basic("ada:a")) == "a password"


@pytest.mark.parametrize("value", ["text/html, application/json", "a b c", "two  "])
def test_other_texts_with_spaces_are_one_secret(value: str) -> None:
    """A word of it is no secret."""
    for word in value.split():
        assert shown(f"{word} is read", value) == f"{word} is read"


@pytest.mark.parametrize("form", [TOKEN, base64.b64encode(TOKEN.encode()).decode().rstrip("=")[:-1]])
def test_a_secret_that_is_cut_at_the_end(form: str) -> None:
    """At least eight characters of it; fewer are part of any text, and so is what is in the middle."""
    for length in range(8, len(form) + 1):
        assert shown(f"form {form} or {form[:length]}", f"Bearer {TOKEN}") == "form *** or ***"
    assert shown(f"form {form[:7]}", TOKEN) == f"form {form[:7]}"
    assert shown(f"{form[:9]} is the beginning", TOKEN) == f"{form[:9]} is the beginning"
    assert shown("the token is missing: Bearer", f"Bearer {TOKEN}") == "the token is missing: Bearer"
    assert shown("aaaaaab aaaaaa-aaaaaaaa", "aaaaaaaa-aaaaaaaaab") == "aaaaaab aaaaaa-***"


def test_short_secrets() -> None:
    """They are kept from the given length on."""
    assert shown("a key, abc", "abc", "") == "a key, abc"
    assert shown("a key, abc", "abc", shortest=1) == "a key, ***"
    assert SecretMask.of(["abc"], 4).value({"abc": "abc"}) == {"abc": "abc"}


def test_a_text_like_the_secret_costs_linear_time() -> None:
    """The customer chooses the secret, and its service the result."""
    started, text = time.process_time(), "a" * 2_000_000
    assert SecretMask.of(["a" * 8_000 + "b"], 4).value([text]) == [text]
    assert time.process_time() - started < cpu_limit(1)


def test_a_representation_shows_no_secret() -> None:
    """Not in a traceback with the values of variables either."""
    assert TOKEN not in repr(SecretMask.of([TOKEN], 4))
