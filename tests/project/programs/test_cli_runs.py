"""`wfcore run` and `wfcore chat`, as real processes, with a terminal and without."""

import contextlib
import json
import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest
from commands import WFCORE, action, environment, wfcore, workflow
from waiting import HANG

from wfcore.cli.main import main

ACME = "00000000-0000-4000-8000-00000000acee"
CTRL_C = "\x03"
AGAIN = 5
"""Seconds until a signal that had no effect is sent again."""

APPROVAL = {"id": "ask", "type": "humanApproval", "data": {"message": "refund?"}}
OUTCOME = {
    "id": "end",
    "type": "action",
    "data": {"toolId": "core.transform", "params": {"value": "{{ nodes.ask.output.data }}"}},
}


def test_run_prints_the_output_and_shows_the_nodes(tmp_path: Path) -> None:
    """Without a terminal: only the output on stdout, and a plain line for each change of a node on stderr."""
    file = workflow(tmp_path, action("core.transform", value="{{ input.n * 2 }}"))
    ended = wfcore(tmp_path, "run", file, "--input", '{"n": 21}')
    assert (ended.returncode, ended.stdout) == (0, "42\n")
    assert "✔ act  core.transform  done" in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == [file], "nothing is kept"


def test_a_run_that_fails_ends_with_1(tmp_path: Path) -> None:
    """The reason on stderr, nothing on stdout."""
    ended = wfcore(tmp_path, "run", workflow(tmp_path, action("core.fail", message="too late")), "--input", '{"n": 1}')
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "the run ended as error: too late" in ended.stderr
    other = wfcore(tmp_path, "run", workflow(tmp_path, action("no.such.tool")), "--input", '{"n": 1}')
    assert (other.returncode, other.stdout) == (1, "")
    assert "no.such.tool" in other.stderr


def test_approvals_without_a_terminal(tmp_path: Path) -> None:
    """--yes approves and --no denies, in the environment too; with neither the run fails and names the options."""
    file = workflow(tmp_path, APPROVAL, {**OUTCOME, "data": {"toolId": "core.transform", "params": {"value": "paid"}}})
    given = ("run", file, "--input", '{"n": 1}')
    yes = wfcore(tmp_path, *given, WFCORE_YES="true")
    assert (yes.returncode, yes.stdout) == (0, '"paid"\n')
    no = wfcore(tmp_path, *given, "--no")
    assert json.loads(no.stdout)["decision"] == "deny"
    neither = wfcore(tmp_path, *given)
    assert (neither.returncode, neither.stdout) == (1, "")
    assert neither.stderr.count("start  start  done") == 1, "every event is shown once"
    assert "refund?" in neither.stderr
    assert "--yes or --no" in neither.stderr


def test_approvals_at_a_terminal(tmp_path: Path) -> None:
    """The terminal shows the message, and prompts for the decision and the form; only a wrong field comes again."""
    form = {
        "type": "object",
        "required": ["amount"],
        "properties": {"amount": {"type": "integer"}, "why": {"type": "string"}},
    }
    approval = {**APPROVAL, "data": {**APPROVAL["data"], "formSchema": form}}
    file = workflow(tmp_path, approval, OUTCOME)
    amount = "amount (whole number; required):"
    wrong = [("refund?", ""), ("approve or deny?", "y"), (amount, "x"), ("must be integer", "")]
    answers = [*wrong, (amount, "7"), ("why (text):", "2")]
    status, out, shown = at_a_terminal(tmp_path, ["run", file, "--input", '{"n": 1}'], answers)
    assert status == 0, shown
    assert json.loads(out) == {"amount": 7, "why": "2"}


def test_ctrl_c_at_a_question_ends_the_run(tmp_path: Path) -> None:
    """Ctrl-C at the prompt takes effect at once: status 130, no traceback."""
    file = workflow(tmp_path, APPROVAL, OUTCOME)
    status, out, shown = at_a_terminal(tmp_path, ["run", file, "--input", '{"n": 1}'], [("approve or deny?", CTRL_C)])
    assert (status, out) == (130, "")
    assert "interrupted" in shown
    assert "Traceback" not in shown


def test_ctrl_c_ends_the_process_while_a_tool_blocks(tmp_path: Path) -> None:
    """A thread cannot be stopped, and the process does not wait for it: the second Ctrl-C ends it at once."""
    (tmp_path / "tools.py").write_text(
        "import sys, threading\ndef block() -> None:\n"
        "    print('blocks', file=sys.stderr, flush=True)\n    threading.Event().wait()\n"
    )
    command = [*WFCORE, "run", workflow(tmp_path, action("block")), "--input", '{"n": 1}', "--tools", "tools.py:block"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        while process.stderr.readline() != b"blocks\n":
            assert process.poll() is None
        interrupt(process)
        shown = process.stderr.read()
    assert process.returncode == 130
    assert shown.endswith(b"error: interrupted\n")
    assert b"Traceback" not in shown


def test_a_chat_at_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt for each message, the reply on stdout, and Ctrl-C ends the chat: status 130, no traceback."""
    monkeypatch.chdir(tmp_path)
    assert main(["org", "create", "Acme", "--id", ACME]) == 0
    whose = ["--org", ACME, "--user-id", "ann"]
    assert main(["member", "add", *whose, "--email", "ann@acme.example"]) == 0
    lines = [("> ", "good morning"), ("> ", CTRL_C)]
    status, out, shown = at_a_terminal(tmp_path, ["chat", "--assistant", *whose], lines)
    assert (status, out.count("\n"), "good morning" in out) == (130, 1, True)
    assert "interrupted" in shown
    assert "Traceback" not in shown


def at_a_terminal(folder: Path, arguments: list[str], answers: list[tuple[str, str]]) -> tuple[int, str, str]:
    """Run a command whose stdin and stderr are a terminal, with answers to its prompts: status, stdout, stderr."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*WFCORE, *arguments], cwd=folder, env=environment(), stdin=theirs, stdout=subprocess.PIPE, stderr=theirs
    ) as process:
        os.close(theirs)
        shown, read = b"", 0
        for question, answer in answers:
            while (found := shown.find(question.encode(), read)) < 0:
                more = part_of(ours)
                assert more, f"the command ended before `{question}`, with {process.wait()}: {shown!r}"
                shown += more
            read = found + len(question)
            if answer == CTRL_C:
                interrupt(process)
            elif answer or question.endswith(":"):
                os.write(ours, answer.encode() + b"\n")
        shown += rest_of(ours)
        os.close(ours)
        out = process.communicate(timeout=HANG)[0]
    return process.returncode, out.decode(), shown.decode()


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Press Ctrl-C until it has an effect: one between the prompt and the read of its answer has none."""
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(AGAIN)


def rest_of(terminal: int) -> bytes:
    """The output until the other side closes."""
    shown = b""
    while more := part_of(terminal):
        shown += more
    return shown


def part_of(terminal: int) -> bytes:
    """Some of the output; empty when the other side has closed, which is an error on Linux."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""
