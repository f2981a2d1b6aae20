"""Stems of English words: M. F. Porter, "An algorithm for suffix stripping", 1980, with his later changes.

The tokenizer `porter` of SQLite FTS5 gives the same stems.
It needs no dictionary, and makes `refunds`, `refunded` and `refunding` one word. Words of other languages and scripts
are changed in the same way on both sides of a search, or not at all.
"""

import re
from functools import lru_cache
from typing import Final

_ENGLISH: Final = re.compile("[a-z]{3,64}")

_SECOND: Final = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble", "logi": "log",
}  # fmt: skip
_THIRD: Final = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_FOURTH: Final = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
)  # fmt: skip


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """The stem of a word in lower case; a word that is not of 3 to 64 letters from a to z is its own stem."""
    if not _ENGLISH.fullmatch(word):
        return word
    word = _plural(word)
    word = _past(word)
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    word = _replaced(word, _SECOND)
    word = _replaced(word, _THIRD)
    return _without_e(_without_suffix(word))


def _plural(word: str) -> str:
    """Step 1a: `caresses`, `ponies`, `cats`."""
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past(word: str) -> str:
    """Step 1b: `agreed`, `plastered`, `motoring`; a letter is restored where that is regular."""
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    ending = next((end for end in ("ed", "ing") if word.endswith(end)), "")
    rest = word[: len(word) - len(ending)]
    if not ending or not _has_vowel(rest):
        return word
    if rest.endswith(("at", "bl", "iz")):
        return rest + "e"
    if _is_double(rest) and rest[-1] not in "lsz":
        return rest[:-1]
    return rest + "e" if _measure(rest) == 1 and _is_short(rest) else rest


def _replaced(word: str, endings: dict[str, str]) -> str:
    """Steps 2 and 3: the longest ending is replaced, if what is before it has a measure above 0."""
    for ending in sorted(endings, key=len, reverse=True):
        if word.endswith(ending):
            rest = word[: -len(ending)]
            return rest + endings[ending] if _measure(rest) > 0 else word
    return word


def _without_suffix(word: str) -> str:
    """Step 4: the longest suffix goes, if what is before it has a measure above 1."""
    for ending in sorted(_FOURTH, key=len, reverse=True):
        if word.endswith(ending):
            rest = word[: -len(ending)]
            is_regular = _measure(rest) > 1 and (ending != "ion" or rest.endswith(("s", "t")))
            return rest if is_regular else word
    return word


def _without_e(word: str) -> str:
    """Step 5: a final `e`, and one of two final `l`."""
    if word.endswith("e"):
        rest = word[:-1]
        measure = _measure(rest)
        if measure > 1 or (measure == 1 and not _is_short(rest)):
            word = rest
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


def _shape(word: str) -> str:
    """`c` for each consonant and `v` for each vowel; `y` is a vowel after a consonant."""
    shape = ""
    for letter in word:
        is_vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if is_vowel else "c"
    return shape


def _measure(word: str) -> int:
    """How many times a consonant follows a vowel: the m of the paper."""
    return _shape(word).count("vc")


def _has_vowel(word: str) -> bool:
    return "v" in _shape(word)


def _is_double(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _shape(word).endswith("c")


def _is_short(word: str) -> bool:
    """Whether it ends with consonant, vowel, consonant, and the last is not `w`, `x` or `y`: the *o of the paper."""
    return _shape(word).endswith("cvc") and word[-1] not in "wxy"
