"""The plans of PostgreSQL for a database without statistics, as in its first minute or after it was restored."""

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import psycopg
import pytest
from postgres_server import with_schema
from sql_texts import qualified

import wfcore.adapters.sql.journal
from wfcore.adapters.sql.schema.names import DEFAULT_SCHEMA
from wfcore.adapters.sql.schema.statement import Statement

pytestmark = pytest.mark.service

FILL: Final = """
INSERT INTO wfcore_executions (org, kind, resource_id, is_draft, user_id, thread_id, started_by, epoch)
SELECT 1, 'workflow', g % 9, false, 'u' || g % 9, 't' || g, 'person', 0 FROM generate_series(1, 40000) g;
INSERT INTO wfcore_runs (org, id, execution, user_id, fingerprint, status, created_at, updated_at, started_by, origin,
    target, is_draft)
SELECT 1, 'r' || g, g, 'u' || g % 9, '', 'done', g, g, '', '', g % 9, false FROM generate_series(1, 40000) g;
INSERT INTO wfcore_journal (execution, pos, checksum, entry)
SELECT g, pos, 0, '[]' FROM generate_series(1, 40000) g, generate_series(1, 3) pos;
INSERT INTO wfcore_interrupts (org, execution, body, resource)
SELECT 1, g, '{}', g % 9 FROM generate_series(1, 40000) g"""

LARGE: Final = {"runs", "journal", "interrupts"}


def statements() -> Iterator[tuple[str, Statement]]:
    """The statements of the journal that are constants of a module, by module and name."""
    for module in pkgutil.iter_modules(wfcore.adapters.sql.journal.__path__):
        constants = vars(importlib.import_module(f"{wfcore.adapters.sql.journal.__name__}.{module.name}"))
        for name, value in constants.items():
            found = value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple) else (value,)
            yield from ((f"{module.name}.{name}", one) for one in found if isinstance(one, Statement))


def test_nothing_reads_a_whole_table_of_runs() -> None:
    """Each scan of a table that grows with the runs has a condition of an index."""
    scans: dict[str, Sequence[str]] = {}
    with psycopg.connect(with_schema(), autocommit=True) as connection:
        connection.execute(qualified(FILL))
        planned = 0
        for name, one in statements():
            text = one.server(DEFAULT_SCHEMA)
            if not re.match(r"\s*(SELECT|WITH|UPDATE|DELETE)\b", text):
                continue
            row = connection.execute(f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {text}".encode()).fetchone()
            assert row is not None
            planned += 1
            if found := list(whole_scans(row[0][0]["Plan"])):
                scans[name] = found
    assert planned > 50
    assert scans == {}


def whole_scans(node: Mapping[str, Any]) -> Iterator[str]:
    """The scans without a condition of an index, in this part of a plan."""
    is_scan = node.get("Relation Name") in LARGE and node["Node Type"].endswith("Scan")
    if is_scan and "Index Cond" not in node and "Recheck Cond" not in node:
        yield f"{node['Node Type']} of {node['Relation Name']} {node.get('Index Name', '')}"
    for part in node.get("Plans", ()):
        yield from whole_scans(part)
