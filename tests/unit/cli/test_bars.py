"""Progress bars."""

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from wfcore.cli import bars


class Now:
    """A timer that fires at once."""

    daemon = False

    def __init__(self, seconds: float, function: Callable[[], None]) -> None:
        assert seconds == bars.PATIENCE
        self.start = function

    def cancel(self) -> None: ...


def test_a_bar_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal, after some time, with how many there are."""
    monkeypatch.setattr("threading.Timer", Now)
    written = io.StringIO()
    with bars.bar("checking", Console(file=written, force_terminal=True, width=80)) as show:
        show(2, 3)
    assert "checking" in written.getvalue()
    assert "2/3" in written.getvalue()


def test_a_file_gets_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither at once nor later."""
    monkeypatch.setattr("threading.Timer", Now)
    written = io.StringIO()
    with bars.bar("checking", Console(file=written)) as show:
        show(1, 3)
    assert written.getvalue() == ""


def test_one_more_is_done(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Each call counts one."""
    monkeypatch.setattr("threading.Timer", Now)
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    with bars.counting("applying", 5) as advance:
        advance()
        advance()
    assert "2/5" in capsys.readouterr().err
