"""`wfcore chat` through a pipe."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import wfcore
from wfcore import bootstrap
from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.cli.lines import Lines
from wfcore.cli.main import main

SKILL = ["--skill", "1"]
ADD = "def add(a: int, b: int) -> int: return a + b"
ASKS = {"toolset": {"add": {"enabled": True, "requiresApproval": True}}}
CALL = {"content": "", "toolCalls": [{"id": "c", "name": "add", "args": {"a": 1, "b": 2}}]}


def add(a: int, b: int) -> int:
    """What `ADD` is in the file."""
    return a + b


async def filled(database: str, **skill: Any) -> str:
    """A database with the member `ann` and a deployed skill of hers: the organization's id."""
    async with wfcore.open(database, tools=[add], worker=False) as core:
        org = (await core.directory.create_organization("Acme")).uuid
        await core.directory.add_member(org, "ann", "ann@acme.example")
        me = core.principal(org, user="ann")
        made = await core.skills.create(me, name="Clerk", **skill)
        await core.skills.deploy(me, made.id)
        return org


class Terminal:
    """A folder with a database, and what a command says there."""

    def __init__(
        self, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, **skill: Any
    ) -> None:
        self._folder = folder
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        self.database = f"sqlite:///{folder / 'app.db'}"
        self.org = asyncio.run(filled(self.database, **skill))

    def chat(self, *arguments: str, given: str, user: str = "ann") -> tuple[int, str, str]:
        """Status, answers, and what else was told."""
        reads, writes = os.pipe()
        os.write(writes, given.encode())
        os.close(writes)
        with os.fdopen(reads) as stdin:
            self._monkeypatch.setattr(sys, "stdin", stdin)
            status = main(["chat", "--database", self.database, "--org", self.org, "--user-id", user, *arguments])
        said = self._capsys.readouterr()
        return status, said.out, said.err


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    return Terminal(tmp_path, capsys, monkeypatch)


@pytest.mark.parametrize("target", [SKILL, ["--assistant"]])
def test_each_line_is_a_message_and_each_answer_a_line(terminal: Terminal, target: list[str]) -> None:
    """Answers stand on stdout alone, in order; a last line needs no end, and blank lines are nothing."""
    status, out, err = terminal.chat(*target, given="good morning\n\ngood night")
    first, second = out.splitlines()
    assert status == 0
    assert "good morning" in first
    assert "good night" in second
    assert err == ""


def test_a_session_goes_on_in_its_thread(terminal: Terminal) -> None:
    """The same `--session` leads to the same thread, another to another."""
    for session in ("s", "s", "t"):
        assert terminal.chat(*SKILL, "--session", session, given="hello\n")[0] == 0

    async def threads() -> list[str]:
        async with wfcore.open(terminal.database, worker=False) as core:
            runs = await core.runs.page(core.principal(terminal.org, user="ann"))
            return [run.row.thread_id for run in runs]

    third, second, first = asyncio.run(threads())
    assert first == second != third


def test_what_cannot_be_talked_with(terminal: Terminal) -> None:
    """Wrong usage is 2, what is not there 1; nothing is answered."""
    for arguments, user, status, told in (
        ([], "ann", 2, "use either --skill or --assistant"),
        ([*SKILL, "--assistant"], "ann", 2, "use either --skill or --assistant"),
        (SKILL, "bob", 1, "unknown member `bob`"),
        (["--skill", "2"], "ann", 1, "not found"),
        (["--skill", "0"], "ann", 1, "not found"),
    ):
        found, out, err = terminal.chat(*arguments, given="hello\n", user=user)
        assert (found, out) == (status, "")
        assert told in err


def test_an_approval_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next line answers, what is no answer is asked again, and with no line left the run goes on waiting."""
    (tmp_path / "more.py").write_text(ADD)
    terminal = Terminal(tmp_path, capsys, monkeypatch, **ASKS)
    for given, status, out, told in (
        ("add\nmaybe\napprove\nbye", 0, "three\nbye\n", ["? allow `add`", 'add {"a": 1, "b": 2}', "← 3"]),
        ("add\ndeny\nbye\n", 0, "three\nbye\n", ["? allow `add`", "← "]),
        ("add\nmaybe\n", 1, "", ["? allow `add`", "still waits for a decision"]),
    ):
        model = ScriptedModel([CALL, "three", "bye"])
        monkeypatch.setattr(bootstrap, "_scripted", lambda model=model: {"default": model})
        found, said, err = terminal.chat(*SKILL, "--tools", f"{tmp_path / 'more.py'}:add", given=given)
        assert (found, said) == (status, out)
        assert all(words in err for words in told)


def test_what_is_approved_is_shown_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the arguments are, the question shows all of them, with nothing that a terminal obeys."""
    (tmp_path / "more.py").write_text(ADD.replace("int", "str"))
    terminal = Terminal(tmp_path, capsys, monkeypatch, **ASKS)
    args = {"a": "1" * 5_000, "b": "\u202e\x9b2J the end"}
    asks = {"content": "", "toolCalls": [{"id": "c", "name": "add", "args": args}]}
    monkeypatch.setattr(bootstrap, "_scripted", lambda: {"default": ScriptedModel([asks, "no"])})
    _, _, err = terminal.chat(*SKILL, "--tools", f"{tmp_path / 'more.py'}:add", given="add\ndeny\n")
    question = err[err.index("? allow") :].splitlines()[1]
    assert json.loads(question.removeprefix("  add ")) == args
    assert question.isprintable()
    assert "← error: the call was denied by a person\n" in err


def test_at_a_terminal_each_message_is_asked_for(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt for every line; the end of the input ends the line that it was asked for on."""
    keyboard, line = os.openpty()
    monkeypatch.setattr(os, "pipe", lambda: (line, os.dup(keyboard)))
    status, out, err = terminal.chat(*SKILL, given="hello\n\x04")
    os.close(keyboard)
    assert (status, err) == (0, "> > \n")
    assert out.endswith("You said: hello\n")


def test_lines_are_waited_for_without_holding_up_the_loop(tmp_path: Path) -> None:
    """Lines arrive in pieces, several at once, without a last end, from a pipe and from a file; None comes last."""

    async def read(descriptor: int, *written: tuple[int, bytes]) -> list[str | None]:
        lines, found = Lines(descriptor), list[str | None]()

        async def write() -> None:
            for target, text in written:
                os.write(target, text)
                await asyncio.sleep(0)
            for target in {target for target, _ in written}:
                os.close(target)

        writing = asyncio.create_task(write())
        while not found or found[-1] is not None:
            found.append(await lines.next())
        await writing
        return [*found, await lines.next()]

    reads, writes = os.pipe()
    text = "é\r\nb\n\nlast"
    pieces = [(writes, bytes([byte])) for byte in text.encode()] + [(writes, b"\xff\n")]
    assert asyncio.run(read(reads, *pieces)) == ["é", "b", "", "last\ufffd", None, None]
    os.close(reads)
    (tmp_path / "lines").write_text(text)
    with (tmp_path / "lines").open("rb") as file:
        assert asyncio.run(read(file.fileno())) == ["é", "b", "", "last", None, None]
