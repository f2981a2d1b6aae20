"""Stems of English words, compared with those of another implementation."""

import re
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfcore.domain.agents.stems import stem

PAPER = {
    "caresses": "caress", "ponies": "poni", "caress": "caress", "cats": "cat", "feed": "feed", "agreed": "agre",
    "plastered": "plaster", "bled": "bled", "motoring": "motor", "sing": "sing", "conflated": "conflat",
    "troubled": "troubl", "sized": "size", "hopping": "hop", "falling": "fall", "hissing": "hiss", "failing": "fail",
    "filing": "file", "happy": "happi", "sky": "sky", "relational": "relat", "conditional": "condit",
    "rational": "ration", "digitizer": "digit", "operator": "oper", "decisiveness": "decis", "sensibiliti": "sensibl",
    "triplicate": "triplic", "formative": "form", "hopeful": "hope", "goodness": "good", "revival": "reviv",
    "allowance": "allow", "adoption": "adopt", "communism": "commun", "probate": "probat", "rate": "rate",
    "cease": "ceas", "controll": "control", "roll": "roll", "technology": "technolog", "possibly": "possibl",
    "syzygy": "syzygi", "mixed": "mix", "is": "is", "by": "by",
}  # fmt: skip
"""Examples of the paper, and of the changes after it."""


@pytest.mark.parametrize(("word", "expected"), PAPER.items())
def test_examples(word: str, expected: str) -> None:
    assert stem(word) == expected


@pytest.mark.parametrize("word", ["grun", "чаи", "東京", "a1s", "x2ing", "it", ""])
def test_what_is_not_of_english_letters_is_kept(word: str) -> None:
    """Also words of fewer than three letters."""
    assert stem(word) == word


def test_the_words_of_the_documentation() -> None:
    """SQLite FTS5 has its own implementation of the same algorithm."""
    texts = [file.read_text() for file in (Path(__file__).parents[4] / "docs").rglob("*.md")]
    words = sorted({word for text in texts for word in re.findall("[a-z]{4,}", text.lower())})
    assert len(words) > 2_000
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE VIRTUAL TABLE t USING fts5(x, tokenize = 'porter')")
        connection.execute("CREATE VIRTUAL TABLE v USING fts5vocab(t, 'instance')")
        connection.executemany("INSERT INTO t (rowid, x) VALUES (?, ?)", list(enumerate(words)))
        expected = {words[place]: term for term, place in connection.execute("SELECT term, doc FROM v")}
    connection.close()
    assert {word: stem(word) for word in words} == expected


@given(st.from_regex("[a-z]{3,12}", fullmatch=True))
def test_any_word_has_a_stem(word: str) -> None:
    """It is not longer than the word by more than a restored `e`, and begins as the word does."""
    found = stem(word)
    assert found[:1] in (word[0], "")
    assert len(found) <= len(word) + 1
