"""What an open wfcore keeps in memory is bounded, whatever organizations, workflows and texts come."""

import asyncio
import gc
import os
import threading
from pathlib import Path
from typing import Any
from weakref import ReferenceType, ref

import attrs
import pytest
from nats.errors import Error

import wfcore
from wfcore.adapters.dispatch.nats import connection
from wfcore.adapters.sql import storage as stores
from wfcore.adapters.sql.journal import claims, run_reads
from wfcore.adapters.tools.catalog import tool
from wfcore.core import Core
from wfcore.domain.kernel.recent import Recent
from wfcore.domain.resources.access import Principal
from wfcore.ports.journal import ExecutionRef
from wfcore.runtime.execution import plans, poison_runs

pytestmark = pytest.mark.anyio


@tool(idempotent=True)
async def step(n: int) -> int:
    """A step."""
    return n


def chain(count: int, **more: Any) -> dict[str, Any]:
    """A graph of a start and so many steps."""
    steps = [{"id": f"n{number}", "type": "action", "data": {"toolId": "step", "params": {"n": number}, **more}}
             for number in range(count)]  # fmt: skip
    nodes: list[dict[str, Any]] = [{"id": "start", "type": "start"}, *steps]
    edges = [{"id": str(at), "source": one["id"], "target": nodes[at + 1]["id"]} for at, one in enumerate(nodes[:-1])]
    return {"nodes": nodes, "edges": edges}


async def ran(core: Core, me: Principal, structure: dict[str, Any]) -> int:
    """The number of a new workflow of which a run has ended."""
    flow = await core.workflows.create(me, name="A flow", structure=structure)
    await core.workflows.deploy(me, flow.id)
    run = await core.runs.start(me, workflow=flow.id, input={})
    assert [event async for event in await core.runs.follow(me, run.id)][-1].kind == "done"
    return flow.id


async def test_organizations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of some organizations are kept, and which have limits. The others are looked up again."""
    for module in (run_reads, claims):
        monkeypatch.setattr(module, "KEPT_ORGANIZATIONS", 3)
    async with wfcore.open(f"sqlite:///{tmp_path}/a.db", tools=[step]) as core:
        principals = [
            core.principal((await core.directory.create_organization(f"Org {number}")).uuid, user="u1")
            for number in range(10)
        ]
        for me in principals:
            await core.directory.limit_runs(me.org_uuid, 2)
            await ran(core, me, chain(1))
        journal: Any = core.ports.journal
        assert (len(journal._journal._orgs), len(journal._journal._limited)) == (3, 3)
        assert [len(await core.runs.page(me)) for me in principals] == [1] * 10


async def test_plans(tmp_path: Path) -> None:
    """As many as have some size together, with the calls that are prepared for them: not a number of plans, which can
    have thousands of nodes.
    """
    async with wfcore.open(f"sqlite:///{tmp_path}/a.db", tools=[step]) as core:
        org = await core.directory.create_organization("Acme")
        me = core.principal(org.uuid, user="u1")
        size = plans.bytes_of(chain(20))
        core._plans._kept = Recent(3 * size)
        for number in range(10):
            await ran(core, me, chain(20, label=number))
        assert len(core._plans._kept) in (2, 3)
        gc.collect()
        prepared: Any = core.driver._performer.prepared_calls
        assert 0 < len(prepared.__self__._kept) <= 3


async def test_large_resources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of resources counts: an access configuration can name thousands of users."""
    monkeypatch.setattr(stores, "CACHED_RESOURCES", 20_000)
    async with wfcore.open(f"sqlite:///{tmp_path}/a.db", tools=[step]) as core:
        org = await core.directory.create_organization("Acme")
        me = core.principal(org.uuid, user="u1", email="ann@acme.example")
        for number in range(10):
            flow = await core.workflows.create(me, name=f"Flow {number}", description="x" * 8_000, structure=chain(1))
            await core.workflows.deploy(me, flow.id)
            await core.runs.start(me, workflow=flow.id, input={})
        storage: Any = core.ports.storage
        assert len(storage._storage._resources) == 2


async def test_executions_that_cannot_be_driven() -> None:
    """Many that are driven by other processes in the end, or were erased: nobody forgets their failures here."""
    nothing: Any = None
    runs = poison_runs.PoisonRuns(nothing, nothing)
    for number in range(poison_runs.COUNTED + 100):
        assert not await runs.end(ExecutionRef("an organization", number), ValueError("a defect"))
    assert len(runs._tries) == poison_runs.COUNTED


async def test_errors_of_nats(caplog: pytest.LogCaptureFixture) -> None:
    """Of a server that is slow for thousands of subjects, each of which an error names, some are logged."""
    broker = connection.NatsConnection(connection.NatsServers(["nats://localhost"]))
    for number in range(2 * connection.MOST_ERRORS):
        await broker._failed(Error(f"messages dropped subject: events.{number}"))
    assert len(caplog.records) == len(broker._errors) == connection.MOST_ERRORS
    await broker._connected()
    await broker._failed(Error("messages dropped subject: events.1"))
    assert len(caplog.records) == connection.MOST_ERRORS + 1


async def test_the_size_of_a_plan() -> None:
    """Expressions count more than other texts: each character of one takes some hundred bytes."""
    plain, source = (plans.bytes_of(chain(1, message=text)) for text in ("x" * 104, "{{" + "x" * 100 + "}}"))
    branch = plans.bytes_of({"when": "x" * 104})
    assert source - plain == 104 * (plans.SOURCE_CHARACTER - plans.CHARACTER)
    assert branch > 104 * plans.SOURCE_CHARACTER
    assert plans.bytes_of(chain(100)) > 50 * plans.bytes_of(chain(1))


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///{}/a.db"])
async def test_nothing_remains_of_a_closed_core(tmp_path: Path, url: str) -> None:
    """Neither the core, nor the classes of its tools, nor a timer for an hour to come, however often it is opened."""

    async def used() -> "list[ReferenceType[object]]":
        @attrs.frozen
        class Order:
            number: int

        async def place(order: Order) -> int:
            """Place an order."""
            return order.number

        async with wfcore.open(url.format(tmp_path), tools=[step, place]) as core:
            org = await core.directory.create_organization("Acme")
            me = core.principal(org.uuid, user="u1")
            await ran(core, me, chain(3))
            waiting = {"id": "n0", "type": "humanApproval", "data": {"message": "may it?", "timeoutSeconds": 90_000}}
            parked = {"nodes": [{"id": "start", "type": "start"}, waiting],
                      "edges": [{"id": "e", "source": "start", "target": "n0"}]}  # fmt: skip
            flow = await core.workflows.create(me, name="Parked", structure=parked)
            await core.workflows.deploy(me, flow.id)
            run = await core.runs.start(me, workflow=flow.id, input={})
            assert [event async for event in await core.runs.follow(me, run.id)]
            return [ref(one) for one in (core, core.driver._timers, core.ports.storage, Order)]

    await used()  # what a process loads once
    before = tasks_and_threads(), os.listdir("/proc/self/fd")
    kept = await used()
    await asyncio.sleep(0)
    gc.collect()
    assert [one() for one in kept] == [None] * 4
    assert (tasks_and_threads(), os.listdir("/proc/self/fd")) == before


def tasks_and_threads() -> tuple[int, list[str]]:
    """Without the loop's own threads, of which there are more and more until there are enough."""
    threads = [one.name for one in threading.enumerate() if not one.name.startswith("asyncio_")]
    return len(asyncio.all_tasks()), threads
