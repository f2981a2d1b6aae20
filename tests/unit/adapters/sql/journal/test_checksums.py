"""The cache of the last checksums: an append that succeeds was chained to what the journal holds."""

from hypothesis import given
from hypothesis import strategies as st

from wfcore.adapters.sql.journal.checksums import CACHED, Known, LastChecksums

EXECUTION = 1

Append = tuple[int, int, int, int, Known | None]
"""Where it begins, the checksum before it, its own checksum, its length, and what the cache keeps of it."""


class Writers:
    """Appends to one journal, which holds the checksums of its entries."""

    def __init__(self) -> None:
        self.cache = LastChecksums()
        self.journal = list[int]()
        self.writing = list[Append]()
        self.done = list[tuple[Append, bool]]()
        self.last = 0

    def submit(self, after: int, length: int) -> None:
        before = self.cache.get(EXECUTION, after)
        if before is None:
            if after > len(self.journal):
                return  # what is not written cannot be read
            before = self.journal[after - 1]
        self.last += length  # each entry has a checksum of its own
        known = self.cache.put(EXECUTION, after, before, length, self.last)
        self.writing.append((after, before, self.last, length, known))

    def commit(self) -> None:
        for append in self.writing:
            after, before, checksum, length, _ = append
            is_next = after == len(self.journal)
            if is_next:
                assert before == (self.journal[-1] if self.journal else 0)
                self.journal += range(checksum - length + 1, checksum + 1)
            self.done.append((append, is_next))
        self.writing.clear()

    def settle(self) -> None:
        for append, is_written in self.done:
            if not is_written:
                self.cache.refuse(EXECUTION, append[0])
        self.done.clear()


STEPS = st.sampled_from(["last", "next", "commit", "settle", "read"])


@given(st.lists(st.tuples(STEPS, st.integers(1, 3)), max_size=40))
def test_an_append_continues_what_the_journal_holds(steps: list[tuple[str, int]]) -> None:
    writers = Writers()
    for step, length in steps:
        match step:
            case "last":
                writers.submit(len(writers.journal), length)
            case "next" if writers.writing:
                after, _, _, entries, _ = writers.writing[-1]
                writers.submit(after + entries, length)
            case "read" if writers.journal:
                writers.cache.reach(EXECUTION, len(writers.journal), writers.journal[-1])
            case "commit":
                writers.commit()
            case "settle":
                writers.settle()
    writers.commit()


def test_an_append_of_unknown_outcome() -> None:
    """What was before it still holds; a refused append shows that it does not."""
    cache = LastChecksums()
    known = cache.put(EXECUTION, 1, 5, 2, 6)
    cache.drop(EXECUTION, None)
    assert cache.get(EXECUTION, 3) == 6
    cache.drop(EXECUTION, known)
    assert [cache.get(EXECUTION, pos) for pos in (1, 3)] == [5, None]
    cache.drop(EXECUTION, known)
    cache.refuse(EXECUTION, 3)
    assert cache.get(EXECUTION, 1) == 5
    cache.refuse(EXECUTION, 1)
    assert cache.get(EXECUTION, 1) is None


def test_the_cache_is_bounded() -> None:
    """Whatever it learns of an execution first: a worker that claims runs has read each one before it appends."""
    cache = LastChecksums()
    for number in range(1, CACHED + 101):
        if number % 3:
            cache.reach(number, 1, number)
        cache.put(number, 1, number, 1, number)
    kept = [number for number in range(1, CACHED + 101) if cache.get(number, 2) is not None]
    assert kept == [*range(101, CACHED + 101)]
