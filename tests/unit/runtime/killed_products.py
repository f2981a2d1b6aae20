"""Start runs in transactions of a product, in processes that are killed, each before another statement.

Usage: killed_products.py DATABASE_URL. Each line of output is one process: the kind of its connection, how it ended,
and how many orders and runs it left.
"""

import asyncio
import os
import signal
import sys
from itertools import count
from typing import Any

import sqlalchemy as sa
from products import KINDS, Kind, engine_url
from sql_texts import qualified

import wfcore
from wfcore.adapters.sql.host import HostTransaction
from wfcore.runtime.common.installation import Settings

SETTINGS = Settings(synchronous="NORMAL", grace=0)
GRAPH: Any = {
    "nodes": [
        {"id": "s", "type": "start"},
        {"id": "n", "type": "action", "data": {"toolId": "core.wait", "params": {"seconds": 1}}},
    ],
    "edges": [{"id": "e", "source": "s", "target": "n"}],
}


async def prepared(url: str) -> tuple[str, int]:
    async with wfcore.open(url, worker=False, settings=SETTINGS) as core:
        org = await core.directory.create_organization("one")
        me = core.principal(org.uuid, "me", role="owner")
        flow = await core.workflows.create(me, name="A flow", structure=GRAPH)
        await core.workflows.deploy(me, flow.id)
        return org.uuid, flow.id


async def start(url: str, org: str, flow: int, kind: Kind, name: str, last: int) -> None:
    """Order and start; the process is killed before the statement, or the commit, or the end, that follows the `last`
    one.
    """
    passed = count(1)

    def pass_one() -> None:
        if next(passed) > last:
            os.kill(os.getpid(), signal.SIGKILL)

    original = HostTransaction.__init__

    def watched(self: HostTransaction, run: Any) -> None:
        def one(statement: str, values: Any) -> Any:
            pass_one()
            return run(statement, values)

        original(self, one)

    HostTransaction.__init__ = watched  # type: ignore[method-assign]
    async with wfcore.open(url, worker=False, migrate=False, settings=SETTINGS) as core, kind(url) as product:
        me = core.principal(org, "me", role="owner")
        await product.execute(f"INSERT INTO orders VALUES ('{name}')")
        await core.runs.start(me, workflow=flow, input={}, key=name, connection=product.connection)
        pass_one()
        await product.commit()
        pass_one()


def counted(url: str, name: str) -> tuple[Any, Any]:
    engine = sa.create_engine(engine_url(url))
    runs = "SELECT count(*) FROM wfcore_runs WHERE id = :name"
    with engine.connect() as connection:
        found = [
            connection.scalar(sa.text(text), {"name": name})
            for text in (
                "SELECT count(*) FROM orders WHERE id = :name",
                qualified(runs) if url.startswith("postgresql") else runs,
            )
        ]
    engine.dispose()
    return found[0], found[1]


def main(url: str) -> None:
    org, flow = asyncio.run(prepared(url))
    for kind in KINDS[url.partition(":")[0]]:
        for last in count():
            name = f"{kind.__name__}-{last}"
            pid = os.fork()
            if not pid:
                asyncio.run(start(url, org, flow, kind, name, last))
                os._exit(0)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            print(kind.__name__, status, *counted(url, name))
            if status != -signal.SIGKILL:
                break


if __name__ == "__main__":
    main(sys.argv[1])
