"""Runs of a single node, for use cases that need its result at once: tests of nodes, and proposals."""

import asyncio
from collections.abc import Mapping
from typing import Final

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.run.plan import action_plan
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.run_views import RunView
from wfcore.runtime.runs.bodies import RequestedRun, short_fingerprint
from wfcore.runtime.runs.repairs import RepairableRuns
from wfcore.runtime.runs.targets import Target

LONGEST: Final = 120.0
"""Seconds that one run can take."""


class SingleActions:
    """Performs a node by a run of its own, with the access of its caller. Its model calls count as usage."""

    def __init__(self, ports: Ports, runs: RepairableRuns) -> None:
        self._ports = ports
        self._runs = runs

    async def perform(self, me: Principal, action: Mapping[str, JSON], value: JSON, about: str) -> RunView | None:
        """The run when its turn has ended; None when it was cancelled after `LONGEST` seconds."""
        uuid = self._ports.ids.uuid
        thread = "thread_" + uuid().replace("-", "")
        run = RequestedRun(uuid(), short_fingerprint([me.user_id, about, uuid()]), thread, "", "person", "api")
        begun = await self._runs.launch(me, Target("action", action_plan(action)), run, value, {"action": action})
        try:
            async with asyncio.timeout(LONGEST):
                async for _ in self._runs.batches(begun):
                    pass
        except TimeoutError:
            await self._runs.cancel(me, begun.id)
            return None
        return await self._runs.get(me, begun.id)
