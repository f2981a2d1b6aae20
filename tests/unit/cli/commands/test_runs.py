"""`wfcore run start`, `list` and so on, `wfcore inbox` and `wfcore answer`."""

import io
import json
from pathlib import Path

import pytest
from managing import ASK, ECHO, FAILING, Organization

from wfcore.runtime.runs import repairs
from wfcore.testing.histories import sketch


def test_a_run_is_followed_to_its_end(acme: Organization) -> None:
    """The id comes first, the output last; the exit status says what became of the run."""
    acme.deployed(("Echo", ECHO), ("Fails", FAILING))
    done = acme.call("run", "start", "echo", "--input", '{"order": 7}', "--key", "order-7", "--follow")
    assert (done.status, done.out.splitlines()) == (0, ["order-7", "7"])
    failed = acme.call("run", "start", "2", "--follow")
    assert (failed.status, "no stock" in failed.err) == (1, True)
    assert [row[1] for row in acme.call("run", "list").rows] == ["error", "done"]
    assert [row["runId"] for row in acme.call("run", "list", "--workflow", "echo", "--json").json] == ["order-7"]
    assert acme.call("run", "show", "order-7").json["output"] == 7
    assert acme.call("run", "follow", "order-7").out == "7\n"


@pytest.mark.parametrize("key", ["order#7", "order?7", "order/7"])
def test_the_id_of_a_run_can_have_any_character(acme: Organization, key: str) -> None:
    """The commands work on that run, not on the one whose id is the part before a `#`."""
    acme.deployed(("Echo", ECHO))
    for each in ("order", key):
        acme.call("run", "start", "echo", "--input", '{"order": 7}', "--key", each, "--follow")
    assert acme.call("run", "show", key).json["runId"] == key
    assert acme.call("run", "follow", key).out == "7\n"
    assert acme.call("run", "delete", key, "--yes").status == 0
    assert [row[0] for row in acme.call("run", "list").rows] == ["order"]


def test_an_approval_is_answered(acme: Organization) -> None:
    """A run that waits for somebody ends `--follow` with status 4; its interrupt is in the inbox."""
    acme.deployed(("Refund", ASK))
    waiting = acme.call("run", "start", "refund", "--input", '{"order": 9}', "--key", "r", "--follow")
    assert (waiting.status, waiting.out, "Refund?" in waiting.err) == (4, "r\n", True)
    (row,) = acme.call("inbox", "--json").json
    assert waiting.err.splitlines()[-1] == f"answer: wfcore answer r approve|deny --interrupt {row['interruptId']}"
    assert (row["runId"], row["workflowName"]) == ("r", "Refund")
    assert acme.call("inbox", "--workflow", "refund").rows[0][0] == "r"
    answered = acme.call("answer", "r", "approve", "--interrupt", row["interruptId"], "--follow")
    turn, output = answered.out.splitlines()
    assert (answered.status, output, turn != "r") == (0, "9", True)
    assert acme.call("run", "follow", "r").out == "9\n"
    again = acme.call("answer", "r", "approve")
    assert (again.status, again.out) == (1, "")


def test_a_run_is_cancelled(acme: Organization) -> None:
    """A cancelled run ends `follow` with status 3."""
    acme.deployed(("Refund", ASK))
    acme.call("run", "start", "refund", "--key", "r", "--input", '{"order": 1}', "--follow")
    assert acme.call("run", "cancel", "r").json["status"] == "cancelled"
    assert acme.call("run", "follow", "r").status == 3


def test_waiting_runs_move(acme: Organization, tmp_path: Path) -> None:
    """The table says which moved, and why another did not; the exit status says whether all did."""
    acme.deployed(("Refund", ASK))
    for key in ("r", "q"):
        acme.call("run", "start", "refund", "--key", key, "--input", '{"order": 1}', "--follow")
    step = {"toolId": "core.transform", "params": {"value": 1}}
    acme.changed(1, sketch("s -> w", "w -approved-> n", w={"type": "humanApproval"}, n=step))
    assert acme.call("run", "move", "refund", "r", "x").rows == [["r", "yes"], ["x", "no", "not_found"]]
    moved = acme.call("run", "move", "refund", "--all", "--json")
    assert (moved.status, [(row["runId"], row["moved"]) for row in moved.json]) == (0, [("q", True)])
    acme.changed(1, sketch("s -> n", "n -> w", w={"type": "humanApproval"}, n=step))
    refused = acme.call("run", "move", "1", "--all")
    assert (refused.status, "`s` to `w` was taken" in refused.out) == (1, True)
    for arguments in ([], ["r", "--all"]):
        assert acme.call("run", "move", "refund", *arguments).status == 2


def test_nothing_to_move_or_to_retry_is_said(acme: Organization) -> None:
    """On stderr: a table without rows does not say whether the command did anything."""
    acme.deployed(("Refund", ASK))
    for command in (["move", "refund", "--all"], ["retry-all", "--yes"], ["retry-all", "--preview"]):
        done = acme.call("run", *command)
        assert (done.status, done.rows, done.err) == (0, [], "there is no such run: nothing was changed\n")
        assert acme.call("run", *command, "--json").json == []


def test_a_retry_of_the_most_runs_says_so(acme: Organization, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those before them are not among its rows: it names the option that selects them."""
    monkeypatch.setattr(repairs, "MOST_RETRIED", 2)
    acme.deployed(("Fails", FAILING))
    acme.call("run", "start", "fails", "--follow")
    assert acme.call("run", "retry-all", "--preview").err == ""
    for _ in range(2):
        acme.call("run", "start", "fails", "--follow")
    cut = acme.call("run", "retry-all", "--preview")
    assert len(cut.rows) == 2
    assert cut.err == "2 runs are the most of one command: --until TIME selects those before them\n"


def test_a_list_that_is_cut_says_so(acme: Organization) -> None:
    """On stderr, also beside JSON; a whole list says nothing."""
    acme.deployed(("Refund", ASK))
    for key in ("r", "q"):
        acme.call("run", "start", "refund", "--key", key, "--input", '{"order": 1}', "--follow")
    for form in ([], ["--json"]):
        cut = acme.call("run", "list", "--limit", "1", *form)
        assert (cut.status, cut.err) == (0, "there are more than these 1: `--limit` shows more\n")
        assert acme.call("run", "list", "--limit", "2", *form).err == ""


def test_the_target_is_a_workflow_or_a_skill(acme: Organization) -> None:
    """One of the two, not both and not none."""
    for arguments in ([], ["refund", "--skill", "support"]):
        refused = acme.call("run", "start", *arguments)
        assert (refused.status, "--skill" in refused.err) == (2, True)


def test_a_file_is_still_run_without_a_server(acme: Organization, tmp_path: Path) -> None:
    """`wfcore run FILE` is the same command as before."""
    (tmp_path / "echo.json").write_text(json.dumps({"workflowStructure": ECHO}))
    assert acme.call("run", "echo.json", "--input", '{"order": 3}').json == 3


@pytest.mark.parametrize("text", ["a", "a={"])
def test_an_output_by_hand_must_be_json(acme: Organization, text: str) -> None:
    """The error names the option and its form."""
    refused = acme.call("run", "retry", "r", "--output", text)
    assert (refused.status, "NODE=JSON" in refused.err) == (2, True)


def test_a_failed_run_is_retried_and_forked(acme: Organization) -> None:
    """A retry prints the id of the new turn, a fork that of the new run; the output by hand ends both."""
    acme.deployed(("Fails", FAILING))
    assert acme.call("run", "start", "fails", "--key", "r", "--follow").status == 1
    retried = acme.call("run", "retry", "r", "--output", 't={"by": "hand"}', "--follow")
    assert (retried.status, json.loads(retried.out.splitlines()[1])) == (0, {"by": "hand"})
    forked = acme.call("run", "fork", "r", "--before", "t", "--input", "{}", "--follow")
    assert (forked.status, "no stock" in forked.err) == (1, True)
    assert acme.call("run", "retry", "r").status == 1


def test_failed_runs_are_retried_together(acme: Organization) -> None:
    """Those selected that nobody has retried; a preview changes nothing; cancelled ones only by their status."""
    acme.deployed(("Fails", FAILING), ("Refund", ASK))
    for key in ("f", "g"):
        acme.call("run", "start", "fails", "--key", key, "--follow")
    acme.call("run", "start", "refund", "--key", "c", "--input", '{"order": 1}', "--follow")
    acme.call("run", "cancel", "c")
    command = ("run", "retry-all", "--workflow", "fails")
    assert acme.call(*command).status == 2  # no terminal, and no --yes
    preview = acme.call(*command, "--preview")
    assert (preview.status, preview.rows) == (0, [["g", "yes"], ["f", "yes"]])
    retried = acme.call(*command, "--since", "2026-01-01T00:00:00Z", "--yes", "--json").json
    assert [(row["runId"], row["moved"]) for row in retried] == [("g", True), ("f", True)]
    assert acme.call("run", "show", "g").json["retriedBy"] == retried[0]["retriedBy"]
    (cancelled,) = acme.call("run", "retry-all", "--status", "cancelled", "--yes").rows
    assert cancelled[:2] == ["c", "yes"]


def test_an_ended_run_is_deleted(acme: Organization) -> None:
    """With its confirmation."""
    acme.deployed(("Echo", ECHO))
    acme.call("run", "start", "echo", "--key", "r", "--input", '{"order": 1}', "--follow")
    assert acme.call("run", "delete", "r").status == 2
    assert acme.call("run", "delete", "r", "--yes").json["runId"] == "r"
    assert acme.call("run", "show", "r").status == 1


def test_a_run_of_a_skill_and_a_message(acme: Organization) -> None:
    """An unknown skill is an error; the draft of a workflow can be run with a message."""
    acme.deployed(("Echo", ECHO))
    assert "no skill has the slug `support`" in acme.call("run", "start", "--skill", "support").err
    started = acme.call("run", "start", "echo", "--draft", "--message", "hi", "--input", '{"order": 2}', "--follow")
    assert (started.status, started.out.splitlines()[1]) == (0, "2")


def test_the_answers_of_a_form(acme: Organization) -> None:
    """`--data` is JSON, and is kept with the decision."""
    acme.deployed(("Refund", ASK))
    acme.call("run", "start", "refund", "--key", "r", "--input", '{"order": 1}', "--follow")
    for text, problem in (("{", "not JSON"), ("[]", "must be a JSON object")):
        wrong = acme.call("answer", "r", "approve", "--data", text)
        assert (wrong.status, f"--data: {problem}" in wrong.err) == (2, True)
    assert acme.call("answer", "r", "approve", "--data", '{"why": "late"}', "--follow").status == 0


def test_a_form_is_filled_in_at_the_terminal(acme: Organization, monkeypatch: pytest.MonkeyPatch) -> None:
    """An approval without `--data` prompts for its fields; one without a form has nothing to prompt for."""
    form = {"type": "object", "required": ["sum"], "properties": {"sum": {"type": "integer"}}}
    acme.deployed(("Form", sketch("s -> w", w={"type": "humanApproval", "formSchema": form})), ("Refund", ASK))
    for key, flow in (("f", "form"), ("r", "refund")):
        acme.call("run", "start", flow, "--input", '{"order": 1}', "--key", key, "--follow")
    terminal = type("Terminal", (io.StringIO,), {"isatty": lambda self: True})
    monkeypatch.setattr("sys.stdin", terminal("x\n7\n"))
    answered = acme.call("answer", "f", "approve", "--follow")
    assert (answered.status, "must be integer" in answered.err) == (0, True)
    assert json.loads(answered.out.splitlines()[1])["data"] == {"sum": 7}
    assert acme.call("answer", "r", "approve").status == 0


def test_a_run_is_watched(acme: Organization) -> None:
    """Each change of a node is shown, over all turns; the exit status is that of `--follow`."""
    acme.deployed(("Refund", ASK), ("Fails", FAILING))
    waiting = acme.call("run", "start", "refund", "--input", '{"order": 9}', "--key", "r", "--watch")
    assert (waiting.status, waiting.out) == (4, "r\n")
    assert [waiting.err.partition("? w")[1], waiting.err.split("humanApproval  ")[1].split()[0]] == ["? w", "waiting"]
    done = acme.call("answer", "r", "approve", "--watch")
    assert (done.status, done.out.splitlines()[1]) == (0, "9")
    assert "✔ t" in done.err
    again = acme.call("run", "follow", "r", "--watch")
    assert (again.status, again.out, "✔ w" in again.err) == (0, "9\n", True)
    failed = acme.call("run", "start", "fails", "--watch")
    assert (failed.status, "failed  no stock" in failed.err) == (1, True)


def with_tool(acme: Organization, tool: str, folder: Path) -> None:
    """A workflow with the name of a Python tool, which only `TOOL.py:TOOL` has."""
    (folder / f"{tool}.py").write_text(f"def {tool}() -> str:\n    '''Say it.'''\n    return '{tool}'\n")
    file = folder / tool / "workflows" / f"{tool}.json"
    file.parent.mkdir(parents=True)
    structure = sketch("s -> t", t={"toolId": tool, "params": {}})
    file.write_text(json.dumps({"name": tool, "workflowStructure": structure}))
    applied = acme.call("apply", tool, "--deploy")
    assert (applied.status, f"unknown tool `{tool}`" in applied.err, "`--tools MODULE:NAME`" in applied.err) == (
        2,
        True,
        True,
    )
    assert acme.call("apply", tool, "--deploy", "--tools", f"{tool}.py:{tool}").status == 0


def test_a_followed_run_has_the_tools_and_no_other_run_is_driven(
    acme: Organization, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that nobody drives waits for a process with its tools; the same start again drives it."""
    with_tool(acme, "first", tmp_path)
    with_tool(acme, "second", tmp_path)
    acme.call("run", "start", "first", "--key", "waits")
    monkeypatch.setenv("WFCORE_TOOLS", "second.py:second")
    followed = acme.call("run", "start", "second", "--key", "followed", "--follow")
    assert (followed.status, followed.out) == (0, 'followed\n"second"\n')
    assert [(row["runId"], row["status"]) for row in acme.call("run", "list", "--json").json] == [
        ("followed", "done"),
        ("waits", "queued"),
    ]
    again = acme.call("run", "start", "first", "--key", "waits", "--follow", "--tools", "first.py:first")
    assert (again.status, again.out) == (0, 'waits\n"first"\n')


def test_a_draft_runs_with_the_tools(acme: Organization, tmp_path: Path) -> None:
    """Of the command; without them the start is refused."""
    with_tool(acme, "third", tmp_path)
    draft = ("run", "start", "third", "--draft", "--follow")
    assert "unknown tool `third`" in acme.call(*draft).err
    assert acme.call(*draft, "--tools", "third.py:third").out.endswith('"third"\n')
