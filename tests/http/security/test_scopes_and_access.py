"""Token scopes per route, and access per resource (interface, Authentication 4 to 6)."""

import re
from typing import Any

import pytest
from clients import APPROVAL, POLL, Json, World, assert_envelope, chain, deployed, flow

from wfcore.adapters.http.core.route import Route
from wfcore.adapters.http.route_table import route_table
from wfcore.domain.resources.access import TOKEN_SCOPES, missing_scopes

pytestmark = pytest.mark.anyio

EXPECTED = {
    "create": ("workflows:write",), "list": ("workflows:read",), "get": ("workflows:read",),
    "patch": ("workflows:write",), "delete": ("workflows:write",), "deploy": ("workflows:write",),
    "restore": ("workflows:write",), "discardDraft": ("workflows:write",), "toggle": ("workflows:write",),
    "validate": ("workflows:read",), "validateSaved": ("workflows:read",),
    "variation": ("workflows:read",), "diff": ("workflows:read",), "variations": ("workflows:read",),
    "moveRuns": ("workflows:write",), "impact": ("workflows:read",),
    "testNode": ("workflows:read",), "propose": ("workflows:write", "workflows:invoke"),
    "rollback": ("workflows:write",), "nextRuns": ("workflows:read",),
    "runs": ("workflows:read",), "transferOwnership": ("workflows:write",), "cancelTransfer": ("workflows:write",),
    "acceptTransfer": ("workflows:write",), "declineTransfer": ("workflows:write",),
    "explainAccess": ("workflows:read",), "supervision": ("workflows:read",), "supervise": ("workflows:write",),
    "interfaces": ("workflows:read",), "getInterface": ("workflows:read",), "createInterface": ("workflows:write",),
    "patchInterface": ("workflows:write",), "deleteInterface": ("workflows:write",),
    "clearInterfaces": ("workflows:write",), "schedule": ("workflows:read",),
    "webhook": ("workflows:write",), "rotateWebhook": ("workflows:write",),
    "interfaceSecret": ("workflows:write",), "rotateInterfaceSecret": ("workflows:write",),
    "simulate": ("workflows:read",),
}  # fmt: skip
RUNS = {
    "schedules.list": ("workflows:read",),
    "runs.start": ("workflows:invoke",), "runs.startUnversioned": ("workflows:invoke",),
    "runs.resume": ("workflows:invoke",), "runs.cancel": ("workflows:invoke",),
    "runs.interrupt": ("workflows:invoke",), "runs.list": ("workflows:read",), "runs.get": ("workflows:read",),
    "runs.stats": ("workflows:read",), "runs.graph": ("workflows:read",), "runs.graphValue": ("workflows:read",),
    "interrupts.decide": ("workflows:invoke",), "me.inboxCount": ("workflows:read",),
    "runs.retry": ("workflows:invoke",), "runs.retryAll": ("workflows:invoke",),
    "runs.fork": ("workflows:invoke",), "runs.delete": ("workflows:write",),
    "runs.events": ("workflows:read",), "interrupts.list": ("workflows:read",), "me": (),
    "interrupts.get": ("workflows:read",),
    "chat.skill": ("workflows:invoke",), "chat.assistant": ("workflows:invoke",),
    "agUi.workflow": ("workflows:invoke",), "agUi.skill": ("workflows:invoke",),
    "actions.run": ("workflows:invoke",), "uploads.create": ("workflows:invoke",),
    "openapi": None, "healthz": None, "readyz": None, "metrics": None, "protectedResource": None,
    "protectedResource.mcp": None, "mcp.exchange": ("workflows:invoke",),
    "webhooks.receive": None, "teamchat.receive": None, "teamchat.receiveSlack": None,
    "chatapp.page": None, "chatapp.workflow": ("workflows:invoke",),
    "conversations.list": ("conversations:read",), "conversations.get": ("conversations:read",),
    "conversations.delete": ("conversations:write",), "usage.report": ("usage:read",),
    "suggestions.list": ("skills:read",),
    "evaluations.run": ("skills:read", "workflows:invoke"), "evaluations.results": ("skills:read",),
    "contexts.skill": ("skills:read",), "contexts.assistant": ("skills:read", "workflows:read"),
    "memories.create": ("memories:write",), "memories.list": ("memories:read",), "memories.get": ("memories:read",),
    "memories.search": ("memories:read",), "memories.patch": ("memories:write",),
    "memories.delete": ("memories:write",),
    "members.create": ("members:write",), "members.list": ("members:read",), "members.get": ("members:read",),
    "members.patch": ("members:write",), "members.delete": ("members:write",),
    "members.export": ("members:read",), "members.erase": ("members:write",),
    "groups.create": ("members:write",), "groups.list": ("members:read",), "groups.get": ("members:read",),
    "groups.patch": ("members:write",), "groups.delete": ("members:write",),
    "tokens.create": ("tokens:write",), "tokens.list": ("tokens:write",), "tokens.get": ("tokens:write",),
    "tokens.revoke": ("tokens:write",), "audit.list": ("members:write",), "tools.list": ("workflows:read",),
    "nodeTypes.list": ("workflows:read",), "models.list": ("workflows:read",), "guardrails.list": ("workflows:read",),
    "expressions.evaluate": ("workflows:read",), "simulations.run": ("workflows:read",), "changes.follow": (),
    "contextItems.create": ("context:write",), "contextItems.list": ("context:read",),
    "contextItems.get": ("context:read",), "contextItems.patch": ("context:write",),
    "contextItems.delete": ("context:write",),
    "connections.create": ("connections:write",), "connections.list": ("connections:read",),
    "connections.get": ("connections:read",), "connections.patch": ("connections:write",),
    "connections.delete": ("connections:write",), "connections.authorize": ("connections:write",),
    "connections.connect": None, "connections.callback": None,
    "hooks.create": ("hooks:write",), "hooks.list": ("hooks:read",), "hooks.get": ("hooks:read",),
    "hooks.patch": ("hooks:write",), "hooks.delete": ("hooks:write",), "hooks.rotate": ("hooks:write",),
    "hooks.deliveries": ("hooks:read",), "hooks.redeliver": ("hooks:write",),
    "delegations.create": ("workflows:invoke",), "delegations.list": ("workflows:read",),
    "delegations.get": ("workflows:read",), "delegations.patch": ("workflows:invoke",),
    "delegations.delete": ("workflows:invoke",),
    "policies.create": ("policies:write",), "policies.list": ("policies:read",), "policies.get": ("policies:read",),
    "policies.patch": ("policies:write",), "policies.delete": ("policies:write",),
}  # fmt: skip

SAYS_THE_SAME = {"protectedResource.mcp"}
"""Routes that do not look up the row of their path."""


def expected_scopes(route: Route) -> tuple[str, ...] | None:
    area, _, name = route.name.partition(".")
    if area in ("workflows", "agents"):
        return EXPECTED[name]
    if area == "skills":
        return tuple(scope.replace("workflows", "skills") for scope in EXPECTED[name])
    return RUNS[route.name]


class TestTokenScopes:
    """Every route, with every single scope and with none."""

    async def test_every_route_has_the_scopes_of_its_use_case(self, world: World) -> None:
        """The route table has the scopes of the interface."""
        for route in route_table(world.core):
            assert route.scopes == expected_scopes(route), route.name

    @pytest.mark.parametrize("scope", [None, *TOKEN_SCOPES])
    async def test_a_route_needs_exactly_its_scope(self, world: World, scope: str | None) -> None:
        """Without the scope: 403 with the missing scope, for any path and body; with it: another status."""
        caller = await world.user(scopes=[] if scope is None else [scope], role="owner")
        for route in route_table(world.core):
            wanted = expected_scopes(route) or ()
            missing = missing_scopes(caller_scopes(scope), wanted)
            path = re.sub(r"\{\w+\}", "77", route.path)
            answer = await caller.request(
                route.method, path, content=b"{" if route.body or route.request_media_types else None,
                headers=POLL if route.streams else None,
            )  # fmt: skip
            if missing:
                error = assert_envelope(answer, 403, "FORBIDDEN", "PERMISSION_DENIED")
                assert error["info"] == {"missing": missing} | dict.fromkeys(route.error_info, 77)
                assert f'scope="{" ".join(missing)}"' in answer.headers["WWW-Authenticate"]
            else:
                nothing = "{" in route.path or route.name == "metrics"  # there are no metrics here
                nothing = nothing and route.name not in SAYS_THE_SAME
                expected = (
                    400
                    if route.body or route.page_statuses
                    else 404
                    if nothing
                    else 201
                    if route.request_media_types
                    else 200
                )
                assert answer.status_code == expected, route.name

    async def test_starting_and_following_a_run_needs_only_invoke(self, either: World) -> None:
        """The scope to start a run is enough to follow its stream."""
        ada, runner = await either.user(), await either.user("bob", scopes=["workflows:invoke"])
        number = await deployed(ada, chain(APPROVAL))
        started = await runner.post("/agent/v1/runs", json={"workflowId": number, "input": {}},
                                    headers={"Idempotency-Key": "r"})  # fmt: skip
        assert started.status_code == 200
        resumed = await runner.post("/agent/v1/runs/r/resume", json={"decision": "approve"})
        assert (resumed.status_code, '"kind":"done"' in resumed.text) == (200, True)
        assert_envelope(await runner.get("/agent/v1/runs/r"), 403, "FORBIDDEN", "PERMISSION_DENIED")


def caller_scopes(scope: str | None) -> set[str]:
    return set() if scope is None else {scope}


class TestAccess:
    """Hidden resources get the responses for unknown ones."""

    async def test_hidden_and_unknown_get_the_same_response(self, either: World) -> None:
        """Every route of a resource or run returns the same bytes for a hidden and an unknown one."""
        ada, eve = await either.user("ada"), await either.user("eve", role="owner")
        private = {"visibility": "private", "groupPermissions": {}, "sharedWith": []}
        await deployed(ada, chain(APPROVAL), accessConfig=private)
        await ada.post("/api/v1/skills", json={"name": "S", "accessConfig": private})
        body: Json = {"workflowId": 1, "input": {}}
        await ada.post("/agent/v1/runs", json=body, headers={"Idempotency-Key": "secret-run"})
        for route in route_table(either.core):
            if "{" not in route.path or route.name in SAYS_THE_SAME:
                continue
            hidden, never = [
                await ask(eve, route, route.path.replace("{id}", number).replace("{runId}", run))
                for number, run in (("1", "secret-run"), ("99", "never-a-run"))
            ]
            repeated = hidden.content.replace(b'"skillId":1}', b'"skillId":99}')  # the requested number
            assert repeated == never.content, route.name
            assert hidden.status_code == never.status_code == 404, route.name
        for number in (1, 99):
            answer = await eve.post("/agent/v1/runs", json=body | {"workflowId": number}, headers=POLL)
            assert_envelope(answer, 404, "NOT_FOUND", "NOT_FOUND")
        assert (await eve.get("/api/v1/workflows")).json()["workflows"] == []
        assert (await eve.get("/agent/v1/runs")).json()["runs"] == []
        assert (await eve.get("/agent/v1/interrupts")).json()["interrupts"] == []

    async def test_organizations_see_nothing_of_each_other(self, world: World) -> None:
        """A shared workflow of another organization is 404; so is its run, whose id is free here."""
        ada = await world.user()
        other = await world.core.directory.create_organization("Other")
        eve = await world.user("eve", org=other.uuid)
        await deployed(ada, chain(APPROVAL))
        key = POLL | {"Idempotency-Key": "r"}
        await ada.post("/agent/v1/runs", json={"workflowId": 1, "input": {}}, headers=key)
        for path in ("/api/v1/workflows/1", "/agent/v1/runs/r", "/agent/v1/runs/r/events"):
            assert_envelope(await eve.get(path), 404, "NOT_FOUND", "NOT_FOUND")
        await deployed(eve, chain(APPROVAL))
        own = await eve.post("/agent/v1/runs", json={"workflowId": 1, "input": {}}, headers=key)
        assert (own.status_code, own.json()["runId"]) == (200, "r")

    async def test_visible_but_not_manageable_is_403(self, world: World) -> None:
        """Use without manage can read, and its 403 has the reason."""
        group = await world.core.directory.create_group(world.org, "Clerks")
        ada = await world.user("ada")
        bob = await world.user("bob", groups=[group.id])
        permissions = {world.org: {"use": True, "manage": False}, group.id: {"use": True, "manage": True}}
        access = {"visibility": "shared", "groupPermissions": permissions, "sharedWith": []}
        await bob.post("/api/v1/workflows", json=flow(accessConfig=access))
        seen = (await ada.get("/api/v1/workflows/1")).json()
        assert (seen["canUse"], seen["canManage"], seen["manageDenial"]) == (True, False, "needs_group_manage")
        for method, path in (("PATCH", ""), ("DELETE", ""), ("POST", "/deploy"), ("GET", "?view=draft")):
            body: Any = {"name": "x"} if method == "PATCH" else {} if method == "POST" else None
            answer = await ada.request(method, f"/api/v1/workflows/1{path}", json=body)
            error = assert_envelope(answer, 403, "FORBIDDEN", "PERMISSION_DENIED")
            assert error["info"] == {"manageDenial": "needs_group_manage"}
        revoked = {**access, "groupPermissions": {world.org: {"use": True, "manage": False}}}
        refused = await bob.patch("/api/v1/workflows/1", json={"accessConfig": revoked})
        assert_envelope(refused, 422, "VALIDATION", "INVALID_ARGUMENT")


AGENT_INPUT: Json = {"threadId": "t", "runId": "r", "messages": [{"role": "user", "content": "m"}]}
BODIES: dict[str, Json] = {
    "delegations.patch": {"to": "bob"},
    "contextItems.patch": {"title": "N"}, "hooks.patch": {"isEnabled": False}, "runs.fork": {"before": "ask"},
    "policies.patch": {"name": "N"},
    "memories.create": {"memory": "m"}, "memories.patch": {"memory": "m"}, "memories.search": {"query": "q"},
    "moveRuns": {"all": True}, "propose": {"request": "Ask before"},
    "rollback": {"variationId": "v"}, "transferOwnership": {"userId": "ada"}, "createInterface": {"kind": "mcp"},
    "patchInterface": {"config": {}}, "chat.skill": {"message": "m"},
    "agUi.workflow": AGENT_INPUT, "agUi.skill": AGENT_INPUT,
}  # fmt: skip


async def ask(client: Any, route: Route, path: str) -> Any:
    """Call the route with an acceptable body."""
    body = {"name": "x"} if route.method == "PATCH" else {"decision": "approve"} if "resume" in path else {}
    body = BODIES.get(route.name) or BODIES.get(route.name.partition(".")[2]) or body
    headers = {"X-Request-Id": "same", **POLL}
    return await client.request(route.method, path, json=body if route.body else None, headers=headers)
