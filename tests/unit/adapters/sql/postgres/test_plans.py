"""The plans of PostgreSQL: for a database without statistics, as in its first minute or after it was restored, and for
one with an organization that has most of the rows.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import psycopg
import pytest
from postgres_server import with_schema
from sql_texts import qualified

import wfcore.adapters.sql
from wfcore.adapters.sql.postgres.connections import _PLANNER_SETTINGS as PLANNER_SETTINGS
from wfcore.adapters.sql.postgres.pipeline import BY_KEY
from wfcore.adapters.sql.schema.names import DEFAULT_SCHEMA
from wfcore.adapters.sql.schema.statement import Statement

pytestmark = pytest.mark.service

ROWS: Final = 40_000
MINE: Final = "CASE WHEN g % 10 < 8 THEN 1 ELSE 1 + g % 1000 END"
"""The key of an organization: the first one has four fifths of the rows."""

FILL: Final = f"""
INSERT INTO wfcore_organizations (key, uuid, name, created_at, max_concurrent_runs)
SELECT g, 'o' || g, 'O', 0, CASE WHEN g = 1 THEN 1000 END FROM generate_series(1, 1000) g;
INSERT INTO wfcore_resources (key, org, kind, id, slug, name, status, access, is_enabled, created_at, updated_at,
    revision, max_concurrent_runs, is_scheduled)
SELECT g, 1, 'workflow', g, 's' || g, 'W', 'deployed', 'org', true, 0, 0, 1, CASE WHEN g % 100 = 0 THEN 5 END, false
FROM generate_series(1, 2000) g;
INSERT INTO wfcore_grants (resource, subject, "use", manage) SELECT g, 'user:u' || g % 9, true, true
FROM generate_series(1, 2000) g;
INSERT INTO wfcore_executions (org, kind, resource_id, is_draft, user_id, thread_id, started_by, epoch, claimed_by)
SELECT {MINE}, 'workflow', g % 9, false, 'u' || g % 9, 't' || g, 'person', 0, CASE WHEN g % 1000 = 0 THEN 1 END
FROM generate_series(1, {ROWS}) g;
INSERT INTO wfcore_runs (org, id, execution, user_id, fingerprint, status, created_at, updated_at, started_by, origin,
    target, is_draft)
SELECT {MINE}, 'r' || g, g, 'u' || g % 9, '', 'done', g, g, '', '', g % 9, false FROM generate_series(1, {ROWS}) g;
INSERT INTO wfcore_journal (execution, pos, checksum, entry)
SELECT g, pos, 0, '[]' FROM generate_series(1, {ROWS}) g, generate_series(1, 3) pos;
INSERT INTO wfcore_interrupts (org, execution, body, resource, id_hash)
SELECT {MINE}, g, '{{}}', g % 900, g FROM generate_series(1, {ROWS}) g;
INSERT INTO wfcore_closed_interrupts (key, org, execution, body, resource, decision, decided_at, id_hash)
SELECT {ROWS} + g, {MINE}, g, '{{}}', g % 900, '{{}}', g, g FROM generate_series(1, {ROWS}) g;
INSERT INTO wfcore_approvers (org, subject, closed, interrupt)
SELECT {MINE}, 'user:u' || g % 900, g % 2, g FROM generate_series(1, {ROWS}) g;
INSERT INTO wfcore_subscriptions (org, event, hook, handler)
SELECT {MINE}, 'run.' || g % 9, 'h' || g, '' FROM generate_series(1, {ROWS}) g;
INSERT INTO wfcore_schedules (org, workflow_id, variation_id, next_at, missed)
SELECT {MINE}, g, 'v', CASE WHEN g % 100 = 0 THEN g END, '[]' FROM generate_series(1, {ROWS}) g;
INSERT INTO wfcore_postings (org, id, interface_id, mark, place, run_id, next_at, tries)
SELECT {MINE}, 'p' || g, 'i', '', '[]', 'r' || g, CASE WHEN g % 100 = 0 THEN g END, 0 FROM generate_series(1, {ROWS}) g;
INSERT INTO wfcore_deliveries (org, hook, handler, event, at, kind, user_id, run_id, interrupt_id, state, next_at,
    tries, attempts)
SELECT {MINE}, 'h', '', 'run.1', g, 'workflow', 'u1', 'r' || g, '', 'done', CASE WHEN g % 100 = 0 THEN g END, 0, '[]'
FROM generate_series(1, {ROWS}) g"""

LARGE: Final = {
    *("executions", "runs", "journal", "interrupts", "closed_interrupts", "approvers"),
    *("subscriptions", "schedules", "postings", "deliveries"),
}

INDEXES: Final = """
SELECT c.relname, pg_get_indexdef(i.indexrelid, 1, true), i.indpred IS NOT NULL AND pg_relation_size(c.oid) < 100000
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"""
"""The name of each index, its first column, and whether it has few rows."""

ASIDE: Final = {"INBOX", "CLOSED_INBOX", "_COUNT", "LIST_INTERRUPTS", "MORE_OF_PERIOD", "HAS_SUBSCRIBERS"}
"""Statements on connections for lists, whose plans depend on the values, and one that reads any row."""

COLUMN: Final = re.compile(r"\(*(?:\w+\.)?(\w+)\)?(?:::\w+)? (?:=|<|>|<=|>=|IS) ")
"""A column of an index, in a condition that an index serves."""


def statements() -> Iterator[tuple[str, Statement]]:
    """The statements that are constants of a module and have numbered parameters, by module and name."""
    for module in pkgutil.walk_packages(wfcore.adapters.sql.__path__, f"{wfcore.adapters.sql.__name__}."):
        if ".migrations" in module.name or ".shards" in module.name or module.name.endswith(".rate_limiter"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            found = value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple) else (value,)
            for one in found:
                if isinstance(one, Statement) and name not in ASIDE and ":" not in one.sqlite.replace("::", ""):
                    yield f"{module.name}.{name}", one
                    if one.many:
                        yield f"{module.name}.{name}.many", one.many


@pytest.mark.parametrize("analyze", [pytest.param("", id="unknown"), pytest.param("ANALYZE", id="analyzed")])
def test_no_statement_reads_a_whole_table(analyze: str) -> None:
    """Each scan of a table that grows has a condition of an index, not only on the organization, or the index has few
    rows. No scan leaves dead entries in an index, as a bitmap scan does, for the next scan to read again.
    """
    scans: dict[str, Sequence[str]] = {}
    with psycopg.connect(with_schema(), autocommit=True) as connection:
        connection.execute(qualified(f"{FILL}; {analyze}"))
        connection.execute(f"{PLANNER_SETTINGS}; {BY_KEY}".encode())
        indexes = {name: (first, is_small) for name, first, is_small in connection.execute(INDEXES)}
        planned = 0
        for name, one in statements():
            text = one.server(DEFAULT_SCHEMA)
            if not re.match(r"\s*(SELECT|WITH|UPDATE|DELETE|INSERT)\b", text) or name.endswith(".APPEND"):
                continue
            row = connection.execute(f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {text}".encode()).fetchone()
            assert row is not None
            planned += 1
            if found := list(whole_scans(row[0][0]["Plan"], indexes)):
                scans[name] = found
    assert planned > 90
    assert scans == {}


def whole_scans(node: Mapping[str, Any], indexes: Mapping[str, tuple[str, bool]]) -> Iterator[str]:
    """The scans of much of a large table in this part of a plan."""
    if node.get("Relation Name") in LARGE and node["Node Type"].endswith("Scan"):
        first, is_small = indexes.get(node.get("Index Name", ""), ("", False))
        columns = set(COLUMN.findall(node.get("Index Cond", "")))
        if node["Node Type"].startswith("Bitmap") or not (is_small or (first in columns and columns != {"org"})):
            yield f"{node['Node Type']} of {node['Relation Name']} by {node.get('Index Name')}: {sorted(columns)}"
    for part in node.get("Plans", ()):
        yield from whole_scans(part, indexes)
