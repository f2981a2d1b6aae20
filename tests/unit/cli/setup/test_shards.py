"""`wfcore shard`: shards are added and listed, and an organization is moved."""

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from postgres_server import new_database
from shard_databases import CLEAN

from wfcore.adapters.sql.shards import moving
from wfcore.cli.main import main

pytestmark = pytest.mark.service

ORG = "00000000-0000-4000-8000-00000000000a"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A configuration file with one more shard."""
    monkeypatch.setattr(moving, "GRACE", 0.0)
    monkeypatch.setattr(moving, "LEASE", 0.0)
    urls = [new_database(), new_database()]
    file = tmp_path / "wfcore.toml"
    file.write_text(f'database = "{urls[0]}"\n[shards]\neast = "{urls[1]}"\n')
    yield str(file)
    with psycopg.connect(urls[0], autocommit=True) as connection:
        connection.execute(CLEAN)


def test_an_organization_is_moved(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """To the new shard; what cannot be done is said in one line."""
    options = ("--config", config)
    assert main(["org", "create", "Acme", "--id", ORG, *options]) == 0
    assert main(["shard", "add", "east", *options]) == 0
    assert main(["shard", "move", ORG, "east", *options]) == 0
    assert "rows to shard `east`; writes waited 0." in capsys.readouterr().err
    assert main(["shard", "list", "--json", *options]) == 0
    rows = [{"name": "main", "organizations": 0}, {"name": "east", "organizations": 1}]
    assert json.loads(capsys.readouterr().out) == rows
    assert main(["org", "list", *options]) == 0
    assert "Acme" in capsys.readouterr().out
    for command, status, message in (
        (("shard", "move", ORG, "east"), 1, "is on shard `east`"),
        (("shard", "add", "west"), 1, "shard `west` is not in the settings"),
        (("db", "backup", "folder"), 2, "a backup has one database"),
    ):
        assert main([*command, *options]) == status
        assert message in capsys.readouterr().err


def test_there_are_no_shards(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shard", "list"]) == 2
    assert "add `[shards]` with a name and the URL of a database" in capsys.readouterr().err
