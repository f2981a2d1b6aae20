"""What a disk can have after a power cut: all that was synced, and any sectors of what was written since."""

import random
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from file_calls import Acknowledged, Call, Delete, Sync, Truncate, Write

SECTOR: Final = 512
"""Bytes that a disk writes as a whole."""

Files = dict[str, bytearray]
"""The contents of files, by name."""


def apply(files: Files, call: Call) -> None:
    """Change the files as the call does, completely."""
    match call:
        case Write(name, offset, data):
            content = files.setdefault(name, bytearray())
            content.extend(bytes(max(0, offset - len(content))))
            content[offset : offset + len(data)] = data
        case Truncate(name, size):
            del files.setdefault(name, bytearray())[size:]
        case Delete(name):
            files.pop(name, None)


def sectors(call: Call) -> Iterator[Call]:
    """The parts of a call of which the disk does each completely or not at all."""
    if not isinstance(call, Write):
        yield call
        return
    begin, end = call.offset, call.offset + len(call.data)
    while begin < end:
        after = min(end, (begin // SECTOR + 1) * SECTOR)
        yield Write(call.file, begin, call.data[begin - call.offset : after - call.offset])
        begin = after


class Disk:
    """What is on the disk at one moment of a recording: `safe` was synced, and `pending` was written since."""

    def __init__(self, before: Files) -> None:
        self.safe = {name: bytearray(content) for name, content in before.items()}
        self.pending: dict[str, list[Call]] = defaultdict(list)

    def move_on(self, call: Call) -> None:
        match call:
            case Acknowledged():
                pass
            case Sync(name):
                for one in self.pending.pop(name, ()):
                    apply(self.safe, one)
            case _:
                self.pending[call.file].append(call)

    def image(self, chance: random.Random, share: float) -> Files:
        """The files after a power cut now, when about this share of the pending sectors were written."""
        files = {name: bytearray(content) for name, content in self.safe.items()}
        for calls in self.pending.values():
            for call in calls:
                for part in sectors(call):
                    if chance.random() < share:
                        apply(files, part)
        return files
