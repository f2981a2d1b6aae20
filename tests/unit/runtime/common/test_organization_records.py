"""Context items and connections, through the library (interface, functional areas)."""

import base64
import logging
from pathlib import Path
from typing import Any

import attrs
import pytest
from bench import Bench

import wfcore.bootstrap
from wfcore.core import Core
from wfcore.domain.agents.connection_grants import UNREADABLE
from wfcore.domain.agents.connections import Connection
from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid, Malformed, NotFound, WfcoreError
from wfcore.runtime.common.installation import Secrets
from wfcore.runtime.tools.connection_secrets import open_config

pytestmark = pytest.mark.anyio

CANARIES = ("canary-key-4711", "canary-client-4712", "canary-header-4713")
CONFIGS: dict[str, Any] = {
    "api_key": {"apiKey": CANARIES[0], "header": "X-Key"},
    "oauth2": {
        "clientId": "c",
        "clientSecret": CANARIES[1],
        "tokenUrl": "https://x.org/t",
        "authorizeUrl": "https://x.org/a",
        "scopes": ["a"],
    },
    "mcp": {"url": "https://x.org/mcp", "headers": {"X-Key": CANARIES[2], "X-Other": CANARIES[2]}},
}
SHOWN: dict[str, Any] = {
    "api_key": {"apiKey": {"set": True}, "header": "X-Key"},
    "oauth2": CONFIGS["oauth2"] | {"clientSecret": {"set": True}},
    "mcp": CONFIGS["mcp"] | {"headers": {"X-Key": {"set": True}, "X-Other": {"set": True}}},
}
OLD, NEW = b"o" * 32, b"n" * 32


def body(kind: str = "mcp", **more: Any) -> dict[str, Any]:
    return {"name": "Desk", "provider": "desk", "kind": kind, "config": CONFIGS[kind]} | more


def secret_of(bench: Bench | Core, org: str, row: Connection) -> dict[str, Any]:
    core = bench.core if isinstance(bench, Bench) else bench
    return open_config(core.ports.sealer, org, row)


def assert_silent(text: str) -> None:
    for canary in CANARIES:
        assert canary not in text
        assert base64.b64encode(canary.encode()).decode().rstrip("=") not in text


class TestContextItems:
    """Create, read, change, delete."""

    async def test_create_read_change_delete(self, bench: Bench) -> None:
        """A created item is read, listed, changed and deleted by every member with the scope."""
        items = bench.core.context_items
        made = await items.create(bench.me, title="Tone", content="Be kind.")
        wire = made.to_wire()
        assert wire.keys() == {"id", "title", "content", "createdAt", "updatedAt"}
        bench.clock.advance(1)
        changed = await items.patch(bench.other, made.id, content="Be brief.")
        assert changed == attrs.evolve(made, content="Be brief.", updated_at=bench.core.ports.now())
        assert changed.updated_at > made.updated_at
        bench.clock.advance(1)
        assert await items.patch(bench.other, made.id, {}) == changed
        second = await items.create(bench.me, title="B", content="b")
        assert await items.page(bench.me) == [changed, second]
        assert await items.page(bench.me, limit=1, after=changed.id) == [second]
        assert await items.delete(bench.me, made.id) == changed
        for again in (items.get, items.delete, items.patch):
            with pytest.raises(NotFound):
                await again(bench.me, made.id)
        actions = [(row.row.action, dict(row.row.details)) for row in await bench.core.audit.page(owner(bench))]
        assert actions == [
            ("context_item.delete", {"title": "Tone"}),
            ("context_item.create", {"title": "B"}),
            ("context_item.update", {"title": "Tone", "changed": ["content"]}),
            ("context_item.create", {"title": "Tone"}),
        ]

    @pytest.mark.parametrize(
        ("fields", "error", "path"),
        [
            ({"title": "t"}, Malformed, "content"), ({"content": "c"}, Malformed, "title"),
            ({"title": "", "content": "c"}, Invalid, "title"), ({"title": "t", "content": " \n"}, Invalid, "content"),
            ({"title": "t" * 201, "content": "c"}, Invalid, "title"),
            ({"title": "t", "content": "c" * 100_001}, Invalid, "content"),
            ({"title": "t", "content": "c", "id": "x"}, Invalid, "id"),
            ({"title": 1, "content": "c"}, Malformed, "title"),
        ],
    )  # fmt: skip
    async def test_bad_bodies(self, bench: Bench, fields: Any, error: type[WfcoreError], path: str) -> None:
        """Each error has its path; nothing is written."""
        with pytest.raises(error) as caught:
            await bench.core.context_items.create(bench.me, fields)
        assert [issue["path"] for issue in caught.value.info["errors"]] == [path]
        assert await bench.core.context_items.page(bench.me) == []

    async def test_a_key_creates_once(self, bench: Bench) -> None:
        """The same key and body return the same response, even after a change; another body is a conflict."""
        items = bench.core.context_items
        made = await items.create(bench.me, {"title": "t", "content": "c"}, key="k")
        await items.patch(bench.me, made.id, title="u")
        assert await items.create(bench.me, {"content": "c", "title": "t"}, key="k") == made
        with pytest.raises(Conflict) as caught:
            await items.create(bench.me, {"title": "t", "content": "d"}, key="k")
        assert caught.value.info["reason"] == "key_reused"
        assert len(await items.page(bench.me)) == 1
        await items.create(bench.other, {"title": "t", "content": "c"}, key="k")
        assert len(await items.page(bench.me)) == 2


def owner(bench: Bench) -> Any:
    return bench.person("root", role="owner")


class TestConnections:
    """Create, read, change, delete; secrets are write-only."""

    @pytest.mark.parametrize("kind", CONFIGS)
    async def test_secrets_are_never_shown(self, bench: Bench, kind: str, caplog: pytest.LogCaptureFixture) -> None:
        """No response, repr, audit row or log has them; only a call of the service does."""
        caplog.set_level(logging.DEBUG)
        rows = bench.core.connections
        made = await rows.create(bench.me, body(kind), key="k")
        wire = made.to_wire()
        assert wire == {
            "id": made.id, "name": "Desk", "provider": "desk", "kind": kind, "config": SHOWN[kind],
            "ownership": "organization", "status": "needs_authorization" if kind == "oauth2" else "active",
            "statusReason": None, "lastCheckedAt": None,
        }  # fmt: skip
        again = await rows.create(bench.me, body(kind), key="k")
        assert again.to_wire() == wire
        changed = await rows.patch(bench.me, made.id, name="New", status="disabled")
        assert changed.to_wire() == wire | {"name": "New", "status": "disabled"}
        assert await rows.get(bench.other, made.id) == changed
        assert await rows.page(bench.me) == [changed]
        assert secret_of(bench, bench.org, changed) == CONFIGS[kind]
        assert await rows.delete(bench.me, made.id) == changed
        audit = await bench.core.audit.page(owner(bench))
        assert [row.row.action for row in audit] == ["connection.delete", "connection.update", "connection.create"]
        assert_silent(repr([made, again, changed, wire, [row.to_wire() for row in audit], caplog.text]))
        with pytest.raises(NotFound):
            await rows.get(bench.me, made.id)

    async def test_a_patch_keeps_what_it_does_not_name(self, bench: Bench) -> None:
        """Also in `config`: an absent secret is kept, null removes a header or all, another case replaces it."""
        rows = bench.core.connections
        made = await rows.create(bench.me, body("mcp"))
        headers = {"x-key": "new", "X-Other": None, "X-More": "more"}
        changed = await rows.patch(bench.me, made.id, config={"headers": headers})
        wanted = {"url": "https://x.org/mcp", "headers": {"x-key": "new", "X-More": "more"}}
        assert secret_of(bench, bench.org, changed) == wanted
        changed = await rows.patch(bench.me, made.id, config={"url": "https://x.org/other"})
        assert secret_of(bench, bench.org, changed) == wanted | {"url": "https://x.org/other"}
        changed = await rows.patch(bench.me, made.id, config={"headers": None})
        assert secret_of(bench, bench.org, changed) == {"url": "https://x.org/other"}

    async def test_kept_secrets_are_not_sent_elsewhere(self, bench: Bench) -> None:
        """A new host or provider requires all secrets again; otherwise nothing changes."""
        rows = bench.core.connections
        made = await rows.create(bench.me, body("oauth2"))
        for change in ({"config": {"tokenUrl": "https://evil.org/t"}}, {"provider": "other"}):
            with pytest.raises(Invalid) as caught:
                await rows.patch(bench.me, made.id, change)
            assert [issue["path"] for issue in caught.value.info["errors"]] == ["config.clientSecret"]
        assert await rows.get(bench.me, made.id) == made
        moved = await rows.patch(bench.me, made.id, config={"tokenUrl": "https://y.org/t", "clientSecret": "s"})
        assert secret_of(bench, bench.org, moved)["clientSecret"] == "s"
        await rows.patch(bench.me, made.id, config={"tokenUrl": "https://z.org/t", "clientSecret": None})

    @pytest.mark.parametrize(
        ("change", "error", "path"),
        [
            ({"kind": "fax"}, Invalid, "kind"), ({"kind": "oauth2"}, Malformed, "config.headers"),
            ({"config": {}}, Malformed, "config.url"), ({"config": {"url": 1}}, Malformed, "config.url"),
            ({"config": {"url": "https://u:canary-key-4711@x.org"}}, Invalid, "config.url"),
            ({"config": {"url": "https://x.org", "headers": {"A": "canary-key-4711\n"}}}, Invalid, "config.headers.A"),
            ({"config": {"url": "https://x.org", "headers": {"A": [CANARIES[0]]}}}, Malformed, "config.headers.A"),
            ({"config": {"url": "https://x.org", "headers": {"Host": CANARIES[0]}}}, Invalid, "config.headers.Host"),
            ({"kind": "api_key", "config": {"apiKey": CANARIES[0], "header": "TE"}}, Invalid, "config.header"),
            ({"status": "error"}, Invalid, "status"), ({"lastCheckedAt": None}, Invalid, "lastCheckedAt"),
        ],
    )  # fmt: skip
    async def test_bad_bodies(self, bench: Bench, change: Any, error: type[WfcoreError], path: str) -> None:
        """Each error has its path, without values that can be secrets; nothing is written."""
        with pytest.raises(error) as caught:
            await bench.core.connections.create(bench.me, body() | change)
        assert path in [issue["path"] for issue in caught.value.info["errors"]]
        assert_silent(repr(caught.value.info) + str(caught.value))
        assert await bench.core.connections.page(bench.me) == []

    async def test_a_secret_belongs_to_the_key(self, bench: Bench) -> None:
        """The same Idempotency-Key with another secret is another request."""
        await bench.core.connections.create(bench.me, body("api_key"), key="k")
        with pytest.raises(Conflict) as caught:
            await bench.core.connections.create(bench.me, body("api_key", config={"apiKey": "other"}), key="k")
        assert caught.value.info["reason"] == "key_reused"

    async def test_rows_cannot_be_swapped(self, bench: Bench) -> None:
        """A sealed text copied to another row, field or organization cannot be opened there."""
        rows = bench.core.connections
        first, second = [await rows.create(bench.me, body("mcp")) for _ in range(2)]
        moved = [
            (bench.org, attrs.evolve(second, sealed=first.sealed)),
            (bench.org, attrs.evolve(first, sealed={"headers.X-Other": first.sealed["headers.X-Key"]})),
            ("another", first),
        ]
        for org, row in moved:
            with pytest.raises(Conflict):
                secret_of(bench, org, row)

    async def test_scopes_decide(self, bench: Bench) -> None:
        """Reading requires the read scope, changing the write scope, of each area."""
        for cases, area in ((bench.core.context_items, "context"), (bench.core.connections, "connections")):
            reader = bench.person("r", scopes=[f"{area}:read"])
            assert await cases.page(reader) == []
            for change in (cases.create, cases.patch, cases.delete):
                with pytest.raises(Forbidden):
                    await change(reader, "x")
            with pytest.raises(Forbidden):
                await cases.page(bench.person("n", scopes=["workflows:write"]))


class TestKeys:
    """The key that seals, on a SQLite file."""

    async def test_no_byte_of_the_database_is_a_secret(self, database: str) -> None:
        """Neither its files nor their journals contain one, as text or in base64; the key is in a file beside it."""
        async with wfcore.bootstrap.open(database, worker=False) as core:
            org = (await core.directory.create_organization("o")).uuid
            me = core.principal(org, "u")
            assert [name for name in beside(database) if name.endswith(".key")] == []
            made = [await core.connections.create(me, body(kind), key=kind) for kind in CONFIGS]
            for row in made:
                await core.connections.patch(me, row.id, name="New")
            files = beside(database)
            assert [name for name in files if name.endswith(".key")] == ["app.db.key"]
            assert any(b"Desk" in content for content in files.values())
            assert_silent("".join(content.decode("latin-1") for content in files.values()))
        async with wfcore.bootstrap.open(database, worker=False) as core:
            found = await core.connections.page(me)
            assert [secret_of(core, org, row) for row in found] == list(CONFIGS.values())

    async def test_key_rotation(self, database: str) -> None:
        """With the former key everything can be read, and a write seals with the new one; then the former can be
        removed.
        """
        me, org, rows = await connected(database, OLD)
        async with wfcore.bootstrap.open(database, worker=False, secrets=Secrets(NEW, previous=[OLD])) as core:
            assert [row.status for row in await core.connections.page(me)] == ["active"] * 2
            await core.connections.patch(me, rows[0].id, {})
        async with wfcore.bootstrap.open(database, worker=False, secrets=NEW) as core:
            assert [row.status for row in await core.connections.page(me)] == ["active", "error"]
            assert secret_of(core, org, await core.connections.get(me, rows[0].id)) == CONFIGS["mcp"]

    async def test_a_missing_key_is_shown_at_the_connection(self, database: str) -> None:
        """The list works; using or keeping the secret is a conflict; sent again, the connection is active."""
        me, org, rows = await connected(database, OLD)
        async with wfcore.bootstrap.open(database, worker=False, secrets=NEW) as core:
            cases = core.connections
            assert {(row.status, row.status_reason) for row in await cases.page(me)} == {("error", UNREADABLE)}
            found = await cases.get(me, rows[0].id)
            assert found.to_wire()["config"] == SHOWN["mcp"]
            with pytest.raises(Conflict) as caught:
                await cases.patch(me, found.id, name="New")
            assert caught.value.info == {"reason": "secret_unreadable", "connectionId": found.id}
            with pytest.raises(Conflict):
                secret_of(core, org, found)
            fixed = await cases.patch(me, found.id, config={"headers": CONFIGS["mcp"]["headers"]})
            assert (fixed.status, secret_of(core, org, fixed)) == ("active", CONFIGS["mcp"])
            assert (await cases.delete(me, rows[1].id)).id == rows[1].id

    async def test_a_damaged_key_file(self, database: str) -> None:
        """Sealing fails with a clear error and replaces nothing; the list works."""
        me, _, _ = await connected(database, OLD)
        damage_key(database)
        async with wfcore.bootstrap.open(database, worker=False) as core:
            assert {row.status for row in await core.connections.page(me)} == {"error"}
            with pytest.raises(WfcoreError, match=r"the secret key cannot be read: .* must be 32 bytes"):
                await core.connections.create(me, body())

    async def test_a_key_has_32_bytes(self) -> None:
        """Any other length is refused before the database is opened; the key is not shown."""
        for wrong in (b"canary", Secrets(OLD, previous=[b""])):
            with pytest.raises(ValueError, match="every key of `secrets` must be 32 bytes") as caught:
                async with wfcore.bootstrap.open("sqlite://", secrets=wrong):
                    pass
            assert "canary" not in str(caught.value)


def beside(database: str) -> dict[str, bytes]:
    """The files of the database and those beside it, by name."""
    return {file.name: file.read_bytes() for file in Path(database.removeprefix("sqlite:///")).parent.iterdir()}


def damage_key(database: str) -> None:
    Path(f"{database.removeprefix('sqlite:///')}.key").write_text("short\n")


async def connected(database: str, secret: bytes) -> tuple[Any, str, list[Connection]]:
    """A user of a new organization with two connections, sealed with this key."""
    async with wfcore.bootstrap.open(database, worker=False, secrets=secret) as core:
        org = (await core.directory.create_organization("o")).uuid
        me = core.principal(org, "u")
        return me, org, [await core.connections.create(me, body("mcp")) for _ in range(2)]
