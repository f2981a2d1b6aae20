"""The files of one crash test, and the options of the processes that use them."""

from collections import Counter
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from process_roles import Spec, lines
from stores import Store

from wfcore.adapters.sql.journal.conversion import to_entry
from wfcore.domain.run.entries import Opened, Succeeded
from wfcore.runtime.execution.outcomes import address_of

SLOT = datetime(datetime.now(UTC).year, 1, 1, tzinfo=UTC)
KILLED = -9

ONCE = "charge"
"""The step that must not happen twice, whatever its outcome."""

Events = list[dict[str, Any]]


class Scenario:
    """The files and the database of one test, and the records of its processes."""

    def __init__(self, place: Path, store: Store) -> None:
        self.place = place
        self.url = store.copy(place)
        self._store = store

    def spec(self, role: str, who: str, **more: Any) -> Spec:
        return spec(self.place, self.url, role, who, **more)

    def rows(self, question: str) -> list[tuple[Any, ...]]:
        return self._store.rows(self.url, question)

    def drop(self) -> None:
        self._store.drop(self.url)

    def said(self, who: str) -> str:
        path = self.place / f"{who}.out"
        return path.read_text() if path.exists() else ""

    def acknowledged(self, who: str) -> Events:
        return lines(self.place / f"{who}.acks")

    def points(self, who: str) -> list[str]:
        """All points that a process passed, by name."""
        passed = lines(self.place / f"{who}.points")[-1]
        return [f"{kind}/{number}" for kind, most in passed.items() for number in range(1, most + 1)]

    def performed(self) -> Counter[str]:
        """How often each effect happened, by its key."""
        return Counter(key for key, *_ in lines(self.place / "log"))

    def completed(self) -> dict[str, int]:
        """The time of the outcome of each effect in the journal, by its key, in milliseconds since the Unix epoch.

        An entry can be later than its outcome was: after an entry of a process whose clock was ahead.
        """
        outcomes: dict[tuple[int, ...], list[tuple[int, str, int]]] = {}
        for run, address, at, key, then in lines(self.place / "steps"):
            outcomes.setdefault((run, *address), []).append((at, key, then))
        found = self.rows("SELECT execution, entry FROM wfcore_journal")
        done = [(run, entry) for run, text in found if isinstance(entry := to_entry(text), Succeeded | Opened)]
        latest = [max(one for one in outcomes[run, *address_of(entry)] if one[0] <= entry.at) for run, entry in done]
        return {key: then for _, key, then in latest}

    def repeated(self, suspended: Collection[str] = ()) -> list[str]:
        """The keys of effects that happened after their outcome was in the journal.

        A process that was suspended does not know that others have taken over: what it repeats does not count, unless
        it must not be repeated.
        """
        completed = self.completed()
        late = [(key, who) for key, _, at, *who in lines(self.place / "log") if at > completed.get(key, at)]
        return [key for key, who in late if ONCE in key or not {*who} & {*suspended}]

    def repeated_charges(self) -> list[str]:
        """The keys of effects that must not be repeated and happened more than once."""
        return [key for key, times in self.performed().items() if ONCE in key and times > 1]

    def runs(self) -> dict[str, str]:
        """The status of every run, by its id."""
        return dict(self.rows("SELECT id, status FROM wfcore_runs"))


def spec(place: Path, url: str, role: str, who: str, **more: Any) -> Spec:
    files = {name: str(place / f"{who}.{name}") for name in ("acks", "points")}
    shared = {name: str(place / name) for name in ("log", "steps")}
    return {"role": role, "url": url, "output": str(place / f"{who}.out"), **files, **shared, **more}
