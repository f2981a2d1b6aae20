"""An option's value: the command line's, else the environment's, else the file's, else the default."""

import inspect
import os
from pathlib import Path
from typing import Any

import pytest

from wfcore.cli.main import app, main


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [name for name in os.environ if name.startswith("WFCORE_")]:
        monkeypatch.delenv(variable)


def parsed(*arguments: str) -> dict[str, Any]:
    """The arguments of the command, defaults included."""
    command, bound, _ = app.parse_args(list(arguments), exit_on_error=False, print_error=False)
    given = dict(bound.arguments)
    return {name: given.get(name, each.default) for name, each in inspect.signature(command).parameters.items()}


ROWS = [
    ("serve", "port", ["--port", "1"], "2", "port = 3", (1, 2, 3, 8080)),
    ("serve", "host", ["--host", "a"], "b", 'host = "c"', ("a", "b", "c", "127.0.0.1")),
    ("serve", "no_worker", ["--no-worker"], "true", "no_worker = true", (True, True, True, False)),
    ("serve", "tools", ["--tools", "a:A", "--tools", "b:B"], "c:C, d:D", 'tools = ["e:E", "f:F"]',
     (["a:A", "b:B"], ["c:C", "d:D"], ["e:E", "f:F"], [])),
    ("serve", "database", ["--database", "a"], "b", 'database = "c"', ("a", "b", "c", "sqlite:///wfcore.db")),
    ("db check", "database", ["--database", "a"], "b", 'database = "c"', ("a", "b", "c", "sqlite:///wfcore.db")),
    ("run x.yaml", "yes", ["--yes"], "1", "yes = true", (True, True, True, False)),
    ("run x.yaml", "database", ["--database", "a"], "b", 'database = "c"', ("a", "b", "c", "sqlite://")),
]  # fmt: skip


@pytest.mark.parametrize(("command", "name", "option", "variable", "line", "expected"), ROWS)
def test_precedence(
    command: str,
    name: str,
    option: list[str],
    variable: str,
    line: str,
    expected: tuple[Any, Any, Any, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each source alone, and each over those of lower precedence."""
    file = tmp_path / "wfcore.toml"
    file.write_text(line)
    words, config = command.split(), ["--config", str(file)]
    from_option, from_environment, from_file, default = expected
    assert parsed(*words)[name] == default
    assert parsed(*words, *config)[name] == from_file
    monkeypatch.setenv(f"WFCORE_{name.upper()}", variable)
    assert parsed(*words)[name] == from_environment
    assert parsed(*words, *config)[name] == from_environment
    assert parsed(*words, *config, *option)[name] == from_option
    monkeypatch.setenv("WFCORE_CONFIG", str(file))
    assert parsed(*words, *option)[name] == from_option


def test_the_environment_can_name_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`WFCORE_CONFIG` names the file; an explicit --config overrides it."""
    one, two = tmp_path / "one.toml", tmp_path / "two.toml"
    one.write_text("port = 1")
    two.write_text("port = 2")
    monkeypatch.setenv("WFCORE_CONFIG", str(one))
    assert parsed("serve")["port"] == 1
    assert parsed("serve", "--config", str(two))["port"] == 2


def test_a_setting_with_the_name_of_an_option_of_two_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """`WFCORE_BLOBS` is the directory of an installation: it says nothing about the directories of a copy."""
    monkeypatch.setenv("WFCORE_BLOBS", "files")
    assert parsed("db", "copy", "a", "b")["blobs"] is None
    assert parsed("db", "copy", "a", "b", "--blobs", "c", "d")["blobs"] == (Path("c"), Path("d"))


def test_a_file_can_have_options_of_other_commands(tmp_path: Path) -> None:
    """One file serves every command: `port` is not an error in `db check`."""
    file = tmp_path / "wfcore.toml"
    file.write_text('port = 1\nhost = "h"\nscope = ["workflows:read"]\nexpires_in = 5')
    assert parsed("db", "check", "--config", str(file))["config"] == str(file)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("hots = 'x'", "`hots`"),
        ("[serve]\nport = 1", "`serve`"),
        ("port = 'x'", "`port`"),
        ("port = true", "`port`"),
        ("host = 1", "`host`"),
        ("tools = 'a:A'", "`tools`"),
        ("no_worker = 1", "`no_worker`"),
    ],
)
def test_an_invalid_key_is_refused_by_name(
    line: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unknown key or a wrong type: exit status 2, and one error that names key and file."""
    file = tmp_path / "wfcore.toml"
    file.write_text(line)
    assert main(["serve", "--config", str(file)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"error: {problem} in {file}: " in captured.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["serve", "--nonsense"],
        ["serve", "--port", "x"],
        ["serve", "--port", "65536"],
        ["serve", "--port", "-1"],
        ["org", "create"],
        ["member", "add", "--org", "x", "--user-id", "u", "--email", "a@x.org", "--role", "king"],
        ["token", "create", "--org", "x", "--user-id", "u"],
        ["token", "create", "--org", "x", "--user-id", "u", "--all-scopes", "--scope", "workflows:read"],
        ["db", "check", "--database", "mysql://x"],
        ["db", "check", "--database", "sqlite:///x.db?mode=ro"],
        ["db", "check", "--config", "missing.toml"],
        ["run", "missing.yaml"],
        ["run", "missing.yaml", "--yes", "--no"],
        ["validate", "missing.yaml"],
        ["simulate", "missing.yaml"],
        ["simulate", "missing.yaml", "--max-paths", "0"],
        ["graph", "missing.yaml"],
        ["graph", "missing.yaml", "--svg", "--mermaid"],
        ["graph", "missing.py:FLOW"],
        ["serve", "--tools", "nothing"],
        ["serve", "--tools", "no_such_module:TOOLS"],
        ["serve", "--tools", "no_such_file.py:TOOLS"],
        ["serve", "--tools", "json:no_such_name"],
    ],
)
def test_wrong_usage_ends_with_2(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stdout is empty, stderr has an error without a traceback, and no file is created."""
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert "Traceback" not in captured.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["workflow list", "skill list", "member list", "run list", "inbox", "audit"])
@pytest.mark.parametrize("limit", ["0", "-1"])
def test_a_list_has_at_least_one_row(command: str, limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Another limit is refused, whatever the target is."""
    assert main([*command.split(), "--limit", limit, "--org", "o", "--user-id", "u"]) == 2
    assert capsys.readouterr().err.startswith(f'error: Invalid value "{limit}" for --limit. Must be >= 1.')


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Help is on stdout, ends with 0, and names every command."""
    assert main(["--help"]) == 0
    printed = capsys.readouterr().out
    names = "serve worker run validate simulate graph chat org member group token db openapi"
    assert [name for name in names.split() if name not in printed] == []
