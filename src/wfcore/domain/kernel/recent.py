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
    """The values used last, as many as weigh at most `most` together; besides, the latest one that alone is heavier.

    For one event loop. A heavier one does not take the place of others: they would, when they return, take its own.
    """

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._heavier: dict[K, V] = {}
        self.weight = 0
        """That of all but the heavier one."""

    def __len__(self) -> int:
        return len(self._kept) + len(self._heavier)

    def __contains__(self, key: K) -> bool:
        return key in self._kept or key in self._heavier

    def get(self, key: K) -> V | None:
        found = self._kept.get(key)
        if found is None:
            return self._heavier.get(key)
        self._kept.move_to_end(key)
        return found[0]

    def put(self, key: K, value: V, weight: int = 1) -> None:
        self.drop(key)
        if weight > self._most:
            self._heavier = {key: value}
            return
        self._kept[key] = value, weight
        self.weight += weight
        while self.weight > self._most:
            self.drop(next(iter(self._kept)))

    def drop(self, key: K) -> None:
        """Without effect for a key that is not there."""
        _, weight = self._kept.pop(key, (None, 0))
        self.weight -= weight
        self._heavier.pop(key, None)

    def clear(self) -> None:
        self._kept.clear()
        self._heavier.clear()
        self.weight = 0


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
