"""The servers that a user has signed in to: their tokens, in a file that only the user can read."""

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

import attrs
from cyclopts import CycloptsError

from wfcore.domain.kernel.json_readers import as_object, as_text, optional_object, optional_text
from wfcore.domain.kernel.json_type import JSON


@attrs.frozen
class Credentials:
    """Tokens by the address of their server. `current` is the server of commands that name none."""

    current: str | None = None
    tokens: Mapping[str, str] = attrs.field(factory=dict, repr=False)

    def added(self, server: str, token: str) -> "Credentials":
        return Credentials(server, {**self.tokens, server: token})

    def without(self, server: str) -> "Credentials":
        rest = {address: token for address, token in self.tokens.items() if address != server}
        return Credentials(None if self.current == server else self.current, rest)


def location() -> Path:
    """`wfcore/credentials.json` in the user's directory of configurations (XDG Base Directory)."""
    base = os.environ.get("XDG_CONFIG_HOME") or ""
    return (Path(base) if base.startswith("/") else Path.home() / ".config") / "wfcore" / "credentials.json"


def read_credentials() -> Credentials:
    """The stored credentials. Raises CycloptsError for a file that others can read, or that is damaged."""
    file = location()
    if not file.exists():
        return Credentials()
    if file.stat().st_mode & 0o077:
        raise CycloptsError(msg=f"`{file}` can be read by others: run `chmod 600 {file}`")
    try:
        tree = as_object(json.loads(file.read_bytes()))
        tokens = {server: as_text(token) for server, token in (optional_object(tree.get("tokens")) or {}).items()}
        return Credentials(optional_text(tree.get("current")), tokens)
    except (ValueError, TypeError):
        raise CycloptsError(msg=f"`{file}` is damaged: remove it, and run `wfcore login`") from None


def write_credentials(credentials: Credentials) -> Path:
    """Replace the file; it is never readable by others, and never half written."""
    file = location()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    tree: dict[str, JSON] = {"current": credentials.current, "tokens": dict(credentials.tokens)}
    other = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(other, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
        stream.write(json.dumps(tree, indent=2) + "\n")
    other.replace(file)
    return file


def address_of(server: str) -> str:
    """The address of a server in the form that names its token. Raises CycloptsError for another text."""
    address = server.strip().rstrip("/")
    if not address.lower().startswith(("http://", "https://")) or any(c.isspace() for c in address):
        raise CycloptsError(msg=f"`{server}` is not an address such as https://flows.example.org")
    return address
