"""A hidden resource and an unknown one get the same responses (interface, Authentication 6).

Some effects are shared by design and not tested here: numbers and run ids are unique, a used slug gets a suffix, and
a 409 names the resources that would have no manager.
"""

from collections.abc import Callable
from typing import Any

import attrs
import httpx
import pytest
from clients import APPROVAL, POLL, Json, World, chain, deployed, flow, node

from wfcore.adapters.http.route_table import route_table
from wfcore.domain.run.records import MessageRecord, UsageRecord
from wfcore.ports.journal import Append
from wfcore.testing.contracts.run_records import rows_of

pytestmark = pytest.mark.anyio

PRIVATE: Json = {"visibility": "private", "groupPermissions": {}, "sharedWith": []}
SAME = {"X-Request-Id": "same", **POLL}
NEVER = 4_711
"""A number that is no resource's, and that no message has by chance."""


SHOWING = [
    "/api/v1/workflows?q=zebra",
    "/api/v1/skills?q=zebra",
    "/api/v1/skills/1/memories",
    "/agent/v1/runs",
    "/agent/v1/interrupts",
    "/api/v1/skills/0/conversations/zebra-thread",
    "/api/v1/usage?groupBy=model",
]
"""Routes that show the hidden resources to their owner."""


@attrs.frozen
class Hidden:
    """One private resource of each kind: ids by path parameter."""

    ids: dict[str, str]
    eve: httpx.AsyncClient


@pytest.fixture
async def hidden(either: World) -> Hidden:
    ada, eve = await either.user("ada"), await either.user("eve")
    trigger = {"trigger_type": "webhook"}
    number = await deployed(ada, chain(APPROVAL), name="Zebra plan", accessConfig=PRIVATE, trigger=trigger)
    await ada.post("/api/v1/skills", json={"name": "Zebra skill", "accessConfig": PRIVATE})
    await ada.post("/api/v1/skills/1/deploy")
    run = {"workflowId": number, "input": {}, "fileThreadId": "zebra-thread", "message": "zebra"}
    await ada.post("/agent/v1/runs", json=run, headers={"Idempotency-Key": "zebra-run", **POLL})
    interface = await ada.post(f"/api/v1/workflows/{number}/interfaces", json={"kind": "mcp"})
    memory = await ada.post("/api/v1/skills/1/memories", json={"memory": "zebra"})
    await ada.get(f"/api/v1/workflows/{number}/webhook")
    await leave_records(either)
    for path in SHOWING:
        assert "zebra" in (await ada.get(path)).text.lower(), path
    ids = {"id": "1", "runId": "zebra-run", "threadId": "zebra-thread"}
    return Hidden({**ids, "interfaceId": interface.json()["id"], "memoryId": memory.json()["id"]}, eve)


async def leave_records(world: World) -> None:
    """Record a message and the usage of the hidden run, as an agent does."""
    journal = world.core.ports.journal
    row = await journal.find_run(world.org, "zebra-run")
    assert row
    entries = await journal.read(row.execution)
    at = row.created_at - 1
    records = (MessageRecord("human", "m1", "zebra", skill_id=1, at=at), UsageRecord("zebra-1", 1, "ask", 5, 7, at=at))
    await journal.append(row.execution, Append(len(entries), (), **rows_of(records)))


def seen(answer: httpx.Response, repeats: str = "") -> tuple[Any, ...]:
    """All of a response but the date, without the number that the client sent itself."""
    headers = {name: value for name, value in answer.headers.items() if name not in ("date", "content-length", "link")}
    text = answer.text.replace(repeats, "#") if repeats else answer.text
    return answer.status_code, headers, text


AGENT_INPUT: Json = {"threadId": "t", "runId": "r", "messages": [{"role": "user", "content": "m"}]}
BODIES: dict[str, Json] = {
    "memories.create": {"memory": "m"}, "memories.patch": {"memory": "m"}, "memories.search": {"query": "q"},
    "moveRuns": {"all": True}, "propose": {"request": "Ask before"},
    "rollback": {"variationId": "v"}, "transferOwnership": {"userId": "ada"}, "createInterface": {"kind": "mcp"},
    "patchInterface": {"config": {}}, "runs.resume": {"decision": "approve"}, "chat.skill": {"message": "m"},
    "runs.fork": {"before": "ask"},
    "agUi.workflow": AGENT_INPUT, "agUi.skill": AGENT_INPUT,
}  # fmt: skip


async def test_paths_of_a_hidden_resource(either: World, hidden: Hidden) -> None:
    """Every route with a number, run or thread in its path: the same status, headers and body for both."""
    compared = 0
    for route in route_table(either.core):
        parameters = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
        if not hidden.ids.keys() & set(parameters) or route.name == "protectedResource.mcp":  # it looks nothing up
            continue
        body = BODIES.get(route.name) or BODIES.get(route.name.partition(".")[2]) or {}
        body = {"name": "x"} if route.method == "PATCH" and not body else body
        answers = []
        for there in (True, False):
            path = route.path
            for name in parameters:
                never = str(NEVER) if name == "id" else f"never-{name}"
                path = path.replace(f"{{{name}}}", hidden.ids.get(name, never) if there else never)
            answer = await hidden.eve.request(route.method, path, json=body if route.body else None, headers=SAME)
            assert answer.status_code == 404, (route.name, answer.text)
            answers.append(seen(answer, f'"skillId":{hidden.ids["id"] if there else NEVER}'))
        assert answers[0] == answers[1], route.name
        compared += 1
    assert compared > 60


def agent(number: int) -> Json:
    return chain(node("agent", "agent", agent_id=number, message="m"))


ELSEWHERE: dict[str, Callable[[int], tuple[str, str, Json | None]]] = {
    "a run of a workflow": lambda n: ("POST", "/agent/v1/runs", {"workflowId": n, "input": {}}),
    "a run of a draft": lambda n: ("POST", "/agent/v1/runs", {"workflowId": n, "input": {}, "version": "draft"}),
    "a run of a skill": lambda n: ("POST", "/agent/v1/runs", {"skillId": n, "message": "m"}),
    "runs of a workflow": lambda n: ("GET", f"/agent/v1/runs?workflowId={n}", None),
    "a graph that names a skill": lambda n: (
        "POST", "/api/v1/workflows/validate", flow(agent(n), trigger={"trigger_type": "manual"}),
    ),
    "a skill that supervises one": lambda n: (
        "POST", "/api/v1/skills", {"name": "x", "supervisionSubordinateIds": [str(n)]},
    ),
}  # fmt: skip


async def test_bodies_and_queries_with_a_hidden_resource(hidden: Hidden) -> None:
    """A body or query that names a hidden resource gets the response for an unknown one."""
    for what, request in ELSEWHERE.items():
        answers = []
        for number in (1, NEVER):
            method, path, body = request(number)
            answer = await hidden.eve.request(method, path, json=body, headers=SAME)
            answers.append(seen(answer, f"`{number}`"))
        assert answers[0] == answers[1], what


async def test_a_deploy_with_a_hidden_resource(hidden: Hidden) -> None:
    """The issues of a deploy are the same but for the number that the graph has itself."""
    answers = []
    for number in (1, NEVER):
        made = await hidden.eve.post("/api/v1/workflows", json=flow(agent(number)))
        answer = await hidden.eve.post(f"/api/v1/workflows/{made.json()['id']}/deploy", headers=SAME)
        assert answer.status_code == 422, answer.text
        answers.append(seen(answer, f"`{number}`"))
    assert answers[0] == answers[1]


SPAN = "from=2026-01-01T00:00:00Z&to=2030-01-01T00:00:00Z"
LISTS = [
    "/api/v1/workflows", "/api/v1/workflows?q=zebra", "/api/v1/workflows?status=active", "/api/v1/agents",
    "/api/v1/workflows?pageSize=1", "/api/v1/skills", "/api/v1/skills?q=zebra", "/agent/v1/runs",
    "/agent/v1/runs?status=interrupted", "/agent/v1/interrupts", "/api/v1/tools",
    f"/api/v1/usage?groupBy=workflow&{SPAN}", "/api/v1/suggestions",
    "/api/v1/skills/0/conversations", "/api/v1/skills/0/conversations/zebra-thread",
    "/api/v1/context-items", "/api/v1/connections", "/api/v1/policies", "/api/v1/me", "/api/v1/groups",
    "/api/v1/tokens", "/api/v1/audit", "/api/v1/delegations",
]  # fmt: skip


async def test_no_list_shows_a_hidden_resource(either: World, hidden: Hidden) -> None:
    """Hidden resources change no list of another member."""
    bare = await either.core.directory.create_organization("Bare")
    twin = await either.user("eve", org=bare.uuid)
    own = {either.org: "#", bare.uuid: "#"}
    for path in LISTS:
        here, there = await hidden.eve.get(path, headers=SAME), await twin.get(path, headers=SAME)
        assert masked(here, own) == masked(there, own), path


def masked(answer: httpx.Response, own: dict[str, str]) -> tuple[Any, ...]:
    """The response without the organization's UUID and the ids and times of the member's token."""
    status, headers, text = seen(answer)
    for name, mask in own.items():
        text = text.replace(name, mask)
    if answer.status_code == 200 and "tokens" in answer.json():
        text = str([{**row, "id": "#", "createdAt": "#"} for row in answer.json()["tokens"]])
    return status, headers, text
