"""Cut the power at any moment of a recorded workload, and open what the disk would then have: `make power`.

    python tests/crash/disk/power_cuts.py [--images N] [--mode FULL|NORMAL ...]

A workload runs on a SQLite file, and every write, truncation and sync of its files is recorded. An image is what a disk
can have after a power cut: all that was synced, and of the later writes any part, in units of 512 bytes, in any order.
SQLite must recover each image to the state after one of the commits, and what comes after that commit must not have
been acknowledged (FULL), or not have been synced (NORMAL). There are `--images` for each mode. From some images wfcore
goes on: every run that was accepted ends as without the cut. The exit status is 1 when an image is not as it must be.
"""

import argparse
import asyncio
import random
import shutil
import sqlite3
import sys
import tempfile
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

sys.path.append(str(Path(__file__).parents[2]))  # as the `pythonpath` of pytest

import attrs
from disk_images import Disk, Files, apply
from file_calls import Acknowledged, Call, FileCalls, Sync, Write, watched_files
from waiting import HANG

from wfcore import bootstrap, tool
from wfcore.adapters.sql.journal.journal import SqlJournal
from wfcore.adapters.sql.sqlite.database import Database
from wfcore.adapters.sql.storage import SqlStorage
from wfcore.bootstrap import Core
from wfcore.runtime.common.installation import Settings
from wfcore.runtime.common.ports import Overrides

ORG: Final = "00000000-0000-4000-8000-000000000001"
FILE: Final = "wfcore.db"
WAL: Final = f"{FILE}-wal"
FRAME_HEADER: Final = 24
"""Bytes before each page of the log; the second 4 are not 0 in the last frame of a commit (SQLite, file format, 4)."""

CHECKPOINT: Final = 40
"""Pages in the log at which a checkpoint begins: few, so that there are cuts within many of them."""

SHARES: Final = (0.0, 1.0, 0.5, 0.9, 0.1)
"""The parts of the sectors written since the last sync that reach the disk, in turn."""

NO_PROCESS: Final = 2**22 + 1
"""Greater than the id of every process."""

CLIENTS: Final = 3
GRAPH: Final[dict[str, Any]] = {
    "nodes": [
        {"id": "s", "type": "start"},
        {"id": "a", "type": "action", "data": {"toolId": "double", "params": {"n": "{{ input.n }}"}}},
        {"id": "w", "type": "humanApproval", "data": {"message": "ok?"}},
        {"id": "b", "type": "action", "data": {"toolId": "double", "params": {"n": "{{ nodes.a.output }}"}}},
    ],
    "edges": [
        {"id": "1", "source": "s", "target": "a"},
        {"id": "2", "source": "a", "target": "w"},
        {"id": "3", "source": "w", "target": "b", "sourceHandle": "approved"},
    ],
}


@tool(idempotent=True)
async def double(n: int) -> int:
    """Twice the number."""
    return 2 * n


# The workload


@attrs.frozen
class Recording:
    """The files before the workload, and the calls of SQLite since."""

    before: Files
    calls: list[Call]


class AcknowledgedJournal(SqlJournal):
    """Records which entries it has reported as durable."""

    def __init__(self, database: Database, calls: FileCalls) -> None:
        super().__init__(database)
        self._calls = calls

    async def register(self, host: str, pid: int, worker: int | None = None) -> int:
        """Register a process that does not exist: after the cut, this one takes over from it."""
        return await super().register(host, NO_PROCESS, worker)

    async def begin(self, new: Any, append: Any) -> Any:
        begun = await super().begin(new, append)
        self._calls.acknowledge(("entries", begun.ref.id, len(append.entries)))
        return begun

    async def append(self, execution: Any, append: Any) -> int | None:
        epoch = await super().append(execution, append)
        self._calls.acknowledge(("entries", execution.id, append.expected + len(append.entries)))
        return epoch


def opened(url: str, mode: Any = "FULL", **more: Any) -> Any:
    settings = Settings(synchronous=mode, grace=0, hold_for=0)
    return bootstrap.open(url, tools=[double], settings=settings, secrets=bytes(32), **more)


async def recorded(place: Path, mode: Any, runs: int) -> Recording:
    """Run the workload: clients start, approve and follow runs, and create workflows."""
    path = place / FILE
    async with opened(f"sqlite:///{path}", worker=False) as core:
        await core.directory.create_organization("Acme", id=ORG)
        me = core.principal(ORG, user="ann")
        flow = await core.workflows.create(me, name="Doubles", structure=GRAPH)
        await core.workflows.deploy(me, flow.id)
    before = {FILE: bytearray(path.read_bytes())}
    pragmas = Database._pragmas
    Database._pragmas = lambda self: (*pragmas(self), f"PRAGMA wal_autocheckpoint = {CHECKPOINT}")  # type: ignore[method-assign]
    try:
        with watched_files(place) as calls:
            database = Database(f"sqlite:///{path}", synchronous=mode)
            await database.open()
            journal = AcknowledgedJournal(database, calls)
            ports = Overrides(storage=SqlStorage(database), journal=journal)
            async with opened("sqlite://", mode, ports=ports) as core:
                await asyncio.gather(*(_client(core, flow.id, calls, range(n, runs, CLIENTS)) for n in range(CLIENTS)))
    finally:
        Database._pragmas = pragmas  # type: ignore[method-assign]
    return Recording(before, calls.made)


async def _client(core: Core, flow: int, calls: FileCalls, numbers: range) -> None:
    me = core.principal(ORG, user="ann")
    for n in numbers:
        run = await core.runs.start(me, workflow=flow, input={"n": n}, key=f"run-{n}")
        calls.acknowledge(("run", run.id))
        async for _ in await core.runs.follow(me, run.id):
            pass
        turn = await core.runs.resume(me, run.id, decision="approve")
        calls.acknowledge(("run", turn.id))
        made = await core.workflows.create(me, name=f"Flow {n}", structure=GRAPH)
        calls.acknowledge(("workflow", made.id))
        async for _ in await core.runs.follow(me, turn.id):
            pass


# The states of the database


class Broken(Exception):
    """SQLite cannot open the image, or it is damaged."""


Facts = set[tuple[Any, ...]]


def write_files(place: Path, files: Files) -> Path:
    for name in (FILE, WAL, f"{FILE}-shm", f"{FILE}-journal"):
        (place / name).unlink(missing_ok=True)
    for name, content in files.items():
        (place / name).write_bytes(content)
    return place / FILE


def state_of(path: Path) -> tuple[int, Facts]:
    """The digest of all rows, and the facts that an acknowledgement can be about. Raises Broken."""
    try:
        with closing(sqlite3.connect(path)) as connection:
            if connection.execute("PRAGMA quick_check").fetchall() != [("ok",)]:
                raise Broken("the file is damaged")
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
            digest = hash(tuple(tuple(connection.execute(f'SELECT * FROM "{name}"')) for (name,) in tables))
            facts: Facts = {("run", *row) for row in connection.execute("SELECT id FROM wfcore_runs")}
            facts |= {("workflow", *row) for row in connection.execute("SELECT id FROM wfcore_resources")}
            facts |= {("entries", *row) for row in connection.execute("SELECT execution, pos FROM wfcore_journal")}
    except sqlite3.DatabaseError as error:
        raise Broken(str(error)) from error
    return digest, facts


@attrs.define
class Commits:
    """The state after each commit of a recording: `numbers` by digest, and the first commit that has each fact."""

    numbers: dict[int, list[int]] = attrs.Factory(dict)
    first: dict[tuple[Any, ...], int] = attrs.Factory(dict)
    count: int = 0

    def add(self, digest: int, facts: Facts) -> None:
        self.numbers.setdefault(digest, []).append(self.count)
        for fact in facts:
            self.first.setdefault(fact, self.count)
        self.count += 1


def is_commit(call: Call, before: Call | None) -> bool:
    """Whether the call is the last write of a commit: the page after a header with the size of the database."""
    return (
        isinstance(call, Write)
        and isinstance(before, Write)
        and call.file == before.file == WAL
        and len(before.data) == FRAME_HEADER
        and any(before.data[4:8])
    )


def commits_of(recording: Recording, place: Path) -> Commits:
    """The states between which nothing is committed, when nothing is lost."""
    commits, before = Commits(), None
    files = {name: bytearray(content) for name, content in recording.before.items()}
    commits.add(*state_of(write_files(place, files)))
    for call in recording.calls:
        apply(files, call)
        if is_commit(call, before):
            commits.add(*state_of(write_files(place, files)))
        before = call if not isinstance(call, Acknowledged) else before
    return commits


# The cuts


@attrs.define
class Tally:
    """The numbers of images, by what became of them, and the first problems."""

    counts: Counter[str] = attrs.Factory(Counter)
    problems: list[str] = attrs.Factory(list)

    def fault(self, kind: str, text: str) -> None:
        self.counts[kind] += 1
        self.problems.append(f"{kind}: {text}")


def cut(recording: Recording, place: Path, mode: str, images: int, *, seed: int = 1, continued: int = 0) -> Tally:
    """Cut the power `images` times, evenly over the recording; wfcore goes on from `continued` of them."""
    commits, tally, chance = commits_of(recording, place), Tally(), random.Random(seed)
    disk, before, done, synced, acknowledged = Disk(recording.before), None, 0, 0, 0
    facts: Facts = set()
    per_call = images / max(1, len(recording.calls))
    for position, call in enumerate(recording.calls, 1):
        disk.move_on(call)
        done += is_commit(call, before)
        if isinstance(call, Acknowledged):
            facts.add(call.fact)
            acknowledged = max(acknowledged, commits.first[call.fact])
        else:
            before = call
        if isinstance(call, Sync) and call.file == WAL:
            synced = done
        lowest = max(synced, acknowledged) if mode == "FULL" else synced
        for number in range(int((position - 1) * per_call), int(position * per_call)):
            path = write_files(place, disk.image(chance, SHARES[number % len(SHARES)]))
            tally.counts["images"] += 1
            where = f"image {number} after call {position}"
            if _judge(path, commits, range(lowest, done + 1), tally, where):
                tally.counts["suffix lost"] += mode == "NORMAL" and _is_behind(path, commits, acknowledged)
            if continued and number % max(1, images // continued) == 0:
                asyncio.run(_go_on(path, facts if mode == "FULL" else set(), tally, where))
    return tally


def _judge(path: Path, commits: Commits, allowed: range, tally: Tally, where: str) -> bool:
    """Whether the image is in the state after one of the allowed commits."""
    try:
        digest, _ = state_of(path)
    except Broken as error:
        tally.fault("damaged", f"{where}: {error}")
        return False
    numbers = commits.numbers.get(digest, [])
    if not numbers:
        tally.fault("between commits", where)
    elif not any(number in allowed for number in numbers):
        tally.fault("lost", f"{where}: commit {numbers[-1]} of {allowed}")
    else:
        return True
    return False


def _is_behind(path: Path, commits: Commits, acknowledged: int) -> bool:
    return max(commits.numbers[state_of(path)[0]]) < acknowledged


async def _go_on(path: Path, facts: Facts, tally: Tally, where: str) -> None:
    """Open the image, approve what waits, and compare the output of every run that is there."""
    tally.counts["continued"] += 1
    async with asyncio.timeout(HANG), opened(f"sqlite:///{path}") as core:
        me = core.principal(ORG, user="ann")
        if damaged := [run async for run in core.ports.journal.damaged()]:
            tally.fault("damaged", f"{where}: journals of {damaged}")
        there = set[str]()
        for view in await core.runs.page(me, limit=100):
            there.add(view.id)
            async for _ in await core.runs.follow(me, view.id):
                pass
            last = await core.runs.get(me, view.id)
            if last.status == "interrupted" and last.row.resumed_by is None:
                last = await core.runs.resume(me, last.id, decision="approve")
                async for _ in await core.runs.follow(me, last.id):
                    pass
                last = await core.runs.get(me, last.id)
            if last.row.resumed_by is None and (last.status != "done" or last.output not in range(0, 4_000, 4)):
                tally.fault("stranded", f"{where}: {last.id} is {last.status} with {last.output}")
        if missing := {fact[1] for fact in facts if fact[0] == "run"} - there:
            tally.fault("lost", f"{where}: runs {missing}")


def main() -> int:
    parser = argparse.ArgumentParser("power", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--mode", choices=("FULL", "NORMAL"), action="append")
    options = parser.parse_args()
    modes, faults = options.mode or ["FULL", "NORMAL"], 0
    names = ("images", "continued", "suffix lost", "lost", "between commits", "damaged", "stranded")
    print(f"{'mode':<8}{'calls':>7}" + "".join(f"{name:>{len(name) + 2}}" for name in names), flush=True)
    for mode in modes:
        with tempfile.TemporaryDirectory(prefix="power-", dir=_fast_folder()) as root:
            folder, images = Path(root, "recorded"), Path(root, "image")
            folder.mkdir()
            images.mkdir()
            recording = asyncio.run(recorded(folder, mode, 30))
            tally = cut(recording, images, mode, options.images, continued=40)
        row = "".join(f"{tally.counts[name]:>{len(name) + 2}}" for name in names)
        print(f"{mode:<8}{len(recording.calls):>7}{row}", flush=True)
        for problem in tally.problems[:10]:
            print(problem)
        faults += len(tally.problems)
    return int(faults > 0)


def _fast_folder() -> str | None:
    """A folder in memory, where there is one."""
    with suppress(OSError):
        if shutil.disk_usage("/dev/shm").free > 2**28:
            return "/dev/shm"
    return None


if __name__ == "__main__":
    sys.exit(main())
