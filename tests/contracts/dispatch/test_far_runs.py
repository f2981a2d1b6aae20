"""A list of runs has the same rows however many runs of others lie between them, on both databases."""

import sqlite3
from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from postgres_server import new_database

import wfcore
from wfcore.adapters.sql.journal import run_lists
from wfcore.adapters.sql.schema.tables import runs
from wfcore.core import Core
from wfcore.ports.journal import RunFilter

pytestmark = pytest.mark.anyio

ORG = "00000000-0000-4000-8000-000000000001"
GRAPH: Any = {
    "nodes": [
        {"id": "s", "type": "start"},
        {"id": "n", "type": "action", "data": {"toolId": "core.wait", "params": {"seconds": 1}}},
    ],
    "edges": [{"id": "e", "source": "s", "target": "n"}],
}
FILTERS: tuple[dict[str, Any], ...] = (
    {},
    {"status": "queued"},
    {"status": "cancelled"},
    {"status": "done"},
    {"origin": "other"},
    {"origin": "api"},
    {"workflow": 1},
    {"workflow": 2},
    {"skill": 1},
    {"assistant": True},
    {"since": 0, "until": 2**42},
    {"since": 2**42},
    {"status": "queued", "origin": "api", "workflow": 2, "since": 0},
)


@pytest.fixture(params=["sqlite", "postgresql"])
async def core(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Core]:
    url = f"sqlite:///{tmp_path}/a.db" if request.param == "sqlite" else new_database()
    async with wfcore.open(url, worker=False, settings=wfcore.Settings(synchronous="NORMAL")) as core:
        await core.directory.create_organization("Acme", id=ORG)
        yield core


async def filled(core: Core) -> list[wfcore.Principal]:
    """The principals of runs of two workflows, a skill, the assistant and an action; nobody can use all of them."""
    ann, bob, cat, dan, eve = [
        core.principal(ORG, name, email=f"{name}@example.org") for name in ("ann", "bob", "cat", "dan", "eve")
    ]
    for owner, access in (
        (ann, {"visibility": "private"}),
        (bob, {"visibility": "private", "sharedWith": [{"email": "cat@example.org"}]}),
    ):
        flow = await core.workflows.create(owner, name="A", structure=GRAPH, access=access)
        await core.workflows.deploy(owner, flow.id)
    skill = await core.skills.create(eve, name="S", access={"visibility": "private"})
    await core.skills.deploy(eve, skill.id)
    for origin in ("api", "other"):
        for me, number in ((ann, 1), (bob, 2), (cat, 2)):
            await core.runs.start(me, workflow=number, origin=origin)
            await core.runs.cancel(me, (await core.runs.start(me, workflow=number, origin=origin)).id)
        await core.runs.chat(eve, skill.id, message="hello", origin=origin)
        for me in (ann, eve):
            await core.runs.chat(me, message="hello", origin=origin)
            await core.runs.act(me, action={"toolId": "core.wait", "params": {"seconds": 1}})
    return [ann, bob, cat, dan, eve]


async def pages(core: Core, me: wfcore.Principal, where: dict[str, Any], limit: int) -> list[list[str]]:
    """The ids of all pages."""
    found, before = list[list[str]](), None
    while rows := await core.runs.page(me, limit=limit, before=before, **where):
        found.append([row.id for row in rows])
        before = rows[-1].row.key
    return found


async def test_pages_are_the_same(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the latest runs of the organization are enough or not."""
    principals, seen = await filled(core), 0
    for me, where, limit in product(principals, FILTERS, (2, 100)):
        near = await pages(core, me, where, limit)
        for selected in (1, 10_000):
            monkeypatch.setattr(run_lists, "RECENT", 1)
            monkeypatch.setattr(run_lists, "SELECTED", selected)
            assert await pages(core, me, where, limit) == near, (me.user_id, where)
        monkeypatch.undo()
        seen += len(near)
    assert seen > 100


@pytest.mark.parametrize("where", [{"status": "queued"}, {"origin": "other"}, {"since": 2**42}, {"until": 1}])
async def test_few_selected_runs_are_enough(core: Core, where: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a filter with few runs, those are read by an index, and not all runs of each target."""
    principals = await filled(core)
    monkeypatch.setattr(run_lists, "RECENT", 1)
    monkeypatch.delattr(run_lists, "list_runs_by_targets")
    for me in principals:
        await pages(core, me, where, 2)


async def test_a_short_period_is_read_by_its_index(tmp_path: Path) -> None:
    """Whatever the other filters."""
    async with wfcore.open(f"sqlite:///{tmp_path}/a.db", worker=False) as core:
        await core.directory.create_organization("Acme", id=ORG)
        where = run_lists.RunFilter(status="queued", origin="api", kind="workflow", resource_id=1, since=0, until=9)
        statement, values = run_lists.list_runs_by_period(1, 25, 9, where, core.principal(ORG, "ann"))
        connection = core.ports.storage.database.look_up_connection  # type: ignore[attr-defined]
        plan = [step for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {statement.sqlite}", values)]
    assert "SEARCH r USING INDEX wfcore_runs_created (org=? AND created_at>? AND created_at<?)" in plan


async def test_those_of_others_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan begins with the targets of the principal, and finds its own runs by an index that others are not in."""
    monkeypatch.setattr(run_lists, "RECENT", 1)
    async with wfcore.open(f"sqlite:///{tmp_path}/a.db", worker=False) as core:
        await core.directory.create_organization("Acme", id=ORG)
        me = core.principal(ORG, "ann")
        where = run_lists.RunFilter(status="queued", origin="api", since=0, until=9)
        statement, values = run_lists.list_runs_by_targets(1, 25, 9, where, me)
        connection = core.ports.storage.database.look_up_connection  # type: ignore[attr-defined]
        plan = [step for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {statement.sqlite}", values)]
    searches = {step.partition(" USING ")[0][7:]: step for step in plan if step.startswith("SEARCH")}
    assert "wfcore_runs_own (org=? AND user_id=?)" in searches["y"]
    read = [step for step in plan if "wfcore_runs" in step]
    assert any("wfcore_runs_target (org=? AND target=? AND rowid<?)" in step for step in read)
    assert not [step for step in read if "wfcore_runs_status" in step or "wfcore_runs_created" in step]


MANY = 40_000
STEPS = 40_000
"""The most steps of SQLite's virtual machine for a list: to read one of `run_lists.EDGE` runs takes about ten."""


@pytest.mark.parametrize("of_principal", [True, False])
@pytest.mark.parametrize("others", [{}, {"kind": "workflow", "resource_id": 1}, {"started_by": "ann"}, {"origin": "x"}])
async def test_a_period_far_back_is_read_alone(tmp_path: Path, others: dict[str, Any], of_principal: bool) -> None:
    """Beside as many runs after it and before it, whatever the other filters."""
    async with wfcore.open(f"sqlite:///{tmp_path}/a.db", worker=False) as core:
        await core.directory.create_organization("Acme", id=ORG)
        ann, *_ = await filled(core)
        last = (await core.runs.start(ann, workflow=1)).row
        with sqlite3.connect(tmp_path / "a.db") as connection:
            connection.execute(copies_of_run(), (last.id,))
        connection.close()
        middle, hundreds = last.created_at + MANY // 2, 0

        def count() -> None:
            nonlocal hundreds
            hundreds += 1

        database = core.ports.storage.database  # type: ignore[attr-defined]
        sa.event.listen(database._reader, "checkout", lambda one, *_: one.set_progress_handler(count, 100))
        for since in (None, middle - 10_000):
            where, principal = RunFilter(since=since, until=middle, **others), ann if of_principal else None
            found = await core.ports.journal.list_runs(ORG, limit=25, where=where, principal=principal)
            expected = [] if others == {"origin": "x"} else [middle - number for number in range(1, 26)]
            assert [row.created_at for row in found] == expected
            assert 0 < hundreds * 100 < STEPS
            hundreds = 0


def copies_of_run() -> str:
    """The statement that makes many copies of a run, each of which began a millisecond later."""
    own = {"key": "key + n.i", "id": "id || '~' || n.i", "created_at": "created_at + n.i"}
    values = ", ".join(own.get(column.name, column.name) for column in runs.columns)
    return f"""
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MANY})
INSERT INTO wfcore_runs SELECT {values} FROM n, (SELECT * FROM wfcore_runs WHERE id = ?)"""
