"""Stored secrets, encrypted anew with another key."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs, urlsplit

import attrs
import pytest
from bench import Bench, opened
from postgres_server import new_database
from waiting import HANG

from wfcore.adapters.sealing import Sealing, id_of
from wfcore.adapters.sql.schema.tables import metadata
from wfcore.domain.agents.connections import ConnectionKind
from wfcore.domain.channels.hooks import OLD_SECRET_MS
from wfcore.domain.kernel.errors import NotFound, Unavailable
from wfcore.ports.outbound import OutboundResponse
from wfcore.ports.sealing import NoSecretKey
from wfcore.runtime.channels.hooks import open_secrets
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.data import stored_secrets as module
from wfcore.runtime.data.stored_secrets import EVERY, StoredSecrets
from wfcore.runtime.resources.webhooks import open_webhook
from wfcore.runtime.tools.connection_use import ConnectionUse, ConnectionUser
from wfcore.runtime.tools.oauth_servers import OAuthServers
from wfcore.runtime.tools.oauth_tokens import LEASE, grants_of

pytestmark = pytest.mark.anyio

OLD, NEW, LOST = b"o" * 32, b"n" * 32, b"l" * 32
AS: Final = "https://as.org"
OAUTH: Final = {"clientId": "c", "clientSecret": "s", "tokenUrl": f"{AS}/t", "authorizeUrl": f"{AS}/a"}
METADATA: Final = {
    "issuer": AS, "authorization_endpoint": f"{AS}/a", "token_endpoint": f"{AS}/t",
    "registration_endpoint": f"{AS}/register", "response_types_supported": ["code"],
    "code_challenge_methods_supported": ["S256"],
}  # fmt: skip
T = TypeVar("T")
NOTHING = dict.fromkeys(("connections", "connection_grants", "hooks", "interfaces", "webhooks"), 0)


@attrs.define
class Server:
    """Implements the port `Outbound`: an authorization server, which numbers its tokens."""

    meanwhile: Callable[[], Awaitable[object]] | None = None
    """What happens before the next response of the token endpoint."""
    refreshed: list[str] = attrs.field(factory=list)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        return 200

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> OutboundResponse:
        match urlsplit(url).path:
            case "/t":
                if self.meanwhile is not None:
                    meanwhile, self.meanwhile = self.meanwhile, None
                    await meanwhile()
                self.refreshed += parse_qs((body or b"").decode()).get("refresh_token", [])
                number = len(self.refreshed)
                found: dict[str, Any] = {"access_token": f"a{number}", "refresh_token": f"r{number}", "expires_in": 60}
            case "/register":
                found = {"client_id": "registered", "client_secret": "x", "token_endpoint_auth_method": "none"}
            case path if path.startswith("/.well-known/oauth-authorization-server"):
                found = METADATA
            case _:
                return OutboundResponse(404, {}, b"")
        return OutboundResponse(201 if "register" in url else 200, {}, json.dumps(found).encode())


@pytest.fixture
async def server() -> Server:
    return Server()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def bench(request: pytest.FixtureRequest, tmp_path: Path, server: Server) -> AsyncIterator[Bench]:
    """Its secrets are encrypted with `OLD`."""
    urls = {"memory": lambda: "sqlite://", "sqlite": lambda: f"sqlite:///{tmp_path}/a.db", "postgres": new_database}
    async with opened(urls[request.param](), secrets=OLD, outbound=server) as made:
        yield made


def with_keys(bench: Bench, *keys: bytes) -> Ports:
    """The ports of another process, which has these keys."""
    return attrs.evolve(bench.core.ports, sealer=Sealing(lambda: keys))


async def furnished(bench: Bench) -> dict[str, Any]:
    """The ids of one object of each kind, with every secret that it can have."""
    core, me, owner = bench.core, bench.me, bench.person("me", role="owner")
    mail = await core.connections.create(
        me, name="Mail", provider="mail", kind="api_key", config={"apiKey": "secret", "header": "X"}, key="k"
    )
    crm = (await core.connections.create(me, name="CRM", provider="crm", kind="oauth2", config=OAUTH)).id
    headers = {"url": f"{AS}/mcp", "headers": {"X-One": "1", "X-Two": "2"}}
    mcp = (await core.connections.create(me, name="MCP", provider="m", kind="mcp", config=headers)).id
    for row in (crm, mcp):
        url = await core.connections.authorize(me, row, address="http://w.org")
        assert (
            await core.connects.finish(parse_qs(urlsplit(url).query)["state"][0], "code", None, None)
        ).reason is None
    hook = await core.hooks.create(me, url="https://crm.org/hook", events=["run.failed"], key="k")
    for _ in range(2):
        await core.hooks.rotate(me, hook.id)
    flow = (await core.workflows.create(me, name="A flow")).id
    chat = await core.workflows.interfaces.create(
        owner, flow, kind="teamchat", config={"postUrl": "https://chat.org"}, key="k"
    )
    webhook = await core.workflows.webhook(me, flow)
    return {"mail": mail.id, "crm": crm, "mcp": mcp, "hook": hook.id, "flow": flow, "chat": chat.id, "webhook": webhook}


async def readable(bench: Bench, ports: Ports, made: dict[str, Any]) -> dict[str, Any]:
    """Every secret in clear text."""
    org, user, use = bench.org, ConnectionUser.of(bench.me), ConnectionUse(ports)
    async with ports.storage.reading(org) as work:
        mcp, hook = await work.connections.get(made["mcp"]), await work.hooks.get(made["hook"])
        chat = await work.interfaces.get(made["flow"], made["chat"])
        webhook = await work.webhooks.get(made["flow"])
        assert mcp
        assert hook
        assert chat
        assert chat.sealed
        assert webhook
    return {
        "mail": (await use.of_id(user, made["mail"], ConnectionKind.API_KEY)).tool_connection.config,
        "crm": (await use.of_id(user, made["crm"], ConnectionKind.OAUTH2)).token,
        "mcp": (await use.of_id(user, made["mcp"], ConnectionKind.MCP)).token,
        "client": OAuthServers(ports).client_of(org, mcp),
        "hook": open_secrets(ports, org, hook),
        "chat": ports.sealer.open(chat.sealed, org, "interface", chat.id),
        "webhook": open_webhook(ports, org, webhook),
    }


async def texts(bench: Bench) -> str:
    """Every text of the organization in the store."""
    found = bench.core.ports.storage.maintenance.texts(bench.org)
    return "\n".join([text async for batch in found for text in batch])


async def in_time(bench: Bench, work: Coroutine[Any, Any, T]) -> T:
    """The result of the work, for which the clock goes on."""
    async with asyncio.timeout(HANG):
        task = asyncio.ensure_future(work)
        while not task.done():
            bench.clock.advance(1)
            await asyncio.sleep(0.01)
        return await task


async def test_every_secret_gets_the_current_key(bench: Bench) -> None:
    """Nothing that is stored needs the earlier key any more, and nothing else has changed; the audit counts it.

    A dry run counts the same and changes nothing; a second call has nothing to do.
    """
    made = await furnished(bench)
    before, plain = await texts(bench), await readable(bench, bench.core.ports, made)
    both = StoredSecrets(with_keys(bench, NEW, OLD))
    wanted = {"connections": 3, "connection_grants": 2, "hooks": 1, "interfaces": 1, "webhooks": 1}
    assert before.count(id_of(OLD)) == 12
    assert await both.reencrypt(dry_run=True) == module.Reencrypted(wanted, [])
    assert await texts(bench) == before

    seen = list[int]()
    assert await both.reencrypt(on_progress=lambda counts: seen.append(sum(counts.values()))) == module.Reencrypted(
        wanted, []
    )
    assert seen == [8]
    after = await texts(bench)
    assert (after.count(id_of(OLD)), after.count(id_of(NEW))) == (0, 12)
    assert await readable(bench, with_keys(bench, NEW), made) == plain
    owner = bench.person("me", role="owner")
    (row,) = await bench.core.audit.page(owner, action="organization.reencrypt")
    assert (row.row.user_id, row.row.details) == (None, wanted)

    assert await both.reencrypt() == module.Reencrypted(NOTHING, [])
    assert len(await bench.core.audit.page(owner, action="organization.reencrypt")) == 1
    assert await texts(bench) == after


def test_every_table_with_secrets_is_known() -> None:
    """A new table with sealed texts needs an entry."""
    tables = {table.name.removeprefix("wfcore_") for table in metadata.tables.values() if "sealed" in table.columns}
    assert tables == {rows.kind for rows in EVERY}


async def test_what_no_key_decrypts_stays(bench: Bench) -> None:
    """Each is named, with its key, and all others are encrypted; with the key, a later call does the rest."""
    made = await furnished(bench)
    core = StoredSecrets(with_keys(bench, LOST, OLD))
    await core.reencrypt()
    for number in range(3):
        await bench.core.connections.create(
            bench.me, name=f"C{number}", provider="p", kind="api_key", config={"apiKey": "k", "header": "X"}
        )
    before = await texts(bench)
    found = await StoredSecrets(with_keys(bench, NEW, OLD)).reencrypt()
    assert found.counts == {**NOTHING, "connections": 3}
    end = f"of organization `{bench.org}` was encrypted with the key `{id_of(LOST)}`, which is missing"
    names = [f"connection `{made[name]}`" for name in ("mail", "crm", "mcp")]
    names += [f"connection grant `{made[name]}:`" for name in ("crm", "mcp")]
    names += [f"hook `{made['hook']}`", f"interface `{made['chat']}`", f"webhook `{made['flow']}`"]
    assert sorted(found.faults) == sorted(f"a secret of {name} {end}" for name in names)
    assert (await texts(bench)).count(id_of(LOST)) == before.count(id_of(LOST))
    found = await StoredSecrets(with_keys(bench, NEW, OLD, LOST)).reencrypt()
    assert (sum(found.counts.values()), found.faults) == (8, [])
    assert id_of(LOST) not in await texts(bench)


async def test_a_secret_that_was_altered(bench: Bench) -> None:
    """It stays, and is named."""
    row = await bench.core.connections.create(
        bench.me, name="C", provider="p", kind="api_key", config={"apiKey": "k", "header": "X"}
    )
    async with bench.core.ports.storage.transaction(bench.org) as work:
        stored = await work.connections.get(row.id)
        assert stored
        text = stored.sealed["apiKey"]
        await work.connections.save(attrs.evolve(stored, sealed={"apiKey": text[:-4] + ("A" * 4)}))
    before = await texts(bench)
    found = await StoredSecrets(with_keys(bench, NEW, OLD)).reencrypt()
    name = f"a secret of connection `{row.id}` of organization `{bench.org}`"
    assert found == module.Reencrypted(NOTHING, [f"{name} was altered, or encrypted for another place"])
    assert await texts(bench) == before


async def test_earlier_secrets_of_a_hook(bench: Bench) -> None:
    """They keep their ends; one that does not sign any more is deleted, also if nobody can decrypt it."""
    hooks, me = bench.core.hooks, bench.me
    made = await hooks.create(me, url="https://crm.org/hook", events=["run.failed"])
    await StoredSecrets(with_keys(bench, LOST, OLD)).reencrypt()
    await hooks.rotate(me, made.id)
    bench.clock.advance(OLD_SECRET_MS / 2_000)
    await hooks.rotate(me, made.id)
    async with bench.core.ports.storage.reading(bench.org) as work:
        before = await work.hooks.get(made.id)
    assert before
    ends = [end for end, _ in before.former_secrets(bench.clock.now())]
    both = StoredSecrets(with_keys(bench, NEW, OLD))
    assert len((await both.reencrypt()).faults) == 1
    async with bench.core.ports.storage.reading(bench.org) as work:
        after = await work.hooks.get(made.id)
    assert after
    assert [end for end, _ in after.former_secrets(bench.clock.now())] == ends
    assert len(open_secrets(with_keys(bench, NEW), bench.org, after)) == 2
    bench.clock.advance(OLD_SECRET_MS / 2_000)
    assert await both.reencrypt() == module.Reencrypted({**NOTHING, "hooks": 1}, [])
    assert (await texts(bench)).count(id_of(LOST)) == 0
    bench.clock.advance(OLD_SECRET_MS / 1_000)
    await both.reencrypt()
    assert await both.reencrypt() == module.Reencrypted(NOTHING, [])


async def test_tokens_that_are_being_replaced(bench: Bench, server: Server) -> None:
    """They are left to the process that replaces them: it stores the new ones, which the server issued once."""
    made = await furnished(bench)
    use, user = ConnectionUse(with_keys(bench, NEW, OLD)), ConnectionUser.of(bench.me)
    both = StoredSecrets(with_keys(bench, NEW, OLD))
    waited = list[float]()

    async def reencrypt() -> None:
        task = module._Reencryption(with_keys(bench, NEW, OLD), lambda _: None)
        waited.append(await task.is_done(bench.org))

    bench.clock.advance(60)
    server.meanwhile = reencrypt
    assert (await use.of_id(user, made["crm"], ConnectionKind.OAUTH2)).token == "a1"
    assert waited == [False]
    bench.clock.advance(60)
    assert (await use.of_id(user, made["crm"], ConnectionKind.OAUTH2)).token == "a2"
    assert server.refreshed == ["r0", "r1"]
    await both.reencrypt()
    bench.clock.advance(60)
    late = ConnectionUse(with_keys(bench, NEW))
    assert (await late.of_id(user, made["crm"], ConnectionKind.OAUTH2)).token == "a3"


async def test_a_process_that_died_while_it_replaced_tokens(bench: Bench) -> None:
    """Its tokens are encrypted when its lease has ended."""
    made = await furnished(bench)
    async with bench.core.ports.storage.transaction(bench.org) as work:
        (grant,) = await grants_of(work, made["crm"])
        await work.connection_grants.save(attrs.evolve(grant, leased_until=bench.clock.now() + LEASE))
    end = bench.clock.now() + LEASE
    found = await in_time(bench, StoredSecrets(with_keys(bench, NEW, OLD)).reencrypt())
    assert (found.counts["connection_grants"], bench.clock.now() >= end) == (2, True)
    assert id_of(OLD) not in await texts(bench)


async def test_a_change_beside_it_is_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that was changed, and one that was deleted, between its look and its transaction."""
    me, made = bench.me, await furnished(bench)
    ports = with_keys(bench, NEW, OLD)
    outdated = module._Reencryption.outdated

    async def then_changed(self: module._Reencryption, org: str) -> Any:
        found = await outdated(self, org)
        monkeypatch.setattr(module._Reencryption, "outdated", outdated)
        await bench.core.connections.patch(me, made["mail"], config={"apiKey": "another"})
        await bench.core.connections.delete(me, made["crm"])
        await bench.core.hooks.patch(me, made["hook"], is_enabled=False)
        return found

    monkeypatch.setattr(module._Reencryption, "outdated", then_changed)
    found = await in_time(bench, StoredSecrets(ports).reencrypt())
    assert found.counts == {"connections": 2, "connection_grants": 1, "hooks": 1, "interfaces": 1, "webhooks": 1}
    used = await ConnectionUse(ports).of_id(ConnectionUser.of(me), made["mail"], ConnectionKind.API_KEY)
    assert used.tool_connection.config["apiKey"] == "another"
    assert (await bench.core.hooks.get(me, made["hook"])).is_enabled is False
    with pytest.raises(NotFound):
        await bench.core.connections.get(me, made["crm"])
    assert id_of(OLD) not in await texts(bench)


async def test_many_rows(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some in each transaction, with a row of the audit for each; what an interruption leaves, the next call does."""
    monkeypatch.setattr(module, "BATCH", 2)
    monkeypatch.setattr(module, "PAGE", 2)
    for number in range(5):
        await bench.core.connections.create(
            bench.me, name=f"C{number}", provider="p", kind="api_key", config={"apiKey": "k", "header": "X"}
        )
    for number in range(3):
        flow = (await bench.core.workflows.create(bench.me, name=f"F{number}")).id
        await bench.core.workflows.webhook(bench.me, flow)
        for _ in range(2):
            await bench.core.workflows.interfaces.create(
                bench.person("me", role="owner"), flow, kind="teamchat", config={"postUrl": "https://chat.org"}
            )

    class Killed(Exception):
        pass

    def killed(_: Mapping[str, int]) -> None:
        raise Killed

    both = StoredSecrets(with_keys(bench, NEW, OLD))
    with pytest.raises(Killed):
        await both.reencrypt(on_progress=killed)
    assert (await texts(bench)).count(id_of(NEW)) == 2
    found = await both.reencrypt()
    assert found.counts == {**NOTHING, "connections": 3, "interfaces": 6, "webhooks": 3}
    assert id_of(OLD) not in await texts(bench)
    rows = await bench.core.audit.page(bench.person("me", role="owner"), action="organization.reencrypt")
    assert sum(sum(view.row.details.values()) for view in rows) == 14  # type: ignore[arg-type]
    assert len(rows) == 7


async def test_without_a_key(bench: Bench) -> None:
    """The error names the setting; without secrets there is nothing to do."""
    none = StoredSecrets(with_keys(bench))
    assert await none.reencrypt() == module.Reencrypted(NOTHING, [])
    await furnished(bench)
    with pytest.raises(NoSecretKey, match="set `secret_key`"):
        await none.reencrypt()


async def test_an_organization_that_is_deleted_meanwhile(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are encrypted."""
    await furnished(bench)
    outdated = module._Reencryption.outdated

    async def then_deleted(self: module._Reencryption, org: str) -> Any:
        found = await outdated(self, org)
        await bench.core.retention.delete_organization(org)
        return found

    monkeypatch.setattr(module._Reencryption, "outdated", then_deleted)
    found = await in_time(bench, StoredSecrets(with_keys(bench, NEW, OLD)).reencrypt())
    assert found == module.Reencrypted(NOTHING, [])


async def test_a_store_that_fails(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch is undone as a whole, its row of the audit too."""
    await furnished(bench)
    before = await texts(bench)

    async def fails(*_: Any) -> None:
        raise Unavailable("the disk is full")

    monkeypatch.setattr(module, "audit", fails)
    with pytest.raises(Unavailable):
        await StoredSecrets(with_keys(bench, NEW, OLD)).reencrypt()
    assert await texts(bench) == before
