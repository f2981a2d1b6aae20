"""wfcore in a product on FastAPI.

automation = Automation("sqlite:///app.db", principal=principal_of, tools=[send_refund])
app = FastAPI()
install(app, automation, "/automation")

@app.post("/refunds", dependencies=[Depends(automation.same_site)])
async def refund(me: Annotated[wfcore.Principal, Depends(automation.principal)]) -> ...:
    run = await automation.core.runs.start(me, ...)
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import wfcore
from wfcore.extras import needs_extra

with needs_extra("server", "`wfcore.contrib.fastapi`", beside="fastapi"):
    from fastapi import FastAPI

    from wfcore.contrib.starlette import Automation, Principals, Ready

__all__ = ["Automation", "Principals", "Ready", "install"]


def install(app: FastAPI, automation: Automation, path: str = "/automation") -> None:
    """Open the core with the application, around a lifespan that it has already; mount it at `path`; and let routes of
    the product answer errors of wfcore with their status.
    """
    own = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(served: Any) -> AsyncIterator[Any]:
        async with automation.lifespan(served), own(served) as state:
            yield state

    app.router.lifespan_context = lifespan
    app.mount(path, automation)
    app.add_exception_handler(wfcore.WfcoreError, automation.error)
