"""Control characters in the text of models and tools are escaped on a terminal."""

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
from wfcore.cli.plain import plain
from wfcore.cli.progress import Progress
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.events import Event, EventKind
from wfcore.domain.run.state import Interrupt

CLEARS = "\x1b[2J\x1b[H? allow `look`\r\x9b31m \u202eyap\u202c"
SHOWN = r"\u001b[2J\u001b[H? allow `look`\u000d\u009b31m \u202eyap\u202c"
TURNS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@given(st.text())
def test_every_control_character_is_escaped(text: str) -> None:
    """No control character but line feed and tab and no direction control is left; printable text is unchanged."""
    shown = plain(text)
    assert not {letter for letter in shown if unicodedata.category(letter) == "Cc"} - {"\n", "\t"}
    assert not {unicodedata.bidirectional(letter) for letter in shown} & TURNS
    assert plain(shown) == shown
    if text.isprintable():
        assert shown == text


def event(kind: EventKind, **data: JSON) -> Event:
    return Event(kind, "r1", 1, 0, data)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_conversation_is_escaped_on_a_terminal(
    terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal all text is escaped; a pipe gets the literal reply. A tool result is one line."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    screen = Screen()
    screen.show(event(EventKind.message, messageId="m", content=CLEARS))
    screen.show(event(EventKind.tool_result, output=f"a\nb {CLEARS}"))
    screen.show(event(EventKind.tool_result, error={"message": "denied", "code": "INTERNAL_ERROR"}))
    print_message(CLEARS)
    printed = capsys.readouterr()
    assert printed.out == (SHOWN if terminal else CLEARS) + "\n"
    assert printed.err == f"← a b {SHOWN.replace(chr(92) + 'u000d', ' ')}\n← error: denied\n{SHOWN}\n"


def test_progress_and_prompts_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of nodes, the prompt of an approval and the arguments of its call are escaped."""
    shown = StringIO()
    console = Console(file=shown, width=200)
    progress = Progress("A run", {"nodes": [{"id": "a", "type": "agent"}]}, console)
    progress.show(event(EventKind.node_failed, nodeId="a", error={"message": CLEARS}))
    prompt = ApprovalPrompt(progress, None)
    monkeypatch.setattr(prompt, "prompt", lambda *_, **__: "deny")
    interrupt = Interrupt("i", 0, "a", 1, CLEARS, 0, call={"toolId": "pay", "arguments": {"to": CLEARS}})
    assert prompt._prompt_choice(interrupt, ("approve", "deny")) == {"decision": "deny"}
    assert shown.getvalue().count(r"\u001b[2J") == 3
    assert plain(shown.getvalue()) == shown.getvalue()
