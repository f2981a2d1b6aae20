"""Processes of `test_events_are_delivered`: one starts a run and is killed, others deliver its events.

    python event_processes.py start|deliver|deliver-and-die DATABASE LOG OFFSET

`LOG` gets a line for each received message: its `webhook-id` and body, or the id of a handler's event. `OFFSET` is how
many seconds the clock of the process is ahead.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import wfcore
from wfcore.adapters.system import SystemClock
from wfcore.ports.outbound import Undelivered
from wfcore.runtime.channels.delivery_loop import CLAIM_DURATION

ORG = "0192f0c0-1111-7000-8000-00000000000a"
GRAPH: Any = {"nodes": [{"id": "s", "type": "start"}], "edges": []}


class LaterClock(SystemClock):
    def __init__(self, offset: int) -> None:
        self._offset = offset * 1000
        self._passed = 0

    def now(self) -> int:
        return super().now() + self._offset + self._passed

    def monotonic(self) -> int:
        return super().monotonic() + self._passed

    def advance(self, milliseconds: int) -> None:
        self._passed += milliseconds


class Receiver:
    """Implements the port `Outbound`: the address of the hook, which accepts everything."""

    def __init__(self, log: Path, *, dies: bool) -> None:
        self._log = log
        self._dies = dies

    def note(self, *line: str) -> None:
        with self._log.open("a") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
        if self._dies:
            os.kill(os.getpid(), signal.SIGKILL)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        self.note(headers["webhook-id"], body.decode())
        return 204

    async def request(self, *_: object) -> Any:
        raise Undelivered


async def main(mode: str, database: str, log: Path, offset: int) -> None:
    receiver = Receiver(log, dies=mode == "deliver-and-die")
    clock = LaterClock(offset)
    ports = wfcore.Overrides(clock=clock, outbound=receiver)
    async with wfcore.open(database, worker=False, ports=ports, secrets=bytes(32)) as core:
        core.on("run.finished", lambda event: receiver.note(event.id, event.type), name="mail")
        await core.notifier.register()
        if mode == "start":
            await core.directory.ensure_organization("Acme", id=ORG)
            me = core.principal(ORG, "ann")
            await core.hooks.create(me, url="https://crm.example.org/", events=["run.finished"])
            flow = await core.workflows.create(me, name="Flow", structure=GRAPH)
            await core.workflows.deploy(me, flow.id)
            await core.runs.start(me, workflow=flow.id, input={})
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.gather(*await core.notifier.poll())
        clock.advance(CLAIM_DURATION)  # a claim of a process that was killed ends when it has been seen for so long
        await asyncio.gather(*await core.notifier.poll())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])))
