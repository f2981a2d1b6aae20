"""The commands, each as a real process: its stdout, its stderr, and its exit status."""

import gc
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx
import pytest
from commands import WFCORE, action, answered, ended_by, environment, serving, wfcore, workflow
from waiting import HANG

from wfcore.cli.launch import main
from wfcore.domain.kernel.ids import is_uuid

# serve


def test_a_server_from_an_empty_folder_to_a_drained_stream(tmp_path: Path) -> None:
    """`serve` creates its database and key. Organization, member, group and token are created while it runs and are
    valid at once. SIGTERM ends an open stream promptly, and the run continues at the next start."""
    file = json.loads((tmp_path / workflow(tmp_path, action("core.wait", seconds=3600))).read_text())
    with serving(tmp_path) as (server, url):
        org = answered(tmp_path, "org", "create", "Acme", "--json")
        assert set(org) == {"id", "name", "createdAt"}
        group = answered(tmp_path, "group", "create", "--org", org["id"], "Finance", "--json")
        assert group["name"] == "Finance"
        whose = ("--org", org["id"], "--user-id", "u1")
        member = answered(
            tmp_path,
            "member",
            "add",
            *whose,
            "--email",
            "A@X.org",
            "--name",
            "Ann",
            "--role",
            "owner",
            "--group",
            group["id"],
            "--json",
        )
        assert member == {
            "userId": "u1", "email": "a@x.org", "name": "Ann", "role": "owner", "groups": [group["id"]]
        }  # fmt: skip
        made = wfcore(tmp_path, "token", "create", *whose, "--all-scopes", "--expires-in", "600")
        assert re.fullmatch(rf"svc_{org['id']}_[A-Za-z0-9]{{8}}_[A-Za-z0-9]{{43}}\n", made.stdout, re.ASCII)
        narrow = wfcore(tmp_path, "token", "create", *whose, "--scope", "workflows:read").stdout.strip()

        with httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {made.stdout.strip()}"}, timeout=HANG
        ) as client:
            assert client.get("/api/v1/me").json()["groups"] == [group["id"]]
            refused = client.get("/api/v1/skills", headers={"Authorization": f"Bearer {narrow}"})
            assert (refused.status_code, refused.json()["error"]["info"]["missing"]) == (403, ["skills:read"])
            number = client.post("/api/v1/workflows", json={"name": "Wait", "type": "workflow", **file}).json()["id"]
            assert client.post(f"/api/v1/workflows/{number}/deploy").status_code == 200
            body = {"workflowId": number, "input": {"n": 1}, "runId": "waits"}
            with client.stream("POST", "/agent/v1/runs", json=body) as stream:
                frames = stream.iter_lines()
                assert [next(frames), '"kind":"run_started"' in next(frames)] == ["id: 1", True]
                ended_by(server, signal.SIGTERM)

    assert (tmp_path / "wfcore.db.key").stat().st_mode & 0o777 == 0o600
    assert answered_status(tmp_path, "waits") == "running"
    with serving(tmp_path, "--no-worker") as (server, url):
        headers = {"Authorization": f"Bearer {made.stdout.strip()}", "Accept": "application/json"}
        assert httpx.get(f"{url}/agent/v1/runs/waits", headers=headers, timeout=HANG).json()["status"] == "running"
        served = httpx.get(f"{url}/openapi.json", timeout=HANG).json()
        served.pop("servers", None)
        assert served == answered(tmp_path, "openapi")
        ended_by(server, signal.SIGINT)


def answered_status(folder: Path, run_id: str) -> str:
    database = sqlite3.connect(folder / "wfcore.db")
    try:
        return str(database.execute("SELECT status FROM wfcore_runs WHERE id = ?", (run_id,)).fetchone()[0])
    finally:
        database.close()


def test_a_used_port_is_an_error(tmp_path: Path) -> None:
    """Exit status 1, one error that names the address, and no database."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = wfcore(tmp_path, "serve", "--port", str(taken.getsockname()[1]))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "error: cannot listen on 127.0.0.1:" in ended.stderr
    assert list(tmp_path.iterdir()) == []


# org, member, group, token, db


def test_the_schema_is_made_and_checked(tmp_path: Path) -> None:
    """`db check` fails, and creates nothing, before `db upgrade`; after it, it succeeds."""
    before = wfcore(tmp_path, "db", "check")
    assert (before.returncode, before.stdout) == (1, "")
    assert "run `wfcore db upgrade`" in before.stderr
    assert list(tmp_path.iterdir()) == []
    assert wfcore(tmp_path, "db", "upgrade").returncode == 0
    assert wfcore(tmp_path, "db", "check").returncode == 0


MISSING = "6f2d8a52-6b0e-4b7c-9a55-0d6a3c1e9f01"


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        (f"token create --org {MISSING} --user-id u --all-scopes", 1, f"unknown organization `{MISSING}`"),
        ("group create --org nonsense Finance", 1, "unknown organization `nonsense`"),
        ("token create --org ORG --user-id u --all-scopes", 1, "no member `u`"),
        ("org create Again --id ORG", 1, "already exists"),
        ("org create Acme", 1, "already has the name `Acme`: use another name, --id"),
        ("org create Acme --id nonsense", 2, "`nonsense` is not a UUID"),
        ("member add --org ORG --user-id u --email nonsense", 2, "`nonsense` is not an ASCII e-mail address"),
        (f"member add --org ORG --user-id u --email a@x.org --group {MISSING}", 2, f"no group `{MISSING}`"),
        ("member add --org ORG --user-id u --email a@x.org --group b --group a", 2, "`a` is not a UUID"),
        (
            "token create --org ORG --user-id u --scope nonsense",
            2,
            "`nonsense` is not a token scope: use `workflows:read`, ",
        ),
        ("token create --org ORG --user-id u --all-scopes --expires-in 0", 2, "at least 1"),
        ("org create Acme --database sqlite:///text.db", 1, "the database file is damaged"),
        ("org create Acme --database sqlite:///no/such/folder.db", 1, "its directory does not exist"),
        ("org create Acme --database sqlite:///newer.db", 1, "of a newer release"),
        ("db check --database sqlite:///newer.db", 1, "of a newer release"),
        ("db check --database sqlite:///empty.db", 1, "no schema yet"),
    ],
)
def test_failures_are_reported(
    command: str,
    status: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Unknown, used or invalid names, an empty, newer or broken database: a message on stderr, nothing on stdout."""
    monkeypatch.chdir(tmp_path)
    assert main(["org", "create", "Acme"]) == 0
    org = capsys.readouterr().out.strip()
    (tmp_path / "empty.db").touch()
    (tmp_path / "text.db").write_text("this is not a database, despite its name " * 100)
    shutil.copy(tmp_path / "wfcore.db", tmp_path / "newer.db")
    changed(tmp_path / "newer.db", "UPDATE wfcore_version SET version_num = '9999'")
    assert main([org if word == "ORG" else word for word in command.split()]) == status
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert message in captured.err


@pytest.mark.parametrize("command", ["openapi", "completion bash", "--help", "org create Acme"])
def test_a_reader_that_reads_no_more_is_no_error(tmp_path: Path, command: str) -> None:
    """As in `wfcore openapi | head -1`: the command ends without a message."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as closed:
        ended = subprocess.run(
            [*WFCORE, *command.split()],
            cwd=tmp_path,
            env={**environment(), "PYTHONUNBUFFERED": ""},
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (1, "")


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        ("org list", 0, ""),
        ("org list --json", 0, ""),
        ("run flow.json --input -", 2, "--input: not JSON"),
        (f"org delete {MISSING}", 2, "confirm with --yes"),
    ],
)
def test_closed_streams_are_empty(tmp_path: Path, command: str, status: int, message: str) -> None:
    """As in `wfcore org list <&- >&-`: there is nothing to read, and what is written is lost."""
    assert wfcore(tmp_path, "org", "create", "Acme", "--id", MISSING).returncode == 0
    ended = subprocess.run(
        ["sh", "-c", 'exec "$@" <&- >&-', "sh", *WFCORE, *command.split()],
        cwd=tmp_path,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (ended.returncode, "Traceback" in ended.stderr) == (status, False), ended.stderr
    assert message in ended.stderr


def test_creates_print_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The id alone, so that a shell can take it; two organizations of one name only on request."""
    monkeypatch.chdir(tmp_path)

    def printed(*words: str) -> str:
        assert main(words) == 0
        return capsys.readouterr().out.removesuffix("\n")

    org = printed("org", "create", "Acme")
    assert is_uuid(org)
    assert is_uuid(printed("org", "create", "Acme", "--allow-duplicate"))
    assert printed("org", "create", "Acme", "--id", MISSING) == MISSING
    assert printed("member", "add", "--org", org, "--user-id", "u1", "--email", "a@x.org") == "u1"
    assert is_uuid(printed("group", "create", "--org", org, "Finance"))


def test_a_locked_database_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another program locks the file for too long: status 1 and a message."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WFCORE_BUSY_SECONDS", "0.05")
    assert main(["db", "upgrade"]) == 0
    holder = sqlite3.connect(tmp_path / "wfcore.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        assert main(["org", "create", "Acme"]) == 1
    finally:
        holder.close()
    assert "error: the database is locked: another transaction writes to its file" in capsys.readouterr().err


def changed(file: Path, statement: str) -> None:
    database = sqlite3.connect(file)
    try:
        with database:
            database.execute(statement)
    finally:
        database.close()


# validate


def test_validate_prints_every_issue_as_json(tmp_path: Path) -> None:
    """Status 0 without an error, else 1; tools of the embedding program are known if configured; and YAML's `on:`
    stays a string."""
    (tmp_path / "tools.py").write_text("def refund(on: str) -> str:\n    return on\n")
    (tmp_path / "good.yaml").write_text(
        "workflowStructure:\n"
        "  nodes:\n"
        "    - {id: start, type: start}\n"
        "    - {id: act, type: action, data: {toolId: refund, params: {on: yes}}}\n"
        "  edges: [{id: e, source: start, target: act}]\n"
    )
    good = wfcore(tmp_path, "validate", "good.yaml", "--tools", "tools.py:refund")
    assert (good.returncode, json.loads(good.stdout)) == (0, {"issues": []})
    run = wfcore(tmp_path, "run", "good.yaml", "--tools", "tools:refund")
    assert (run.returncode, run.stdout) == (0, '"yes"\n')

    bad = wfcore(tmp_path, "validate", "good.yaml")
    assert bad.returncode == 1
    (issue,) = json.loads(bad.stdout)["issues"]
    assert set(issue) == {"path", "message", "rule", "severity", "line"}
    assert "refund" in issue["message"]
    text = (tmp_path / "good.yaml").read_text().splitlines()
    assert "toolId: refund" in text[issue["line"] - 1]
    refused = wfcore(tmp_path, "run", "good.yaml")
    assert f"error: good.yaml:{issue['line']}: `{issue['path']}`" in refused.stderr

    (tmp_path / "broken.yaml").write_text("a: [\n")
    broken = wfcore(tmp_path, "validate", "broken.yaml")
    assert broken.returncode == 1
    assert json.loads(broken.stdout)["issues"][0]["rule"] == "json"


# The process itself


@pytest.mark.parametrize(
    ("option", "shown"), [("--version", r"[0-9]+\.[0-9]+\.[0-9]+\n"), ("--help", r"Usage: wfcore COMMAND\n.*")]
)
def test_version_and_help_load_next_to_nothing(tmp_path: Path, option: str, shown: str) -> None:
    """They load no web, database, YAML or Markdown library, so they are fast."""
    probe = f"import sys; from wfcore.cli.main import main; main(['{option}']); print(*sys.modules, file=sys.stderr)"
    ended = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert re.fullmatch(shown, ended.stdout, re.DOTALL)
    heavy = {
        "starlette",
        "uvicorn",
        "sqlalchemy",
        "alembic",
        "anyio",
        "ruamel.yaml",
        "openai",
        "jsonschema_rs",
        "markdown_it",
        "pygments",
    }
    assert heavy & set(ended.stderr.split()) == set()


def test_a_command_ends_without_a_garbage_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would visit all that was imported, at the end of the interpreter."""
    at_exit = list[object]()
    monkeypatch.setattr("atexit.register", at_exit.append)
    assert main(["--version"]) == 0
    assert gc.freeze in at_exit


def test_the_module_and_the_command_are_the_same(tmp_path: Path) -> None:
    """`python -m wfcore` is `wfcore`: the package's script is the function that the module calls."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"wfcore": f"{main.__module__}:{main.__name__}"}
    assert wfcore(tmp_path, "--version").stdout == project["version"] + "\n"
