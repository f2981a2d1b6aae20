"""The secret key of an embedded database, kept in a file beside it."""

import base64
import os
import secrets
from pathlib import Path

from wfcore.settings import KEY_BYTES, decode_key


def key_beside(database: Path | None) -> bytes:
    """The key in `<database>.key`, made now when there is none; a passing one for a database in memory.

    However many processes begin at once, all get the same key, and none a half-written one: the file is complete
    before it has its name, and the name can be given once. Raises BadSettings when the file holds no key.
    """
    if database is None:
        return secrets.token_bytes(KEY_BYTES)
    file = database.with_name(database.name + ".key")
    if not file.exists():
        _make(file)
    return decode_key(file.read_text("ascii", "replace").strip(), str(file))


def _make(file: Path) -> None:
    draft = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(base64.urlsafe_b64encode(secrets.token_bytes(KEY_BYTES)) + b"\n")
            out.flush()
            os.fsync(out.fileno())
        try:
            os.link(draft, file)
        except FileExistsError:
            return
    finally:
        draft.unlink()
