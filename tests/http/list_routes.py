"""All routes of lists with the values of their filters, and records for them."""

import httpx
from clients import APPROVAL, World, chain, deployed, flow

from wfcore.adapters.http.core.route import Route
from wfcore.adapters.http.route_table import route_table
from wfcore.core import Core

MANY = 3
"""Rows of each kind: enough for a second page."""

NARROWING = {
    "status": ("active", "interrupted", "decided"),
    "order": ("deadline",),
    "q": ("refund",),
    "role": ("owner",),
    "groupId": ("11111111-1111-4111-8111-111111111111",),
    "workflowId": ("1",),
    "skillId": ("1",),
    "userId": ("ada",),
    "from": ("2026-01-01T00:00:00Z",),
    "to": ("2100-01-01T00:00:00Z",),
    "action": ("workflow.deploy",),
    "assistant": ("true",),
    "threadId": ("thread_1",),
    "startedBy": ("ada",),
    "origin": ("chatapp", "api"),
    "variationId": ("11111111-1111-4111-8111-111111111111",),
    "since": ("2026-01-01T00:00:00Z",),
    "until": ("2100-01-01T00:00:00Z",),
    "count": ("1",),
}
"""Values of the query parameters of lists. A new parameter must be added here."""


def lists(core: Core) -> list[Route]:
    return [route for route in route_table(core) if route.method == "GET" and "pageToken" in parameters(route)]


def parameters(route: Route) -> set[str]:
    return {query.name for query in route.query}


def choices(route: Route) -> list[dict[str, str]]:
    """No filter, and each filter with each of its values."""
    known = parameters(route) - {"pageSize", "pageToken", "limit", "groupBy", "view", "outputs"}
    assert known <= NARROWING.keys(), route.name
    return [{}, *({name: value} for name in sorted(known) for value in NARROWING[name])]


async def furnish(world: World, ada: httpx.AsyncClient) -> list[dict[str, str]]:
    """Create records of every kind. Returns the values of their path parameters."""
    flows = [await deployed(ada, chain(APPROVAL)) for _ in range(MANY)]
    body = {"url": "https://crm.example.org/hook", "events": ["interrupt.opened"]}
    hooks = [(await ada.post("/api/v1/hooks", json=body)).json()["id"] for _ in range(MANY)]
    for _ in range(MANY):
        await ada.post("/api/v1/skills", json={"name": "Refunds"})
        await ada.post("/api/v1/skills/1/memories", json={"memory": "refunds are slow", "userId": "ada"})
        await ada.post(f"/api/v1/workflows/{flows[0]}/interfaces", json={"kind": "chatapp"})
        await ada.post("/api/v1/context-items", json={"title": "a", "content": "b"})
        await ada.post("/api/v1/groups", json={"name": "a"})
        await ada.post("/api/v1/workflows", json=flow())
        started = await ada.post(
            "/agent/v1/runs", json={"workflowId": flows[0], "input": {}}, headers={"Accept": "application/json"}
        )
        assert started.status_code < 300, started.text
        await world.user(f"user-{started.json()['runId']}")
        await ada.post("/api/v1/delegations", json={"to": f"user-{started.json()['runId']}"})
    return [{"id": "1", "threadId": "none", "hookId": hooks[0]}, {"id": "0", "threadId": "none", "hookId": "none"}]
