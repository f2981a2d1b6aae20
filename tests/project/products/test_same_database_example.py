"""The example of a product that shares its database with wfcore: its migrations and those of wfcore in both orders."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from postgres_server import without_schema
from slices import slice_of
from waiting import HANG

EXAMPLE = Path(__file__).parents[3] / "examples" / "same_database"


STORES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.service)]


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return without_schema() if request.param == "postgresql" else f"sqlite:///{tmp_path}/shop.db"


def ran(url: str, *command: str) -> str:
    environment = {**os.environ, "SHOP_DATABASE": url}
    done = subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, check=False, timeout=HANG
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def alembic(url: str, *command: str) -> str:
    return ran(url, "-m", "alembic", "-c", str(EXAMPLE / "alembic.ini"), *command)


def wfcore(url: str, *command: str) -> str:
    return ran(url, "-m", "wfcore", *command, "--database", url)


def revision_of(url: str) -> str:
    """The product's."""
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:", 1))
    with engine.connect() as connection:
        found = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
    engine.dispose()
    return str(found)


@pytest.mark.parametrize("url", slice_of(STORES, 2, 1), indirect=True)
def test_the_product_first(url: str) -> None:
    """Its order and its run are written together; then its check sees no difference, and it can migrate both ways."""
    alembic(url, "upgrade", "head")
    assert ran(url, str(EXAMPLE / "shop.py")).splitlines() == [
        "order o-1: packed",
        "refused: an order has an amount above 0",
        "orders ['o-1'], runs 1",
    ]
    assert ran(url, str(EXAMPLE / "shop.py")).splitlines()[::2] == [
        "order o-2: packed",
        "orders ['o-1', 'o-2'], runs 2",
    ]
    assert "No new upgrade operations detected" in alembic(url, "check")
    alembic(url, "downgrade", "-1")
    alembic(url, "upgrade", "head")
    assert "the schema is that of this release" in wfcore(url, "db", "check")
    assert revision_of(url) == "b20c77e1f0aa"


@pytest.mark.parametrize("url", slice_of(STORES, 2), indirect=True)
def test_wfcore_first(url: str) -> None:
    """Into a database that has wfcore's tables only, and again when the product is one step behind."""
    wfcore(url, "db", "upgrade")
    alembic(url, "upgrade", "9f3a21c0de44")
    wfcore(url, "db", "upgrade")
    alembic(url, "upgrade", "head")
    assert "No new upgrade operations detected" in alembic(url, "check")
    assert "the schema is that of this release" in wfcore(url, "db", "check")
    assert revision_of(url) == "b20c77e1f0aa"
