"""Start runs and create hooks in transactions of a product, in processes that are killed, each at another statement.

Usage: killed_products.py DATABASE_URL. Each line of output is one process: the kind of its connection, how it ended,
and how many orders, runs, hooks, subscriptions of hooks and audit rows of them it left. The kinds take turns at the
statements; the last ones, around the commit, are for each of them.
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
from wfcore.adapters.sql.host import HostTransaction, PartOfTransaction
from wfcore.runtime.common.installation import Settings

SETTINGS = Settings(synchronous="NORMAL", grace=0)
NEVER, AROUND_COMMIT = 250, 3
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


async def start(url: str, org: str, flow: int, kind: Kind, name: str, last: int) -> int:
    """Order, start and create a hook; the process is killed before the statement, or the commit, or the end, that
    follows the `last` one. Returns how many there were.
    """
    passed = count(1)

    def pass_one() -> None:
        if next(passed) > last:
            os.kill(os.getpid(), signal.SIGKILL)

    original, run_sync = HostTransaction.__init__, PartOfTransaction.run_sync

    def watched(self: HostTransaction, run: Any, connection: Any) -> None:
        def one(statement: str, values: Any) -> Any:
            pass_one()
            return run(statement, values)

        original(self, one, connection)

    async def watched_part(self: PartOfTransaction, work: Any) -> Any:
        pass_one()
        return await run_sync(self, work)

    HostTransaction.__init__ = watched  # type: ignore[method-assign]
    PartOfTransaction.run_sync = watched_part  # type: ignore[method-assign]
    async with (
        wfcore.open(url, worker=False, migrate=False, secrets=bytes(32), settings=SETTINGS) as core,
        kind(url) as product,
    ):
        me = core.principal(org, "me", role="owner")
        await product.execute(f"INSERT INTO orders VALUES ('{name}')")
        await core.runs.start(me, workflow=flow, input={}, key=name, connection=product.connection)
        address = f"https://{name}.example/"
        await core.hooks.create(me, url=address, events=["run.failed"], connection=product.connection)
        pass_one()
        await product.commit()
        pass_one()
    return next(passed) - 1


HOOK = "wfcore_hooks WHERE url = 'https://' || :name || '.example/'"
ROWS = [
    "orders WHERE id = :name",
    "wfcore_runs WHERE id = :name",
    HOOK,
    f"wfcore_subscriptions WHERE hook IN (SELECT id FROM {HOOK})",
    f"wfcore_audit WHERE resource_id IN (SELECT id FROM {HOOK})",
]


def counted(url: str, name: str) -> list[int]:
    engine = sa.create_engine(engine_url(url))
    texts = [f"SELECT count(*) FROM {rows}" for rows in ROWS]
    with engine.connect() as connection:
        found = [
            connection.scalar(sa.text(qualified(text) if url.startswith("postgresql") else text), {"name": name})
            for text in texts
        ]
    engine.dispose()
    return found


def in_process(url: str, org: str, flow: int, kind: Kind, last: int) -> int:
    """Prints the line of one process. Returns its exit status: how many statements there were."""
    name = f"{kind.__name__.replace('_', '-')}-{last}"
    pid = os.fork()
    if not pid:
        os._exit(asyncio.run(start(url, org, flow, kind, name, last)))
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(kind.__name__, status, *counted(url, name))
    return status


def main(url: str) -> None:
    org, flow = asyncio.run(prepared(url))
    kinds = KINDS[url.partition(":")[0]]
    for turn, kind in enumerate(kinds):
        total = in_process(url, org, flow, kind, NEVER)
        for last in range(total):
            if last % len(kinds) == turn or last >= total - AROUND_COMMIT:
                in_process(url, org, flow, kind, last)


if __name__ == "__main__":
    main(sys.argv[1])
