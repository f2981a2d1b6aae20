"""Which texts of a person are replaced."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfcore.domain.people.erasure import Substitution, identifies, of_member, of_texts, replaced
from wfcore.domain.people.people import Member
from wfcore.domain.resources.access import Role

TEXTS = st.text(max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def member(user_id: str = "ann", email: str | None = "ann@x.org", name: str | None = "Ann Example") -> Member:
    return Member(user_id, email, name, Role.MEMBER, frozenset())


@pytest.mark.parametrize(
    ("text", "expected"),
    [("ann", False), ("support", False), ("elevenchars", False), ("twelveletters", True), ("u-1", False),
     ("u-7f3a", True), ("Ann Example", True), ("      ", False), ("J\u00fcrgen", True)],
)  # fmt: skip
def test_what_identifies(text: str, expected: bool) -> None:
    """An ordinary or a short word does not."""
    assert identifies(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ann", "p"), ("u:ann", "u:p"), ("x:ann", "x:p"), ("ann@x.org", "p@erased.invalid"),
        ("e:ann@x.org", "e:p@erased.invalid"),
        ("ask Ann@X.org now", "ask p@erased.invalid now"), ("by ANN EXAMPLE.", "by p."), ("annex", "annex"),
        ("ann is here", "ann is here"), ("joann@x.org", "joann@x.org"), ("", ""),
    ],
)  # fmt: skip
def test_texts_of_a_member(text: str, expected: str) -> None:
    """A whole value, or an address and a full name within a text, as whole words and in any case."""
    assert of_member(member(), "p").text(text) == expected


def test_a_member_without_address_and_name() -> None:
    change = of_member(member("user-4711", None, None), "p")
    assert change.text("the user-4711 and user-47112") == "the p and user-47112"
    assert of_member(member(email=None, name="Ann"), "p").within == {}


def test_the_longest_text_wins() -> None:
    change = of_texts(["giraffe one", "giraffe one and two", "no"], "p")
    assert change.text("giraffe one and two, giraffe one, no") == "p, p, no"


@pytest.mark.parametrize("text", ["Irmak Y\u0131ld\u0131z", "\u0131rmak yildiz", "IRMAK YILDIZ"])
def test_other_letters_of_a_name(text: str) -> None:
    """In any case, `i` is also the Turkish `\u0131`, and `s` a long one: anybody can write that beside the name."""
    assert of_member(member(name="Irmak Yildiz"), "p").text(f"Irmak Yildiz, {text}!") == "p, p!"
    assert of_texts(["ab-susan"], "p").text("ab-\u017fu\u017fan") == "p"


def test_values_keep_their_structure() -> None:
    """Keys of objects are texts too; numbers are not."""
    change = of_member(member(), "p")
    assert change.value({"ann": [1, ("ann", None)], "x": {"y": "annex"}}) == {
        "p": [1, ["p", None]],
        "x": {"y": "annex"},
    }
    assert change.value(4) == 4


@given(VALUES)
def test_without_a_text_nothing_changes(value: object) -> None:
    assert replaced(value, lambda text: text) == value  # type: ignore[arg-type]
    assert Substitution({}, {}).value(value) == value  # type: ignore[arg-type]


@given(st.text(min_size=6, max_size=12).filter(lambda text: text.strip() == text and text == text.lower()), VALUES)
def test_a_row_with_something_to_replace_is_found(text: str, value: object) -> None:
    """`concerns` is never False for JSON whose texts would be replaced, with or without escapes."""
    change = Substitution({text: "p"}, {text: "p"})
    rows = [{"a": [f"x {text} y", value]}, {text: value}]
    for row in rows:
        if change.value(row) != row:
            assert change.concerns(json.dumps(row))
            assert change.concerns(json.dumps(row, ensure_ascii=False))
    assert not Substitution({}, {}).concerns("anything")
