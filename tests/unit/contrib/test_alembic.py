"""What Alembic compares in a product's database."""

import pytest

from wfcore.contrib.alembic import include_name


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
