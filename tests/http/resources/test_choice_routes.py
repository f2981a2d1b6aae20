"""What an agent can be given, and the evaluation of expressions, over HTTP."""

import jsonschema_rs
import pytest
from clients import FORBIDDEN, World, assert_envelope

import wfcore
from wfcore.adapters.guardrails import GuardrailCatalog
from wfcore.adapters.http import app
from wfcore.ports.guardrails import Allowed, Verdict
from wfcore.testing import ScriptedModel

pytestmark = pytest.mark.anyio

EVALUATE = "/api/v1/expressions/evaluate"


class NoShouting:
    """Refuses capital letters.

    A second paragraph.
    """

    name = "no-shouting"

    def check(self, text: str) -> Verdict:
        return Allowed()


class TextModel(ScriptedModel):
    """A model that reads no images."""

    abilities = ("tools",)


class TestNodeTypes:
    """`GET /api/v1/node-types`."""

    async def test_each_type_has_its_schema_handles_and_texts(self, world: World) -> None:
        """The same for everybody."""
        found = {
            one["type"]: one for one in (await (await world.user("ann")).get("/api/v1/node-types")).json()["nodeTypes"]
        }
        assert list(found) == ["start", "action", "condition", "agent", "humanApproval"]
        assert {kind: [handle["handle"] for handle in one["handles"]] for kind, one in found.items()} == {
            "start": [None],
            "action": [None, "error"],
            "condition": ["else"],
            "agent": [None, "error"],
            "humanApproval": ["approved", "denied", "expired"],
        }
        assert {kind for kind, one in found.items() if one["handlesFrom"]} == {"condition"}
        for one in found.values():
            assert one["title"]
            assert one["description"]
            assert all(handle["description"] for handle in one["handles"])

    async def test_a_schema_stands_alone(self, world: World) -> None:
        """It validates data without anything else: unknown keys of `data` are allowed, those of `retry` are not."""
        listed = (await (await world.user("ann")).get("/api/v1/node-types")).json()["nodeTypes"]
        (schema,) = [one["dataSchema"] for one in listed if one["type"] == "action"]
        valid = jsonschema_rs.validator_for(schema).is_valid
        assert valid({"toolId": "t", "retry": {"maxAttempts": 3}, "colour": "red"})
        assert not valid({"toolId": "t", "retry": {"attempts": 3}})
        assert not valid({"params": {}})

    async def test_it_has_the_limits_of_a_graph(self, world: World) -> None:
        """Those that the server keeps to: of the settings."""
        ann = await world.user("ann")
        most = (await ann.get("/api/v1/node-types")).json()["limits"]
        assert most == {"nodes": 5_000, "edges": 20_000}
        nodes = [{"id": f"n{number}", "type": "action"} for number in range(most["nodes"])]
        for more, status in ((0, 201), (1, 422)):
            structure = {"nodes": [{"id": "start", "type": "start"}, *nodes[: len(nodes) - 1 + more]], "edges": []}
            body = {"name": f"Large {more}", "type": "workflow", "workflowStructure": structure}
            assert (await ann.post("/api/v1/workflows", json=body)).status_code == status

    async def test_it_has_an_entity_tag(self, world: World) -> None:
        """304 without a body while nothing has changed."""
        ann = await world.user("ann")
        first = await ann.get("/api/v1/node-types")
        again = await ann.get("/api/v1/node-types", headers={"If-None-Match": first.headers["ETag"]})
        assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", first.headers["ETag"])
        other = await ann.get("/api/v1/node-types", headers={"If-None-Match": '"other"'})
        assert (other.status_code, other.json()) == (200, first.json())


class TestChoices:
    """`GET /api/v1/models` and `GET /api/v1/guardrails`."""

    async def test_models_have_names_and_abilities(self, world: World) -> None:
        """The default one is marked; a provider that declares nothing has every ability."""
        found = (await (await world.user("ann")).get("/api/v1/models")).json()
        assert [(one["name"], one["isDefault"]) for one in found["models"]] == [("default", True)]

    async def test_a_model_declares_its_abilities(self) -> None:
        """In one order, whatever order the provider has; by name."""
        models = {"small": TextModel(), "big": ScriptedModel()}
        settings = wfcore.Settings(default_model="small")
        async with wfcore.open("sqlite://", models=models, settings=settings, worker=False) as core:
            org = await core.directory.create_organization("Acme")
            me = core.principal(org.uuid, "u1")
            assert app(core)
            from wfcore.runtime.tools.choices import Choices

            assert [one.to_wire() for one in await Choices(core.ports).models(me)] == [
                {"name": "big", "isDefault": False, "abilities": ["tools", "images", "outputSchema"]},
                {"name": "small", "isDefault": True, "abilities": ["tools"]},
            ]

    async def test_guardrails_have_schemas_of_their_options(self, world: World) -> None:
        """A reference that matches the schema is accepted by the catalog itself, and another one is not."""
        found = (await (await world.user("ann")).get("/api/v1/guardrails")).json()["guardrails"]
        schemas = {one["name"]: one["optionsSchema"] for one in found}
        assert sorted(schemas) == ["block-patterns", "json-schema", "redact-emails", "redact-secrets"]
        assert schemas["redact-emails"] is None
        assert not any(one["everywhere"] for one in found)
        for options in ({"patterns": ["a+"]}, {"patterns": []}, {"patterns": [""]}, {}, {"patterns": ["a"], "x": 1}):
            valid = jsonschema_rs.validator_for(schemas["block-patterns"]).is_valid(options)
            assert valid == (not GuardrailCatalog().issues([{"name": "block-patterns", **options}], "g"))

    def test_a_guardrail_of_the_program_says_what_it_does(self) -> None:
        """The first line of its docstring; it checks every agent."""
        (own,) = [one for one in GuardrailCatalog([NoShouting()]).described() if one.everywhere]
        assert (own.name, own.description) == ("no-shouting", "Refuses capital letters.")

    async def test_they_need_the_scope(self, world: World) -> None:
        """403 with the missing scope."""
        ann = await world.user("ann", scopes=["tokens:write"])
        for path in ("/api/v1/node-types", "/api/v1/models", "/api/v1/guardrails"):
            refused = assert_envelope(await ann.get(path), *FORBIDDEN)
            assert refused["info"] == {"missing": ["workflows:read"]}

    async def test_tools_have_output_schemas_and_groups(self, world: World) -> None:
        """A schema from the annotation of a function, none for one without; the group from the id."""
        tools = (await (await world.user("ann")).get("/api/v1/tools")).json()["tools"]
        by_id = {one["id"]: (one["group"], one["outputSchema"]) for one in tools}
        assert by_id["core.http"][0] == "core"
        assert by_id["core.http"][1]["required"] == ["status", "headers", "body"]
        assert by_id["core.transform"] == ("core", None)
        assert by_id["count"][0] is None


class TestExpressions:
    """`POST /api/v1/expressions/evaluate`."""

    @pytest.mark.parametrize(
        ("body", "value"),
        [
            ({"source": "input.a + 1", "values": {"input": {"a": 2}}}, 3),
            ({"source": "1 == 1"}, True),
            ({"source": "nodes.x.output", "values": {"nodes": {"x": {"output": None}}}}, None),
            ({"template": "a {{ input.a }}", "values": {"input": {"a": "{{ 1 }}"}}}, "a {{ 1 }}"),
            ({"template": {"n": ["{{ item }}"], "{{ 1 }}": 2}, "values": {"item": [1]}}, {"n": [[1]], "{{ 1 }}": 2}),
            ({"template": None}, None),
        ],
    )
    async def test_the_value(self, world: World, body: object, value: object) -> None:
        """As a run computes it: a rendered value is data."""
        answer = await (await world.user("ann")).post(EVALUATE, json=body)
        assert (answer.status_code, answer.json()) == (200, {"value": value})

    @pytest.mark.parametrize(
        ("body", "line", "column"),
        [
            ({"source": "1 +\n  * 2"}, 2, 3),
            ({"source": "  nope"}, 1, 3),
            ({"source": "'open"}, 1, 1),
            ({"template": "hi\nyou {{ 1 + nope }}"}, 2, 12),
            ({"template": "x {{ 1"}, 1, 3),
            ({"source": "input.a"}, None, None),
            ({"source": "1 / 0"}, None, None),
            ({"source": "x" * 3_000}, None, None),
        ],
    )
    async def test_an_error_has_its_position(
        self, world: World, body: object, line: int | None, column: int | None
    ) -> None:
        """200 with the message, and line and column in the text of the caller where they are known."""
        answer = await (await world.user("ann")).post(EVALUATE, json=body)
        found = answer.json()["error"]
        assert (answer.status_code, found["line"], found["column"]) == (200, line, column)
        assert found["message"]

    async def test_it_is_bounded(self, world: World) -> None:
        """An expression of too many steps ends as one of a run does."""
        nested = "input.l.all(a, input.l.all(b, input.l.all(c, a + b + c >= 0)))"
        body = {"source": nested, "values": {"input": {"l": list(range(200))}}}
        answer = await (await world.user("ann")).post(EVALUATE, json=body)
        assert "too many steps" in answer.json()["error"]["message"]

    @pytest.mark.parametrize(
        ("body", "status", "path", "rule"),
        [
            ({}, 400, "source", "required"),
            ({"source": "1", "template": "1"}, 422, "template", "exclusive"),
            ({"source": 1}, 400, "source", "type"),
            ({"source": "1", "values": {"secrets": 1}}, 422, "values.secrets", "unknown"),
            ({"source": "1", "values": []}, 400, "values", "type"),
            ({"source": "1", "more": 1}, 422, "more", "unknown"),
        ],
    )
    async def test_another_body_is_refused(self, world: World, body: object, status: int, path: str, rule: str) -> None:
        """400 or 422 that names the field."""
        answer = await (await world.user("ann")).post(EVALUATE, json=body)
        [fault] = answer.json()["error"]["info"]["errors"]
        assert (answer.status_code, fault["path"], fault["rule"]) == (status, path, rule)
