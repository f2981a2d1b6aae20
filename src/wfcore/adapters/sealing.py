"""Encryption of secrets with AES-256-GCM, and the key file beside an embedded database.

A sealed text is `1.<key id>.<nonce and ciphertext in base64url>`. Its place is authenticated with it, so that it
cannot be opened in another row or field. The secret key also signs page tokens, so each use has a derived key.
"""

import base64
import binascii
import hashlib
import hmac
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from wfcore.addresses import address_of
from wfcore.domain.kernel.errors import Unavailable
from wfcore.extras import needs_extra
from wfcore.ports.sealing import NoSecretKey, Unsealable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12


class Sealing:
    """Implements the port `Sealer`. `keys` is called on first use: its first key seals, every key opens.

    It can create the first key. While `exist` returns False it is not called to open a text, which a new key cannot.
    """

    def __init__(self, keys: Callable[[], Sequence[bytes]], exist: Callable[[], bool] = lambda: True) -> None:
        self._load = keys
        self._exist = exist

    @cached_property
    def _secrets(self) -> Sequence[bytes]:
        if not (found := self._load()):
            raise NoSecretKey("no secret key is configured: set `secret_key`")
        return found

    @cached_property
    def _ciphers(self) -> "dict[str, AESGCM]":
        with needs_extra("secrets", "the encryption of secrets"):
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        keys = reversed(self._secrets)  # when two keys have one id, the first key wins
        return {id_of(key): AESGCM(_derived(key, "sealing")) for key in keys}

    @property
    def _existing(self) -> "Mapping[str, AESGCM]":
        return self._ciphers if "_secrets" in vars(self) or self._exist() else {}

    def seal(self, text: str, *place: str) -> str:
        name, nonce = id_of(self._secrets[0]), os.urandom(NONCE_BYTES)
        sealed = nonce + self._ciphers[name].encrypt(nonce, text.encode(), msgspec.json.encode(place))
        return f"1.{name}.{base64.urlsafe_b64encode(sealed).decode()}"

    def open(self, sealed: str, *place: str) -> str:
        with needs_extra("secrets", "the encryption of secrets"):
            from cryptography.exceptions import InvalidTag

        name = _key_id(sealed)
        cipher = self._existing.get(name)
        if cipher is None:
            raise Unsealable(f"was encrypted with the key `{name}`, which is missing" if name else "was altered")
        try:
            raw = base64.b64decode(sealed.rpartition(".")[2], altchars=b"-_", validate=True)
            return cipher.decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], msgspec.json.encode(place)).decode()
        except (InvalidTag, ValueError):
            raise Unsealable("was altered, or encrypted for another place") from None

    def is_current(self, sealed: str) -> bool:
        return bool(self._existing) and _key_id(sealed) == id_of(self._secrets[0])

    def has_key_for(self, sealed: str) -> bool:
        try:
            return _key_id(sealed) in self._existing
        except Unavailable:
            return False

    def fingerprint(self, value: bytes) -> str:
        return self.fingerprints(value)[0]

    def fingerprints(self, value: bytes) -> Sequence[str]:
        return [hmac.digest(_derived(key, "marks"), value, hashlib.sha256).hex() for key in self._secrets]


def id_of(secret: bytes) -> str:
    """The key id, which sealed texts name."""
    return _derived(secret, "key id")[:8].hex()


def _derived(secret: bytes, purpose: str) -> bytes:
    return hmac.digest(secret, f"wfcore {purpose} 1".encode(), hashlib.sha256)


def _key_id(sealed: str) -> str:
    version, _, rest = sealed.partition(".")
    return rest.partition(".")[0] if version == "1" else ""


def decode_key(text: str, where: str) -> bytes:
    """32 bytes from base64url, padded or not. The message of its ValueError does not show the text, a likely secret."""
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise ValueError(f"`{where}` must be {KEY_BYTES} bytes in base64url")
    return key


def file_of(database: str) -> Path | None:
    """The file of an embedded database; None for one in memory, and for a URL that does not name a file."""
    database = address_of(database)
    path = database.removeprefix("sqlite:///")
    return None if path in (database, "", ":memory:") or "?" in path else Path(path)


def keys_beside(database: Path | None) -> list[bytes]:
    """The keys in `<database>.key`, which is created if missing; a temporary key for a database in memory.

    Processes that start at the same time all get the same, complete key: the file is complete before it gets its
    name, and only one process can create the name. Raises ValueError when the file does not hold a key.
    """
    if database is None:
        return [secrets.token_bytes(KEY_BYTES)]
    file = key_file(database)
    if not file.exists():
        write_keys(file, [secrets.token_bytes(KEY_BYTES)])
    return keys_in(file)


def key_file(database: Path) -> Path:
    return database.with_name(database.name + ".key")


def keys_in(file: Path) -> list[bytes]:
    """The keys of a key file, one on each line: the first seals, the others are earlier ones. At least one."""
    lines = file.read_text("ascii", "replace").split() or [""]
    return [decode_key(line, str(file)) for line in lines]


def write_keys(file: Path, keys: Sequence[bytes]) -> None:
    """Write a key file, durably; keeps a file that exists."""
    draft = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as out:
            out.writelines(base64.urlsafe_b64encode(key) + b"\n" for key in keys)
            out.flush()
            os.fsync(out.fileno())
        try:
            os.link(draft, file)
        except FileExistsError:
            return
    finally:
        draft.unlink()
