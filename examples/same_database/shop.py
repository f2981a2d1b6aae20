"""A product with tables and migrations of its own, and wfcore in the same database.

    export SHOP_DATABASE=sqlite:///shop.db
    .venv/bin/alembic -c examples/same_database/alembic.ini upgrade head
    .venv/bin/python examples/same_database/shop.py

It prints `order o-1: packed`. The order and the run that packs it are written in one transaction: both exist, or
neither. `alembic upgrade head` and `alembic check` of the product go on working, before and after wfcore has made
its tables.
"""

import asyncio
import os
from typing import Any

import sqlalchemy as sa
from shop_tables import orders
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

import wfcore

PACKING: Any = {
    "nodes": [
        {"id": "start", "type": "start", "data": {}},
        {"id": "pack", "type": "action", "data": {"toolId": "pack", "params": {"order": "{{ input.order }}"}}},
    ],
    "edges": [{"id": "e", "source": "start", "target": "pack"}],
}


@wfcore.tool(idempotent=True)
async def pack(order: str) -> str:
    """Pack an order."""
    return f"order {order}: packed"


async def place_order(
    core: wfcore.Core, me: wfcore.Principal, engine: AsyncEngine, workflow: int, order: str, amount: int
) -> Any:
    """Write the order and start its run, in one transaction."""
    async with engine.begin() as connection:
        await connection.execute(orders.insert(), {"id": order, "amount": amount})
        run = await core.runs.start(me, workflow=workflow, input={"order": order}, connection=connection)
        await connection.execute(orders.update().where(orders.c.id == order).values(run_id=run.id))
        if amount <= 0:
            raise ValueError("an order has an amount above 0")  # neither the order nor the run is written
    return run


async def main(database: str) -> None:
    """Place one order that is accepted and one that is not."""
    url = database.replace("postgresql:", "postgresql+psycopg:", 1).replace("sqlite:", "sqlite+aiosqlite:", 1)
    engine = create_async_engine(url)
    async with wfcore.open(engine, tools=[pack]) as core:
        shop = await core.directory.create_organization("The shop")
        me = core.principal(shop.uuid, user="ann", role="owner")
        flow = await core.workflows.create(me, name="Packing", structure=PACKING)
        await core.workflows.deploy(me, flow.id)
        run = await place_order(core, me, engine, flow.id, "o-1", 30)
        print(await core.runs.result(run))
        try:
            await place_order(core, me, engine, flow.id, "o-2", 0)
        except ValueError as error:
            print(f"refused: {error}")
        async with engine.connect() as connection:
            placed = (await connection.scalars(sa.select(orders.c.id))).all()
        print(f"orders {list(placed)}, runs {len(await core.runs.page(me))}")
    await engine.dispose()


if __name__ == "__main__":
    asyncio.run(main(os.environ["SHOP_DATABASE"]))
