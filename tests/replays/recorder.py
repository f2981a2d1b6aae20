"""Plays a scenario through the real runtime, and writes its journal as a file."""

import argparse
import asyncio
import json
import logging
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench import Bench, Toolbox
from bench import opened as open_bench
from frozen import FOLDER, Frozen, fold, pinned_in, plain
from sql_texts import statement
from waiting import HANG

from wfcore.domain.graph.structure import structure_of
from wfcore.testing.fakes import FakeClock, SequentialIds


class Recorder:
    """A database of its own for one scenario, which may be opened more than once; keeps one execution of it."""

    def __init__(self, folder: Path) -> None:
        self._url = f"sqlite:///{folder}/a.db"
        self._org: str | None = None
        self._same = {"clock": FakeClock(), "ids": SequentialIds(), "secrets": b"s" * 32}
        self.kept: Frozen | None = None

    @asynccontextmanager
    async def open(self, toolbox: Toolbox | None = None, **more: Any) -> AsyncIterator[Bench]:
        async with open_bench(self._url, toolbox, org=self._org, **self._same, **more) as bench:
            self._org = bench.org
            yield bench

    async def keep(self, bench: Bench, run: Any) -> None:
        """Freeze the execution of this run as it is now. Raises AssertionError when a fold gives anything else."""
        runs = await _rows(bench, "SELECT id FROM wfcore_runs WHERE execution = ? ORDER BY key", run.row.execution.id)
        entries = await _rows(
            bench, "SELECT entry FROM wfcore_journal WHERE execution = ? ORDER BY pos", run.row.execution.id
        )
        views = [await bench.core.runs.get(bench.me, run_id) for (run_id,) in runs]
        events = [event.to_wire() for view in views for event in await bench.core.runs.events(bench.me, view.id)]
        rows = [_row(view) for view in views]
        execution = await self._execution(bench, run)
        frozen = Frozen(execution, [], [text for (text,) in entries], [], *plain((events, {}, rows)))
        frozen.children.extend([await self._child(bench, child) for child in pinned_in(frozen.decoded())])
        folded = fold(frozen)
        assert folded.events == frozen.events, (folded.events, frozen.events)
        assert folded.runs == frozen.runs, (folded.runs, frozen.runs)
        self.kept = Frozen(
            execution, frozen.children, frozen.entries, folded.thens, folded.events, folded.state, folded.runs
        )

    async def _execution(self, bench: Bench, run: Any) -> dict[str, Any]:
        row = await bench.core.ports.journal.execution(run.row.execution)
        found = {"kind": row.kind, "resourceId": row.resource_id, "threadId": row.thread_id, "structure": None}
        if row.kind == "workflow":
            found["structure"] = await self._structure(bench, row.resource_id, row.variation_id)
        return found

    async def _child(self, bench: Bench, pinned: tuple[str, int, str]) -> dict[str, Any]:
        kind, number, variation_id = pinned
        structure = await self._structure(bench, number, variation_id) if kind == "workflow" else None
        return {"kind": kind, "resourceId": number, "variationId": variation_id, "structure": structure}

    async def _structure(self, bench: Bench, number: Any, variation_id: Any) -> Any:
        async with bench.core.ports.storage.reading(bench.org) as work:
            variation = await work.workflows.variation(number, variation_id)
        assert variation is not None
        return structure_of(variation.workflow)


async def _rows(bench: Bench, text: str, *values: Any) -> Any:
    async with bench.core.ports.storage.database.reading() as connection:  # type: ignore[attr-defined]
        return (await connection.run(statement(text), values)).fetchall()


def _row(view: Any) -> dict[str, Any]:
    row = view.row
    return {
        "id": row.id,
        "parentRunId": row.parent_run_id,
        "resumedBy": row.resumed_by,
        "createdAt": row.created_at,
        "status": str(row.status),
        "finishedAt": row.finished_at,
        "result": row.result,
        **({"retriedBy": row.retried_by} if row.retried_by else {}),
    }


async def record(name: str, folder: Path) -> Path:
    """Play the scenario and write its file. FileExistsError when there is one."""
    from all_scenarios import SCENARIOS

    path = folder / f"{name}.jsonl"
    if path.exists():
        raise FileExistsError(f"`{path.name}` is frozen: give the new scenario a name of its own")
    with tempfile.TemporaryDirectory() as place:
        recorder = Recorder(Path(place))
        await asyncio.wait_for(SCENARIOS[name](recorder), HANG)
    assert recorder.kept is not None, name
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in recorder.kept.lines())
    with path.open("x") as file:
        file.write(text)
    return path


def main() -> int:
    from all_scenarios import SCENARIOS

    logging.getLogger().addHandler(logging.NullHandler())
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=FOLDER)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    missing = [name for name in SCENARIOS if not (given.into / f"{name}.jsonl").exists()]
    failed = 0
    for name in given.names or missing:
        try:
            print(asyncio.run(record(name, given.into)))
        except FileExistsError as error:
            failed = 1
            print(f"error: {error}", file=sys.stderr)
    return failed
