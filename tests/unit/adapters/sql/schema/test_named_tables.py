"""The tables by name are those that are declared, and stand for them in statements."""

import pytest
import sqlalchemy as sa

from wfcore.adapters.sql.schema import named_tables, tables
from wfcore.adapters.sql.schema.deferred import table
from wfcore.adapters.sql.storage import RESOURCE, TOKEN

NAMED = {name: one for name, one in vars(named_tables).items() if hasattr(one, "__clause_element__")}


def test_every_table_has_a_name() -> None:
    """The variable is the name without its prefix."""
    assert {f"wfcore_{name}": one.name for name, one in NAMED.items()} == {
        name: name for name in tables.metadata.tables
    }


@pytest.mark.parametrize("name", NAMED)
def test_a_named_table_is_the_declared_one_in_statements(name: str) -> None:
    """In selections and in changes."""
    one, declared = NAMED[name], tables.metadata.tables[f"wfcore_{name}"]
    for made in (sa.select, sa.insert, sa.delete, lambda source: sa.select(sa.func.count()).select_from(source)):
        assert str(made(one)) == str(made(declared))
    assert one.c is declared.c
    assert str(one.alias("x").select()) == str(declared.alias("x").select())


@pytest.mark.parametrize(("columns", "of"), [(RESOURCE, tables.resources), (TOKEN, tables.tokens)])
def test_the_columns_that_texts_read(columns: tuple[str, ...], of: sa.Table) -> None:
    """Texts name them, because they are read before SQLAlchemy is imported."""
    assert set(columns) <= set(of.c.keys())


def test_unknown_names() -> None:
    """They are found with the first statement."""
    assert table("wfcore_nothing").name == "wfcore_nothing"
    with pytest.raises(KeyError):
        _ = table("wfcore_nothing").c
    with pytest.raises(AttributeError):
        _ = table("wfcore_runs").nothing  # type: ignore[attr-defined]
