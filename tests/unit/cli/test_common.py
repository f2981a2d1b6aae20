"""Common options of the commands, and the core that they open."""

import asyncio
import json
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from postgres_server import new_database

from wfcore.cli.common import IN_MEMORY, at_interruption, open_core, stopped_by_hangup
from wfcore.cli.main import main

CONFIG = '[models.quick]\nprovider = "scripted"\n'


@pytest.mark.anyio
@pytest.mark.parametrize(("worker", "models"), [(True, False), (False, True), (True, True)])
async def test_configured_models(tmp_path: Path, worker: bool, models: bool) -> None:
    """They are available to a worker, and to a server that only checks the model names of requests."""
    file = tmp_path / "wfcore.toml"
    file.write_text(CONFIG)
    async with open_core(IN_MEMORY, str(file), worker=worker, models=models) as core:
        assert "quick" in core.ports.models


@pytest.mark.parametrize("command", [["validate", "w.yaml"], ["simulate", "w.yaml"], ["openapi"]])
def test_every_command_accepts_a_settings_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    """Commands that open no database read it too: an invalid setting is wrong usage."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.yaml").write_text("workflowStructure: {nodes: [{id: s, type: start}], edges: []}")
    (tmp_path / "good.toml").write_text("port = 0\n[limits]\nmax_node_visits = 5\n")
    (tmp_path / "bad.toml").write_text("[limits]\nmax_node_visits = 0\n")
    assert main([*command, "--config", "good.toml"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert main([*command, "--config", "bad.toml"]) == 2
    assert "limits.max_node_visits" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["validate", "w.yaml"], ["openapi"]])
def test_every_command_accepts_a_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    """Commands that need no database accept the option and do not use it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.yaml").write_text("workflowStructure: {nodes: [{id: s, type: start}], edges: []}")
    assert main([*command, "--database", "sqlite:///other.db"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert not (tmp_path / "other.db").exists()


@pytest.mark.parametrize(
    "command",
    [
        ["org", "show", "x"],
        ["org", "delete", "x", "--yes"],
        ["org", "limit", "x", "1"],
        ["org", "export", "x", "--to", "x.zip"],
        ["group", "create", "g", "--org", "x"],
        ["member", "add", "--org", "x", "--user-id", "u", "--email", "u@example.org"],
        ["token", "create", "--org", "x", "--user-id", "u", "--all-scopes"],
    ],
)
def test_an_unknown_organization_shows_no_password(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the database, without what is secret in its URL."""
    monkeypatch.chdir(tmp_path)
    url = new_database()
    monkeypatch.setenv("WFCORE_DATABASE", f"{url}{'&' if '?' in url else '?'}application_name=sec-ret")
    assert main(command) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("error: unknown organization `x` in `postgresql://")
    assert "sec-ret" not in shown


READS = [
    ["org", "list"],
    ["org", "show", "x"],
    ["org", "export", "x", "--to", "x.zip"],
    ["db", "check"],
    ["db", "prune", "--dry-run"],
    ["db", "reencrypt"],
    ["workflow", "list", "--org", "x", "--user-id", "u"],
]


@pytest.mark.parametrize("command", READS)
def test_a_command_that_reads_creates_no_database(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither a file nor, in one that exists, the tables."""
    monkeypatch.chdir(tmp_path)
    assert main([*command, "--database", "sqlite:///missing.db"]) == 1
    assert capsys.readouterr().err == "error: database `missing.db` does not exist: run `wfcore db upgrade`\n"
    (tmp_path / "empty.db").touch()
    assert main([*command, "--database", "sqlite:///empty.db"]) == 1
    assert "run `wfcore db upgrade`" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["empty.db"]
    with closing(sqlite3.connect("empty.db")) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)


def test_a_command_that_reads_creates_no_schema(capsys: pytest.CaptureFixture[str]) -> None:
    """Of PostgreSQL."""
    place = ("--database", new_database(), "--schema", "nope")
    for _ in range(2):
        assert main(["org", "list", *place]) == 1
        assert "run `wfcore db upgrade`" in capsys.readouterr().err


class TestStoppedByHangup:
    """SIGHUP; this process has a handler of SIGTERM that only counts."""

    @pytest.fixture(autouse=True)
    def stops(self) -> Iterator[list[int]]:
        stops: list[int] = []
        before = signal.signal(signal.SIGTERM, lambda number, _: stops.append(number)), signal.getsignal(signal.SIGHUP)
        yield stops
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGHUP, before[1])

    def test_two_are_one_stop(self, stops: list[int]) -> None:
        """The shell and the kernel both send one when a terminal closes: the second must not end the drain."""
        with stopped_by_hangup():
            signal.raise_signal(signal.SIGHUP)
            signal.raise_signal(signal.SIGHUP)
        assert stops == [signal.SIGTERM]

    def test_a_process_that_ignores_it_goes_on(self, stops: list[int]) -> None:
        """As one that `nohup` started."""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with stopped_by_hangup():
            signal.raise_signal(signal.SIGHUP)
        assert stops == []
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_an_interrupted_command_says_what_becomes_of_its_work(capsys: pytest.CaptureFixture[str]) -> None:
    """After Ctrl-C, which cancels the command; not after a failure, which says so itself."""

    async def work(error: BaseException) -> None:
        with at_interruption("the rest is done later"):
            raise error

    for error, expected in ((asyncio.CancelledError(), "the rest is done later\n"), (ValueError("no"), "")):
        with pytest.raises(type(error)):
            asyncio.run(work(error))
        assert capsys.readouterr().err == expected
