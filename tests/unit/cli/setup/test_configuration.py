"""`wfcore config check`."""

import os
from pathlib import Path

import msgspec
import pytest

from wfcore.cli.main import main
from wfcore.cli.setup.configuration import warn_of_missing_settings, warn_of_unknown_variables
from wfcore.settings.installation import Configuration


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [name for name in os.environ if name.startswith("WFCORE_")]:
        monkeypatch.delenv(variable)


def test_a_configuration_without_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 0; the database is not opened."""
    file = tmp_path / "a.toml"
    file.write_text('database = "sqlite:///nowhere/x.db"\nport = 1\n[limits]\nmax_nodes = 3\n')
    assert main(["config", "check", "--config", str(file)]) == 0
    assert capsys.readouterr().out == "the configuration is valid\n"


def test_every_fault_comes_in_one_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unknown names of the file and of the environment, and a value that is not valid."""
    file = tmp_path / "a.toml"
    file.write_text('databse = "x"\nprot = 1\n[limits]\nmax_nodes = 0\n')
    monkeypatch.setenv("WFCORE_CONFIG", str(file))
    monkeypatch.setenv("WFCORE_LIMIT_MAX_NODES", "3")
    assert main(["config", "check"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: `WFCORE_LIMIT_MAX_NODES` in the environment: is not a setting, did you mean `WFCORE_LIMITS_MAX_NODES`?",
        f"error: `databse` in {file}: is not a setting, did you mean `database`?",
        f"error: `prot` in {file}: is not a setting, did you mean `port`?",
        f"error: `limits.max_nodes` in {file}: expected `int` >= 1",
    ]


def test_keys_of_any_name_are_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of tables whose keys an operator chooses; the id of a tool has a dot."""
    file = tmp_path / "a.toml"
    file.write_text('[tool_calls]\n"core.http" = "600/minute"\n[studio.theme]\n--wf-accent = "red"\n')
    assert main(["config", "check", "--config", str(file)]) == 0


TABLES = """
[database]
url = 1
busy_seconds = 0
[retention]
runs_days = -1
audit_days = "x"
[server]
header_seconds = 0
keep_alive_seconds = "x"
trusted_proxies = ["here"]
[tool_calls]
"core.http" = "often"
[studio]
locale = "xx"
[shards]
main = "postgresql://h/n"
east = "sqlite:///x.db"
[models.one]
provider = "openai"
model = "x"
base_url = "ftp://x"
[models.two]
provider = "nope"
[models.three]
provider = "openai"
"""


def faults(capsys: pytest.CaptureFixture[str], file: Path) -> list[str]:
    """The keys with faults, and those of the environment."""
    assert main(["config", "check", "--config", str(file)]) == 2
    return [line.removeprefix("error: ").partition(": ")[0] for line in capsys.readouterr().err.splitlines()]


def test_one_fault_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the same table, of other tables, and of the environment; each is listed once."""
    file = tmp_path / "a.toml"
    file.write_text(TABLES)
    monkeypatch.setenv("WFCORE_LIMITS_MAX_NODES", "abc")
    monkeypatch.setenv("WFCORE_LIMITS_MAX_EDGES", "0")
    monkeypatch.setenv("WFCORE_MODELS_FAST_API_KEY", "x")
    monkeypatch.setenv("WFCORE_RETENTION_RUNS_DAYS", "2")
    in_file = [
        "database.url", "database.busy_seconds", "retention.runs_days", "retention.audit_days", "server.header_seconds",
        "server.keep_alive_seconds", "tool_calls.core.http", "studio", "models.one.base_url", "models.two.provider",
        "models.three.model", "server.trusted_proxies", "shards.main", "shards.east",
    ]  # fmt: skip
    in_environment = ["limits.max_nodes", "limits.max_edges", "models.fast"]
    assert sorted(faults(capsys, file)) == sorted(
        [f"`{key}` in {file}" for key in in_file] + [f"`{key}` in the environment" for key in in_environment]
    )


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('log_level = "loud"', "`log_level` in "),
        ('no_worker = "abc"', "`no_worker` in "),
        ("host = 1", "`host` in "),
        ('port = "x"', "`port` in "),
        ("port = 99999", 'Invalid value "99999" for port'),
        ('tools = ["nope.py:X", "json:dumps", "json:nope"]', "--tools: cannot import `nope.py`"),
        ('tools = ["json:dumps", "json:nope"]', "--tools: `json` has no `nope`"),
        ('database = "mysql://u:secret@h/n"', "`database`: is not a valid URL"),
        ('database = "postgresql://u:secret@h:x/n"', "the database URL is not valid"),
        ('schema = "s"', "`schema`: is for PostgreSQL"),
        ('database = "postgresql://h/n"\nschema = "a b"', "`schema` is not valid"),
    ],
)
def test_what_commands_would_refuse(line: str, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The values of options, the tools, and the URL, which is not shown."""
    file = tmp_path / "a.toml"
    file.write_text(line)
    assert main(["config", "check", "--config", str(file)]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"error: {fault}")
    assert "secret" not in shown


def test_a_wrong_option_in_the_environment(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One that some command has with such a value is no fault."""
    monkeypatch.setenv("WFCORE_SCOPE", "a, b")
    monkeypatch.setenv("WFCORE_NO_WORKER", "true")
    assert main(["config", "check"]) == 0
    monkeypatch.setenv("WFCORE_PORT", "abc")
    assert main(["config", "check"]) == 2
    assert "WFCORE_PORT" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = [", "is not TOML"),
        ("[limits]\nmax_nods = 1", "did you mean `limits.max_nodes`?"),
        ('[models.m]\nprovider = "openai"\nmodel = "x"', "api_key"),
    ],
)
def test_a_single_fault(text: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line for each fault, also for one that only shows when the settings are used."""
    file = tmp_path / "a.toml"
    file.write_text(text)
    assert main(["config", "check", "--config", str(file)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert expected in line


def test_other_commands_name_the_nearest_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They stop at the first unknown key."""
    file = tmp_path / "a.toml"
    file.write_text("prot = 1")
    assert main(["serve", "--config", str(file)]) == 2
    assert "`prot` in" in (shown := capsys.readouterr().err)
    assert "did you mean `port`?" in shown


def test_a_server_warns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Of variables that nothing reads; the options of other commands are known."""
    monkeypatch.setenv("WFCORE_USER_ID", "ada")
    warn_of_unknown_variables()
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("WFCORE_DATABSE", "x")
    warn_of_unknown_variables()
    assert capsys.readouterr().err == (
        "warning: `WFCORE_DATABSE` in the environment: is not a setting, did you mean `WFCORE_DATABASE`?\n"
    )


@pytest.mark.parametrize(
    ("variable", "read"),
    [
        ("WFCORE_DATABASE_URL", "WFCORE_DATABASE"),
        ("WFCORE_DATABASE_SCHEMA", "WFCORE_SCHEMA"),
        ("WFCORE_DATABASE_BUSY_SECONDS", "WFCORE_BUSY_SECONDS"),
    ],
)
def test_the_keys_of_the_table_database_are_no_variables(
    variable: str, read: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing reads them: the fault names the variable that is read."""
    monkeypatch.setenv(variable, "1")
    assert main(["config", "check"]) == 2
    expected = f"error: `{variable}` in the environment: is not a setting, did you mean `{read}`?\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize(
    ("database", "given", "missing"),
    [
        ("postgresql://host/name", {}, ["`blobs`", "`secret_key`"]),
        ("postgresql://host/name", {"blobs": "attachments"}, ["`secret_key`"]),
        ("postgresql://host/name", {"blobs": "attachments", "secret_key": "A" * 43}, []),
        ("sqlite:///app.db", {}, []),
    ],
)
def test_missing_settings_are_named(
    database: str, given: dict[str, str], missing: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A server of PostgreSQL needs two settings for which a file has a place beside it."""
    warn_of_missing_settings(msgspec.convert(given, Configuration), database)
    printed = capsys.readouterr().err.splitlines()
    assert [line.rpartition("set ")[2] for line in printed] == missing
