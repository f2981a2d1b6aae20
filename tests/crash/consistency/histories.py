"""Histories of concurrent operations of several processes on one store, checked for linearizability.

Clients of every process start, resume and cancel the same runs, and edit, deploy and start the same workflows. Which
ones is a matter of time, so that all processes work on the same objects at once.
"""

import asyncio
import os
import random
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from itertools import count, pairwise
from pathlib import Path
from typing import Any, Final

from fork_server import ForkServer
from graphs import graph, node, record
from linearizability import FlowState, Operation, RunState, fault_of, flow_onward, flow_step, run_onward, run_step
from process_roles import ROLES, Spec, lines, opened, write_line
from scenarios import Scenario
from stores import Store

from wfcore.domain.kernel.errors import Conflict, NotFound, Unavailable

CLIENTS: Final = 3
"""Concurrent clients of each process."""

SLOT: Final = 0.15
"""Seconds for which all clients use the same run."""

FLOW_SLOT: Final = 0.5
"""Seconds for which all clients use the same workflow."""

KILL_AFTER: Final = (0.5, 2.0)
"""Seconds between the start and the kill of a process, least and most."""

RUN_OPERATIONS: Final = ("start", "start", "resume", "resume", "resume", "cancel", *("read",) * 4)
FLOW_OPERATIONS: Final = ("edit", "edit if", "edit if", "deploy", "start", "start", "read")

WAITING: Final = graph(
    record("first", "1"), node("ok", "humanApproval", message="?"), record("last", "2"), ok="approved"
)


def number_graph(number: int) -> dict[str, Any]:
    """A graph whose output is the number."""
    return graph(node("number", toolId="core.transform", params={"value": number}))


class Client:
    """One client: it makes one operation after another, and writes each call and each result with its time."""

    def __init__(self, core: Any, me: Any, spec: Spec, number: int) -> None:
        self._core, self._me, self._spec = core, me, spec
        self._name = f"{spec['name']}-{number}"
        self._random = random.Random(self._name)
        self._numbers = count(spec["first"] + number, CLIENTS)
        self._etags: dict[int, str] = {}

    async def work(self) -> None:
        while (now := time.monotonic()) < self._spec["until"]:
            slot = int((now - self._spec["began"]) / SLOT)
            if self._random.random() < 0.6:
                await self._on_run(f"run-{slot}", self._random.choice(RUN_OPERATIONS))
            else:
                flows = self._spec["flows"]
                await self._on_flow(flows[min(int((now - self._spec["began"]) / FLOW_SLOT), len(flows) - 1)])

    async def _on_run(self, run: str, name: str) -> None:
        runs, me = self._core.runs, self._me
        answer = f"{run}+{self._name}-{next(self._numbers)}" if name == "resume" else None

        async def read() -> Any:
            row = (await runs.get(me, run)).row
            return [row.status, row.resumed_by is not None]

        async def start() -> Any:
            await runs.start(me, workflow=self._spec["waiting"], input={}, key=run)

        async def resume() -> Any:
            await runs.resume(me, run, decision="approve", key=answer)

        async def cancel() -> Any:
            await runs.cancel(me, run)

        await self._made(run, name, answer, {"read": read, "start": start, "resume": resume, "cancel": cancel}[name])

    async def _on_flow(self, flow: int) -> None:
        name, workflows, me = self._random.choice(FLOW_OPERATIONS), self._core.workflows, self._me
        number, etag = next(self._numbers), self._etags.get(flow) if name == "edit if" else None

        async def edit() -> Any:
            view = await workflows.patch(me, flow, structure=number_graph(number), if_match=etag)
            return self._seen(flow, view)

        async def deploy() -> Any:
            return self._seen(flow, await workflows.deploy(me, flow))

        async def start() -> Any:
            run = await self._core.runs.start(me, workflow=flow, input={}, key=f"{self._name}-{number}")
            return lambda: self._output(run.id)

        async def read() -> Any:
            draft = await workflows.get(me, flow, view="draft")
            active = await workflows.get(me, flow)
            return (
                [_number_of(draft), _number_of(active), self._seen(flow, draft)] if draft.etag == active.etag else None
            )

        calls = {"edit": edit, "edit if": edit, "deploy": deploy, "start": start, "read": read}
        await self._made(f"flow-{flow}", name.partition(" ")[0], [number, etag], calls[name])

    def _seen(self, flow: int, view: Any) -> str:
        self._etags[flow] = view.etag
        return str(view.etag)

    async def _output(self, run: str) -> Any:
        async for _ in await self._core.runs.follow(self._me, run):
            pass
        return (await self._core.runs.get(self._me, run)).output

    async def _made(self, key: str, name: str, argument: Any, call: Callable[[], Awaitable[Any]]) -> None:
        """Make the call. What is not a read and has no known result stays open in the history."""
        operation = f"{self._name}/{next(self._numbers)}"
        write_line(self._spec["acks"], [operation, "call", time.monotonic(), key, name, argument])
        try:
            value = await call()
            end = time.monotonic()
            result = ["ok", await value() if callable(value) else value]
        except Conflict as error:
            end, reason = time.monotonic(), error.info.get("reason")
            result = ["stale" if reason == "stale" else "refused", reason]
        except NotFound:
            end, result = time.monotonic(), ["missing", None]
        except Unavailable:
            return
        write_line(self._spec["acks"], [operation, "return", end, result])


def _number_of(view: Any) -> Any:
    nodes = view.to_wire()["variation"]["workflowStructure"]["nodes"]
    return next(one for one in nodes if one["id"] == "number")["data"]["params"]["value"]


async def operate(spec: Spec) -> None:
    """Run the clients of one process until the time is over."""
    async with opened(spec) as (core, me):
        await asyncio.gather(*(Client(core, me, spec, number).work() for number in range(CLIENTS)))


async def prepare(spec: Spec) -> None:
    """Deploy the workflow of the runs, and those whose states are changed."""
    async with opened({**spec, "worker": False}) as (core, me):
        waiting = await core.workflows.create(me, name="Waiting", structure=WAITING)
        await core.workflows.deploy(me, waiting.id)
        flows = []
        for number in range(1, spec["flows"] + 1):
            flow = await core.workflows.create(me, name="Number", structure=number_graph(number))
            flows.append([flow.id, number, (await core.workflows.deploy(me, flow.id)).etag])
    write_line(str(Path(spec["points"]).with_suffix(".made")), [waiting.id, flows])


ROLES.update({role.__name__: role for role in (operate, prepare)})


class Histories:
    """Two processes operate on one store for `seconds`; with `kills`, each is killed and replaced again and again."""

    def __init__(
        self, root: Path, store: Store, fork_servers: list[ForkServer], seconds: float, *, kills: bool = False
    ) -> None:
        place = root / f"histories-{kills}"
        place.mkdir()
        self._scenario, self._fork_servers = Scenario(place, store), fork_servers
        self._seconds, self._kills, self._random = seconds, kills, random.Random(1)
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []

    def run(self) -> int:
        """Record and check the histories, and print a table. Returns the number of faults."""
        first = self._scenario.spec("prepare", "first", flows=int(self._seconds / FLOW_SLOT) + 1)
        assert self._fork_servers[0].run(first) == 0, self._scenario.said("first")
        ((waiting, made),) = lines(Path(first["points"]).with_suffix(".made"))
        flows = {flow: FlowState(number, number, etag) for flow, number, etag in made}
        began = time.monotonic()
        shared = {"waiting": waiting, "flows": list(flows), "began": began, "until": began + self._seconds}
        self._operate(shared)
        self.check(flows)
        self._scenario.drop()
        print(f"histories of {self._seconds:g} s: " + ", ".join(f"{n} {name}" for name, n in self.counts.items()))
        for fault in self.faults[:5]:
            print(fault)
        return len(self.faults)

    def _operate(self, shared: Spec) -> None:
        names = (f"p{number}" for number in count())
        first = count(1_000, 1_000_000)
        running: dict[int, tuple[int, float]] = {}
        while time.monotonic() < shared["until"] or running:
            for side, fork_server in enumerate(self._fork_servers):
                pid, kill_at = running.get(side, (0, 0.0))
                if pid and not self._kills:
                    continue
                if pid and time.monotonic() > min(kill_at, shared["until"]):
                    os.kill(pid, signal.SIGKILL)
                    fork_server.wait(pid)
                    del running[side]
                    self.counts["kills"] += 1
                elif not pid and time.monotonic() < shared["until"]:
                    name = next(names)
                    spec = self._scenario.spec("operate", name, name=name, first=next(first), beat=0.1, **shared)
                    running[side] = fork_server.start(spec), time.monotonic() + self._random.uniform(*KILL_AFTER)
            if not self._kills and running:
                for side, (pid, _) in running.items():
                    status = self._fork_servers[side].wait(pid)
                    assert status == 0, self._scenario.said(f"p{side}")
                return
            time.sleep(0.01)  # the processes use the real clock

    def check(self, flows: dict[int, FlowState]) -> None:
        """Check the operations on each object."""
        objects = defaultdict[str, list[Operation]](list)
        for operation in operations_of([line for path in self._scenario.place.glob("*.acks") for line in lines(path)]):
            objects[operation.key].append(operation)
        for key, operations in objects.items():
            if key.startswith("run-"):
                fault = fault_of(operations, RunState(), run_step, run_onward)
            else:
                fault = fault_of(operations, flows[int(key.partition("-")[2])], flow_step, flow_onward)
            self.counts["objects"] += 1
            self.counts["operations"] += len(operations)
            self.counts["without a result"] += sum(one.end is None for one in operations)
            self.counts["at the same time"] += _overlaps(operations)
            for one in operations:
                if one.end is not None:
                    self.counts[f"{one.name} {one.result[0]}"] += 1
            if fault:
                self.faults.append(f"not linearizable: {key}: {fault} of {sorted(operations, key=lambda o: o.begin)}")


def operations_of(written: list[Any]) -> list[Operation]:
    """The operations of the lines that clients wrote. A read without a result says nothing."""
    results = {name: rest for name, what, *rest in written if what == "return"}
    found = []
    for number, what, begin, *rest in written:
        if what == "call":
            end, result = results.get(number, (None, None))
            found.append(Operation(*rest, begin, end, result))
    return [one for one in found if not _says_nothing(one)]


def _says_nothing(operation: Operation) -> bool:
    """Whether it has changed nothing that the model knows, and has no result."""
    changes_nothing = operation.name == "read" or (operation.name == "start" and operation.key.startswith("flow-"))
    return changes_nothing and (operation.end is None or operation.result == ["ok", None])


def _overlaps(operations: list[Operation]) -> int:
    ordered = sorted(operations, key=lambda one: one.begin)
    return sum(after.begin < (before.end or 0) for before, after in pairwise(ordered))
