"""wfcore's tables beside those of other software, on both stores."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from postgres_server import without_schema

import wfcore
from wfcore import Unavailable
from wfcore.adapters.sql.schema.names import check_schema
from wfcore.cli.main import main
from wfcore.contrib.alembic import include_name_beside

pytestmark = pytest.mark.anyio

HOST = (
    "CREATE TABLE alembic_version (version_num varchar(32) NOT NULL PRIMARY KEY)",
    "INSERT INTO alembic_version VALUES ('9f3a21c0de44')",
    "CREATE TABLE groups (id integer PRIMARY KEY, name text)",
    "CREATE TABLE members (id integer PRIMARY KEY)",
    "CREATE TABLE messages (id integer PRIMARY KEY)",
    "CREATE TABLE runs (id integer PRIMARY KEY)",
    "CREATE INDEX runs_recent ON runs (id)",
    "INSERT INTO groups VALUES (1, 'readers')",
)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.service)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return without_schema() if request.param == "postgresql" else f"sqlite:///{tmp_path}/a.db"


@pytest.fixture
def host(url: str) -> Iterator[sa.Engine]:
    """The engine of the product, with its own tables and its own Alembic revision."""
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:", 1))
    do(engine, *HOST)
    yield engine
    engine.dispose()


def do(engine: sa.Engine, *statements: str) -> None:
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def contents(engine: sa.Engine) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of all tables of the product."""
    metadata = sa.MetaData()
    metadata.reflect(engine, only=lambda name, _: not name.startswith(("wfcore_", "sqlite_")))
    with engine.connect() as connection:
        return {name: [tuple(row) for row in connection.execute(sa.select(t))] for name, t in metadata.tables.items()}


async def use(url: str, **options: Any) -> None:
    async with wfcore.open(url, worker=False, **options) as core:
        org = await core.directory.create_organization("one")
        assert await core.ports.storage.organization(org.uuid) is not None


def mine(url: str, name: str) -> str:
    """The name of a table of wfcore in statements on this database."""
    return f"wfcore.{name}" if url.startswith("postgresql") else f"wfcore_{name}"


async def test_both_have_their_own_tables_and_revisions(url: str, host: sa.Engine) -> None:
    """Tables, indexes and revision of the product are what they were; so are those of wfcore at the next start."""
    before = contents(host)
    await use(url)
    await use(url)
    assert contents(host) == before
    with host.connect() as connection:
        rows = connection.exec_driver_sql(f"SELECT count(*) FROM {mine(url, 'organizations')}").scalar()
        version = "wfcore.wfcore_version" if url.startswith("postgresql") else "wfcore_version"
        found = connection.exec_driver_sql(f"SELECT version_num FROM {version}").scalar()
    assert (rows, found) == (2, "0001")
    assert await asyncio.to_thread(main, ["db", "check", "--database", url]) == 0


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("CREATE TABLE {runs} (id integer)", "runs"),
        ("CREATE VIEW {members} AS SELECT id FROM members", "members"),
    ],
)
async def test_a_table_that_is_not_ours(url: str, host: sa.Engine, statement: str, name: str) -> None:
    """It is named, and nothing is created beside it."""
    if url.startswith("postgresql"):
        do(host, "CREATE SCHEMA wfcore")
    do(host, statement.format(runs=mine(url, "runs"), members=mine(url, "members")))
    before = contents(host)
    with pytest.raises(Unavailable, match=rf"has `{mine(url, name)}`, which wfcore did not create: rename it or use"):
        await use(url)
    assert contents(host) == before
    schema = "wfcore" if url.startswith("postgresql") else None
    tables = [each for each in sa.inspect(host).get_table_names(schema) if schema or each.startswith("wfcore_")]
    assert tables == ([mine(url, name).rpartition(".")[2]] if "TABLE" in statement else [])


async def test_a_name_in_another_case(tmp_path: Path) -> None:
    """Is the same name on SQLite."""
    with closing(sqlite3.connect(tmp_path / "app.db")) as connection:
        connection.execute("CREATE TABLE WFCORE_RUNS (id integer)")
    with pytest.raises(Unavailable, match=r"has `WFCORE_RUNS`, which wfcore did not create: rename it"):
        await use(f"sqlite:///{tmp_path / 'app.db'}")


async def test_names_of_indexes_and_many_tables(host: sa.Engine, url: str) -> None:
    """Up to five names are shown."""
    if url.startswith("postgresql"):
        do(host, "CREATE SCHEMA wfcore")
    names = ["runs", "members", "groups", "audit", "grants", "usage"]
    do(host, *(f"CREATE TABLE {mine(url, name)} (id integer)" for name in names))
    with pytest.raises(Unavailable, match=r"and 1 more, which wfcore did not create: rename them"):
        await use(url)


@pytest.mark.parametrize(
    ("columns", "rows", "held"),
    [
        ("version_num text", ["'9f3a21c0de44'"], "`9f3a21c0de44`"),
        ("version_num text", ["'0001'", "'0002'"], "`0001`, `0002`"),
        ("version_num text", [], "no revision"),
        ("number integer", ["1"], "no revision"),
    ],
)
async def test_a_version_table_that_is_not_ours(
    url: str, host: sa.Engine, columns: str, rows: list[str], held: str
) -> None:
    """Such as that of a product whose `version_table` has this name."""
    name = "wfcore_version"
    if url.startswith("postgresql"):
        do(host, "CREATE SCHEMA wfcore")
        name = "wfcore.wfcore_version"
    do(host, f"CREATE TABLE {name} ({columns})", *(f"INSERT INTO {name} VALUES ({row})" for row in rows))
    for migrate in (True, False):
        with pytest.raises(Unavailable, match=rf"`{name}` is not a version table of wfcore \(it has {held}\)"):
            await use(url, migrate=migrate)


async def test_tables_of_an_unreleased_wfcore(url: str, host: sa.Engine) -> None:
    """They are not converted, and no second set is created beside them."""
    do(
        host,
        "UPDATE alembic_version SET version_num = '0001'",
        *(f"CREATE TABLE {name} (id integer, claimed_by integer)" for name in ("organizations", "journal")),
        *(f"CREATE TABLE {name} (id integer, claimed_by integer)" for name in ("executions", "interrupts")),
    )
    with pytest.raises(Unavailable, match=r"tables of an unreleased wfcore, .* not converted: use a new database"):
        await use(url)
    names = sa.inspect(host).get_table_names() + (
        sa.inspect(host).get_table_names("wfcore") if sa.inspect(host).has_schema("wfcore") else []
    )
    assert not [name for name in names if name.startswith("wfcore")]


@pytest.mark.service
class TestSchemas:
    @pytest.fixture
    def url(self) -> str:
        return without_schema()

    async def test_installations_in_two_schemas(self, url: str, host: sa.Engine) -> None:
        """Each has its own rows; a name that is a word of SQL is a name too."""
        async with wfcore.open(url, schema="flows") as one, wfcore.open(url, schema="user") as other:
            org = await one.directory.create_organization("one")
            assert await one.ports.storage.organization(org.uuid) is not None
            assert await other.ports.storage.organization(org.uuid) is None
            assert await one.ports.storage.schema_differences() == []
            assert await other.ports.storage.schema_differences() == []
        assert not sa.inspect(host).has_schema("wfcore")
        assert await asyncio.to_thread(main, ["db", "check", "--database", url, "--schema", "user"]) == 0
        assert await asyncio.to_thread(main, ["db", "check", "--database", url, "--schema", "other"]) == 1

    async def test_the_schema_of_the_product_itself(self, url: str, host: sa.Engine) -> None:
        """Its tables are in the way of ours, which is said before anything is created."""
        before = contents(host)
        with pytest.raises(Unavailable, match=r"`public.groups`, `public.members`, .* or use another schema"):
            await use(url, schema="public")
        assert contents(host) == before

    async def test_a_further_installation_beside_one_in_public(self) -> None:
        """That of a product with Alembic, whose table of revisions is there too."""
        url = without_schema()
        engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:", 1))
        do(engine, "CREATE TABLE alembic_version (version_num text)")
        await use(url, schema="public")
        await use(url, schema="flows")
        include = include_name_beside("public")
        found = sa.inspect(engine).get_table_names()
        engine.dispose()
        assert [name for name in found if include(name, "table", {"schema_name": None})] == ["alembic_version"]

    async def test_a_schema_that_cannot_be_created(self, url: str, host: sa.Engine) -> None:
        """The message is that of the server, without SQLAlchemy's words."""
        do(host, "CREATE ROLE wfcore_guest LOGIN" if not _has_role(host) else "SELECT 1")
        guest = sa.make_url(url).set(username="wfcore_guest").render_as_string(hide_password=False)
        with pytest.raises(Unavailable) as caught:
            await use(guest)
        assert "permission denied" in caught.value.message
        assert "sqlalche.me" not in caught.value.message
        assert "[SQL" not in caught.value.message


def _has_role(host: sa.Engine) -> bool:
    with host.connect() as connection:
        return bool(connection.exec_driver_sql("SELECT 1 FROM pg_roles WHERE rolname = 'wfcore_guest'").first())


@pytest.mark.parametrize("name", ["", "Flows", "a-b", 'a"b', "pg_flows", "information_schema", "a" * 64, "1a", "ä"])
async def test_names_that_no_schema_can_have(name: str) -> None:
    """They are refused before anything is opened."""
    with pytest.raises(ValueError, match="`schema` is not valid"):
        check_schema(name)
    if name:
        with pytest.raises(ValueError, match="`schema` is not valid"):
            await use("postgresql://127.0.0.1:1/none", schema=name)


async def test_a_schema_is_for_postgres(tmp_path: Path) -> None:
    """On SQLite it would have no effect."""
    for url in (f"sqlite:///{tmp_path}/a.db", "sqlite://"):
        with pytest.raises(ValueError, match="`schema` is for PostgreSQL"):
            await use(url, schema="flows")


@pytest.mark.parametrize(
    "database", ["sqlite:////no/such/folder/a.db", "sqlite:///{}", "postgresql://127.0.0.1:1/none", "mysql://h/n", "x"]
)
async def test_no_error_of_sqlalchemy_leaves_open(tmp_path: Path, database: str) -> None:
    """Whatever cannot be opened is Unavailable or a ValueError, each in one line."""
    with pytest.raises((Unavailable, ValueError)) as caught:
        await use(database.format(tmp_path))
    assert "\n" not in str(caught.value)
    assert type(caught.value).__module__.startswith(("wfcore", "builtins"))
