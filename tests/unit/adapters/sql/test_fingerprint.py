"""The schema that is there, compared with that of the release, on both stores."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from postgres_server import with_schema, without_schema
from sql_texts import qualified

from wfcore.adapters.sql import migrations
from wfcore.adapters.sql.migrations.fingerprint import differences, released
from wfcore.adapters.sql.schema.names import DEFAULT_SCHEMA, PREFIX
from wfcore.adapters.sql.schema.tables import metadata
from wfcore.cli.main import main

STORES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.service)]


def engine_of(url: str) -> sa.Engine:
    return sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:", 1))


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with this release's schema, this test's own."""
    if request.param == "postgresql":
        return with_schema()
    return with_steps(f"sqlite:///{tmp_path}/a.db")


def with_steps(url: str) -> str:
    """The database, after the steps of this release."""
    engine = engine_of(url)
    with engine.begin() as connection:
        migrations.upgrade(connection)
    engine.dispose()
    return url


def after(url: str, *statements: str) -> list[str]:
    """The differences after these statements, which name tables and indexes as on SQLite; without the prefix."""
    engine = engine_of(url)
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(in_database(statement, engine.dialect.name))
        found = differences(connection)
    engine.dispose()
    return [difference.replace(PREFIX, "") for difference in found]


def in_database(statement: str, dialect: str) -> str:
    """The statement with the names of the database. A new index of PostgreSQL cannot be named with its schema."""
    if dialect == "sqlite":
        return statement
    statement = qualified(statement)
    return statement.replace(f'CREATE INDEX "{DEFAULT_SCHEMA}".', "CREATE INDEX ")


@pytest.mark.parametrize("store", STORES)
def test_the_files_are_what_the_steps_make(store: str) -> None:
    """What a check compares with, and the statements of a new file, are what `write_schemas.py` writes."""
    spec = importlib.util.spec_from_file_location("write_schemas", Path(__file__).with_name("write_schemas.py"))
    assert spec is not None
    assert spec.loader is not None
    writing: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writing)
    url = "sqlite://" if store == "sqlite" else without_schema().replace("postgresql:", "postgresql+psycopg:", 1)
    for name, text in writing.made(url).items():
        assert (Path(migrations.__file__).with_name("schemas") / name).read_text() == text
    assert {name.removeprefix(PREFIX) for name in released(store)} == {
        name.removeprefix(PREFIX) for name in metadata.tables
    }


def test_the_schema_of_the_release_has_no_difference(url: str) -> None:
    """Nor do tables, indexes and views that somebody else keeps in the same database."""
    assert after(url) == []
    assert after(
        url,
        "CREATE TABLE invoices (id int PRIMARY KEY, run text UNIQUE)",
        "CREATE INDEX invoices_run ON invoices (run)",
        "CREATE VIEW finished AS SELECT id FROM wfcore_runs WHERE finished_at IS NOT NULL",
    ) == []  # fmt: skip


@pytest.mark.parametrize(
    ("statements", "found"),
    [
        (["DROP TABLE wfcore_postings"], ["missing table `postings`"]),
        (["ALTER TABLE wfcore_runs ADD COLUMN cost int"], ["extra column `cost` of `runs`"]),
        (["ALTER TABLE wfcore_members DROP COLUMN name"], ["missing column `name` of `members`"]),
        (
            ["ALTER TABLE wfcore_members RENAME COLUMN name TO nickname"],
            ["missing column `name` of `members`", "extra column `nickname` of `members`"],
        ),
        (["DROP INDEX wfcore_runs_recent"], ["missing index `runs_recent` of `runs`"]),
        (["CREATE INDEX wfcore_runs_ended ON wfcore_runs (status)"], ["extra index `runs_ended` of `runs`"]),
        (
            [
                "DROP INDEX wfcore_runs_created",
                "CREATE INDEX wfcore_runs_created ON wfcore_runs (org, created_at DESC)",
            ],
            ["index `runs_created` of `runs` is `(org, created_at DESC)` instead of `(org, created_at)`"],
        ),
        (
            ["DROP INDEX wfcore_webhooks_digest", "CREATE INDEX wfcore_webhooks_digest ON wfcore_webhooks (digest)"],
            ["index `webhooks_digest` of `webhooks` is `(digest)` instead of `UNIQUE (digest)`"],
        ),
        (
            [
                "DROP INDEX wfcore_executions_claims",
                "CREATE INDEX wfcore_executions_claims ON wfcore_executions (claimed_by)",
            ],
            ["index `executions_claims` of `executions` is `(claimed_by)` instead of `(claimed_by) WHERE "],
        ),
    ],
)
def test_every_difference_is_named(url: str, statements: list[str], found: list[str]) -> None:
    """By what is missing, extra or other than expected, and by the table it is in."""
    told = after(url, *statements)
    assert len(told) == len(found)
    assert [line.startswith(start) for line, start in zip(told, found, strict=True)] == [True] * len(told)


@pytest.mark.service
@pytest.mark.parametrize(
    ("statement", "found"),
    [
        (
            "ALTER TABLE wfcore_runs ALTER COLUMN created_at TYPE int",
            "column `created_at` of `runs` is `INTEGER NOT NULL` instead of `BIGINT NOT NULL`",
        ),
        (
            "ALTER TABLE wfcore_runs ALTER COLUMN status DROP NOT NULL",
            'column `status` of `runs` is `TEXT COLLATE "C"` instead of `TEXT COLLATE "C" NOT NULL`',
        ),
        (
            "ALTER TABLE wfcore_members ALTER COLUMN email TYPE text",
            'column `email` of `members` is `TEXT` instead of `TEXT COLLATE "C"`',
        ),
        (
            "ALTER TABLE wfcore_audit ALTER COLUMN key DROP DEFAULT",
            (
                "column `key` of `audit` is `BIGINT NOT NULL` instead of "
                "`BIGINT NOT NULL DEFAULT nextval('audit_key_seq'::regclass)`"
            ),
        ),
        (
            "ALTER TABLE wfcore_resources DROP CONSTRAINT resources_org_kind_slug_key",
            "missing constraint `UNIQUE (org, kind, slug)` of `resources`",
        ),
        (
            "ALTER TABLE wfcore_grants DROP CONSTRAINT grants_resource_fkey",
            "missing constraint `FOREIGN KEY (resource) REFERENCES resources (key)` of `grants`",
        ),
        (
            "ALTER TABLE wfcore_runs ADD CHECK (created_at > 0)",
            "extra constraint `CHECK (created_at > 0)` of `runs`",
        ),
        (
            "ALTER TABLE wfcore_journal DROP CONSTRAINT journal_pkey",
            "missing constraint `PRIMARY KEY (execution, pos)` of `journal`",
        ),
    ],
)
def test_what_only_a_server_can_alter(statement: str, found: str) -> None:
    """Types, nullability, defaults and constraints of a table that is there."""
    assert after(with_schema(), statement) == [found]


def test_a_table_that_was_made_otherwise(tmp_path: Path) -> None:
    """The same on SQLite, where a table is made anew to change its columns and constraints."""
    url = with_steps(f"sqlite:///{tmp_path}/a.db")
    columns = "host TEXT, pid TEXT NOT NULL, beats INTEGER NOT NULL DEFAULT 0 CHECK (beats >= 0), UNIQUE (host)"
    assert after(
        url, "DROP TABLE wfcore_workers", f"CREATE TABLE wfcore_workers (id INTEGER NOT NULL PRIMARY KEY, {columns})"
    ) == [
        "column `host` of `workers` is `TEXT` instead of `TEXT NOT NULL`",
        "column `pid` of `workers` is `TEXT NOT NULL` instead of `INTEGER NOT NULL`",
        "column `beats` of `workers` is `INTEGER NOT NULL DEFAULT 0` instead of `INTEGER NOT NULL`",
        "extra constraint `CHECK (beats >= 0)` of `workers`",
        "extra constraint `UNIQUE (host)` of `workers`",
    ]


def test_the_command_names_what_differs(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`wfcore db check` succeeds on the schema of the release, and else fails with every difference in one error."""
    assert main(["db", "check", "--database", url]) == 0
    assert "the schema is that of this release" in capsys.readouterr().out
    after(url, "DROP INDEX wfcore_runs_recent", "ALTER TABLE wfcore_runs ADD COLUMN cost int")
    assert main(["db", "check", "--database", url]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.strip().replace(PREFIX, "") == (
        "error: the schema is not that of this release: extra column `cost` of `runs`; "
        "missing index `runs_recent` of `runs`"
    )
    assert main(["db", "upgrade", "--database", url]) == 0
    assert "of this release" not in capsys.readouterr().out
