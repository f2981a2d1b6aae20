"""What Alembic compares in a product's database."""

import pytest

from wfcore.contrib.alembic import include_name, include_name_beside


@pytest.mark.parametrize(
    ("name", "kind", "parents", "included"),
    [
        ("groups", "table", {"schema_name": None}, True),
        ("wfcore_groups", "table", {"schema_name": None}, False),
        ("wfcore_version", "table", {"schema_name": None}, False),
        ("my_wfcore_runs", "table", {"schema_name": None}, True),
        ("name", "column", {"schema_name": None, "table_name": "groups"}, True),
        ("wfcore_note", "column", {"schema_name": None, "table_name": "groups"}, True),
        ("id", "column", {"schema_name": None, "table_name": "wfcore_runs"}, False),
        ("ix", "index", {"schema_name": None, "table_name": "wfcore_runs"}, False),
        (None, "unique_constraint", {"schema_name": None, "table_name": "groups"}, True),
        ("wfcore", "schema", {}, False),
        (None, "schema", {}, True),
        ("shop", "schema", {}, True),
    ],
)
def test_what_is_the_products(name: str | None, kind: str, parents: dict[str, str | None], included: bool) -> None:
    """Everything but the tables and the schema of wfcore."""
    assert include_name(name, kind, parents) is included


@pytest.mark.parametrize(
    ("schema", "name", "kind", "parents", "included"),
    [
        ("public", "runs", "table", {"schema_name": None}, False),
        ("public", "wfcore_version", "table", {"schema_name": "public"}, False),
        ("public", "orders", "table", {"schema_name": None}, True),
        ("public", "runs", "table", {"schema_name": "shop"}, True),
        ("public", "id", "column", {"schema_name": None, "table_name": "runs"}, False),
        ("public", "id", "column", {"schema_name": None, "table_name": "orders"}, True),
        ("flows", "runs", "table", {"schema_name": None}, True),
        ("flows", "runs", "table", {"schema_name": "flows"}, False),
        ("flows", "flows", "schema", {}, True),
    ],
)
def test_what_is_the_products_beside_a_schema(
    schema: str, name: str, kind: str, parents: dict[str, str | None], included: bool
) -> None:
    """Everything but the tables of wfcore in that schema."""
    assert include_name_beside(schema)(name, kind, parents) is included
