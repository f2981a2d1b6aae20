"""Encryption of customers' secrets under a key that the store does not have.

The places to which stored secrets are bound are the functions here. Whatever stores a new kind of secret adds one, and
its rows to `wfcore.runtime.data.stored_secrets`, so that a new key can replace the old one everywhere.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from wfcore.domain.kernel.errors import Unavailable


class Unsealable(Exception):
    """The sealed text cannot be decrypted: another key or another place was used, or it was altered.

    The message continues "a secret of ...".
    """


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

    def is_current(self, sealed: str) -> bool:
        """Whether the key that encrypts now has sealed this text. Nothing is decrypted. `NoSecretKey` without a key."""
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


Place = tuple[str, ...]

CLIENT: Final = "client"
"""The place of the client of an MCP server, beside those of the fields of its connection."""


def place_in_connection(org: str, connection_id: str, field: str) -> Place:
    """The place of a secret field of a connection, or of its `CLIENT`."""
    return org, connection_id, field


def place_of_tokens(org: str, connection_id: str, user_id: str) -> Place:
    """The place of the tokens that a user, or with "" the organization, was granted for a connection."""
    return org, connection_id, user_id, "tokens"


def place_of_hook(org: str, hook_id: str) -> Place:
    """The place of the secrets of a hook, earlier ones included."""
    return org, "hook", hook_id


def place_of_interface(org: str, interface_id: str) -> Place:
    """The place of the secret of an interface."""
    return org, "interface", interface_id


def place_of_webhook(org: str, workflow_id: int) -> Place:
    """The place of the id and the secret of a workflow's webhook."""
    return org, "webhook", str(workflow_id)
