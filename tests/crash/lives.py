"""What the processes of the crash tests do with their lives.

Every function here runs in a process of its own, forked by `zygote.py`. What it says goes to files, written at once
and in one piece, so that what was said before a kill is there after it.
"""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from wfcore import bootstrap
from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.adapters.sql.database import Database
from wfcore.adapters.sql.journal import SqlJournal
from wfcore.adapters.sql.storage import SqlStorage
from wfcore.bootstrap import Core
from wfcore.domain.access import Principal
from wfcore.domain.run.state import RunStatus
from wfcore.ports.providers import ToolCall
from wfcore.runtime.context import Settings

ORG = "00000000-0000-4000-8000-000000000001"
FIRST, SECOND = "turn-1", "turn-2"
GIVEN = {"n": 5, "items": ["a", "b", "c"]}

Spec = dict[str, Any]


def record_params(what: str) -> Spec:
    return {"toolId": "record", "params": {"what": what}}


DEMO: Spec = {
    "nodes": [
        {"id": "begin", "type": "start"},
        {"id": "fetch", "type": "action", "data": record_params("{{ input.n }}")},
        {
            "id": "large",
            "type": "condition",
            "data": {"branches": [{"handle": "yes", "when": "nodes.fetch.output.seen > 3"}]},
        },
        {"id": "write", "type": "agent", "data": {"message": "write about {{ nodes.fetch.output.seen }}"}},
        {"id": "allow", "type": "humanApproval", "data": {"message": "{{ nodes.write.output }}"}},
        {
            "id": "each",
            "type": "action",
            "data": {**record_params("{{ item }}"), "forEach": "input.items", "maxConcurrency": 2},
        },
        {"id": "end", "type": "action", "data": record_params("{{ nodes.write.output }} {{ nodes.each.output }}")},
    ],
    "edges": [
        {"id": "1", "source": "begin", "target": "fetch"},
        {"id": "2", "source": "fetch", "target": "large"},
        {"id": "3", "source": "large", "target": "write", "sourceHandle": "yes"},
        {"id": "4", "source": "write", "target": "allow"},
        {"id": "5", "source": "allow", "target": "each", "sourceHandle": "approved"},
        {"id": "6", "source": "each", "target": "end"},
    ],
}

CROWD: Spec = {
    "nodes": [{"id": "begin", "type": "start"}]
    + [{"id": name, "type": "action", "data": record_params(name)} for name in "abcd"],
    "edges": [{"id": pair, "source": pair[0], "target": pair[1]} for pair in ("ab", "bc", "cd")]
    + [{"id": "0", "source": "begin", "target": "a"}],
}


def write_line(path: str, value: Any) -> None:
    """Append one line that survives the death of this process at any later moment."""
    line = (json.dumps(value) + "\n").encode()
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        assert os.write(file, line) == len(line)
        os.fsync(file)
    finally:
        os.close(file)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class MortalJournal(SqlJournal):
    """A journal whose process dies at a chosen boundary: the `n`th write of entries, and how far into it.

    `before`: nothing was asked for. `amid`: while SQLite executes the statement. `after`: it is durable, and nobody
    has been told. `told`: one turn of the event loop later.
    """

    def __init__(self, database: Database, kill: tuple[int, str] | None, appends: str) -> None:
        super().__init__(database)
        self._kill = kill
        self._appends = appends
        self._count = 0

    async def begin(self, new: Any, append: Any) -> Any:
        return await self._written(append, lambda: super(MortalJournal, self).begin(new, append))

    async def append(self, execution: Any, append: Any) -> None:
        await self._written(append, lambda: super(MortalJournal, self).append(execution, append))

    async def _written(self, append: Any, write: Callable[[], Any]) -> Any:
        self._count += bool(append.entries)
        when = self._kill[1] if self._kill and append.entries and self._kill[0] == self._count else ""
        if when == "before":
            die()
        if when == "amid":
            self._database.hot.set_progress_handler(die, 3)
        result = await write()
        if when == "after":
            die()
        if when == "told":
            asyncio.get_running_loop().call_soon(die)
        write_line(self._appends, self._count)
        return result


class Recorder:
    """The tool: it writes a line outside wfcore. It may be where the process dies, before or after the line."""

    def __init__(self, path: str, kill: tuple[int, str] | None = None, seconds: float = 0.0) -> None:
        self._path = path
        self._kill = kill
        self._seconds = seconds
        self._count = 0

    async def record(self, what: Any, call: ToolCall) -> dict[str, object]:
        """Note that this step was performed."""
        self._count += 1
        when = self._kill[1] if self._kill and self._kill[0] == self._count else ""
        if when == "early":
            die()
        await asyncio.sleep(self._seconds)
        write_line(self._path, [call.key, call.attempt])
        if when == "late":
            die()
        return {"seen": what}


@asynccontextmanager
async def opened(spec: Spec) -> AsyncIterator[tuple[Core, Principal]]:
    """wfcore on the file of the test, with whatever is to kill this process."""
    database = Database(f"sqlite:///{spec['db']}", synchronous=spec.get("synchronous", "FULL"))
    await database.open()
    tool = Recorder(spec["log"], spec.get("kill_tool"), spec.get("seconds", 0.0))
    async with bootstrap.open(
        storage=SqlStorage(database),
        journal=MortalJournal(database, spec.get("kill"), spec["appends"]),
        tools=[tool.record],
        models={"default": ScriptedModel(["four words were said"])},
        settings=Settings(delta_interval=0),
        worker=spec.get("worker", True),
        grace=0,
    ) as core:
        yield core, core.principal(ORG, user="ann")


async def seed(spec: Spec) -> None:
    """Make the file: tables, the organization, both workflows."""
    async with opened({**spec, "worker": False}) as (core, me):
        await core.directory.create_organization("Acme", id=ORG)
        for structure in (DEMO, CROWD):
            made = await core.workflows.create(me, name="Flow", structure=structure)
            await core.workflows.deploy(me, made.id)


async def tell(core: Core, me: Principal, run: str, path: str) -> None:
    """Follow a run to its end, acknowledging each event as it comes."""
    async for event in await core.runs.follow(me, run):
        write_line(path, event.to_wire())


async def live(spec: Spec) -> None:
    """Start the demo, or join it; answer its approval, or join the answer; follow both turns."""
    async with opened(spec) as (core, me):
        await core.runs.start(me, workflow=1, input=GIVEN, key=FIRST)
        await tell(core, me, FIRST, spec["acks"])
        await core.runs.resume(me, FIRST, decision="approve", key=SECOND)
        await tell(core, me, SECOND, spec["acks"])
        view = await core.runs.get(me, SECOND)
        write_line(spec["acks"], {"status": view.status, "output": view.output})


async def crowd(spec: Spec) -> None:
    """Start some of many runs, and work until all of them are done, whoever started them."""
    async with opened(spec) as (core, me):
        names = [f"{spec['name']}-{number}" for number in range(spec["starts"])]
        await asyncio.gather(*(core.runs.start(me, workflow=2, input={}, key=name) for name in names))
        write_line(spec["started"], spec["name"])
        while len(await core.runs.page(me, limit=100, status=RunStatus.done)) < spec["runs"]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


LIVES: dict[str, Callable[[Spec], Any]] = {"seed": seed, "live": live, "crowd": crowd}


def run(spec: Spec) -> None:
    asyncio.run(LIVES[spec["life"]](spec))


def lines(path: Path) -> list[Any]:
    """What was written by `write_line`."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
