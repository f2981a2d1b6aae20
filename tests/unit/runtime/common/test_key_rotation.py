"""After the secret key was replaced, with the earlier one in `previous`, what was made with that one is valid."""

from typing import Any

import httpx
import pytest
from bench import Bench, opened, reason

from wfcore.adapters.http import app
from wfcore.domain.kernel.errors import Unauthenticated
from wfcore.domain.resources.access import Principal
from wfcore.runtime.common.installation import Secrets

pytestmark = pytest.mark.anyio

OLD, NEW = b"o" * 32, b"n" * 32
CONFIG = {"apiKey": "k", "header": "X-K"}
CONNECTION: dict[str, Any] = {"name": "CRM", "provider": "crm", "kind": "api_key", "config": CONFIG}


async def test_an_idempotency_key(database: str) -> None:
    """A repeated create returns the connection of before; another body is still a Conflict."""
    async with opened(database, secrets=OLD) as bench:
        made = await bench.core.connections.create(bench.me, CONNECTION, key="k-1")
    async with opened(database, secrets=Secrets(NEW, previous=(OLD,)), org=bench.org) as again:
        connections = again.core.connections
        assert (await connections.create(again.me, CONNECTION, key="k-1")).id == made.id
        assert await reason(connections.create(again.me, {**CONNECTION, "name": "B"}, key="k-1")) == "key_reused"
        assert [one.id for one in await connections.page(again.me)] == [made.id]
    async with opened(database, secrets=NEW, org=bench.org) as without:
        assert await reason(without.core.connections.create(without.me, CONNECTION, key="k-1")) == "key_reused"


async def test_an_embed_token(database: str) -> None:
    """A page goes on with its token until that ends; without the earlier key it is not valid."""
    async with opened(database, secrets=OLD) as bench:
        await bench.joined("ann")
        token = await bench.core.tokens.embed(bench.person("ann"), ["workflows:read"])
    async with opened(database, secrets=Secrets(NEW, previous=(OLD,)), org=bench.org) as again:
        assert (await again.core.directory.authenticate(token)).user_id == "ann"
    async with opened(database, secrets=NEW, org=bench.org) as without:
        with pytest.raises(Unauthenticated):
            await without.core.directory.authenticate(token)


async def test_a_page_token(database: str) -> None:
    """A list goes on at the page that the server of the earlier key has named."""
    pages: list[Any] = []
    async with opened(database, secrets=OLD) as bench:
        for name in "abc":
            await bench.core.workflows.create(bench.me, name=name)
        pages.append(await _page(bench, None))
    for secrets in (Secrets(NEW, previous=(OLD,)), Secrets(NEW)):
        async with opened(database, secrets=secrets, org=bench.org) as again:
            pages.append(await _page(again, pages[0]["nextPageToken"]))
    assert [[one["name"] for one in page["workflows"]] for page in pages[:2]] == [["a"], ["b"]]
    assert pages[2]["error"]["code"] == "BAD_REQUEST"


async def _page(bench: Bench, token: str | None) -> Any:
    async def authenticate(_: object) -> Principal:
        return bench.me

    transport = httpx.ASGITransport(app=app(bench.core, authenticate=authenticate))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        query = {"pageSize": "1"} | ({} if token is None else {"pageToken": token})
        return (await client.get("/api/v1/workflows", params=query)).json()
