"""Attachments as files of a local directory: one directory for each organization, one file for each key.

A file gets its name only when it is complete, and is durable before `put` returns. Names are checked, never rewritten:
an organization or key that is not a plain name is refused, and symbolic links are not followed.
"""

import asyncio
import os
import re
import secrets
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from wfcore.domain.kernel.errors import Issue, Unavailable, refuse

P = ParamSpec("P")
T = TypeVar("T")

_NAME: Final = re.compile(r"[a-z0-9_-][a-z0-9._-]{0,127}", re.ASCII)

_DIGEST: Final = 64
"""Characters of a SHA-256 in hexadecimal."""


class LocalBlobs:
    """Implements the port `Blobs` in a directory, which is created on first use. With None, `put` raises Invalid.

    Several processes can share the directory.
    """

    def __init__(self, directory: Path | None) -> None:
        self._root = directory and directory.absolute()

    async def put(self, org: str, key: str, data: bytes) -> None:
        if self._root is None:
            refuse([Issue("attachments", "this installation has no directory for them: set `blobs`", "unsupported")])
        file = self._file(org, key)
        if file is None:
            raise ValueError("the organization or the key is not a plain file name")
        await asyncio.to_thread(_or_unavailable, self._write, file, data)

    async def get(self, org: str, key: str) -> bytes | None:
        file = self._file(org, key)
        return None if file is None else await asyncio.to_thread(_or_unavailable, _found, self._read, file)

    async def size(self, org: str, key: str) -> int | None:
        file = self._file(org, key)
        return None if file is None else await asyncio.to_thread(_or_unavailable, _found, self._size, file)

    async def renew(self, org: str, key: str) -> int | None:
        file = self._file(org, key)
        return None if file is None else await asyncio.to_thread(_or_unavailable, _found, self._renew, file)

    async def stored_before(self, org: str, at: int) -> Sequence[str]:
        """By the time of the last change of each file."""
        if self._root is None or not _NAME.fullmatch(org):
            return []
        return await asyncio.to_thread(_or_unavailable, self._stored_before, self._root / org, at)

    async def delete(self, org: str, key: str) -> bool:
        file = self._file(org, key)
        return file is not None and bool(await asyncio.to_thread(_or_unavailable, _found, self._remove, file))

    def _file(self, org: str, key: str) -> Path | None:
        return _place_in(self._root, org, key)

    def _is_plain(self, file: Path) -> bool:
        """Whether the path has no symbolic link below the root directory."""
        assert self._root is not None  # noqa: S101  (a path exists only below a root)
        return file.resolve() == self._root.resolve() / file.relative_to(self._root)

    def _read(self, file: Path) -> bytes | None:
        return file.read_bytes() if self._size(file) is not None else None

    def _size(self, file: Path) -> int | None:
        if not (self._is_plain(file) and file.is_file()):
            return None
        return file.stat().st_size

    def _renew(self, file: Path) -> int | None:
        size = self._size(file)
        if size is not None:
            os.utime(file)
        return size

    def _stored_before(self, directory: Path, at: int) -> Sequence[str]:
        files = [file for file in directory.glob("*/*") if _NAME.fullmatch(file.name) and self._size(file) is not None]
        return sorted(file.name for file in files if file.stat().st_mtime_ns < at * 1_000_000)

    def _remove(self, file: Path) -> bool:
        if self._size(file) is None:
            return False
        file.unlink()
        _sync(file.parent)
        return True

    def _write(self, file: Path, data: bytes) -> None:
        _make_durable(file.parent)
        if not self._is_plain(file):
            raise OSError("the path contains a symbolic link")
        _write(file, data)


def _place_in(root: Path | None, org: str, key: str) -> Path | None:
    """The path of the content; None when the organization or the key is not a plain name."""
    if root is None or not (_NAME.fullmatch(org) and _NAME.fullmatch(key)):
        return None
    return root / org / key[:2].replace(".", "_") / key


def _found(work: Callable[[Path], T | None], file: Path) -> T | None:
    """The result of `work`; None when another call has removed the file meanwhile."""
    try:
        return work(file)
    except FileNotFoundError:
        return None


def copy_blobs(
    source: Path, target: Path, on_progress: Callable[[int, int], None] = lambda _done, _of: None
) -> tuple[int, Sequence[str]]:
    """Copy the content of all organizations into another directory, and verify it.

    What the target has already stays. A key is the SHA-256 of its content: content that differs is not copied. Returns
    how many were copied, and which are damaged, as paths. `on_progress` is called with how many were read, and how many
    there are.
    """
    files = [file for file in sorted(source.glob("*/*/*")) if _NAME.fullmatch(file.name) and file.is_file()]
    damaged = []
    for done, file in enumerate(files, 1):
        if not _or_unavailable(_copy, file, target / file.relative_to(source)):
            damaged.append(str(file))
        on_progress(done, len(files))
    return len(files) - len(damaged), damaged


def _copy(file: Path, target: Path) -> bool:
    """False, and nothing is copied, if the content is damaged."""
    data = file.read_bytes()
    if _is_damaged(file.name, data):
        return False
    if not target.exists():
        _write(target, data)
    return True


def _is_damaged(key: str, data: bytes) -> bool:
    digest = key.partition(".")[0]
    return len(digest) == _DIGEST and sha256(data).hexdigest() != digest


def is_stored(directory: Path | None, org: str, key: str) -> bool:
    """Whether there is content of this key."""
    file = _place_in(directory, org, key)
    return file is not None and file.is_file()


def fault_of(directory: Path | None, org: str, key: str) -> str | None:
    """What is wrong with the content of this key: `missing`, `damaged`, or None. Reads it."""
    file = _place_in(directory, org, key)
    data = None if file is None else _or_unavailable(_found, Path.read_bytes, file)
    if data is None:
        return "missing"
    return "damaged" if _is_damaged(key, data) else None


def _or_unavailable(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of `work`. Raises Unavailable for any OSError, such as a removed file or a full disk."""
    try:
        return work(*args, **kwargs)
    except OSError as error:
        raise Unavailable(f"the directory of attachments does not answer: {error.strerror or error}") from error


def _write(file: Path, data: bytes) -> None:
    """Write a file that is durable and complete when it has its name."""
    _make_durable(file.parent)
    draft = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    _sync(file.parent)


def _make_durable(directory: Path) -> None:
    """Create the directory and its parents; each entry is synced to disk in its parent."""
    if directory.is_dir():
        return
    _make_durable(directory.parent)
    directory.mkdir(0o700, exist_ok=True)
    _sync(directory.parent)


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
