"""Composing contexts over HTTP (interface, functional areas: context composition without a model call)."""

from typing import Any

import jsonschema_rs
import pytest
from clients import Json, World, assert_envelope

from wfcore.adapters.http.openapi.document import document
from wfcore.adapters.http.route_table import route_table

pytestmark = pytest.mark.anyio

SKILL = "/api/v1/skills/1/context"
ASSISTANT = "/api/v1/assistant/context"


async def scope(client: Any, **fields: Any) -> Json:
    """A new skill, deployed."""
    body = {"name": "Refunds", "instructions": ["Be kind."], **fields}
    made = (await client.post("/api/v1/skills", json=body)).json()
    return dict((await client.post(f"/api/v1/skills/{made['id']}/deploy", json={})).json())


def schema_of(world: World) -> Any:
    described = document(route_table(world.core))
    wanted = {"$ref": "#/components/schemas/ComposedContext", "components": described["components"]}
    return jsonschema_rs.validator_for(wanted)


async def test_a_skills_context(either: World) -> None:
    """The messages and tools of a run, their sources, and what is left out; the same each time."""
    ada = await either.user()
    await scope(ada, toolset={"count": {"enabled": True}, "core.workflow": {"enabled": True}})
    await ada.post("/api/v1/context-items", json={"title": "Rules", "content": "Within 30 days."})
    answer = await ada.post(SKILL, json={"message": "My money?", "sessionId": "s", "instructions": "In Latin."})
    assert answer.status_code == 200
    context = answer.json()
    system, human = context["messages"]
    assert system["content"].startswith("Be kind.\nIn Latin.\n")
    assert "Within 30 days." in system["content"]
    assert human == {"type": "human", "content": "My money?"}
    assert [tool["name"] for tool in context["tools"]] == ["count"]
    assert context["leftOut"] == [
        {"source": "tools", "ref": "core.workflow", "why": "there is no such tool that agents can call"}
    ]
    assert context["tokenEstimate"] == sum(segment["tokens"] for segment in context["segments"])
    schema_of(either).validate(context)
    again = await ada.post(SKILL, json={"message": "My money?", "sessionId": "s", "instructions": "In Latin."})
    assert again.json() == context


async def test_the_assistants_context(either: World) -> None:
    """Skills and workflows that the caller may use are its tools."""
    ada = await either.user()
    await scope(ada)
    answer = await ada.post(ASSISTANT, json={"message": "Hello"})
    assert answer.status_code == 200
    assert [(tool["toolId"], tool["name"]) for tool in answer.json()["tools"]] == [("skill:1", "skill_refunds")]
    schema_of(either).validate(answer.json())


@pytest.mark.parametrize(
    ("body", "path", "rule", "status"),
    [
        ({"message": 1}, "message", "type", 400), ({"view": "old"}, "view", "enum", 422),
        ({"mesage": "x"}, "mesage", "unknown", 422), ({"sessionId": ""}, "sessionId", "minLength", 422),
        ({"config": {"modelSettings": {"contextWindow": 0}}}, "config.modelSettings.contextWindow", "minimum", 422),
        ({"config": {"toolset": {"count": {"enabled": True}}}}, "config.toolset.count.enabled", "widening", 422),
        ({"config": {"modelSettings": {"contextWindow": 2}}}, "modelSettings.contextWindow", "contextWindow", 422),
        ({"config": {"contextSelections": [{"id": "gone"}]}}, "config.contextSelections[0].id", "reference", 422),
        ({"config": {"connectionSet": [{"connectionId": "gone"}]}}, "config.connectionSet[0].connectionId",
         "reference", 422),
        ({"config": {"connectionAllModeIds": ["none"]}}, "config.connectionAllModeIds[0]", "reference", 422),
    ],
)  # fmt: skip
async def test_bodies_are_strict(world: World, body: Json, path: str, rule: str, status: int) -> None:
    """A wrong type, an unknown key, a value out of range and a widening config are refused with their paths."""
    ada = await world.user()
    await scope(ada)
    answer = await ada.post(SKILL, json=body)
    assert answer.status_code == status
    errors = answer.json()["error"]["info"]["errors"]
    assert [(one["path"], one["rule"]) for one in errors] == [(path, rule)]


async def test_the_assistant_has_no_view(world: World) -> None:
    """Keys without an effect are refused: the assistant has neither variations nor a node's instructions.

    So is a context item that does not exist.
    """
    ada = await world.user()
    for body in ({"view": "draft"}, {"instructions": "x"}, {"config": {"contextSelections": [{"id": "gone"}]}}):
        assert (await ada.post(ASSISTANT, json=body)).status_code == 422


async def test_access_to_contexts(world: World) -> None:
    """Hidden and missing get the same 404; never deployed is 409; the 403 of a token names the missing scope."""
    ada = await world.user()
    await ada.post("/api/v1/skills", json={"name": "s", "accessConfig": {"visibility": "private"}})
    bob = await world.user("bob")
    hidden, missing = await bob.post(SKILL, json={}), await bob.post("/api/v1/skills/99/context", json={})
    for answer in (hidden, missing):
        assert_envelope(answer, 404, "NOT_FOUND", "NOT_FOUND")
    assert hidden.json()["error"]["message"] == missing.json()["error"]["message"]
    undeployed = await ada.post(SKILL, json={})
    assert_envelope(undeployed, 409, "CONFLICT", "ALREADY_EXISTS")
    assert undeployed.json()["error"]["info"]["reason"] == "not_deployed"
    assert (await ada.post(SKILL, json={"view": "draft"})).status_code == 200
    eve = await world.user("eve", scopes=["workflows:invoke"])
    for path, lacking in ((SKILL, ["skills:read"]), (ASSISTANT, ["skills:read", "workflows:read"])):
        refused = await eve.post(path, json={})
        assert_envelope(refused, 403, "FORBIDDEN", "PERMISSION_DENIED")
        assert refused.json()["error"]["info"]["missing"] == lacking


async def test_nothing_crosses_organizations(world: World) -> None:
    """Another organization's skill of the same number is another skill."""
    ada = await world.user()
    await scope(ada, instructions=["canary"])
    other = await world.core.directory.create_organization("Other")
    eve = await world.user("eve", org=other.uuid)
    assert (await eve.post(SKILL, json={})).status_code == 404
    assert "canary" not in (await eve.post(ASSISTANT, json={})).text
