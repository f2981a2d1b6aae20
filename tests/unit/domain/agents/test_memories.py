"""Which fields an update of a memory changes (interface, Update a memory of a scope)."""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfcore.domain.agents.memories import mask_issues, mask_paths, revised, text_hash, weights_of, words_of

OLD: tuple[str, dict[str, Any]] = ("old", {"a": 1, "b.c": {"d": 2}})

METADATA = st.dictionaries(st.text("ab.é `*", max_size=3), st.integers(0, 9), max_size=4)


def updated(mask: str | None, body: dict[str, Any]) -> tuple[Any, Any]:
    paths = mask_paths(mask, body)
    assert mask_issues(paths, body) == []
    return revised(*OLD, paths, body)


@pytest.mark.parametrize(
    ("mask", "body", "new"),
    [
        (None, {}, OLD),
        (None, {"memory": "new"}, ("new", OLD[1])),
        (None, {"metadata": {}}, ("old", {})),
        (None, {"memory": "new", "metadata": {"x": 1}, "organizationId": "o"}, ("new", {"x": 1})),
        ("memory", {"memory": "new", "metadata": {"x": 1}}, ("new", OLD[1])),
        ("metadata", {"memory": "new", "metadata": {"x": 1}}, ("old", {"x": 1})),
        ("metadata,memory", {"memory": "new", "metadata": {"x": 1}}, ("new", {"x": 1})),
        ("memory,memory", {"memory": "new"}, ("new", OLD[1])),
        ("metadata.a", {"metadata": {"a": None, "z": 1}}, ("old", {**OLD[1], "a": None})),
        ("metadata.new", {"metadata": {"new": [1]}}, ("old", {**OLD[1], "new": [1]})),
        ("metadata.b.c", {"metadata": {"b.c": 3}}, ("old", {**OLD[1], "b.c": 3})),
        ("metadata.", {"metadata": {"": 3}}, ("old", {**OLD[1], "": 3})),
        ("metadata.a,metadata", {"metadata": {"a": 2}}, ("old", {"a": 2})),
        ("metadata,metadata.a", {"metadata": {"a": 2}}, ("old", {"a": 2})),
    ],
)
def test_only_named_fields_change(mask: str | None, body: Any, new: Any) -> None:
    """A mask names the fields that are taken from the body; without a mask, all fields of the body are."""
    assert updated(mask, body) == new


@pytest.mark.parametrize(
    ("mask", "faults"),
    [
        ("", ["`` is not one of"]),
        ("*", ["`*` is not one of"]),
        ("memory, metadata", ["` metadata` is not one of"]),
        ("memory,", ["`` is not one of"]),
        ("Memory,Memory", ["`Memory` is not one of"]),
        ("memory.x", ["`memory.x` is not one of"]),
        ("id,hash,metadata", ["`id` is not one of", "`hash` is not one of"]),
        ("metadata.b", ["`metadata.b` is not in the body"]),
        ("metadata.b.c", ["`metadata.b.c` is not in the body"]),
        ("x,metadata.b,memory", ["`x` is not one of", "`metadata.b` is not in the body"]),
        ("x" * 5_000, ["`" + "x" * 100 + "` is not one of"]),
    ],
)
def test_every_wrong_path_is_an_issue(mask: str, faults: list[str]) -> None:
    """An unknown field and a field that the body does not have are malformed; all are reported."""
    body = {"memory": "m", "metadata": {"a": 1, "b ": {"c": 1}}}
    issues = mask_issues(mask_paths(mask, body), body)
    assert [(issue.path, issue.rule) for issue in issues] == [("updateMask", "query")] * len(faults)
    assert all(issue.message.startswith(fault) for issue, fault in zip(issues, faults, strict=True))


@pytest.mark.parametrize("body", [{}, {"metadata": None}, {"metadata": "a"}, {"metadata": ["a"]}])
@pytest.mark.parametrize("mask", ["memory", "metadata.a"])
def test_fields_missing_in_the_body(mask: str, body: Any) -> None:
    """A missing field is an issue, whatever values the body has."""
    assert [issue.message for issue in mask_issues(mask_paths(mask, body), body)] == [f"`{mask}` is not in the body"]


@given(METADATA, METADATA)
def test_a_mask_of_keys_merges(old: dict[str, int], new: dict[str, int]) -> None:
    """Naming every key of the new metadata is a merge; the old value is not changed in place."""
    before = dict(old)
    body = {"metadata": new}
    paths = mask_paths(",".join(f"metadata.{key}" for key in new), body) if new else []
    assert mask_issues(paths, body) == []
    assert revised("t", old, paths, body) == ("t", old | new)
    assert old == before


def test_the_hash_is_that_of_the_text() -> None:
    """SHA-256 in hexadecimal, of the text in UTF-8."""
    assert text_hash("grün") == hashlib.sha256("grün".encode()).hexdigest()
    assert text_hash("a") != text_hash("b")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Likes tea, likes TEA", {"like", "tea"}),
        ("Crème brûlée", {"creme", "brule"}),
        ("snake_case x1", {"snake", "case", "x1"}),
        ("", set()),
        ("y" * 200, {"y" * 128}),
    ],
)
def test_words(text: str, words: set[str]) -> None:
    """Words ignore case, accents and the forms of English words, and are cut to 128 characters."""
    assert words_of(text) == words


@given(st.dictionaries(st.text(max_size=3), st.integers(1, 10**9), max_size=5))
def test_weights(counts: dict[str, int]) -> None:
    """A word that more memories have does not weigh more; every word weighs something."""
    weights = weights_of(counts)
    assert weights.keys() == counts.keys()
    assert all(1 <= weight <= 1_000 for weight in weights.values())
    assert all(weights[a] >= weights[b] for a in counts for b in counts if counts[a] <= counts[b])
    assert weights_of({"a": 1, "b": 3}) == {"a": 1_000, "b": 500}
