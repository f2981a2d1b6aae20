"""A product with tables and migrations of its own, and wfcore in the same database.

    export SHOP_DATABASE=sqlite:///shop.db
    .venv/bin/alembic -c examples/same_database/alembic.ini upgrade head
    .venv/bin/python examples/same_database/shop.py

It prints `order o-1: packed`, and the next time `order o-2: packed`. The order and the run that packs it are written in
one transaction: both exist, or neither. `alembic upgrade head` and `alembic check` of the product go on working, before
and after wfcore has made its tables.
"""

import asyncio
import os
from typing import Any

import sqlalchemy as sa
from shop_tables import orders
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

import wfcore

SHOP = "5b0f6d1c-7a0e-4a39-9a3e-2c54d7b8e901"
"""The organization: a product with several customers has one for each."""

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


async def packing(core: wfcore.Core, me: wfcore.Principal) -> int:
    """The id of the workflow, which the first call makes."""
    for flow in await core.workflows.page(me):
        return flow.id
    made = await core.workflows.create(me, name="Packing", structure=PACKING)
    await core.workflows.deploy(me, made.id)
    return made.id


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


async def order_ids(engine: AsyncEngine) -> list[str]:
    async with engine.connect() as connection:
        return list(await connection.scalars(sa.select(orders.c.id).order_by(orders.c.id)))


async def main(database: str) -> None:
    """Place one order that is accepted and one that is not."""
    url = database.replace("postgresql:", "postgresql+psycopg:", 1).replace("sqlite:", "sqlite+aiosqlite:", 1)
    engine = create_async_engine(url)
    async with wfcore.open(engine, tools=[pack]) as core:
        await core.directory.ensure_organization("The shop", id=SHOP)
        me = core.principal(SHOP, user="ann", role="owner")
        flow = await packing(core, me)
        number = len(await order_ids(engine)) + 1
        run = await place_order(core, me, engine, flow, f"o-{number}", 30)
        print(await core.runs.result(run))
        try:
            await place_order(core, me, engine, flow, f"o-{number + 1}", 0)
        except ValueError as error:
            print(f"refused: {error}")
        print(f"orders {await order_ids(engine)}, runs {len(await core.runs.page(me))}")
    await engine.dispose()


if __name__ == "__main__":
    asyncio.run(main(os.environ["SHOP_DATABASE"]))
