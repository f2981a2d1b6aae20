"""Attachments as files of a local directory: one directory for each organization, one file for each key.

A file is complete before it has its name, and durable before `put` returns. Names are checked, not cleaned: what is no
plain name is no key, and nothing is followed that leads elsewhere.
"""

import asyncio
import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from wfcore.domain.kernel.errors import Unavailable

P = ParamSpec("P")
T = TypeVar("T")

_NAME: Final = re.compile(r"[a-z0-9_-][a-z0-9._-]{0,127}", re.ASCII)


class LocalBlobs:
    """`wfcore.ports.blobs.Blobs` in a directory, made when first needed; with None, nothing can be kept.

    Several processes may share the directory.
    """

    def __init__(self, directory: Path | None) -> None:
        self._root = directory and directory.absolute()

    async def put(self, org: str, key: str, data: bytes) -> None:
        if self._root is None:
            raise Unavailable("no directory for attachments is configured")
        file = self._file(org, key)
        if file is None:
            raise ValueError("this is no organization, or no key")
        await asyncio.to_thread(_answering, self._write, file, data)

    async def get(self, org: str, key: str) -> bytes | None:
        file = self._file(org, key)
        return None if file is None else await asyncio.to_thread(_answering, self._read, file)

    async def size(self, org: str, key: str) -> int | None:
        file = self._file(org, key)
        return None if file is None else await asyncio.to_thread(_answering, self._size, file)

    async def delete(self, org: str, key: str) -> bool:
        file = self._file(org, key)
        return file is not None and await asyncio.to_thread(_answering, self._remove, file)

    def _file(self, org: str, key: str) -> Path | None:
        """Where the content is or will be; None for what is no name."""
        if self._root is None or not (_NAME.fullmatch(org) and _NAME.fullmatch(key)):
            return None
        return self._root / org / key[:2].replace(".", "_") / key

    def _is_plain(self, file: Path) -> bool:
        """Whether the file would be where its name says: no link leads from the directory to somewhere else."""
        assert self._root is not None  # noqa: S101  (there is a file)
        return file.resolve() == self._root.resolve() / file.relative_to(self._root)

    def _read(self, file: Path) -> bytes | None:
        return file.read_bytes() if self._size(file) is not None else None

    def _size(self, file: Path) -> int | None:
        if not (self._is_plain(file) and file.is_file()):
            return None
        return file.stat().st_size

    def _remove(self, file: Path) -> bool:
        if self._size(file) is None:
            return False
        file.unlink()
        _sync(file.parent)
        return True

    def _write(self, file: Path, data: bytes) -> None:
        _make(file.parent)
        if not self._is_plain(file):
            raise OSError("a link stands in the way")
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


def _answering(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What came of the work. A file that went away meanwhile, or a full disk, is the store's not answering."""
    try:
        return work(*args, **kwargs)
    except OSError as error:
        raise Unavailable("the directory of attachments does not answer") from error


def _make(directory: Path) -> None:
    """Make the directory and those above it, each durable in the one around it."""
    if directory.is_dir():
        return
    _make(directory.parent)
    directory.mkdir(0o700, exist_ok=True)
    _sync(directory.parent)


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
