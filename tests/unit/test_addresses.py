"""The forms in which a database can be given."""

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from postgres_server import with_schema
from sqlalchemy.ext.asyncio import create_async_engine

import wfcore
from wfcore.addresses import address_of, is_off_loop, is_server, server_options, shown


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("sqlite:///a.db", "sqlite:///a.db"),
        ("sqlite+aiosqlite:////a/b.db", "sqlite:////a/b.db"),
        ("sqlite+pysqlite://", "sqlite://"),
        ("postgres://u:p@h:1/n?sslmode=require", "postgresql://u:p@h:1/n?sslmode=require"),
        ("postgresql+psycopg://h/n", "postgresql://h/n"),
        ("postgresql+asyncpg://h/n", "postgresql://h/n"),
        ("mysql://h/n", "mysql://h/n"),
        ("", ""),
    ],
)
def test_a_url_can_name_a_driver(given: str, address: str) -> None:
    """The driver is wfcore's own; nothing else of the URL changes."""
    assert address_of(given) == address
    assert is_server(given) is address.startswith("postgresql:")
    assert is_off_loop(given) is ("aiosqlite" in given)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("sqlite:///a.db", "sqlite:///a.db"),
        ("sqlite://", "sqlite://"),
        ("postgresql://u:secret@h:1/n", "postgresql://h/n"),
        ("postgresql+psycopg://u:sec?ret@h,i/n?sslmode=require", "postgresql://h,i/n"),
        ("postgres://h/n?user=u&password=sec@ret", "postgresql://h/n"),
    ],
)
def test_a_message_shows_no_password(given: str, text: str) -> None:
    """Nor the user and the options, in which a password can be too."""
    assert shown(given) == text


@pytest.mark.parametrize("create", [sa.create_engine, create_async_engine])
def test_an_engine_stands_for_its_url(create: Any) -> None:
    """With its password, which SQLAlchemy hides when it prints the URL."""
    assert address_of(create("postgresql+psycopg://u:p%40@h:1/n")) == "postgresql://u:p%40@h:1/n"
    file = "sqlite+aiosqlite" if create is create_async_engine else "sqlite"
    engine = create(f"{file}:///a.db")
    assert address_of(engine) == "sqlite:///a.db"
    assert is_off_loop(engine) is (create is create_async_engine)


def test_what_is_not_a_database() -> None:
    """An engine in memory has its tables in one connection, which wfcore cannot use."""
    with pytest.raises(ValueError, match="in memory is not shared"):
        address_of(sa.create_engine("sqlite://"))
    for value in (None, b"sqlite://", object(), Path("a.db")):
        with pytest.raises(TypeError, match=r"a URL, such as .* or an SQLAlchemy engine"):
            address_of(value)


@pytest.mark.parametrize(
    ("hosts", "options"),
    [
        ("h:1", {"host": "h", "port": "1"}),
        ("h1,h2", {"host": "h1,h2", "target_session_attrs": "read-write"}),
        ("h1:1,h2:2", {"host": "h1,h2", "port": "1,2", "target_session_attrs": "read-write"}),
        ("[::1]:1,[::2]:2", {"host": "::1,::2", "port": "1,2", "target_session_attrs": "read-write"}),
    ],
)
def test_one_of_several_hosts_must_accept_writes(hosts: str, options: dict[str, str]) -> None:
    """Everything else is as libpq reads it, beside the time after which a server counts as dead."""
    found = server_options(f"postgresql://u:p%40@{hosts}/n")
    assert found.items() >= {"user": "u", "password": "p@", "dbname": "n", **options}.items()
    assert ("target_session_attrs" in found) is ("target_session_attrs" in options)
    assert found["keepalives_idle"] + found["keepalives_interval"] * found["keepalives_count"] <= 25


def test_the_options_of_a_url_have_precedence() -> None:
    found = server_options("postgresql://h1,h2/n?target_session_attrs=any&tcp_user_timeout=1")
    assert (found["target_session_attrs"], found["tcp_user_timeout"]) == ("any", "1")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "mysql://h",
        "postgresql://u:secret@h1:1,h2:x/n",
        "postgresql://u:secret@h/n?a=b",
        "postgresql://u:secret@h/n?connect_timeout=soon",
        "postgresql://u:my@secret@h/n",
        "postgresql://u:my@secret@h1,h2/n",
    ],
)
def test_what_is_not_a_url_of_postgresql(url: str) -> None:
    """The message does not show the password, nor what follows an `@` in it, which libpq takes as the host."""
    with pytest.raises(ValueError, match="postgresql://host/name") as caught:
        server_options(url)
    assert "secret" not in str(caught.value)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("database", "error", "message"),
    [
        ("sqlite://app.db", ValueError, r"has no path: use `sqlite:///relative/path` or `sqlite:////absolute/path`"),
        (Path("app.db"), TypeError, r"a URL, such as `sqlite:///app\.db`, or an SQLAlchemy engine, not `P\w+Path`"),
    ],
)
async def test_a_path_that_is_no_url_is_shown_as_one(database: Any, error: type[Exception], message: str) -> None:
    """Two slashes in place of three, and a path in place of a URL."""
    with pytest.raises(error, match=message):
        async with wfcore.open(database):
            raise AssertionError


@pytest.mark.anyio
async def test_open_takes_the_engine_of_the_product(tmp_path: Path) -> None:
    """The tables are beside those of the product, in the same file."""
    engine = sa.create_engine(f"sqlite:///{tmp_path}/a.db")
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE groups (id integer)")
    async with wfcore.open(engine, worker=False) as core:
        await core.directory.create_organization("one")
    names = sa.inspect(engine).get_table_names()
    engine.dispose()
    assert "groups" in names
    assert {name for name in names if not name.startswith("wfcore_")} == {"groups", "sqlite_sequence"} & set(names)


@pytest.mark.anyio
@pytest.mark.service
async def test_open_takes_every_form_of_a_server(tmp_path: Path) -> None:
    """All of them are the same installation."""
    url = with_schema()
    rest = url.partition("://")[2]
    engine = create_async_engine(f"postgresql+psycopg://{rest}")
    async with wfcore.open(url, worker=False) as core:
        org = await core.directory.create_organization("one")
    for database in (f"postgres://{rest}", f"postgresql+psycopg://{rest}", engine):
        async with wfcore.open(database, worker=False, migrate=False) as core:
            assert await core.ports.storage.organization(org.uuid) is not None
    await engine.dispose()
