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


Known = tuple[int, int | None, int, int]
"""The last entry of a journal and its checksum, None if it is not known; the last entry before its append, and its
checksum."""


class LastChecksums:
    """A cache of the last checksum of each journal, also while that entry is being written: an append that follows at
    once needs it. An entry never changes, so its checksum stays valid.
    """

    def __init__(self) -> None:
        self._known: dict[int, Known] = {}

    def get(self, execution: int, pos: int) -> int | None:
        """The checksum of the entry at this position, if it is the last one or that before its append; 0 before the
        first.
        """
        known = self._known.get(execution)
        if known is not None:
            if known[0] == pos:
                return known[1]
            if known[2] == pos:
                return known[3]
        return None if pos else 0

    def put(self, execution: int, after: int, before: int, count: int, checksum: int) -> Known | None:
        """So many entries are being written after the first `after`: the last of those has the checksum `before`, the
        last of these `checksum`.

        With two appends at the same place it is not known which one counts; one at an earlier place counts for nothing.
        """
        known = self._known.get(execution)
        if known is None or known[0] <= after:
            return self._keep(execution, (after + count, checksum, after, before))
        if known[2] == after:
            self._known[execution] = known[0], None, after, before
        return None

    def drop(self, execution: int, known: Known | None) -> None:
        """It is not known whether what `put` returned this for was written. What was before it still holds."""
        if known is not None and self._known.get(execution) is known:
            self._known[execution] = known[2:] + known[2:]

    def refuse(self, execution: int, after: int) -> None:
        """An append after the first `after` was refused: the cache can have what the database has lost."""
        known = self._known.get(execution)
        if known is not None and known[2] == after:
            del self._known[execution]

    def reach(self, execution: int, pos: int, checksum: int) -> None:
        """The journal has at least the entry at this position."""
        known = self._known.get(execution)
        if known is None or known[0] <= pos:
            self._keep(execution, (pos, checksum, pos, checksum))

    def _keep(self, execution: int, known: Known) -> Known:
        self._known[execution] = known
        if len(self._known) > CACHED:
            del self._known[next(iter(self._known))]
        return known
