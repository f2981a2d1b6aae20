"""Caches that are bounded by what is in them."""

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from wfcore.domain.kernel.recent import Recent, cached_texts

MOST = 10
STEPS = st.lists(st.tuples(st.sampled_from(["get", "put", "drop"]), st.integers(0, 5), st.integers(1, 14)))


@given(STEPS)
def test_the_values_used_last_are_kept(steps: list[tuple[str, int, int]]) -> None:
    """As many as weigh at most so much together, and the newest, however much it weighs."""
    cache, kept = Recent[int, str](MOST), OrderedDict[int, int]()
    for what, key, weight in steps:
        if what == "put":
            cache.put(key, f"v{key}", weight)
            kept.pop(key, None)
            kept[key] = weight
            while sum(kept.values()) > MOST and len(kept) > 1:
                kept.popitem(last=False)
        elif what == "drop":
            cache.drop(key)
            kept.pop(key, None)
        else:
            assert cache.get(key) == (f"v{key}" if key in kept else None)
            if key in kept:
                kept.move_to_end(key)
        assert ({key for key in range(6) if key in cache}, len(cache)) == (set(kept), len(kept))
        assert cache.weight == sum(kept.values())


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
