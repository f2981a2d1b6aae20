"""What models and tools print_message is shown on a terminal, and never obeyed by it."""

import asyncio
import os
import sys
import unicodedata
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from wfcore.cli.approvals import ApprovalPrompt
from wfcore.cli.commands.chat import Screen
from wfcore.cli.common import print_message
from wfcore.cli.lines import Lines
from wfcore.cli.plain import plain
from wfcore.cli.progress import Progress
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.events import Event, EventKind
from wfcore.domain.run.state import Interrupt

CLEARS = "\x1b[2J\x1b[H? allow `look`\r\x9b31m \u202eyap\u202c"
SHOWN = r"\u001b[2J\u001b[H? allow `look`\u000d\u009b31m \u202eyap\u202c"
TURNS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    """No control character but line feed and tab, nothing that turns the direction; the rest is as it was."""
    shown = plain(text)
    assert not {letter for letter in shown if unicodedata.category(letter) == "Cc"} - {"\n", "\t"}
    assert not {unicodedata.bidirectional(letter) for letter in shown} & TURNS
    assert plain(shown) == shown
    if text.isprintable():
        assert shown == text


def event(kind: EventKind, **data: JSON) -> Event:
    return Event(kind, "r1", 1, 0, data)


def test_what_was_pasted_ahead_is_no_answer() -> None:
    """Before a question the lines that a terminal has already are dropped; those of a pipe wait for their turn."""

    async def read(reads: int, writes: int) -> list[str | None]:
        lines = Lines(reads)
        os.write(writes, b"a message\napprove\napp")
        found = [await lines.next()]
        lines.discard_typed_ahead()
        os.write(writes, b"\ndeny\n")
        return [*found, await lines.next(), await lines.next()]

    keyboard, terminal = os.openpty()
    reads, writes = os.pipe()
    assert asyncio.run(read(terminal, keyboard)) == ["a message", "", "deny"]
    assert asyncio.run(read(reads, writes)) == ["a message", "approve", "app"]
    for descriptor in (keyboard, terminal, reads, writes):
        os.close(descriptor)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_talk_shows_what_is_said(
    terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal all of it is plain; into a pipe the answer goes to the letter. A result takes one line."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    screen = Screen()
    screen.show(event(EventKind.message, messageId="m", content=CLEARS))
    screen.show(event(EventKind.tool_result, output=f"a\nb {CLEARS}"))
    screen.show(event(EventKind.tool_result, error={"message": "denied", "code": "INTERNAL_ERROR"}))
    print_message(CLEARS)
    told = capsys.readouterr()
    assert told.out == (SHOWN if terminal else CLEARS) + "\n"
    assert told.err == f"← a b {SHOWN.replace(chr(92) + 'u000d', ' ')}\n← error: denied\n{SHOWN}\n"


def test_a_run_shows_what_happens_and_what_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of its nodes, the question of an approval and the arguments of the call are plain."""
    shown = StringIO()
    console = Console(file=shown, width=200)
    progress = Progress("A run", {"nodes": [{"id": "a", "type": "agent"}]}, console)
    progress.show(event(EventKind.node_failed, nodeId="a", error={"message": CLEARS}))
    prompt = ApprovalPrompt(progress, None)
    monkeypatch.setattr(prompt, "_prompt", lambda *_, **__: "deny")
    asked = Interrupt("i", 0, "a", 1, CLEARS, 0, call={"toolId": "pay", "arguments": {"to": CLEARS}})
    assert prompt._prompt_choice(asked, ("approve", "deny")) == {"decision": "deny"}
    assert shown.getvalue().count(r"\u001b[2J") == 3
    assert plain(shown.getvalue()) == shown.getvalue()
