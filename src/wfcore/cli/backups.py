"""Backups: a folder with the database as a SQLite file, its attachments and its secret keys.

    wfcore.db          the database, whichever it was
    wfcore.db.blobs    its attachments
    wfcore.db.key      its secret keys, one on each line: the current one and earlier ones

These are the names that wfcore itself gives to what stands beside an embedded database: a backup can be served as it
is, and a restore is a copy.
"""

import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import attrs

from wfcore.adapters.blobs import copy_blobs, fault_of, is_stored
from wfcore.adapters.sealing import id_of, keys_in, write_keys
from wfcore.adapters.sql.transfer.contents import AttachmentName, Contents, StoredSecret, contents_of, read_all
from wfcore.adapters.sql.transfer.copying import Copied, check_empty, copy
from wfcore.adapters.sql.transfer.databases import Address, opened
from wfcore.domain.kernel.errors import Conflict, Unavailable

NAME: Final = "wfcore.db"

Bar = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]
"""Makes a progress bar with a title."""


@attrs.frozen
class Installation:
    """The parts of an installation that a backup has. `shards` are further databases by name, whose organizations a
    backup has in its only one. `key` is a configured secret key, `previous` are earlier ones, `blobs` is a configured
    directory; without `key` and `blobs` an embedded database has both beside its file.
    """

    database: Address
    blobs: Path | None = None
    key: bytes | None = attrs.field(default=None, repr=False)
    shards: Mapping[str, Address] = attrs.field(factory=dict)
    previous: Sequence[bytes] = attrs.field(default=(), repr=False)

    @property
    def blobs_directory(self) -> Path | None:
        """The directory of the attachments; None when there is none."""
        return self.blobs or self._beside(".blobs")

    @property
    def key_file(self) -> Path | None:
        """The file of the secret key; None when the key is configured, and on a server."""
        return None if self.key is not None else self._beside(".key")

    @property
    def has_key(self) -> bool:
        """Whether there is a key that encrypts secrets."""
        return self.key is not None or (self.key_file is not None and self.key_file.exists())

    def secret_keys(self) -> list[bytes]:
        """The secret keys, the current one first. Raises Unavailable when the key file has no valid keys."""
        current = [] if self.key is None else [self.key]
        if (file := self.key_file) is not None and file.exists():
            try:
                current = keys_in(file)
            except ValueError as error:
                raise Unavailable(str(error)) from None
        return list(dict.fromkeys([*current, *self.previous]))

    def _beside(self, suffix: str) -> Path | None:
        file = self.database.file
        return None if file is None else file.with_name(file.name + suffix)


@attrs.frozen
class Transferred:
    """What was copied. `keys` is how many secret keys there were, `faults` are what the copy lacks, for people."""

    copied: Copied
    blobs: int
    keys: int
    faults: Sequence[str]


def back_up(of: Installation, folder: Path, bar: Bar) -> Transferred:
    """Write a backup into a new folder, while servers and workers go on. Other writers do not wait.

    Each database is read in one state; attachments are copied after it. The folder gets its name when it is complete.
    Raises Conflict when the folder exists, Unavailable when something cannot be read or written.
    """
    if folder.exists():
        raise Conflict(f"`{folder}` exists: name a new folder")
    draft = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    draft.mkdir(0o700, parents=True)
    made = _backup_in(draft)
    try:
        with bar("rows") as show:
            copied = copy(of.database, made.database, shards=of.shards, online=True, on_progress=show)
        blobs = _copy_others(of, made, bar)
        keys, needed = of.secret_keys(), _contents_of(made)
        faults = [*_not_copied(of, made, needed.attachments()), *key_faults(keys, needed.secrets())]
        draft.rename(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return Transferred(copied, blobs, len(keys), faults)


def restore(folder: Path, to: Installation, bar: Bar) -> Transferred:
    """Copy a backup into a database without rows of wfcore, with its attachments and its keys.

    The rows come last, in one transaction, so that a restore that was interrupted can be repeated.
    Raises Conflict, with nothing written, when the target has rows, not all keys of the secrets in the backup, or no
    place for attachments.
    """
    if not (folder / NAME).is_file():
        raise Unavailable(f"`{folder}` is not a backup: it has no `{NAME}`")
    backup = _backup_in(folder)
    needed = _contents_of(backup)
    _check_keys(backup, to, needed.secrets())
    check_empty(to.database)
    blobs = _copy_others(backup, to, bar)
    with bar("rows") as show:
        copied = copy(backup.database, to.database, on_progress=show)
    keys = backup.secret_keys()
    lacking = key_faults([*keys, *to.secret_keys()], needed.secrets())
    return Transferred(copied, blobs, len(keys), [*_not_copied(backup, to, needed.attachments()), *lacking])


def row_faults(of: Installation, databases: Iterable[Address], bar: Bar) -> tuple[list[str], list[str]]:
    """A line for each row, attachment and key of these databases that cannot be read, as far as the rows say; and one
    for each key that is there, with the number of rows whose secrets it decrypts.
    """
    faults, stored, keys = list[str](), list[StoredSecret](), of.secret_keys()
    for address in databases:
        with bar("rows") as show:
            needed, unreadable = read_all(address, show)
        with bar("attachments") as show:
            lacking = list(_attachment_faults(of, needed.attachments(), show))
        faults += [*unreadable, *lacking, *key_faults(keys, needed.secrets())]
        stored += needed.secrets()
    return faults, _uses_of(keys, stored)


def _uses_of(keys: Sequence[bytes], stored: Iterable[StoredSecret]) -> list[str]:
    rows, lines = Counter(secret.key_id for secret in stored), list[str]()
    for key_id in map(id_of, keys):
        if not lines:
            lines.append(f"the current key `{key_id}` encrypts the secrets of {rows[key_id]} rows")
        elif rows[key_id]:
            lines.append(
                f"an earlier key `{key_id}` encrypts those of {rows[key_id]} rows: `wfcore db reencrypt` replaces it"
            )
        else:
            lines.append(f"an earlier key `{key_id}` encrypts nothing: it can be removed")
    return lines


def _attachment_faults(
    of: Installation, needed: Sequence[AttachmentName], show: Callable[[int, int], None]
) -> Iterator[str]:
    for done, each in enumerate(needed, 1):
        if fault := fault_of(of.blobs_directory, each.org, each.key):
            yield f"{each} is {fault}"
        show(done, len(needed))


def key_faults(keys: Iterable[bytes], stored: Collection[StoredSecret]) -> list[str]:
    """A line for each secret that none of the keys decrypts."""
    own = {id_of(key) for key in keys}
    lacking = dict.fromkeys(secret for secret in stored if secret.key_id not in own)
    return [f"a secret of {one.name} was encrypted with the key `{one.key_id}`, which is missing" for one in lacking]


def _backup_in(folder: Path) -> Installation:
    return Installation(Address(f"sqlite:///{folder / NAME}"))


def _contents_of(backup: Installation) -> Contents:
    with opened(backup.database, begin="DEFERRED") as source:
        return contents_of(source)


def _not_copied(of: Installation, to: Installation, needed: Iterable[AttachmentName]) -> list[str]:
    """A line for each attachment that was not copied: what is damaged stays behind."""
    lacking = [each for each in needed if not is_stored(to.blobs_directory, each.org, each.key)]
    return [
        f"{each} is {'damaged' if is_stored(of.blobs_directory, each.org, each.key) else 'missing'}" for each in lacking
    ]


def _check_keys(backup: Installation, to: Installation, stored: Collection[StoredSecret]) -> None:
    """Raises Conflict when the target has a key of its own, and lacks one with which the backup can be read."""
    own, needed = set(to.secret_keys()), {secret.key_id for secret in stored}
    lacking = [line for line, key in enumerate(backup.secret_keys(), 1) if key not in own and id_of(key) in needed]
    if to.has_key and lacking:
        lines = ", ".join(map(str, lacking))
        raise Conflict(
            f"secrets of the backup were encrypted with keys that the target lacks: add line {lines} of "
            f"`{backup.key_file}` to `previous_secret_keys`"
        )


def _copy_others(of: Installation, to: Installation, bar: Bar) -> int:
    """Copy the attachments and the keys. What the target has already stays. Returns how many attachments it copied."""
    blobs, count = _existing(of.blobs_directory), 0
    if blobs is not None:
        if to.blobs_directory is None:
            raise Conflict("the source has attachments: set `blobs`, the directory for them")
        with bar("attachments") as show:
            count, _ = copy_blobs(blobs, to.blobs_directory, show)
    if to.key_file is not None and (keys := of.secret_keys()):
        write_keys(to.key_file, keys)
    return count


def _existing(directory: Path | None) -> Path | None:
    return directory if directory is not None and directory.is_dir() else None
