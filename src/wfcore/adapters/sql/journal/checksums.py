"""The running checksum of a journal: of each entry with those before it, so that a changed, missing or moved entry is
detected. CRC-32 (ISO/IEC 13239) of the text, which begins with the checksum of the entry before, as a signed integer.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final
from zlib import crc32

from wfcore.adapters.sql.store import Damaged

Text = tuple[str, int]
"""An entry as JSON text, and its checksum."""

CACHED: Final = 20_000
"""Executions whose last checksum is cached."""

_SIGN: Final = 1 << 31


def following(text: bytes, before: int) -> int:
    """The checksum of an entry after one with the checksum `before`; that of the first entry comes after 0."""
    return (crc32(text, before & 0xFFFFFFFF) ^ _SIGN) - _SIGN


def chained(texts: Iterable[bytes], before: int) -> list[Text]:
    """The entries that follow on one with this checksum, each with its own."""
    found: list[Text] = []
    for text in texts:
        before = (crc32(text, before & 0xFFFFFFFF) ^ _SIGN) - _SIGN  # `following`, without a call
        found.append((text.decode(), before))
    return found


class Chain:
    """Checks the entries after the first `after`. The entry before them is read too, for its checksum."""

    def __init__(self, after: int) -> None:
        self.pos = max(after - 1, 0)
        self.checksum = 0
        self._is_known = after == 0

    def checked(self, rows: Sequence[Sequence[Any]]) -> Iterator[str]:
        """The texts of the next rows, each with position, text and checksum. Raises Damaged."""
        for pos, text, checksum in rows:
            if pos != self.pos + 1:
                raise Damaged(f"entry {self.pos + 1} is missing")
            self.pos = pos
            if not self._is_known:
                self._is_known, self.checksum = True, checksum
                continue
            self.checksum = following(text.encode(), self.checksum)
            if self.checksum != checksum:
                raise Damaged(f"the checksum of entry {pos} is wrong")
            yield text


class LastChecksums:
    """A cache of the last known checksum of each journal. An entry never changes, so it stays valid."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, int]] = {}
        self._writing: dict[tuple[int, int], int | None] = {}

    def get(self, execution: int, pos: int) -> int | None:
        """The checksum of the entry at this position, if it is the last one or is being written; 0 before the first."""
        known = self._known.get(execution)
        if known is not None and known[0] == pos:
            return known[1]
        return self._writing.get((execution, pos)) if pos else 0

    def keep(self, execution: int, before: int, texts: Sequence[Text]) -> None:
        """These entries were written after the first `before`."""
        if texts:
            self.put(execution, before + len(texts), texts[-1][1])

    def note(self, execution: int, before: int, texts: Sequence[Text]) -> tuple[int, int]:
        """These entries are being written: know the last one meanwhile, for an append that follows at once. Returns the
        place to `forget`.

        With two appends at the same place it is not known which one counts.
        """
        place = execution, before + len(texts)
        self._writing[place] = None if place in self._writing or not texts else texts[-1][1]
        return place

    def forget(self, place: tuple[int, int]) -> None:
        """They are not being written any more, whether they were written or not."""
        self._writing.pop(place, None)

    def put(self, execution: int, pos: int, checksum: int) -> None:
        if len(self._known) >= CACHED and execution not in self._known:
            del self._known[next(iter(self._known))]
        self._known[execution] = pos, checksum
