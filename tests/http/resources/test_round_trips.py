"""What GET shows, POST takes: a read without the fields that the server sets is a create body of an equal resource."""

from collections.abc import Mapping
from random import Random
from typing import Any

import attrs
import httpx
import pytest
from clients import Json, World, deployed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wfcore.adapters.http.route_table import route_table
from wfcore.api.connections import CreateConnection
from wfcore.api.contexts import CreateContextItem
from wfcore.api.hooks import CreateHook
from wfcore.api.management import CreateInterface
from wfcore.api.memories import CreateMemory
from wfcore.api.organization import CreateDelegation, CreateGroup, CreateMember, CreatePolicy
from wfcore.api.resources import CreateSkill, CreateWorkflow, schema_components
from wfcore.domain.json.values import wire_name
from wfcore.testing.graphs import deployable_graphs

pytestmark = pytest.mark.anyio

NAMES = st.sampled_from(["Refunds", "a", "名前", "x" * 200])
TEXTS = st.sampled_from(["", "Be brief.", "two\nlines", "\u2028 é"])
FREE = st.dictionaries(st.sampled_from(["a", "B", "é"]), st.one_of(st.integers(-9, 9), TEXTS, st.none()), max_size=2)
ACCESS = st.sampled_from([
    {"visibility": "private", "groupPermissions": {}, "sharedWith": []},
    {"visibility": "private", "groupPermissions": {}, "sharedWith": [{"email": "eve@x.org"}]},
    {"visibility": "private"},
])  # fmt: skip
TRIGGERS = st.sampled_from([
    None, {"trigger_type": "manual", "note": 1}, {"trigger_type": "webhook"},
    {"trigger_type": "schedule", "schedule": {"frequency": "daily", "timezone": "UTC", "time_of_day": "09:30"}},
    {"trigger_type": "schedule", "note": None, "schedule": {
        "frequency": "custom", "timezone": "UTC", "cron_expressions": ["0 9 * * *"], "cron_description": "At nine"}},
])  # fmt: skip
SELECTIONS = st.sampled_from([
    {"agents": [{"agent_id": 1, "priority_order": 1}, {"agent_id": 1, "priority_order": 2, "role": "Editor"}]},
    {"agents": [{"agent_id": 1, "priority_order": 1}], "modelSettings": {"contextWindow": 9_000}, "note": None},
])  # fmt: skip
CASES = st.just([{
    "id": "a", "input": {"message": "hi", "userContext": {"name": "Eve"}},
    "checks": [{"kind": "matches", "pattern": "h"}],
}])  # fmt: skip


def bodies(required: dict[str, Any], **optional: Any) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries(required, optional=optional)


CREATES: dict[str, tuple[str, type, st.SearchStrategy[Json]]] = {
    "workflows": ("/api/v1/workflows", CreateWorkflow, bodies(
        {"name": NAMES, "type": st.sampled_from(["workflow", "task"])}, description=TEXTS, accessConfig=ACCESS,
        trigger=TRIGGERS, workflowStructure=deployable_graphs(max_nodes=5))),
    "selections": ("/api/v1/workflows", CreateWorkflow, bodies(
        {"name": NAMES, "type": st.just("workflow"), "agentSelection": SELECTIONS})),
    "skills": ("/api/v1/skills", CreateSkill, bodies(
        {"name": NAMES}, description=TEXTS, accessConfig=ACCESS, expectedOutput=TEXTS,
        instructions=st.lists(TEXTS, max_size=2), budget=st.just({"maxTokens": 5}), toolset=st.just(
            {"core.http": {"enabled": True, "requiresApproval": True}, "core.wait": {"enabled": False}}),
        evaluations=CASES, interfaces=st.just([{"kind": "mcp"}, {"kind": "chatapp", "config": {"theme": None}}]))),
    "groups": ("/api/v1/groups", CreateGroup, bodies({"name": NAMES})),
    "members": ("/api/v1/members", CreateMember, bodies(
        {"userId": st.just("zoe")}, email=st.sampled_from(["Zoe@X.org", None]), name=NAMES,
        role=st.sampled_from(["member", "admin"]))),
    "contextItems": ("/api/v1/context-items", CreateContextItem, bodies(
        {"title": NAMES, "content": st.sampled_from(["30 days", "\u2028 é"])})),
    "connections": ("/api/v1/connections", CreateConnection, bodies(
        {"name": NAMES, "provider": st.just("shop"), "kind": st.just("mcp"),
         "config": st.just({"url": "https://shop.example.org/mcp"})}, status=st.just("disabled"))),
    "hooks": ("/api/v1/hooks", CreateHook, bodies(
        {"url": st.just("https://crm.example.org/hook"), "events": st.sampled_from(
            [["run.failed"], ["interrupt.opened", "interrupt.reminded"]])},
        isEnabled=st.booleans(), filter=st.sampled_from([{}, {"workflowId": 1}, {"workflowId": None}, None]))),
    "delegations": ("/api/v1/delegations", CreateDelegation, bodies(
        {"to": st.just("eve")}, until=st.sampled_from(["2099-01-01T02:00:00+02:00", None]),
        workflowIds=st.sampled_from([[2, 1], None]), **{"from": st.just("eve-2")})),
    "policies": ("/api/v1/policies", CreatePolicy, bodies(
        {"name": NAMES, "when": st.just({"tool": "core.*"}), "require": st.sampled_from(
            [{"timeout": True}, {"retry": True}])},
        severity=st.sampled_from(["error", "warning"]))),
    "memories": ("/api/v1/skills/1/memories", CreateMemory, bodies(
        {"memory": st.sampled_from(["green tea", "é"])}, metadata=FREE)),
    "interfaces": ("/api/v1/workflows/1/interfaces", CreateInterface, bodies(
        {"kind": st.sampled_from(["chatapp", "mcp"])}, config=FREE)),
}  # fmt: skip
"""Where a resource is created, the shape of its create body, and bodies."""

BODIES = st.fixed_dictionaries({name: bodies for name, (_, _, bodies) in CREATES.items()})
"""A body of each resource. A test that draws on the event loop would end that if hypothesis stops the draw."""

ELSEWHERE = {
    "agents.create": "the alias of workflows", "tokens.create": "a token has its secret once",
    "uploads.create": "bytes, not a resource",
}  # fmt: skip


async def owner(world: World) -> httpx.AsyncClient:
    ada = await world.user(role="owner")
    for name in ("eve", "eve-2"):
        await world.user(name)
    for _ in range(2):
        await deployed(ada, {"nodes": [{"id": "s", "type": "start"}], "edges": []})
    assert (await ada.post("/api/v1/skills", json={"name": "S"})).status_code == 201
    return ada


def create_body(read: Json, shape: type) -> Json:
    """What was read, as a create body: the keys of `variation` stand beside the others; those of the server go.

    So does the slug, which only one resource has.
    """
    known = {wire_name(field) for field in attrs.fields(shape)} - {"organizationId", "slug"}
    return {key: value for key, value in {**read, **(read.get("variation") or {})}.items() if key in known}


def without_times(body: Json) -> Json:
    """The body without when somebody was added to an access configuration, which the server sets."""
    access = body.get("accessConfig")
    if access is None:
        return body
    shared = [{key: value for key, value in one.items() if key != "addedAt"} for one in access["sharedWith"]]
    return {**body, "accessConfig": {**access, "sharedWith": shared}}


async def read(ada: httpx.AsyncClient, place: str) -> Json:
    answer = await ada.get(place, params={"view": "draft"} if "/workflows/" in place or "/skills/" in place else None)
    return answer.json() if answer.status_code == 200 else (await ada.get(place)).json()


@pytest.mark.parametrize("name", CREATES)
@given(drawn=BODIES)
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
async def test_what_was_read_can_be_created(world: World, name: str, drawn: Mapping[str, Json]) -> None:
    """The second one shows the same, apart from what the server sets; so does a third one, made from the second."""
    base, shape, _ = CREATES[name]
    ada = await owner(world)
    sent, shown = drawn[name], list[Json]()
    for _ in range(3):
        made = await ada.post(base, json=sent)
        assert made.status_code == 201, (sent, made.text)
        sent = create_body(await read(ada, made.headers["Location"]), shape)
        shown.append(without_times(sent))
        assert (await ada.delete(made.headers["Location"])).status_code == 200
    assert shown[0] == shown[1] == shown[2]


SCHEMAS = schema_components(CreateConnection, CreateContextItem, CreateHook, CreateInterface, CreateMemory,
                            CreateDelegation, CreateGroup, CreateMember, CreatePolicy)  # fmt: skip
VERBATIM = {"data", "value", "schema"}
"""The fields in which null is a value: the `data` of a node, and what an evaluation compares with."""


def with_nulls(schema: Any, tree: Any, chosen: Random) -> Any:
    """The tree with null for any fields that the document calls optional and that are absent, at any depth."""
    if "$ref" in schema:
        return with_nulls(SCHEMAS[schema["$ref"].rpartition("/")[2]], tree, chosen)
    for one in schema.get("anyOf", ()):
        if one != {"type": "null"} and is_of(one, tree):
            return with_nulls(one, tree, chosen)
    if isinstance(tree, list) and "items" in schema:
        return [with_nulls(schema["items"], each, chosen) for each in tree]
    if not isinstance(tree, dict):
        return tree
    fields, others = schema.get("properties", {}), schema.get("additionalProperties")
    found = {key: with_nulls(fields.get(key, others or {}), each, chosen) if key not in VERBATIM else each
             for key, each in tree.items()}  # fmt: skip
    absent = sorted(fields.keys() - tree.keys() - set(schema.get("required", ())) - VERBATIM - {"slug"})
    return found | {key: None for key in absent if chosen.random() < 0.7}


def is_of(schema: Any, tree: Any) -> bool:
    """Whether the tree has the values by which the document tells alternatives apart."""
    if "$ref" in schema:
        return is_of(SCHEMAS[schema["$ref"].rpartition("/")[2]], tree)
    named = {key: field["enum"] for key, field in schema.get("properties", {}).items() if "enum" in field}
    return not isinstance(tree, dict) or all(tree.get(key) in values for key, values in named.items())


NAMED = st.sampled_from([*CREATES]).flatmap(lambda name: st.tuples(st.just(name), CREATES[name][2]))


@given(NAMED, st.randoms(use_true_random=True))
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
async def test_null_for_an_absent_field_changes_nothing(world: World, named: tuple[str, Json], chosen: Random) -> None:
    """Whatever optional fields are null, at any depth, the same is stored as without them."""
    name, sent = named
    base, shape, _ = CREATES[name]
    ada, shown = await owner(world), list[Json]()
    for body in (sent, with_nulls(SCHEMAS[shape.__name__], sent, chosen)):
        made = await ada.post(base, json=body)
        assert made.status_code == 201, (body, made.text)
        shown.append(without_times(create_body(await read(ada, made.headers["Location"]), shape)))
        assert (await ada.delete(made.headers["Location"])).status_code == 200
    assert shown[0] == shown[1]


async def test_every_resource_is_here(world: World) -> None:
    """Each route that creates a resource has bodies above, or a reason why it has none."""
    creates = {route.name for route in route_table(world.core)
               if route.status == 201 and not route.name.startswith("agents.")}  # fmt: skip
    routed = CREATES.keys() - {"interfaces", "selections"}
    here = {f"{name}.create" for name in routed} | {"workflows.createInterface"}
    assert creates - here <= ELSEWHERE.keys()
    assert here <= creates
