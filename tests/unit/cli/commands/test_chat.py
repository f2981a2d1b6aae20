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
from wfcore.cli.main import main

SKILL = ["--skill", "1"]
ADD = "def add(a: int, b: int) -> int: return a + b"
ASKS = {"toolset": {"add": {"enabled": True, "requiresApproval": True}}}
CALL = {"content": "", "toolCalls": [{"id": "c", "name": "add", "args": {"a": 1, "b": 2}}]}


def add(a: int, b: int) -> int:
    """The function whose source is `ADD`."""
    return a + b


async def filled(database: str, **skill: Any) -> str:
    """Create a database with the member `ann` and a deployed skill. Returns the organization's id."""
    async with wfcore.open(database, tools=[add], worker=False) as core:
        org = (await core.directory.create_organization("Acme")).uuid
        await core.directory.add_member(org, "ann", "ann@acme.example")
        me = core.principal(org, user="ann")
        made = await core.skills.create(me, name="Clerk", **skill)
        await core.skills.deploy(me, made.id)
        return org


class Terminal:
    """A folder with a database, and the commands that run on it."""

    def __init__(
        self, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, **skill: Any
    ) -> None:
        self._folder = folder
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        self.database = f"sqlite:///{folder / 'app.db'}"
        self.org = asyncio.run(filled(self.database, **skill))

    def chat(self, *arguments: str, given: str, user: str = "ann") -> tuple[int, str, str]:
        """Exit status, stdout and stderr."""
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
def test_each_line_is_a_message_and_each_reply_a_line(terminal: Terminal, target: list[str]) -> None:
    """Only replies are on stdout, in order; the last line needs no line end, and blank lines are ignored."""
    status, out, err = terminal.chat(*target, given="good morning\n\ngood night")
    first, second = out.splitlines()
    assert status == 0
    assert "good morning" in first
    assert "good night" in second
    assert err == ""


def test_a_session_keeps_its_thread(terminal: Terminal) -> None:
    """The same `--session` continues the same thread, another session another thread."""
    for session in ("s", "s", "t"):
        assert terminal.chat(*SKILL, "--session", session, given="hello\n")[0] == 0

    async def threads() -> list[str]:
        async with wfcore.open(terminal.database, worker=False) as core:
            runs = await core.runs.page(core.principal(terminal.org, user="ann"))
            return [run.row.thread_id for run in runs]

    third, second, first = asyncio.run(threads())
    assert first == second != third


def test_invalid_targets_are_refused(terminal: Terminal) -> None:
    """Wrong usage ends with 2, an unknown member or skill with 1; stdout is empty."""
    for arguments, user, status, wanted in (
        ([], "ann", 2, "use either --skill or --assistant"),
        ([*SKILL, "--assistant"], "ann", 2, "use either --skill or --assistant"),
        (SKILL, "bob", 1, "unknown member `bob`"),
        (["--skill", "2"], "ann", 1, "not found"),
        (["--skill", "0"], "ann", 1, "not found"),
    ):
        found, out, err = terminal.chat(*arguments, given="hello\n", user=user)
        assert (found, out) == (status, "")
        assert wanted in err


def test_the_next_line_decides_an_approval(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another line than a decision prompts again, and without a line the run still waits."""
    (tmp_path / "more.py").write_text(ADD)
    terminal = Terminal(tmp_path, capsys, monkeypatch, **ASKS)
    for given, status, out, wanted in (
        ("add\nmaybe\napprove\nbye", 0, "three\nbye\n", ["? allow `add`", 'add {"a": 1, "b": 2}', "← 3"]),
        ("add\ndeny\nbye\n", 0, "three\nbye\n", ["? allow `add`", "← "]),
        ("add\nmaybe\n", 1, "", ["? allow `add`", "still waits for a decision"]),
    ):
        model = ScriptedModel([CALL, "three", "bye"])
        monkeypatch.setattr(bootstrap, "_models", lambda _, model=model: {"default": model})
        found, said, err = terminal.chat(*SKILL, "--tools", f"{tmp_path / 'more.py'}:add", given=given)
        assert (found, said) == (status, out)
        assert all(words in err for words in wanted)


def test_an_approval_shows_all_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The prompt shows arguments of any length in full, without control characters."""
    (tmp_path / "more.py").write_text(ADD.replace("int", "str"))
    terminal = Terminal(tmp_path, capsys, monkeypatch, **ASKS)
    args = {"a": "1" * 5_000, "b": "\u202e\x9b2J the end"}
    asks = {"content": "", "toolCalls": [{"id": "c", "name": "add", "args": args}]}
    monkeypatch.setattr(bootstrap, "_models", lambda _: {"default": ScriptedModel([asks, "no"])})
    _, _, err = terminal.chat(*SKILL, "--tools", f"{tmp_path / 'more.py'}:add", given="add\ndeny\n")
    prompt = err[err.index("? allow") :].splitlines()[1]
    assert json.loads(prompt.removeprefix("  add ")) == args
    assert prompt.isprintable()
    assert "← error: the call was denied by a person\n" in err


def test_a_terminal_gets_a_prompt_for_each_message(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line has a prompt; the end of the input ends the line of its prompt."""
    keyboard, line = os.openpty()
    monkeypatch.setattr(os, "pipe", lambda: (line, os.dup(keyboard)))
    status, out, err = terminal.chat(*SKILL, given="hello\n\x04")
    os.close(keyboard)
    assert (status, err) == (0, "> > \n")
    assert out.endswith("You said: hello\n")
