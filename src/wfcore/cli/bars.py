"""Progress bars with the time left, on a terminal."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

PATIENCE: Final = 2.0
"""Seconds until a bar is shown: what is over sooner needs none."""


@contextmanager
def bar(title: str, console: Console | None = None) -> Iterator[Callable[[int, int | None], None]]:
    """A function that shows how many of all are done; None if it is not known how many there are.

    It shows nothing where stderr is not a terminal.
    """
    console = console or Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    shown = Progress(*columns, console=console, transient=True)
    task = shown.add_task(title, total=None)
    timer = threading.Timer(PATIENCE, shown.start)
    timer.daemon = True
    if console.is_terminal:
        timer.start()
    try:
        yield lambda done, total: shown.update(task, completed=done, total=total)
    finally:
        timer.cancel()
        if shown.live.is_started:
            shown.stop()


@contextmanager
def counting(title: str, total: int) -> Iterator[Callable[[], None]]:
    """A function that shows one more of `total` as done."""
    numbers = count(1)
    with bar(title) as show:
        yield lambda: show(next(numbers), total)
