"""The route of the stream of changes."""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing

import attrs
from starlette.responses import Response

from wfcore.adapters.http.core import sse
from wfcore.adapters.http.core.request_parsing import prefers_json
from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import Call, Route
from wfcore.api.changes import ChangeDto, ChangeEvents
from wfcore.domain.kernel.json_type import JSON
from wfcore.runtime.common.authorization import scopes_of
from wfcore.runtime.runs.changes import HELLO, Changes


@attrs.frozen
class ChangeRoutes:
    """What changes in the caller's organization, live."""

    changes: Changes

    def table(self) -> Iterator[Route]:
        yield Route(
            "changes.follow", "GET", "/api/v1/changes", self.follow, "Follow what changes in the organization",
            scopes_of(self.changes.follow), ChangeEvents, streams=True, events=ChangeDto,
        )  # fmt: skip

    async def follow(self, call: Call) -> Response:
        if prefers_json(call.headers):
            return json_response({"events": [dict(HELLO)]})
        return sse.streaming(_chunks(await self.changes.follow(call.me)), None)


async def _chunks(batches: AsyncGenerator[list[Mapping[str, JSON]], None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(batches):
        async for batch in batches:
            yield b"".join(map(sse.message, batch))
