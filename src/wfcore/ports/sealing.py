"""How secrets of customers are kept: encrypted under a key that the store does not have."""

from typing import Protocol


class Unsealable(Exception):
    """What was sealed cannot be read: sealed by another key, for another place, or altered."""


class Sealer(Protocol):
    """Implementers: what is sealed for one place opens in no other; keys can be replaced without losing anything."""

    def seal(self, text: str, *place: str) -> str:
        """The text as only a key holder can read it. `place` says where it belongs. `Unavailable` without a key."""
        ...

    def open(self, sealed: str, *place: str) -> str:
        """The text that was sealed for this very place. `Unsealable` when that cannot be."""
        ...

    def knows(self, sealed: str) -> bool:
        """Whether the key is here that sealed this; without a look at what is inside."""
        ...

    def mark(self, value: bytes) -> str:
        """A fingerprint that nobody without the key can try guesses against."""
        ...
