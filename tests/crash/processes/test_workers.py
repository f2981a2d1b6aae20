"""`wfcore worker`: several real processes on one database."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import attrs
import pytest
from postgres_server import new_database
from slices import slice_of
from worker_processes import GRAPH, TOOLS, WorkerProcesses, graph, until

from wfcore import bootstrap
from wfcore.adapters.dispatch import embedded
from wfcore.cli.main import main
from wfcore.core import Core
from wfcore.domain.json.codec import to_ms
from wfcore.domain.resources.access import Principal
from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import RunRow
from wfcore.runtime.triggers.scheduler import slot_run_id

ORG = "00000000-0000-4000-8000-000000000001"

HOUR, DAY = 3_600, 86_400
"""Seconds."""

pytestmark = pytest.mark.xdist_group("crash")


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    on_a_file = getattr(request, "param", None) == "a file"
    return f"sqlite:///{tmp_path / 'wfcore.db'}" if on_a_file else new_database()


@pytest.fixture
def workers(request: pytest.FixtureRequest, tmp_path: Path, url: str) -> Iterator[WorkerProcesses]:
    with WorkerProcesses(tmp_path, url, getattr(request, "param", None)) as workers:
        yield workers


@attrs.frozen
class StartingProcess:
    """This process: it starts runs and drives none. `flow` is the workflow of three steps."""

    core: Core
    me: Principal
    flow: int

    async def start(self, *keys: str, gated: bool) -> None:
        for key in keys:
            await self.core.runs.start(self.me, workflow=self.flow, input={"gated": gated}, key=key)

    async def rows(self) -> list[RunRow]:
        return await self.core.ports.journal.list_runs(ORG, limit=100)

    async def are_done(self, number: int) -> bool:
        return len(await self.core.runs.page(self.me, limit=100, status=RunStatus.done)) == number


@pytest.fixture
async def front(url: str, anyio_backend: str) -> AsyncIterator[StartingProcess]:
    async with bootstrap.open(url, tools=TOOLS, worker=False, secrets=bytes(32)) as core:
        await core.directory.create_organization("Acme", id=ORG)
        await core.directory.add_member(ORG, user_id="ann", email="ann@acme.example")
        me = core.principal(ORG, user="ann")
        flow = await core.workflows.create(me, name="Steps", structure=GRAPH)
        await core.workflows.deploy(me, flow.id)
        yield StartingProcess(core, me, flow.id)


async def _scheduled(front: StartingProcess) -> str:
    """A workflow whose daily slot was a moment ago; the id of its run."""
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    schedule = {"frequency": "daily", "timezone": "UTC", "time_of_day": f"{now:%H:%M}"}
    trigger = {"trigger_type": "schedule", "schedule": schedule}
    made = await front.core.workflows.create(front.me, name="Daily", structure=GRAPH, trigger=trigger)
    await front.core.workflows.deploy(front.me, made.id)
    await front.core.workflows.toggle(front.me, made.id, is_enabled=True)
    async with front.core.ports.storage.transaction(ORG) as work:
        timer = await work.schedules.get(made.id)
        assert timer is not None
        await work.schedules.put(attrs.evolve(timer, next_at=int(now.timestamp()) * 1000))
    return slot_run_id(made.id, now)


async def _is_waiting(front: StartingProcess, run_id: str) -> bool:
    run = await front.core.runs.get(front.me, run_id)
    return run.status is RunStatus.interrupted and run.row.resumed_by is None


@pytest.mark.anyio
async def test_workers_share_and_take_over_work(front: StartingProcess, workers: WorkerProcesses) -> None:
    """Two workers share the work: both get some, every step happens once, every slot of a schedule starts one run.

    Then one is killed amid its steps, and the other one stops. A third one, on another machine, takes everything over
    after some seconds of silence, and repeats no completed step. The one that stopped comes back to steps that are no
    longer its own: nothing that it does counts, and it ends in good order. Its calls carry the smaller fencing number.
    """
    slots = [await _scheduled(front) for _ in range(5)]
    workers.start_workers("killed", "stopped")
    await until(lambda: front.are_done(len(slots)))
    keys, ended = list[str](), workers.count_of("began", "b")
    while len(workers.count_of("began", "b") - ended) < 2:  # until both are amid a step
        keys.append(f"r-{len(keys)}")
        await front.start(keys[-1], gated=True)
        await until(lambda: workers.count_of("began", "b").total() == len(keys) + len(slots))
    workers.start_workers("successor")
    workers.send("killed", signal.SIGKILL)
    workers.send("stopped", signal.SIGSTOP)
    await until(lambda: workers.count_of("began", "b")["successor"] == len(keys))
    workers.open_gate()
    await until(lambda: front.are_done(len(slots) + len(keys)))
    before = await front.rows()
    workers.send("stopped", signal.SIGCONT)
    await until(lambda: workers.count_of("ended", "b")["stopped"] == workers.count_of("began", "b")["stopped"])
    assert workers.end("stopped") == 0
    assert await front.rows() == before
    assert {row.id for row in before} == {*slots, *keys}
    assert [set(workers.times(name).values()) for name in "ac"] == [{1}, {1}]
    assert max(workers.times("b").values()) == 2
    late = [calls for calls in workers.fencing("b").values() if len(calls) == 2]
    assert [[worker for _, worker in calls] for calls in late] == [["stopped", "successor"]] * len(late)
    assert all(stopped < successor for (stopped, _), (successor, _) in late)


@pytest.mark.anyio
@pytest.mark.parametrize("url", ["a file"], indirect=True)
async def test_on_a_file(front: StartingProcess, workers: WorkerProcesses) -> None:
    """A worker drives runs that another process on the same machine starts, and ends cleanly on a signal."""
    workers.start_workers("worker")
    await front.start("r-1", gated=False)
    await until(lambda: front.are_done(1))
    assert workers.count_of("ended", "c") == {"worker": 1}
    assert workers.end("worker") == 0


@pytest.mark.anyio
@pytest.mark.parametrize(("url", "workers"), [("a file", "this machine"), ("a server", None)], indirect=True)
async def test_wrong_clocks(front: StartingProcess, workers: WorkerProcesses) -> None:
    """The clocks of two workers differ by a day, and both are amid steps that must not be repeated.

    Then one clock is set back an hour, and the other one forward. Neither worker counts as dead, no step happens twice
    and none has an unknown outcome. Both workers find and end new runs, which nobody tells them of.
    """
    made = await front.core.workflows.create(front.me, name="Charges", structure=graph("charge"))
    await front.core.workflows.deploy(front.me, made.id)
    charging = attrs.evolve(front, flow=made.id)
    workers.set_clock("ahead", DAY)
    workers.dead_after = HOUR / 2  # on the real clock no process is ever so slow
    workers.start_workers("exact", "ahead")
    keys = list[str]()
    while len(workers.count_of("began", "b")) < 2:  # until both are amid a step
        keys.append(f"r-{len(keys)}")
        await charging.start(keys[-1], gated=True)
        await until(lambda: workers.count_of("began", "b").total() == len(keys))
    workers.set_clock("exact", -HOUR)
    workers.set_clock("ahead", DAY + HOUR)
    await asyncio.sleep(3 * embedded.HEARTBEAT)  # the workers use the real clock
    late = [f"late-{number}" for number in range(4)]
    await front.start(*late, gated=False)
    await until(lambda: front.are_done(len(late)))
    workers.open_gate()
    await until(lambda: front.are_done(len(late) + len(keys)))
    for name in "abc":
        assert set(workers.times(name).values()) == {1}, name
    assert workers.count_of("began", "b").total() == len(keys) + len(late)
    assert [workers.end(name) for name in ("exact", "ahead")] == [0, 0]


@pytest.mark.anyio
@pytest.mark.parametrize("seconds", slice_of([DAY, -DAY], 2))
async def test_times_are_those_of_the_server(front: StartingProcess, workers: WorkerProcesses, seconds: int) -> None:
    """The clock of a worker's machine is wrong: a slot runs in time, the deadline of an approval does not pass early,
    and a schedule keeps its next slot.
    """
    nodes = [{"id": "s", "type": "start"}, {"id": "ask", "type": "humanApproval", "data": {"timeoutSeconds": HOUR}}]
    structure = {"nodes": nodes, "edges": [{"id": "1", "source": "s", "target": "ask"}]}
    asking = await front.core.workflows.create(front.me, name="Asks", structure=structure)
    await front.core.workflows.deploy(front.me, asking.id)
    run = await front.core.runs.start(front.me, workflow=asking.id)
    workers.start_workers("right")
    await until(lambda: _is_waiting(front, run.id))
    workers.end("right")
    slots = [await _scheduled(front), await _scheduled(front)]
    workers.set_clock("worker", seconds)
    workers.start_workers("worker")
    await until(lambda: front.are_done(len(slots)))
    await front.start("after", gated=False)
    await until(lambda: front.are_done(len(slots) + 1))
    assert await _is_waiting(front, run.id)
    for one in await front.core.workflows.schedules(front.me):
        assert one.schedule.timer is not None
        assert one.schedule.timer.next_at == to_ms(one.next_runs[0].at)


@pytest.mark.anyio
async def test_a_lone_worker_whose_clock_is_set_back(front: StartingProcess, workers: WorkerProcesses) -> None:
    """It goes on, long before the hour is over: it claims queued runs, and a successor takes over after its kill."""
    workers.start_workers("only")
    await front.start("before", gated=False)
    await until(lambda: front.are_done(1))
    workers.set_clock("only", -HOUR)
    await asyncio.sleep(2 * embedded.HEARTBEAT)
    await front.start("after", gated=False)
    await until(lambda: front.are_done(2))
    await front.start("held", gated=True)
    await until(lambda: workers.count_of("began", "b")["only"] == 3)
    workers.set_clock("successor", -2 * HOUR)
    workers.start_workers("successor")
    workers.send("only", signal.SIGKILL)
    workers.set_clock("successor", -3 * HOUR)
    await until(lambda: workers.count_of("began", "b")["successor"] == 1)
    workers.open_gate()
    await until(lambda: front.are_done(3))


def test_a_worker_needs_a_shared_database(capfd: pytest.CaptureFixture[str]) -> None:
    """A worker on a database in memory would never have work: that is a usage error."""
    assert main(["worker", "--database", "sqlite://"]) == 2
    assert "a worker needs a database that processes share" in capfd.readouterr().err
