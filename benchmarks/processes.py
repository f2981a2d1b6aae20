"""Other processes of a row: a server, a worker, clients. Each starts, reports that it is ready, and is stopped.

They are forks of a process that has only imported the rows: an import of everything takes more than a second.
"""

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

Report = Callable[[Any], None]
"""Reports that the process is ready, with a value for the process that started it."""


@attrs.frozen
class Beside:
    """A process that is ready: its id, and the value that it has reported."""

    pid: int
    value: Any


@contextmanager
def beside(work: Callable[..., None], *arguments: Any) -> Iterator[Beside]:
    """`work(*arguments, report)` in a separate process until the block ends. Raises EOFError if it ends before that."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.__main__"])
    here, there = context.Pipe()
    process = context.Process(target=_run, args=(work, arguments, there), daemon=True)
    process.start()
    there.close()
    try:
        yield Beside(process.pid or 0, here.recv())
    finally:
        process.terminate()
        process.join()


def _run(work: Callable[..., None], arguments: tuple[Any, ...], parent: Any) -> None:
    work(*arguments, parent.send)


def cpu_of(pids: Iterable[int]) -> float:
    """CPU seconds of the threads of these processes, which the scheduler of Linux counts in nanoseconds."""
    found = (path.read_text() for pid in pids for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))
    return sum(int(text.split()[0]) for text in found) / 1e9
