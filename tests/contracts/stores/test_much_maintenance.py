"""What the maintenance of a SQLite file costs others: the event loop, and reads of rows of other organizations."""

import re
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sql_stores import on_sqlite

from wfcore.adapters.sql.sqlite.database import SqliteTransaction
from wfcore.domain.people.erasure import Substitution
from wfcore.domain.resources.resource import Kind
from wfcore.ports.maintenance import EXPIRING, Maintenance
from wfcore.testing.contracts.storage.values import ORG, new_organization
from wfcore.testing.contracts.stores.maintenance import ran

pytestmark = pytest.mark.anyio

LATER = 2**42


async def all_of_it(maintenance: Maintenance) -> None:
    """Each call but the deletion of the organization."""
    for kind in EXPIRING:
        await maintenance.count(ORG, kind, LATER, dict.fromkeys(EXPIRING[:3], LATER))
    _ = [texts async for texts in maintenance.texts(ORG)]
    for user in (None, "ann"):
        await maintenance.conversations(ORG, user, limit=9)
    await maintenance.sizes(ORG)
    await maintenance.sizes(ORG, "ann")
    await maintenance.executions_of(ORG, "ann")
    await maintenance.rewrite(ORG, Substitution({"ann": "gone"}, {"ann@x.org": "gone"}))
    await maintenance.forget_user(ORG, "ann")
    await maintenance.numbers(ORG, Kind.WORKFLOW)
    await maintenance.remove_resource(ORG, Kind.WORKFLOW, 1)
    for kind in EXPIRING:
        await maintenance.prune(ORG, kind, LATER, limit=9)


async def test_the_event_loop_executes_no_statement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each one is executed in a thread: of an organization with many rows, it can take seconds."""
    async with on_sqlite(tmp_path) as (storage, journal):
        await storage.add_organization(new_organization(ORG))
        await ran(journal, "run")
        monkeypatch.delattr(SqliteTransaction, "execute")
        await all_of_it(storage.maintenance)
        assert await storage.maintenance.remove_organization(ORG)


async def test_executions_are_found_by_an_index(tmp_path: Path) -> None:
    """No statement reads the executions or the journals of all organizations, and no page sorts all rows of one."""
    plans = list[str]()
    async with on_sqlite(tmp_path) as (storage, journal):
        await storage.add_organization(new_organization(ORG))
        await ran(journal, "run")
        engine = await storage.database.engine("_reader")
        writer = await storage.database.engine("_writer")

        def explain(connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
            if re.match("(SELECT|UPDATE|DELETE)", statement):
                plan = connection.connection.dbapi_connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
                plans.extend(f"{step}: {statement}" for *_, step in plan)

        for each in (engine, writer):
            sa.event.listen(each, "before_cursor_execute", explain)
        await all_of_it(storage.maintenance)
    assert len(plans) > 100
    assert [step for step in plans if re.match("SCAN wfcore_(executions|journal|runs)\\b(?! USING)", step)] == []
    assert [step for step in plans if "ORDER BY" in step.partition(":")[0] and "LIMIT" in step] == []
