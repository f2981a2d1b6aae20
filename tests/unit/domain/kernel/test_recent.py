"""Caches that are bounded by what is in them."""

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from wfcore.domain.kernel.recent import Recent, cached_texts

MOST = 10
STEPS = st.lists(st.tuples(st.sampled_from(["get", "put", "drop", "clear"]), st.integers(0, 5), st.integers(1, 14)))


@given(STEPS)
def test_the_values_used_last_are_kept(steps: list[tuple[str, int, int]]) -> None:
    """As many as weigh at most so much together, and the latest one that alone weighs more."""
    cache, kept, heavier = Recent[int, str](MOST), OrderedDict[int, int](), set[int]()
    for what, key, weight in steps:
        if what == "get":
            assert cache.get(key) == (f"v{key}" if key in heavier.union(kept) else None)
            if key in kept:
                kept.move_to_end(key)
            continue
        kept.pop(key, None)
        heavier -= {key}
        if what == "drop":
            cache.drop(key)
        elif what == "clear":
            cache.clear()
            kept.clear()
            heavier.clear()
        else:
            cache.put(key, f"v{key}", weight)
            if weight > MOST:
                heavier = {key}
            else:
                kept[key] = weight
            while sum(kept.values()) > MOST:
                kept.popitem(last=False)
        assert {key for key in range(6) if key in cache} == heavier.union(kept)
        assert len(cache) == len(kept) + len(heavier)
        assert cache.weight == sum(kept.values())


def test_a_value_heavier_than_all_takes_no_place_of_others() -> None:
    """They would be made anew each time that it was used, and it each time that one of them was."""
    cache, made = Recent[str, str](MOST), []
    for name in ("large", "a", "b") * 3:
        if cache.get(name) is None:
            made.append(name)
            cache.put(name, name, MOST + 1 if name == "large" else 1)
    assert made == ["large", "a", "b"]


def test_few_large_texts_are_cached() -> None:
    """A text that is not small takes none of the many places of small ones."""
    calls = []

    @cached_texts(small=3, many=4, few=1)
    def length(text: str, more: int = 0) -> int:
        calls.append(text)
        return len(text) + more

    for text in ("a", "bb", "ccc", "dddd", "a", "dddd", "eeeee", "dddd"):
        assert length(text, 1) == len(text) + 1
    assert calls == ["a", "bb", "ccc", "dddd", "eeeee", "dddd"]
