"""Encryption of customers' secrets under a key that the store does not have."""

from collections.abc import Sequence
from typing import Protocol

from wfcore.domain.kernel.errors import Unavailable


class Unsealable(Exception):
    """The sealed text cannot be decrypted: another key or another place was used, or it was altered."""


class NoSecretKey(Unavailable):
    """The installation has no key to encrypt and decrypt with."""

    is_temporary = False


class Sealer(Protocol):
    """Implementers: a text sealed for one place cannot be opened for another; keys can be rotated without loss."""

    def seal(self, text: str, *place: str) -> str:
        """Encrypt the text and bind it to `place`, the path of its owner. `NoSecretKey` without a key."""
        ...

    def open(self, sealed: str, *place: str) -> str:
        """Decrypt a text that was sealed for exactly this place. `Unsealable` when it cannot be decrypted."""
        ...

    def has_key_for(self, sealed: str) -> bool:
        """Whether this installation has the key that sealed this text. Nothing is decrypted."""
        ...

    def fingerprint(self, value: bytes) -> str:
        """A keyed digest: without the key, nobody can test guesses of the value against it."""
        ...

    def fingerprints(self, value: bytes) -> Sequence[str]:
        """The fingerprint, and those that the earlier keys have made of the value."""
        ...
