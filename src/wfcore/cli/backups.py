"""Backups: a folder with the database as a SQLite file, its attachments and its secret key.

    wfcore.db          the database, whichever it was
    wfcore.db.blobs    its attachments
    wfcore.db.key      its secret key

These are the names that wfcore itself gives to what stands beside an embedded database: a backup can be served as it
is, and a restore is a copy.
"""

import base64
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import attrs

from wfcore.adapters.blobs import copy_blobs
from wfcore.adapters.sealing import decode_key
from wfcore.adapters.sql.transfer.copying import Copied, copy
from wfcore.adapters.sql.transfer.databases import Address
from wfcore.domain.kernel.errors import Conflict, Unavailable

NAME: Final = "wfcore.db"

Bar = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]
"""Makes a progress bar with a title."""


@attrs.frozen
class Installation:
    """The parts of an installation that a backup has. `shards` are further databases by name, whose organizations a
    backup has in its only one. `key` is a configured secret key, `blobs` a configured directory; without them an
    embedded database has both beside its file.
    """

    database: Address
    blobs: Path | None = None
    key: bytes | None = attrs.field(default=None, repr=False)
    shards: Mapping[str, Address] = attrs.field(factory=dict)

    @property
    def blobs_directory(self) -> Path | None:
        """The directory of the attachments; None when there is none."""
        return self.blobs or self._beside(".blobs")

    @property
    def key_file(self) -> Path | None:
        """The file of the secret key; None when the key is configured, and on a server."""
        return None if self.key is not None else self._beside(".key")

    def secret_key(self) -> bytes | None:
        """The secret key; None when there is none yet."""
        file = self.key_file
        if file is None or not file.exists():
            return self.key
        return decode_key(file.read_text("ascii", "replace").strip(), str(file))

    def _beside(self, suffix: str) -> Path | None:
        file = self.database.file
        return None if file is None else file.with_name(file.name + suffix)


@attrs.frozen
class Transferred:
    """What was copied. `has_key` is whether there was a secret key."""

    copied: Copied
    blobs: int
    has_key: bool


def back_up(of: Installation, folder: Path, bar: Bar) -> Transferred:
    """Write a backup into a new folder, while servers and workers go on. Other writers do not wait.

    Each database is read in one state; attachments are copied after it. The folder gets its name when it is complete.
    Raises Conflict when the folder exists, Unavailable when something cannot be read or written.
    """
    if folder.exists():
        raise Conflict(f"`{folder}` exists: name a new folder")
    draft = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    draft.mkdir(0o700, parents=True)
    try:
        made = _transfer(of, Installation(Address(f"sqlite:///{draft / NAME}")), bar, online=True)
        draft.rename(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return made


def restore(folder: Path, to: Installation, bar: Bar) -> Transferred:
    """Copy a backup into a database without rows of wfcore, with its attachments and its key.

    Raises Conflict, with nothing written, when the target has rows, another secret key, or no place for attachments.
    """
    if not (folder / NAME).is_file():
        raise Unavailable(f"`{folder}` is not a backup: it has no `{NAME}`")
    return _transfer(Installation(Address(f"sqlite:///{folder / NAME}")), to, bar, online=False)


def _transfer(of: Installation, to: Installation, bar: Bar, *, online: bool) -> Transferred:
    key, blobs = of.secret_key(), _existing(of.blobs_directory)
    if to.secret_key() not in (None, key):
        raise Conflict("the secret key is not that of the source: connections could not be read")
    if blobs is not None and to.blobs_directory is None:
        raise Conflict("the source has attachments: set `blobs`, the directory for them")
    with bar("rows") as show:
        copied = copy(of.database, to.database, shards=of.shards, online=online, on_progress=show)
    count = 0
    if blobs is not None and to.blobs_directory is not None:
        with bar("attachments") as show:
            count = copy_blobs(blobs, to.blobs_directory, show)
    if key is not None and to.key_file is not None and not to.key_file.exists():
        _write_key(to.key_file, key)
    return Transferred(copied, count, key is not None)


def _existing(directory: Path | None) -> Path | None:
    return directory if directory is not None and directory.is_dir() else None


def _write_key(file: Path, key: bytes) -> None:
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as out:
        out.write(base64.urlsafe_b64encode(key) + b"\n")
        out.flush()
        os.fsync(out.fileno())
