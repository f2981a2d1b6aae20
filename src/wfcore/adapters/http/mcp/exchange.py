"""One exchange over streamable HTTP: a request, its notifications and its reply. Needs the extra `mcp`.

No state is kept between two exchanges: any process of an installation can serve the next message.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import anyio
from mcp.server.connection import Connection
from mcp.server.runner import serve_one
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.transport_context import TransportContext
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from pydantic import ValidationError
from starlette.responses import Response
from starlette.types import Message

from wfcore.adapters.http.core import sse
from wfcore.adapters.http.core.request_parsing import off_loop, one_header, prefers_json
from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import Call
from wfcore.adapters.http.mcp.messages import (
    FORMS,
    SESSION,
    RequestRefused,
    call_key,
    cancelled_key,
    check_version,
    connection_of,
    failure,
    has_forms,
    has_handshake,
    invalid_params,
    offers_forms,
    question_id,
    question_of_id,
    read_message,
    reply_of,
)
from wfcore.adapters.http.mcp.server import Served, form_params
from wfcore.domain.kernel.errors import WfcoreError
from wfcore.domain.kernel.json_readers import as_integer, as_object
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.state import RunStatus
from wfcore.ports.system import Ids
from wfcore.runtime.channels.endpoints import Endpoint
from wfcore.runtime.channels.workflow_tools import Question, Reply, WorkflowTools
from wfcore.runtime.runs.open_streams import Shown

logger = logging.getLogger(__name__)

Json = dict[str, JSON]

LENGTH: Final = 32
"""Characters of a session id, and of the key of a call without a key of its own."""
POLL_SECONDS: Final = 1.0
MOST_POLLS: Final = 600
"""How often a call that waits for its client looks for a decision from elsewhere, and after how many times it ends."""
BEGUN: Final[Json] = {}
"""The queue entry that marks the start of the run; it is not a notification."""

Place = tuple[str, str, str]
"""An interface, a user who calls it, and the id of a question to this user's client."""

_waiting: Final[dict[Place, "asyncio.Future[Reply]"]] = {}
"""The calls of this process that wait for an answer."""


async def respond(tools: WorkflowTools, ids: Ids, endpoint: Endpoint, call: Call) -> Response:
    """The response to one message. The answer to a question goes to the call that waits for it, in any process."""
    raw = await call.raw()
    session = one_header(call.headers, SESSION) if has_handshake(call.headers) else None
    try:
        message = await off_loop(partial(read_message, headers=call.headers), raw)
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            await _take_answer(tools, call, endpoint, message)
            return Response(status_code=HTTPStatus.ACCEPTED)
        if isinstance(message, JSONRPCNotification):
            check_version(call.headers)
            if (key := cancelled_key(message, session)) is not None:
                await _cancel(tools, call, endpoint, key)
            return Response(status_code=HTTPStatus.ACCEPTED)
        connection = connection_of(message, call.headers)
        key = call_key(message, session) or f"call {ids.token(LENGTH)}"
    except RequestRefused as error:
        return json_response(error.reply, error.status)
    begins = message.method == "initialize"
    exchange = Exchange(tools, call, endpoint, message, connection, key, shows_forms=has_forms(session))
    new_session = (FORMS if offers_forms(message) else "") + ids.token(LENGTH)
    return await exchange.respond({SESSION: new_session} if begins else {})


class Exchange:
    """Serves one request. It is the SDK's channel to the client, for notifications but not for requests."""

    can_send_request = False
    message_metadata = None

    def __init__(
        self,
        tools: WorkflowTools,
        call: Call,
        endpoint: Endpoint,
        request: JSONRPCRequest,
        connection: Connection,
        key: str,
        *,
        shows_forms: bool = False,
    ) -> None:
        self.request_id = request.id
        self.transport = TransportContext(kind="streamable-http", can_send_request=False)
        self.cancel_requested = anyio.Event()
        self._tools = tools
        self._call = call
        self._endpoint = endpoint
        self._request = request
        self._connection = connection
        self._key = key
        self._shows_forms = shows_forms
        self._queue: asyncio.Queue[Json | None] = asyncio.Queue()

    async def respond(self, headers: Mapping[str, str]) -> Response:
        """The reply as JSON; for a client that accepts streams, as the end of a stream once a run has begun."""
        if prefers_json(self._call.headers):
            return self._as_json(await self._reply(), headers)
        replying = asyncio.create_task(self._reply_then_end())
        try:
            if await self._queue.get() is None:
                return self._as_json(await replying, headers)
        except BaseException:
            replying.cancel()
            raise

        async def on_disconnect(message: Message) -> None:
            """Closing the stream cancels the call since 2026-07-28; in earlier versions it has no meaning."""
            if not has_handshake(self._call.headers) and not replying.done():
                await _cancel(self._tools, self._call, self._endpoint, self._key)

        return sse.streaming(self._chunks(replying), Shown.of(self._endpoint.target), on_disconnect=on_disconnect)

    async def _reply_then_end(self) -> Json:
        try:
            return await self._reply()
        finally:
            self._queue.put_nowait(None)

    async def _reply(self) -> Json:
        can_elicit = self._shows_forms and not prefers_json(self._call.headers)
        elicit = self._elicit if can_elicit else None
        served = Served(self._tools, self._call, self._endpoint, self._key, self._on_begin, self.progress, elicit)
        method, params = self._request.method, self._request.params
        try:
            result = await serve_one(
                served.server(), self, method, params, connection=self._connection, lifespan_state={}
            )
        except MCPError as error:
            return failure(self.request_id, error.error)
        except ValidationError as error:
            return failure(self.request_id, invalid_params(error))
        return {"jsonrpc": "2.0", "id": self.request_id, "result": result}

    def _as_json(self, reply: Json, headers: Mapping[str, str]) -> Response:
        """The reply as a JSON response. Versions before 2026-07-28 answer errors with status 200."""
        statuses = {} if has_handshake(self._call.headers) else ERROR_CODE_HTTP_STATUS
        code = as_integer(as_object(reply["error"])["code"]) if "error" in reply else 0
        return json_response(reply, statuses.get(code, HTTPStatus.OK), headers)

    async def _chunks(self, replying: "asyncio.Task[Json]") -> AsyncGenerator[bytes, None]:
        try:
            while (notification := await self._queue.get()) is not None:
                yield sse.message(notification)
            yield sse.message(await self._final_reply(replying))
        finally:
            replying.cancel()

    async def _final_reply(self, replying: "asyncio.Task[Json]") -> Json:
        try:
            return await replying
        except WfcoreError as error:
            logger.info("a call was not followed to its end", exc_info=True)
            code = INTERNAL_ERROR if error.http >= HTTPStatus.INTERNAL_SERVER_ERROR else INVALID_REQUEST
            message = f"this call cannot be followed any more: {error.message}"
            return failure(self.request_id, ErrorData(code=code, message=message))
        except Exception:
            logger.exception("an exchange failed")
            return failure(self.request_id, ErrorData(code=INTERNAL_ERROR, message="internal error"))

    # Questions

    async def _elicit(self, run_id: str, question: Question) -> Reply | None:
        """Send the question on the stream, and wait for the answer here, or a decision or cancel from elsewhere."""
        params = form_params(question).model_dump(mode="json", by_alias=True, exclude_none=True)
        request_id = question_id(run_id, question.interrupt_id)
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        place = _place(self._call, self._endpoint, request_id)
        _waiting[place] = answer
        self._queue.put_nowait({"jsonrpc": "2.0", "id": request_id, "method": "elicitation/create", "params": params})
        try:
            return await self._answered(run_id, answer)
        finally:
            _waiting.pop(place, None)

    async def _answered(self, run_id: str, answer: "asyncio.Future[Reply]") -> Reply | None:
        for _ in range(MOST_POLLS):
            await asyncio.wait([answer], timeout=POLL_SECONDS)
            if answer.done():
                return answer.result()
            latest = await self._tools.latest(self._call.me, self._endpoint.row.id, run_id)
            if latest.id != run_id or latest.status is not RunStatus.interrupted:
                return None
        return Reply("cancel")

    # Notifications

    def _on_begin(self) -> None:
        self._queue.put_nowait(BEGUN)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send a progress notification, if the client requested progress."""
        token = progress_token_from_params(self._request.params)
        if token is not None:
            params = {"progressToken": token, "progress": progress, "total": total, "message": message}
            given = {name: value for name, value in params.items() if value is not None}
            await self.notify("notifications/progress", given)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        self._queue.put_nowait({"jsonrpc": "2.0", "method": method, "params": dict(params or {})})

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> Json:
        raise NoBackChannelError(method)


def _place(call: Call, endpoint: Endpoint, request_id: str) -> Place:
    return endpoint.row.id, call.me.user_id, request_id


async def _take_answer(
    tools: WorkflowTools, call: Call, endpoint: Endpoint, message: JSONRPCResponse | JSONRPCError
) -> None:
    """Give an answer to the call that waits here; where it waits in another process, make the decision itself."""
    question = question_of_id(message.id)
    if question is None:
        return
    reply = reply_of(message)
    waiting = _waiting.get(_place(call, endpoint, str(message.id)))
    if waiting is not None and not waiting.done():
        waiting.set_result(reply)
        return
    run_id, interrupt_id = question
    try:
        await tools.reply(call.me, endpoint.row.id, run_id, {interrupt_id: reply})
    except WfcoreError:
        logger.info("an answer was not taken", exc_info=True)


async def _cancel(tools: WorkflowTools, call: Call, endpoint: Endpoint, key: str) -> None:
    try:
        await tools.cancel(call.me, endpoint.row.id, key)
    except WfcoreError:
        logger.info("cancelling a call failed", exc_info=True)
