"""One exchange over streamable HTTP: a request, what is told while it is served, its reply. Needs the extra `mcp`.

Nothing is kept between two exchanges: whichever server of several gets a message can answer it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import Any, Final

import anyio
from mcp.server.connection import Connection
from mcp.server.runner import modern_error_data, serve_one
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.transport_context import TransportContext
from mcp.types import INTERNAL_ERROR, ErrorData, JSONRPCNotification, JSONRPCRequest
from pydantic import ValidationError
from starlette.responses import Response
from starlette.types import Message

from wfcore.adapters.http.core import sse
from wfcore.adapters.http.core.request_parsing import one_header, prefers_json
from wfcore.adapters.http.core.responses import json_answer
from wfcore.adapters.http.core.route import Call
from wfcore.adapters.http.mcp.messages import (
    SESSION,
    RequestRefused,
    call_key,
    cancelled_key,
    check_version,
    connection_of,
    failure,
    has_handshake,
    read_message,
)
from wfcore.adapters.http.mcp.server import Served
from wfcore.domain.kernel.errors import WfcoreError
from wfcore.domain.kernel.json_type import JSON
from wfcore.ports.system import Ids
from wfcore.runtime.channels.endpoints import Endpoint
from wfcore.runtime.channels.workflow_tools import WorkflowTools

logger = logging.getLogger(__name__)

Json = dict[str, JSON]

LENGTH: Final = 32
"""Characters of what names a session, or a call that its client has not named."""
BEGUN: Final[Json] = {}
"""Stands in what is told where the run began."""


async def respond(tools: WorkflowTools, ids: Ids, surface: Endpoint, call: Call) -> Response:
    """The response to one message."""
    raw = await call.raw()
    session = one_header(call.headers, SESSION) if has_handshake(call.headers) else None
    try:
        message = read_message(raw, call.headers)
        if isinstance(message, JSONRPCNotification):
            check_version(call.headers)
            if (key := cancelled_key(message, session)) is not None:
                await _cancel(tools, call, surface, key)
            return Response(status_code=HTTPStatus.ACCEPTED)
        connection = connection_of(message, call.headers)
        key = call_key(message, session) or f"call {ids.token(LENGTH)}"
    except RequestRefused as refused:
        return json_answer(refused.reply, refused.status)
    begins = message.method == "initialize"
    exchange = Exchange(tools, call, surface, message, connection, key)
    return await exchange.answer({SESSION: ids.token(LENGTH)} if begins else {})


class Exchange:
    """Serves one request. To the SDK it is the way back to the client, which takes notifications and no requests."""

    can_send_request = False
    message_metadata = None

    def __init__(
        self,
        tools: WorkflowTools,
        call: Call,
        surface: Endpoint,
        request: JSONRPCRequest,
        connection: Connection,
        key: str,
    ) -> None:
        self.request_id = request.id
        self.transport = TransportContext(kind="streamable-http", can_send_request=False)
        self.cancel_requested = anyio.Event()
        self._tools = tools
        self._call = call
        self._surface = surface
        self._request = request
        self._connection = connection
        self._key = key
        self._told: asyncio.Queue[Json | None] = asyncio.Queue()

    async def answer(self, headers: Mapping[str, str]) -> Response:
        """The reply as JSON or, for a client that takes streams, once a run has begun, as the end of a stream."""
        if prefers_json(self._call.headers):
            return self._whole(await self._reply(), headers)
        replying = asyncio.create_task(self._replying())
        try:
            if await self._told.get() is None:
                return self._whole(await replying, headers)
        except BaseException:
            replying.cancel()
            raise

        async def gone(message: Message) -> None:
            """Since 2026-07-28 to close the stream is to cancel the call; before, it meant nothing."""
            if not has_handshake(self._call.headers) and not replying.done():
                await _cancel(self._tools, self._call, self._surface, self._key)

        return sse.streaming(self._chunks(replying), gone=gone)

    async def _replying(self) -> Json:
        try:
            return await self._reply()
        finally:
            self._told.put_nowait(None)

    async def _reply(self) -> Json:
        served = Served(self._tools, self._call, self._surface, self._key, self._begun, self.progress)
        method, params = self._request.method, self._request.params
        try:
            result = await serve_one(
                served.server(), self, method, params, connection=self._connection, lifespan_state={}
            )
        except (MCPError, ValidationError) as error:
            return failure(self.request_id, modern_error_data(error))
        return {"jsonrpc": "2.0", "id": self.request_id, "result": result}

    def _whole(self, reply: Json, headers: Mapping[str, str]) -> Response:
        """Before 2026-07-28 the status told nothing of an error inside."""
        statuses = {} if has_handshake(self._call.headers) else ERROR_CODE_HTTP_STATUS
        code = reply["error"]["code"] if "error" in reply else 0
        return json_answer(reply, statuses.get(code, HTTPStatus.OK), headers)

    async def _chunks(self, replying: "asyncio.Task[Json]") -> AsyncIterator[bytes]:
        try:
            while (told := await self._told.get()) is not None:
                yield sse.message(told)
            yield sse.message(await self._last(replying))
        finally:
            replying.cancel()

    async def _last(self, replying: "asyncio.Task[Json]") -> Json:
        try:
            return await replying
        except Exception:
            logger.exception("an exchange broke off")
            return failure(self.request_id, ErrorData(code=INTERNAL_ERROR, message="internal error"))

    # What is told meanwhile

    def _begun(self) -> None:
        self._told.put_nowait(BEGUN)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Told to a client that asked for it."""
        token = progress_token_from_params(self._request.params)
        if token is not None:
            params = {"progressToken": token, "progress": progress, "total": total, "message": message}
            told = {name: value for name, value in params.items() if value is not None}
            await self.notify("notifications/progress", told)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        self._told.put_nowait({"jsonrpc": "2.0", "method": method, "params": dict(params or {})})

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> Json:
        raise NoBackChannelError(method)


async def _cancel(tools: WorkflowTools, call: Call, surface: Endpoint, key: str) -> None:
    try:
        await tools.cancel(call.me, surface.row.id, key)
    except WfcoreError:
        logger.info("a call could not be cancelled", exc_info=True)
