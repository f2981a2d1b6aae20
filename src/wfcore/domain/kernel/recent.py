"""Caches that are bounded by what is in them: customers decide how large it is."""

from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Concatenate, Final, Generic, ParamSpec, TypeVar

K = TypeVar("K")
V = TypeVar("V")
P = ParamSpec("P")
R = TypeVar("R")


class Recent(Generic[K, V]):
    """The values used last, as many as weigh at most `most` together; the newest is always kept. For one event loop."""

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.weight = 0

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: K) -> bool:
        return key in self._kept

    def get(self, key: K) -> V | None:
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def put(self, key: K, value: V, weight: int = 1) -> None:
        self.drop(key)
        self._kept[key] = value, weight
        self.weight += weight
        while self.weight > self._most and len(self) > 1:
            self.drop(next(iter(self._kept)))

    def drop(self, key: K) -> None:
        """Without effect for a key that is not there."""
        _, weight = self._kept.pop(key, (None, 0))
        self.weight -= weight


def cached_texts(
    *, small: int, many: int, few: int
) -> Callable[[Callable[Concatenate[str, P], R]], Callable[Concatenate[str, P], R]]:
    """A decorator that caches the results for the texts used last: for `many` of at most `small` characters, and for
    `few` others.
    """

    def decorate(function: Callable[Concatenate[str, P], R]) -> Callable[Concatenate[str, P], R]:
        of_small, of_large = lru_cache(many)(function), lru_cache(few)(function)

        @wraps(function)
        def cached(text: str, /, *args: P.args, **kwargs: P.kwargs) -> R:
            found = of_small if len(text) <= small else of_large
            return found(text, *args, **kwargs)  # type: ignore[arg-type]  # of mypy, arguments need not be hashable

        return cached

    return decorate
