"""The API behind the commands that manage an organization: a server's, or that of a database in this process.

Both are the same application, so that a command behaves the same with either.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote, unquote

import attrs
from cyclopts import CycloptsError, Parameter
from cyclopts.validators import Number

from wfcore.cli.common import DATABASE, driving, open_core, print_message
from wfcore.cli.credentials import read_credentials
from wfcore.cli.files import load_tools
from wfcore.cli.options import INCOMPLETE
from wfcore.domain.json.codec import dumps
from wfcore.domain.json.parsing import parse_json
from wfcore.domain.kernel.errors import NotFound, Unavailable, WfcoreError
from wfcore.domain.kernel.ids import parse_token
from wfcore.domain.kernel.json_readers import as_integer, as_object, as_objects, as_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.extras import needs_extra

if TYPE_CHECKING:
    from httpx2 import AsyncBaseTransport, AsyncClient
    from starlette.requests import HTTPConnection

    from wfcore.core import Core
    from wfcore.domain.resources.access import Principal

PAGE: Final = 100
"""Rows of one page of a list."""

TIMEOUT: Final = 60.0
"""Seconds that a response may take."""


@Parameter(name="*")
@attrs.frozen
class CommandTarget:
    """Whose data a command works on: an organization of a server, or of a database.

    Attributes
    ----------
    server
        The URL of a server; without it, the command opens the database.
    token
        A personal access token for the server.
    org
        The UUID of the organization in the database.
    user_id
        The member of the organization who acts.
    database
        The database: sqlite:///path or postgresql://user@host/name.
    config
        A TOML file of settings.
    schema
        The PostgreSQL schema with the tables; by default `wfcore`.
    tools
        Python tools for a command on a database, as MODULE:NAME or FILE.py:NAME.
    """

    server: str | None = None
    token: str | None = None
    org: str | None = None
    user_id: str | None = None
    database: str = DATABASE
    config: str | None = None
    schema: str | None = None
    tools: Annotated[list[str], Parameter(negative=())] = attrs.field(factory=list)


TARGET: Final = CommandTarget()

Reference = Annotated[str, Parameter(help="Its number or its slug.")]
Limit = Annotated[int, Parameter(validator=Number(gte=1))]
Json = Annotated[bool, Parameter(name="--json", negative=(), help="Print JSON instead of a table.")]


class Refused(WfcoreError):
    """The API refused the request; `message` and `info` are those of its error envelope.

    Where the message only says "not found", it names the resource of the request.
    """

    def __init__(self, http: int, envelope: Mapping[str, JSON], path: str = "", body: JSON = None) -> None:
        error = as_object(envelope.get("error") or {})
        message = as_text(error.get("message") or f"the server answered {http}")
        known = _resource(path, body) if http == 404 and message == "not found" else None
        super().__init__(message if known is None else f"{known} not found", as_object(error.get("info") or {}))
        self.refused_with = http


@attrs.frozen
class Tagged:
    """A response's JSON, and its ETag; None without one."""

    value: JSON
    etag: str | None


class Api:
    """Requests of one user. `org` is the UUID of the organization, if it is known; `core` is that of a database."""

    def __init__(self, client: "AsyncClient", org: str | None, core: "Core | None" = None) -> None:
        self._client = client
        self.org = org
        self._core = core

    async def get(self, path: str, **query: object) -> JSON:
        return (await self.read(path, **query)).value

    async def read(self, path: str, **query: object) -> Tagged:
        return await self._request("GET", path, query=query)

    async def post(self, path: str, body: JSON = None, **headers: str) -> JSON:
        return (await self._request("POST", path, body, headers=headers)).value

    async def patch(self, path: str, body: JSON, **headers: str) -> JSON:
        return (await self._request("PATCH", path, body, headers=headers)).value

    async def delete(self, path: str, **headers: str) -> JSON:
        return (await self._request("DELETE", path, headers=headers)).value

    async def download(self, path: str) -> AsyncIterator[bytes]:
        """The body of the response, in chunks."""
        async with self._client.stream("GET", path, headers={"accept": "*/*"}, timeout=None) as response:
            if response.status_code >= 400:
                raise Refused(response.status_code, as_object(parse_json(await response.aread())), path)
            async for chunk in response.aiter_bytes():
                yield chunk

    @asynccontextmanager
    async def driving(self, run_id: str) -> AsyncIterator[None]:
        """On a database, drive the run with its later turns meanwhile; a server drives its own."""
        turn = None if self._core is None else await self._core.ports.journal.find_run(self.org or "", run_id)
        async with nullcontext() if self._core is None or turn is None else driving(self._core, turn.execution):
            yield

    async def pages(self, path: str, key: str, limit: int | None = None, **query: object) -> list[Mapping[str, JSON]]:
        """The rows of all pages of a list, `limit` at most: a message says if there are more."""
        rows: list[Mapping[str, JSON]] = []
        token: JSON = None
        while limit is None or len(rows) < limit:
            size = PAGE if limit is None else min(PAGE, limit - len(rows))
            page = as_object(await self.get(path, pageSize=size, pageToken=token, **query))
            rows += as_objects(page.get(key))
            token = page.get("nextPageToken")
            if not token:
                return rows
        print_message(f"there are more than these {len(rows)}: `--limit` shows more")
        return rows

    async def number_of(self, kind: str, reference: str, status: str | None = None) -> int:
        """The id of the workflow or skill with this number or slug: one with this status, which is a deleted one only
        for `deleted`. Raises NotFound.
        """
        if reference.isascii() and reference.isdigit():
            return int(reference)
        if not reference:
            raise CycloptsError(msg=f"a {kind} is named by its number or its slug")
        for row in await self.pages(f"/api/v1/{kind}s", f"{kind}s", status=status):
            if row["slug"] == reference:
                return as_integer(row["id"])
        raise NotFound(f"no {status + ' ' if status else ''}{kind} has the slug `{reference}`")

    async def _request(
        self,
        method: str,
        path: str,
        body: JSON = None,
        *,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Tagged:
        """The response, whose value is None for one without a body. Raises Refused, Unavailable."""
        from httpx2 import HTTPError

        sent = {name: _text(value) for name, value in (query or {}).items() if value is not None}
        extra = {name.replace("_", "-"): value for name, value in (headers or {}).items()}
        if body is not None:
            extra["content-type"] = "application/json"
        content = None if body is None else dumps(body).encode()
        try:
            response = await self._client.request(method, path, params=sent, content=content, headers=extra)
        except HTTPError as error:
            raise Unavailable(f"`{self._client.base_url}` does not respond: {error or type(error).__name__}") from None
        value = parse_json(response.content) if _is_json(response.headers) and response.content else None
        if response.status_code >= 400:
            raise Refused(response.status_code, as_object(value or {}), path, body)
        return Tagged(value, response.headers.get("etag"))


def at(collection: str, id: str, action: str = "") -> str:
    """The path of a resource, or of an action on it. Its id can have any character, such as `#`, `?` and `/`."""
    return "/".join(filter(None, (collection, quote(id, safe=""), action)))


def _resource(path: str, body: JSON) -> str | None:
    """The first resource that a path names, else the one that a body names, such as "workflow `7`"."""
    _, _, _, collection, *more = f"{path}////".split("/")
    kind = collection.removesuffix("ies") + "y" if collection.endswith("ies") else collection.removesuffix("s")
    if more[0]:
        return f"{kind} `{unquote(more[0])}`"
    named = body if isinstance(body, Mapping) else {}
    return next((f"{kind} `{named[f'{kind}Id']}`" for kind in ("workflow", "skill") if f"{kind}Id" in named), None)


def _is_json(headers: Mapping[str, str]) -> bool:
    return headers.get("content-type", "").partition(";")[0] == "application/json"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@asynccontextmanager
async def connected(target: CommandTarget) -> AsyncIterator[Api]:
    """The API of the target. Raises CycloptsError when it is not complete."""
    with needs_extra("http", "this command"):
        from httpx2 import AsyncClient
    target = signed_in(target)
    async with AsyncExitStack() as stack:
        if target.server is not None:
            if not target.server.startswith(("http://", "https://")):
                raise CycloptsError(msg=f"`{target.server}` is not the URL of a server: use http:// or https://")
            client = AsyncClient(base_url=target.server.rstrip("/"), headers=_headers(target), timeout=TIMEOUT)
            token = parse_token(target.token or "")
            org, core = None if token is None else token.org_uuid, None
        else:
            core, me = await stack.enter_async_context(opened(target))
            headers = {"accept": "application/json", "sec-fetch-site": "none"}
            client = AsyncClient(base_url="http://localhost", headers=headers, transport=_application(core, me))
            org = me.org_uuid
        yield Api(await stack.enter_async_context(client), org, core)


def signed_in(target: CommandTarget) -> CommandTarget:
    """The target with what `wfcore login` stored: the token of its server, or the server where none is named."""
    if target.token is not None or (target.server is None and (target.org or target.user_id)):
        return target
    known = read_credentials()
    if target.server is None:
        return (
            target
            if known.current is None
            else attrs.evolve(target, server=known.current, token=known.tokens.get(known.current))
        )
    return attrs.evolve(target, token=known.tokens.get(target.server.rstrip("/")))


def _headers(target: CommandTarget) -> dict[str, str]:
    if not target.token:
        raise CycloptsError(msg="--server needs --token, WFCORE_TOKEN or `wfcore login`")
    if not (target.token.isascii() and target.token.isprintable()):
        raise CycloptsError(msg="the token has a character that no token has: copy it again")
    return {"accept": "application/json", "authorization": f"Bearer {target.token}"}


@asynccontextmanager
async def opened(target: CommandTarget) -> "AsyncIterator[tuple[Core, Principal]]":
    """The database of the target, and the member who acts. Raises CycloptsError when the target is not complete."""
    if not target.org or not target.user_id:
        raise CycloptsError(msg=INCOMPLETE)
    tools = load_tools(target.tools)
    async with open_core(target.database, target.config, target.schema, tools=tools, models=True) as core:
        yield core, await member_of(core, target.org, target.user_id)


def _application(core: "Core", me: "Principal") -> "AsyncBaseTransport":
    """The application over the database, in which every request is one of the target's member."""
    with needs_extra("server", "a command on a database"):
        from httpx2 import ASGITransport

        from wfcore.adapters.http import app

    async def authenticate(_: "HTTPConnection") -> "Principal":
        return me

    return ASGITransport(app(core, authenticate=authenticate, studio=None))


async def member_of(core: "Core", org: str, user_id: str) -> "Principal":
    """The member with every scope: who can open the database can do what the member can."""
    from wfcore.domain.kernel.errors import NotFound, Unauthenticated
    from wfcore.domain.resources.access import TOKEN_SCOPES
    from wfcore.ports.identity import Identity

    try:
        return await core.directory.recognize(Identity(org, user_id, frozenset(TOKEN_SCOPES)))
    except Unauthenticated:
        raise NotFound(f"`{user_id}` is not a member of organization `{org}`") from None
