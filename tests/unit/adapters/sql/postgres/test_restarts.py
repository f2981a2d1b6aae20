"""A PostgreSQL server that restarts while runs open their children: no run ends in error for it."""

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from bench import act, one
from restarted_postgres import Interruption, RestartedServer, restarted_server
from waiting import HANG, until

from wfcore import bootstrap
from wfcore.core import Core
from wfcore.domain.kernel.errors import Unavailable
from wfcore.domain.resources.access import Principal
from wfcore.runtime.common.run_views import RunView

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("restarts")]

CHILDREN = 60
RUNS = 5
INTERRUPTIONS = 4
HINTS = "hints between processes are interrupted"
RARE = "polling for erasures", "polling for old data"
"""Lines about hourly work: it can fail first, and begins no outage."""


@pytest.fixture(scope="module")
def server() -> Iterator[RestartedServer]:
    with tempfile.TemporaryDirectory(prefix="wfcore-") as place, restarted_server(Path(place)) as server:
        yield server


async def deployed(core: Core, me: Principal, node: dict[str, Any]) -> int:
    view = await core.workflows.create(me, name="A flow", structure=one(node))
    await core.workflows.deploy(me, view.id)
    return view.id


async def ended(core: Core, me: Principal, run_id: str) -> RunView:
    """The run when it has ended; the server can be interrupted meanwhile."""
    while True:
        with suppress(Unavailable):
            run = await core.runs.get(me, run_id)
            if not run.status.under_way:
                return run
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("how", ["fast", "immediate", "terminated"])
async def test_children_open_while_the_server_restarts(server: RestartedServer, how: Interruption) -> None:
    """Every run is done with the result of each child; the store's absence is no outcome of any effect."""
    async with bootstrap.open(server.url) as core:
        org = (await core.directory.create_organization("Acme")).uuid
        me = core.principal(org, user="ann")
        child = await deployed(core, me, act("core.transform", value="{{ input.n }}"))
        items = [{"n": number} for number in range(CHILDREN)]
        node = act("core.workflow", more={"forEach": "input.items"}, workflowId=child, input={"n": "{{ item.n }}"})
        parent = await deployed(core, me, node)
        runs = [await core.runs.start(me, workflow=parent, input={"items": items}) for _ in range(RUNS)]
        for _ in range(INTERRUPTIONS):
            await asyncio.sleep(0.02)
            await asyncio.to_thread(server.interrupt, how)
        for run in runs:
            found = await ended(core, me, run.id)
            assert found.error is None
            assert found.output == list(range(CHILDREN))


async def test_what_is_logged_of_an_outage(server: RestartedServer, caplog: pytest.LogCaptureFixture) -> None:
    """The work of the process and its hints log a line each when they begin to fail, and one when they work again."""
    async with bootstrap.open(server.url), asyncio.timeout(HANG):
        server.stop()
        await until(
            lambda: {one.startswith(HINTS) for one in lines_of(caplog) if not one.startswith(RARE)} == {True, False}
        )
        await asyncio.sleep(2)  # each poller fails again
        begun = lines_of(caplog)
        server.interrupt("fast")
        await until(lambda: len(lines_of(caplog)) >= len(begun) + 2)
    assert sum(line.startswith(HINTS) for line in begun) == 1
    rare = [line for line in begun if line.startswith(RARE)]
    assert len(begun) == 2 + len(rare)
    assert len(rare) == len({line.partition(" failed")[0] for line in rare})
    ended = [line.partition(",")[0] for line in lines_of(caplog)[len(begun) :]]
    assert set(ended) == {"the store works again", "hints between processes work again"}


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name.startswith("wfcore.") and one.levelname != "INFO"]
