"""A database with all kinds of rows, by way of the use cases; and what a user reads of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import sqlalchemy as sa
from bench import Bench, act, ask, deployed_skill, graph, one, opened, private
from chatting import REACHING, opened_channel
from scheduling import scheduled
from sql_texts import qualified

from wfcore.adapters.sql.schema.tables import metadata
from wfcore.domain.people.erasure import Erasure
from wfcore.domain.run.machine.states import snapshots

SECRET = b"s" * 32
MAIL = {"name": "Mail", "provider": "mail", "kind": "api_key", "config": {"apiKey": "k"}}

GROWN = {
    "name": "Grown", "provider": "garden", "kind": "oauth2",
    "config": {"clientId": "c", "tokenUrl": "http://127.0.0.1:9/t", "authorizeUrl": "http://127.0.0.1:9/a"},
}  # fmt: skip


async def fill(url: str) -> Bench:
    """Open a new database, leave rows in every table, and close it. The bench that was used says who is who."""
    async with opened(url, settings=REACHING, secrets=SECRET) as bench:
        core, me = bench.core, await bench.joined("me", "owner")
        readers = (await core.groups.create(me, name="Readers")).id
        await bench.joined("ann", "member", readers)
        await core.directory.create_token(bench.org, "ann", scopes=["workflows:read"])
        cases = [{"id": "one", "input": {"message": "hi"}, "checks": [{"kind": "contains", "value": "x"}]}]
        skill = await deployed_skill(bench, access=private("ann@x.org"), evaluations=cases)
        for evaluated in (await core.evaluations.run(me, skill, "active")).runs:
            await bench.ended(evaluated)
        await bench.ended(await core.runs.chat(me, skill, message="hello"))
        await core.memories.create(me, skill, memory="green tea")
        await core.context_items.create(me, title="About", content="us")
        await core.policies.create(
            me, name="Limits", when={"agent": True}, require={"timeout": True}, severity="warning"
        )
        await core.connections.create(me, MAIL, key="once")
        grown = await core.connections.create(me, GROWN)
        url = await core.connections.authorize(me, grown.id, address="http://127.0.0.1:9")
        await core.connects.finish(parse_qs(urlsplit(url).query)["state"][0], None, "access_denied", None)
        await core.hooks.create(me, url="http://127.0.0.1:9/events", events=["run.finished"], key="once")
        await scheduled(bench)
        await core.delegations.create(me, to="ann", until="2100-01-01T00:00:00Z", workflow_ids=[1])
        hooked = await bench.deployed(one(act("echo")), trigger={"trigger_type": "webhook"})
        await core.workflows.webhook(me, hooked)
        inner = await bench.deployed(graph("s>h h:approved>a", h=ask(), a=act("echo", value="inner")))
        await bench.ran(one(act("core.workflow", workflowId=inner)))
        await bench.ran(one(act("echo", value=1, more={"requiresApproval": True})))
        await bench.ran(one(ask(timeoutSeconds=60)))
        each = act("echo", value="{{ item }}", more={"forEach": str(list(range(snapshots.INTERVAL)))})
        await bench.ran(graph("s>a a>h", a=each, h=ask()))
        answered = await bench.ran(one(ask()))
        await bench.ended(await core.runs.resume(me, answered.id, decision="approve"))
        await bench.ran(one(act("flaky", fails=9)))
        await core.runs.start(me, workflow=await bench.deployed(one(act("core.wait", seconds=3_600))), input={})
        await (await opened_channel(bench, url="http://127.0.0.1:9/answers")).rested()
        await bench.started(one(act("hold", more={"concurrencyKey": "crm"})))
        await bench.until("it")
        async with core.ports.storage.transaction(bench.org) as work:
            await work.erasures.add(Erasure("erased-1", "me", None, is_removed=True))
        await core.ports.journal.register("elsewhere", 1)
    return bench


async def as_read(bench: Bench) -> dict[str, Any]:
    """What the use cases return, by name."""
    core, me = bench.core, bench.person("me", role="owner")
    runs = await core.runs.page(me, limit=100)
    found: dict[str, Any] = {
        "workflows": await core.workflows.page(me, limit=100),
        "skills": await core.skills.page(me, limit=100),
        "runs": [run.to_wire() for run in runs],
        "events": {run.id: await core.runs.events(me, run.id) for run in runs},
        "interrupts": [item.to_wire() for item in (await core.runs.interrupts(me, limit=100))[0]],
        "conversations": await core.conversations.page(me, 0),
        "members": await core.members.page(me),
        "groups": await core.groups.page(me),
        "hooks": await core.hooks.page(me),
        "delegations": await core.delegations.page(me),
        "context items": await core.context_items.page(me),
        "policies": await core.policies.page(me),
        "connections": await core.connections.page(me),
        "memories": await core.memories.page(me, 1),
        "audit": await core.audit.page(me, limit=100),
    }
    assert [name for name, rows in found.items() if not rows] == []
    return found


def rows_of(connection: sa.Connection) -> Mapping[str, list[tuple[Any, ...]]]:
    """Every row of every table of this release, in the columns that this release knows."""
    found = {}
    server = connection.dialect.name == "postgresql"
    for table in metadata.sorted_tables:
        name = qualified(table.name) if server else table.name
        columns = ", ".join(f'"{column.name}"' for column in table.columns)
        rows = [tuple(row) for row in connection.exec_driver_sql(f"SELECT {columns} FROM {name}")]
        found[table.name] = sorted(rows, key=repr)
    return found


def file_url(place: Path) -> str:
    return f"sqlite:///{place}/app.db"
