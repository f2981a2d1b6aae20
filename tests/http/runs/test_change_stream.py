"""`GET /api/v1/changes`: what changes in the caller's organization, live (interface, Changes)."""

import asyncio
import json
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
from clients import APPROVAL, POLL, Json, World, chain, count, counting, deployed, flow, new_world, serving
from postgres_server import with_schema
from waiting import HANG

import wfcore.bootstrap
from wfcore.adapters.http import app
from wfcore.domain.agents.connections import ConnectionStatus
from wfcore.runtime.runs import changes as follower

pytestmark = pytest.mark.anyio

CHANGES = "/api/v1/changes"
HELLO = {"kind": "hello"}


class Feed:
    """An open stream of changes."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines

    async def next(self) -> Json | None:
        """The next event; None at the end of the stream."""
        async with asyncio.timeout(HANG):
            async for line in self._lines:
                if line.startswith("data: "):
                    found: Json = json.loads(line[6:])
                    return found
        return None

    async def take(self, number: int) -> list[Json | None]:
        return [await self.next() for _ in range(number)]

    async def until(self, kind: str, what: str, id: str | None = None) -> list[Json]:
        """The events up to one of this kind."""
        found = list[Json]()
        while (event := await self.next()) is not None:
            found.append(event)
            if (event["kind"], event.get("what")) == (kind, what) and id in (None, event["id"]):
                break
        return found


@asynccontextmanager
async def following(client: httpx.AsyncClient) -> AsyncIterator[Feed]:
    """A stream whose first event has come."""
    async with client.stream("GET", CHANGES, headers={"Accept": "text/event-stream"}) as response:
        assert response.status_code == 200
        assert response.headers["Content-Type"].startswith("text/event-stream")
        feed = Feed(response.aiter_lines())
        assert await feed.next() == HELLO
        yield feed


def change(kind: str, id: object, what: str) -> Json:
    return {"kind": kind, "id": id, "what": what}


async def marked(feed: Feed, client: httpx.AsyncClient) -> list[Json | None]:
    """What has come until now: until this client's next new workflow."""
    number = (await client.post("/api/v1/workflows", json=flow())).json()["id"]
    found, last = list[Json | None](), change("workflow", number, "created")
    while (event := await feed.next()) != last:
        found.append(event)
    return found


class TestResources:
    async def test_the_life_of_a_workflow(self, real_world: World) -> None:
        """Created, changed by an edit of the draft, deployed, deleted, restored: each once."""
        ann, bob = await real_world.user("ann"), await real_world.user("bob")
        async with following(bob) as feed:
            number = await deployed(ann, chain())
            place = f"/api/v1/workflows/{number}"
            await ann.patch(place, json={"name": "Other"})
            await ann.delete(place)
            await ann.post(f"{place}/restore")
            whats = ["created", "deployed", "changed", "deleted", "changed"]
            assert await feed.take(5) == [change("workflow", number, what) for what in whats]

    async def test_skills_and_connections(self, real_world: World) -> None:
        """A skill has a number and a connection its own id; a refused change is not a change."""
        ann = await real_world.user("ann")
        async with following(ann) as feed:
            skill = (await ann.post("/api/v1/skills", json={"name": "S"})).json()["id"]
            body = {"name": "P", "provider": "p", "kind": "api_key", "config": {"apiKey": "k", "header": "X-Key"}}
            connection = (await ann.post("/api/v1/connections", json=body)).json()["id"]
            assert (await ann.patch(f"/api/v1/skills/{skill}", json={"name": 1})).status_code == 400
            await ann.delete(f"/api/v1/connections/{connection}")
            assert await feed.take(3) == [
                change("skill", skill, "created"),
                change("connection", connection, "created"),
                change("connection", connection, "deleted"),
            ]

    async def test_people(self, real_world: World) -> None:
        """Members and groups, and delegations for their two members and for admins."""
        boss = await real_world.user("boss", role="owner")
        bob, eve = await real_world.user("bob"), await real_world.user("eve")
        async with following(boss) as feed, following(bob) as own, following(eve) as other:
            group = (await boss.post("/api/v1/groups", json={"name": "Team"})).json()["id"]
            await boss.patch("/api/v1/members/eve", json={"groups": [group]})
            delegation = (await bob.post("/api/v1/delegations", json={"to": "boss"})).json()["id"]
            await bob.delete(f"/api/v1/delegations/{delegation}")
            people = [change("group", group, "created"), change("member", "eve", "changed")]
            given = [change("delegation", delegation, what) for what in ("created", "deleted")]
            assert await feed.take(4) == await own.take(4) == [*people, *given]
            assert await marked(other, boss) == people

    async def test_only_what_the_caller_may_see(self, real_world: World) -> None:
        """No private resource of others, nothing of another organization, nothing without the read scope."""
        ann, bob = await real_world.user("ann"), await real_world.user("bob")
        narrow = await real_world.user("cid", scopes=["skills:read"])
        foreign = (await real_world.core.directory.create_organization("Other")).uuid
        eve = await real_world.user("eve", org=foreign)
        async with following(bob) as feed, following(narrow) as skills_only, following(eve) as other:
            private = {"visibility": "private"}
            await ann.post("/api/v1/workflows", json=flow(accessConfig=private))
            await eve.post("/api/v1/workflows", json=flow())
            assert await marked(feed, ann) == []
            skill = (await ann.post("/api/v1/skills", json={"name": "S"})).json()["id"]
            assert await skills_only.next() == change("skill", skill, "created")
            assert (await other.next() or {})["kind"] == "workflow"
            assert await marked(other, eve) == []

    async def test_rights_of_now_count(self, real_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """Who leaves a group sees nothing of its workflows any more, also on an open stream."""
        monkeypatch.setattr(follower, "RENEW_MS", 0)
        group = (await real_world.core.directory.create_group(real_world.org, "Team")).id
        boss = await real_world.user("boss", role="owner", groups=[group])
        bob = await real_world.user("bob", groups=[group])
        async with following(bob) as feed:
            made = {"visibility": "shared", "groupPermissions": {group: {"use": True, "manage": True}}}
            number = (await boss.post("/api/v1/workflows", json=flow(accessConfig=made))).json()["id"]
            assert await feed.next() == change("workflow", number, "created")
            await boss.patch("/api/v1/members/bob", json={"groups": []})
            await boss.patch(f"/api/v1/workflows/{number}", json={"name": "Secret"})
            assert await marked(feed, boss) == [change("member", "bob", "changed")]


class TestRuns:
    async def test_a_run_with_an_approval(self, real_world: World) -> None:
        """A run begins, parks with an interrupt, is decided by a new turn, and ends."""
        ann = await real_world.user("ann")
        number = await deployed(ann, chain(APPROVAL, counting(real_world.org)))
        async with following(ann) as feed:
            body = {"workflowId": number, "input": {}, "runId": "run/1"}
            await ann.post("/agent/v1/runs", json=body, headers=POLL)
            begun = await feed.until("interrupt", "created")
            (item,) = (await ann.get("/agent/v1/interrupts")).json()["interrupts"]
            assert begun[0] == change("run", "run/1", "created")
            assert begun[-1]["id"] == item["interruptId"]
            resumed = await ann.post("/agent/v1/runs/run%2F1/resume", json={"decision": "approve"}, headers=POLL)
            decided = await feed.until("interrupt", "resolved")
            assert decided[-1]["id"] == item["interruptId"]
            begun = [*decided, *await feed.until("run", "changed", resumed.json()["runId"])]
            assert change("run", "run/1", "changed") in begun
            assert change("run", resumed.json()["runId"], "created") in begun

    async def test_a_named_approver_sees_the_interrupt_only(self, real_world: World) -> None:
        """Without use of the workflow; somebody who is not an approver sees nothing of it."""
        ann, bob = await real_world.user("ann"), await real_world.user("bob")
        eve = await real_world.user("eve")
        ask: Json = {
            "id": "ask",
            "type": "humanApproval",
            "data": {"message": "?", "approvers": {"emails": ["bob@x.org"]}},
        }
        number = await deployed(ann, chain(ask), accessConfig={"visibility": "private"})
        async with following(bob) as feed, following(eve) as other:
            await ann.post("/agent/v1/runs", json={"workflowId": number, "input": {}}, headers=POLL)
            found = await feed.next()
            assert found
            assert (found["kind"], found["what"]) == ("interrupt", "created")
            assert await marked(other, ann) == []
            assert [one["kind"] for one in await marked(feed, ann) if one] == ["workflow"]


PRIVATE = {"visibility": "private", "groupPermissions": {}, "sharedWith": [{"email": "bob@x.org"}]}


async def begun(client: httpx.AsyncClient, workflow: int, run_id: str) -> None:
    """A run that has ended or is parked."""
    await client.post("/agent/v1/runs", json={"workflowId": workflow, "input": {}, "runId": run_id}, headers=POLL)
    while (await client.get(f"/agent/v1/runs/{run_id}")).json()["status"] in ("queued", "running"):  # noqa: ASYNC110
        await asyncio.sleep(0.005)


class TestDeletions:
    async def test_a_deleted_run(self, real_world: World) -> None:
        """Every turn of its execution, for those who can use its workflow."""
        ann, bob, eve = [await real_world.user(name) for name in ("ann", "bob", "eve")]
        number = await deployed(ann, chain(APPROVAL), accessConfig=PRIVATE)
        await begun(ann, number, "first")
        body = {"decision": "approve", "runId": "second"}
        await ann.post("/agent/v1/runs/first/resume", json=body, headers=POLL)
        await begun(ann, number, "second")
        async with following(bob) as feed, following(eve) as other:
            assert (await ann.delete("/agent/v1/runs/second")).status_code == 200
            assert await feed.take(2) == [change("run", run, "deleted") for run in ("first", "second")]
            assert await marked(other, ann) == []

    async def test_retention(self, real_world: World) -> None:
        """Old runs for those who can use the workflow; with a deleted workflow, its runs and itself, for those who
        saw it."""
        ann, bob, eve = [await real_world.user(name) for name in ("ann", "bob", "eve")]
        maintenance = real_world.core.ports.storage.maintenance
        numbers = [await deployed(ann, chain(counting(real_world.org)), accessConfig=PRIVATE) for _ in range(2)]
        await begun(ann, numbers[0], "old")
        async with following(ann) as own, following(bob) as feed, following(eve) as other:
            assert (await maintenance.prune(real_world.org, "runs", 2**45, limit=10)).count >= 1
            assert await own.take(1) == await feed.take(1) == [change("run", "old", "deleted")]
            await begun(ann, numbers[1], "kept")
            await ann.delete(f"/api/v1/workflows/{numbers[1]}")
            for one in (own, feed):
                await one.until("workflow", "deleted")
            assert (await maintenance.prune(real_world.org, "deleted", 2**45, limit=10)).count == 1
            gone = [change("run", "kept", "deleted"), change("workflow", numbers[1], "deleted")]
            assert await own.take(2) == gone
            assert await marked(feed, ann) == gone[:1]
            assert await marked(other, bob) == [change("workflow", numbers[1] + 1, "created")]

    async def test_an_erased_member(self, real_world: World) -> None:
        """The runs of the member with their open interrupts, and private workflows."""
        ann, bob = await real_world.user("ann"), await real_world.user("bob")
        boss = await real_world.user("boss", role="owner")
        shared, private = await deployed(bob, chain(APPROVAL)), await deployed(ann, chain(), accessConfig=PRIVATE)
        await begun(ann, shared, "parked")
        (item,) = (await bob.get("/agent/v1/interrupts")).json()["interrupts"]
        async with following(bob) as feed:
            await boss.post("/api/v1/members/ann/erase")
            found = await feed.until("member", "deleted")
            assert found[0] == change("workflow", private, "deleted")
            for one in (change("run", "parked", "deleted"), change("interrupt", item["interruptId"], "deleted")):
                assert one in found

    async def test_the_status_of_a_connection(self, real_world: World) -> None:
        """It changes when the service refuses the credentials, without a request about the connection."""
        ann, storage = await real_world.user("ann"), real_world.core.ports.storage
        body = {"name": "P", "provider": "p", "kind": "api_key", "config": {"apiKey": "k", "header": "X-Key"}}
        connection = (await ann.post("/api/v1/connections", json=body)).json()["id"]
        async with following(ann) as feed:
            async with storage.transaction(real_world.org) as work:
                row = await work.connections.get(connection)
                assert row is not None
                await work.connections.save(attrs.evolve(row, status=ConnectionStatus.ERROR))
            assert await feed.next() == change("connection", connection, "changed")


class TestStreams:
    async def test_it_ends_with_the_token(self, real_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """A revoked token ends the stream."""
        from wfcore.runtime.runs import open_streams

        monkeypatch.setattr(open_streams, "INTERVAL", 0.01)
        ann = await real_world.user("ann")
        token = (await ann.get("/api/v1/tokens")).json()["tokens"][0]["id"]
        async with following(ann) as feed:
            await ann.delete(f"/api/v1/tokens/{token}")
            assert await feed.next() is None

    async def test_without_a_token(self, real_world: World) -> None:
        """401, and no stream."""
        assert (await (await real_world.client()).get(CHANGES)).status_code == 401

    async def test_after_lost_changes_the_client_reads_again(self, real_world: World) -> None:
        """Another `hello`, and then the changes that follow."""
        ann = await real_world.user("ann")
        async with following(ann) as feed:
            real_world.core.ports.changes.missed()  # type: ignore[attr-defined]
            assert await feed.next() == HELLO
            assert await marked(feed, ann) == []

    async def test_a_client_that_leaves_is_forgotten(self, real_world: World) -> None:
        """Its subscription is closed."""
        ann = await real_world.user("ann")
        feed = real_world.core.ports.changes
        async with following(ann):
            assert real_world.org in feed._subscriptions  # type: ignore[attr-defined]
        async with asyncio.timeout(HANG):
            while real_world.org in feed._subscriptions:  # type: ignore[attr-defined]  # noqa: ASYNC110
                await asyncio.sleep(0.005)


WRITER = """
    import asyncio, sys, wfcore

    async def main(database, org):
        secrets = b"k" * 32
        async with wfcore.open(database, worker=False, secrets=secrets) as core:
            me = core.principal(org, "ann")
            graph = {"nodes": [{"id": "start", "type": "start"}], "edges": []}
            flow = await core.workflows.create(me, name="From elsewhere", structure=graph)
            await core.workflows.deploy(me, flow.id)
            print(flow.id)

    asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'app.db'}" if request.param == "sqlite" else with_schema()


async def test_another_process_writes(database: str) -> None:
    """What another process on the same database commits arrives, on both stores."""
    options: dict[str, Any] = {"tools": [count], "secrets": b"k" * 32}
    async with (
        wfcore.bootstrap.open(database, **options) as core,
        serving(app(core)) as port,
        AsyncExitStack() as closing,
    ):
        connect = partial(httpx.AsyncClient, base_url=f"http://127.0.0.1:{port}", timeout=HANG, trust_env=False)
        world = await new_world(core, connect, closing)
        ann = await world.user("ann")
        async with following(ann) as feed:
            command = [sys.executable, "-c", textwrap.dedent(WRITER), database, world.org]
            written = await asyncio.to_thread(subprocess.run, command, capture_output=True, timeout=HANG)
            assert written.returncode == 0, written.stderr.decode()
            number = int(written.stdout)
            assert await feed.take(2) == [
                change("workflow", number, "created"), change("workflow", number, "deployed"),
            ]  # fmt: skip
