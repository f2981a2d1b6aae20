"""`wfcore shard`: shards are added and listed, and an organization is moved."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgres_server import new_database
from shard_databases import CLEAN

import wfcore
from wfcore.adapters.sql.shards import copying, moving
from wfcore.cli.main import main
from wfcore.settings.installation import load

pytestmark = pytest.mark.service

ORG, OTHER = (f"00000000-0000-4000-8000-00000000000{digit}" for digit in "ab")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A configuration file with one more shard."""
    monkeypatch.setattr(moving, "GRACE", 0.0)
    monkeypatch.setattr(copying, "LEASE", 0.0)
    urls = [new_database(), new_database()]
    file = tmp_path / "wfcore.toml"
    file.write_text(f'database = "{urls[0]}"\n[shards]\neast = "{urls[1]}"\n')
    yield str(file)
    clean(urls)


def test_an_organization_is_moved(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """To the new shard; what cannot be done is said in one line."""
    options = ("--config", config)
    assert main(["org", "create", "Acme", "--id", ORG, *options]) == 0
    assert main(["shard", "add", "east", *options]) == 0
    assert main(["shard", "move", ORG, "east", *options]) == 0
    assert "rows to shard `east`; writes waited 0." in capsys.readouterr().err
    assert main(["db", "upgrade", "--dry-run", *options]) == 0
    plan = capsys.readouterr()
    assert (plan.out.split("\n"), plan.err.count("has 0 statements")) == (["-- shard `main`", "-- shard `east`", ""], 2)
    assert main(["shard", "list", "--json", *options]) == 0
    rows = [{"name": "main", "organizations": 0}, {"name": "east", "organizations": 1}]
    assert json.loads(capsys.readouterr().out) == rows
    assert main(["org", "list", *options]) == 0
    assert "Acme" in capsys.readouterr().out
    for command, status, message in (
        (("shard", "move", ORG, "east"), 1, "is on shard `east`"),
        (("shard", "add", "west"), 1, "shard `west` is not in the settings"),
    ):
        assert main([*command, *options]) == status
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("last", "message", "counts"),
    [("fenced", "nothing has moved", (1, 0)), ("placed", "the organization is on shard `east`", (0, 1))],
)
def test_an_interrupted_move_says_where_the_organization_is(
    last: str, message: str, counts: tuple[int, int],
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """And so does the list, also while the old rows are not deleted yet."""
    real = moving.move

    def interrupted(installation: Any, org: str, to: str, on_step: Any) -> Any:
        def step(name: str) -> None:
            on_step(name)
            if name == last:
                raise KeyboardInterrupt

        return real(installation, org, to, step)

    monkeypatch.setattr(moving, "move", interrupted)
    options = ("--config", config)
    assert main(["org", "create", "Acme", "--id", ORG, *options]) == 0
    assert main(["shard", "add", "east", *options]) == 0
    assert main(["shard", "move", ORG, "east", *options]) == 130
    assert message in capsys.readouterr().err
    assert main(["shard", "list", "--json", *options]) == 0
    assert tuple(row["organizations"] for row in json.loads(capsys.readouterr().out)) == counts
    monkeypatch.setattr(moving, "move", real)
    assert main(["shard", "move", ORG, "east", *options]) == counts[1]  # which also ends what is left


def test_backups_and_copies_have_the_organizations_of_all_shards(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is one database, which is served as it is; a backup is restored as the shard `main` of new databases."""
    options, folder, copied = ("--config", config), tmp_path / "folder", f"sqlite:///{tmp_path / 'copy.db'}"
    for org, name in ((ORG, "Acme"), (OTHER, "Umbrella")):
        assert main(["org", "create", name, "--id", org, *options]) == 0
    assert main(["shard", "add", "east", *options]) == 0
    assert main(["shard", "move", ORG, "east", *options]) == 0
    assert main(["db", "backup", str(folder), *options]) == 0
    assert main(["db", "restore", str(folder), *options]) == 1
    assert "has placements of organizations: use a new database" in capsys.readouterr().err
    main_url, east_url = load(config).database, load(config).shards["east"]
    for command, status, message in (
        ((east_url, copied, *options), 2, "is shard `east`: name shard `main`"),
        ((main_url, copied), 1, "organizations on shard `east`, which is not in `[shards]`"),
        ((main_url, copied, *options), 0, ""),
        ((copied, main_url), 1, "has placements of organizations: use a new database"),
    ):
        assert main(["db", "copy", *command]) == status
        assert message in capsys.readouterr().err
    urls = [new_database(), new_database()]
    Path(config).write_text(f'database = "{urls[0]}"\n[shards]\neast = "{urls[1]}"\n')
    assert main(["db", "restore", str(folder), *options]) == 0
    for where in (("--database", f"sqlite:///{folder / 'wfcore.db'}"), ("--database", copied), options):
        capsys.readouterr()
        assert main(["org", "list", *where]) == 0
        assert {"Acme", "Umbrella"} <= set(capsys.readouterr().out.split())
    assert main(["shard", "add", "east", *options]) == 0
    assert main(["shard", "move", OTHER, "east", *options]) == 0
    clean(urls)


def test_a_backup_waits_for_the_end_of_a_move(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shard", "list", "--config", config]) == 0
    with psycopg.connect(load(config).database, autocommit=True) as connection:
        connection.execute("INSERT INTO wfcore.placements VALUES ('o', 'main', 1, 'east', NULL, 1)")
    assert main(["db", "backup", "folder", "--config", config]) == 1
    assert "an organization is being moved" in capsys.readouterr().err


def clean(urls: list[str]) -> None:
    for url in urls:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(CLEAN)


def test_there_are_no_shards(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shard", "list"]) == 2
    assert "add `[shards]` with a name and the URL of a database" in capsys.readouterr().err


def test_secrets_of_every_shard_are_encrypted_anew(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With the current key; not while an organization is being moved."""
    file, old, new = Path(config), "o" * 43, "n" * 43
    settings, options = file.read_text(), ("--config", config)
    file.write_text(f'secret_key = "{old}"\n{settings}')
    assert main(["org", "create", "Acme", "--id", ORG, *options]) == 0
    assert main(["shard", "add", "east", *options]) == 0
    assert main(["shard", "move", ORG, "east", *options]) == 0
    assert main(["org", "create", "Other", "--id", OTHER, *options]) == 0
    for org in (ORG, OTHER):
        asyncio.run(connected(config, org))
    file.write_text(f'secret_key = "{new}"\nprevious_secret_keys = ["{old}"]\n{settings}')
    capsys.readouterr()
    with moving._locked(shards_of(config)):
        assert main(["db", "reencrypt", *options]) == 1
    assert "another organization is being moved" in capsys.readouterr().err
    assert main(["db", "reencrypt", "--json", *options]) == 0
    assert json.loads(capsys.readouterr().out)[0] == {"kind": "connections", "count": 2}
    assert main(["db", "check", "--deep", *options]) == 0
    checked = capsys.readouterr().out
    assert "encrypts the secrets of 2 rows" in checked
    assert "encrypts nothing: it can be removed" in checked
    file.write_text(f'secret_key = "{new}"\n{settings}')
    assert main(["db", "check", "--deep", *options]) == 0


async def connected(config: str, org: str) -> None:
    """Create a connection."""
    found = load(config)
    settings, secrets = found.settings(), wfcore.Secrets(found.secret())
    async with wfcore.open(str(found.database), worker=False, settings=settings, secrets=secrets) as core:
        me = core.principal(org, user="ann", role="owner")
        await core.connections.create(me, name="Mail", provider="mail", kind="api_key", config={"apiKey": "k"})


def shards_of(config: str) -> moving.ShardDatabases:
    found = load(config)
    return moving.ShardDatabases({"main": str(found.database), **found.shards}, "wfcore")
