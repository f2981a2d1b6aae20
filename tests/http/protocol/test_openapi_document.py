"""The OpenAPI document: every route, every reference, every error (interface, Versioning 1)."""

import json
import re
import threading
from collections.abc import Iterator, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import httpx
import jsonschema_rs
import pytest
from clients import APPROVAL, POLL, Json, World, chain, deployed

import wfcore.api
from wfcore.adapters.http import app
from wfcore.adapters.http.core.route import Route
from wfcore.adapters.http.openapi.document import document
from wfcore.adapters.http.openapi.examples import PARAMETERS, REQUESTS, RESPONSES
from wfcore.adapters.http.route_table import route_table
from wfcore.domain.json.codec import check, component_name
from wfcore.domain.json.values import shape_of
from wfcore.domain.run.events import EventKind

pytestmark = pytest.mark.anyio


@pytest.fixture
def described(world: World) -> Json:
    return document(route_table(world.core))


def values(tree: Any) -> Iterator[Any]:
    yield tree
    children = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    for child in children:
        yield from values(child)


def closed(tree: Any) -> Any:
    """The schemas, whose objects with described properties can have no others."""
    if isinstance(tree, list):
        return [closed(one) for one in tree]
    if not isinstance(tree, dict):
        return tree
    known = {name: closed(value) for name, value in tree.items()}
    is_described = isinstance(tree.get("properties"), dict) and tree.get("type") == "object"
    return {"additionalProperties": False, **known} if is_described else known


AG_UI = "text/event-stream; profile=ag-ui"


def streamed(content: Json) -> tuple[str, ...]:
    """The names of the shapes of the events of a stream."""
    schema = content["text/event-stream"]["schema"]["contentSchema"]
    return tuple(one["$ref"].rpartition("/")[2] for one in schema.get("anyOf", [schema]))


class TestDocument:
    """OpenAPI 3.1."""

    async def test_it_needs_no_credential(self, either: World) -> None:
        """`GET /openapi.json` needs no credential and has version 1.0.0."""
        answer = await (await either.client()).get("/openapi.json")
        assert answer.status_code == 200
        assert answer.json() == document(route_table(either.core)) | {"servers": [{"url": "/"}]}
        assert answer.json()["openapi"].startswith("3.1.")
        assert answer.json()["info"]["version"] == "1.0.0"

    async def test_it_is_made_when_it_is_first_read(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """An application is made without it, and it is made once, off the event loop."""
        threads = list[int]()

        def counted(routes: Sequence[Route]) -> dict[str, Any]:
            threads.append(threading.get_ident())
            return document(routes)

        monkeypatch.setattr("wfcore.adapters.http.route_table.document", counted)
        mounted = app(world.core)
        assert threads == []
        transport = httpx.ASGITransport(mounted)
        async with httpx.AsyncClient(transport=transport, base_url="http://wfcore", trust_env=False) as visitor:
            first, second = [(await visitor.get("/openapi.json")).json() for _ in range(2)]
        assert first == second
        assert len(threads) == 1
        assert threads[0] != threading.get_ident()

    def test_every_route_is_described_once(self, described: Json, world: World) -> None:
        """Paths and methods are those of the table, with an id of its own each."""
        routes = route_table(world.core)
        found = {(path, method.upper()) for path, item in described["paths"].items() for method in item}
        assert found == {(route.path, route.method) for route in routes}
        ids = [operation["operationId"] for item in described["paths"].values() for operation in item.values()]
        assert len(ids) == len(set(ids)) == len(routes)

    def test_every_shape_has_its_own_component_name(self) -> None:
        """The suffix `Dto` is left out of component names, so a `Dto` must not replace another shape."""
        modules = [import_module(f"wfcore.api.{module.name}") for module in iter_modules(wfcore.api.__path__)]
        shapes = {shape for module in modules for shape in vars(module).values() if isinstance(shape, type)}
        named = [component_name(shape) for shape in shapes if shape.__module__.startswith("wfcore.")]
        assert len(named) == len(set(named)) > 100

    def test_every_reference_resolves(self, described: Json) -> None:
        """Every `$ref` resolves, and every schema of a route is a valid JSON Schema."""
        references = {value["$ref"] for value in values(described) if isinstance(value, dict) and "$ref" in value}
        for reference in references:
            place = described
            for step in reference.removeprefix("#/").split("/"):
                place = place[step]
        assert len(references) > 20
        for schema in described["components"]["schemas"].values():
            jsonschema_rs.meta.validate(schema)

    def test_every_operation_is_complete(self, described: Json) -> None:
        """Each has path parameters, request bodies, success, errors and security."""
        for path, item in described["paths"].items():
            for method, operation in item.items():
                named = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
                assert named == set(re.findall(r"\{(\w+)\}", path, re.ASCII)), path
                assert all(p["required"] for p in operation["parameters"] if p["in"] == "path")
                assert ("requestBody" in operation) == (method in ("post", "patch", "put")), path
                assert any(status[0] in "23" for status in operation["responses"])
                assert {"405", "500"} <= operation["responses"].keys()
                if operation["security"]:
                    assert {"400", "401", "403", "404"} <= operation["responses"].keys()
                if "requestBody" in operation:
                    assert {"408", "413", "422"} <= operation["responses"].keys()
                for response in operation["responses"].values():
                    assert "$ref" in response or {"description", "content"} <= response.keys()

    def test_every_operation_has_a_tag_and_a_description(self, described: Json) -> None:
        """One tag of the document, and what the docstring of the use case says; the scopes stand at its end."""
        tags = {tag["name"] for tag in described["tags"]}
        for path, item in described["paths"].items():
            for operation in item.values():
                assert set(operation["tags"]) <= tags, path
                assert len(operation["tags"]) == 1
                assert operation["description"], path
        create = described["paths"]["/api/v1/workflows"]["post"]
        assert create["description"].startswith("Create a workflow in state `draft`")
        assert create["description"].endswith("Needs the token scopes `workflows:write`.")

    def test_streams_name_the_shape_of_their_events(self, described: Json) -> None:
        """The event of a run is the union of the events of all kinds, by `kind`; a change has a shape of its own."""
        schemas = described["components"]["schemas"]
        union = schemas["Event"]
        mapping = union["discriminator"]["mapping"]
        assert (union["discriminator"]["propertyName"], set(mapping)) == ("kind", {str(kind) for kind in EventKind})
        assert [one["$ref"] for one in union["oneOf"]] == list(mapping.values())
        for kind, ref in mapping.items():
            assert schemas[ref.rpartition("/")[2]]["properties"]["kind"] == {"enum": [kind]}
        named = {
            path: streamed(answer["content"])
            for path, operations in described["paths"].items()
            for operation in operations.values()
            if "text/event-stream" in (answer := operation["responses"].get("200", {})).get("content", {})
        }
        assert named.pop("/api/v1/changes") == ("Change",)
        assert named.pop("/interfaces/mcp/{interfaceId}") == ("McpMessage", "McpReply")
        of_agents = {named.pop(f"/agent/v1/ag-ui/{kind}/{{id}}") for kind in ("workflows", "skills")}
        assert (of_agents, set(named.values())) == ({("AgUiEvent",)}, {("Event",)})

    def test_the_limit_of_the_memory_list_is_deprecated(self, described: Json) -> None:
        """Only that parameter."""
        marked = [
            (path, parameter["name"])
            for path, item in described["paths"].items()
            for operation in item.values()
            for parameter in operation["parameters"]
            if parameter.get("deprecated")
        ]
        assert marked == [("/api/v1/skills/{id}/memories", "limit")]

    def test_a_conflict_of_a_stream_is_an_event_too(self, described: Json) -> None:
        """A reused key is refused on the stream that the client asked for."""
        for path in ("/agent/v1/runs", "/agent/v1/runs/{runId}/resume", "/agent/v1/skills/{id}/chat"):
            responses = described["paths"][path]["post"]["responses"]
            assert responses["409"]["content"].keys() == {"application/json", "text/event-stream", AG_UI}

    def test_reads_by_id_are_conditional(self, described: Json) -> None:
        """Each lists `If-None-Match` and 304."""
        for path, item in described["paths"].items():
            read = item.get("get", {"security": []})
            if path.endswith("}") and read["security"]:
                assert "304" in read["responses"], path
                assert "If-None-Match" in {parameter["name"] for parameter in read["parameters"]}

    def test_the_alias_is_deprecated_and_nothing_else(self, described: Json) -> None:
        """Every operation below `/api/v1/agents` is marked, with the scopes of its successor."""
        for path, item in described["paths"].items():
            for method, operation in item.items():
                assert operation.get("deprecated", False) == path.startswith("/api/v1/agents")
                successor = described["paths"][path.replace("/agents", "/workflows")][method]
                assert operation["security"] == successor["security"]


class TestExamples:
    """The examples of the document are valid."""

    @pytest.mark.parametrize(
        ("shape", "field", "says"),
        [(shape, field, "without an effect") for shape, field in (
            ("CreateRun", "experimentalFeatures"), ("RunConfig", "experimentalFeatures"),
            ("RunConfig", "composerFileOffload"), ("Action", "runtimeScope"),
        )]
        + [(shape, "sessionId", "only selects the thread") for shape in ("CreateRun", "ResumeRun", "Chat", "RunAction")]
        + [("RunConfig", "strategies", "Not supported")],
    )  # fmt: skip
    def test_fields_that_are_only_data_say_so(self, described: Json, shape: str, field: str, says: str) -> None:
        """What docs/reference/status.md lists as carried verbatim, and what is refused."""
        assert says in described["components"]["schemas"][shape]["properties"][field]["description"]

    def test_every_request_body_has_a_valid_example(self, described: Json, world: World) -> None:
        """Each body's shape has an example that its own check accepts."""
        for route in route_table(world.core):
            if route.body is not None:
                (example,) = described["components"]["schemas"][route.body.__name__]["examples"]
                assert check(route.body, example) == [], route.name

    def test_every_example_matches_its_schema(self, described: Json) -> None:
        """Examples of bodies, responses and path parameters validate, and each belongs to a shape of the document."""
        components = described["components"]
        for name, example in {**REQUESTS, **RESPONSES}.items():
            schema = {"$ref": f"#/components/schemas/{name}", "components": components}
            jsonschema_rs.validate(schema, example)
        shown = {p["name"]: p for p in values(described) if isinstance(p, dict) and p.get("in") == "path"}
        assert PARAMETERS.keys() <= shown.keys()
        for name, example in PARAMETERS.items():
            jsonschema_rs.validate(shown[name]["schema"], example)


class TestAnswers:
    """Responses match the document."""

    async def test_responses_match_their_schemas(self, world: World, described: Json) -> None:
        """Responses of the routes validate against the document's schema for their status."""
        ada = await world.user()
        await deployed(ada, chain(APPROVAL))
        body = {"workflowId": 1, "input": {}, "runId": "r"}
        calls: list[tuple[str, str, Json | None]] = [
            ("POST", "/api/v1/skills", {"name": "S"}), ("GET", "/api/v1/skills/{id}", None),
            ("POST", "/api/v1/skills/{id}/memories", {"memory": "m"}), ("GET", "/api/v1/skills/{id}/memories", None),
            ("POST", "/api/v1/skills/{id}/memories/search", {"query": "m"}),
            ("POST", "/agent/v1/runs", body), ("GET", "/api/v1/workflows", None), ("GET", "/api/v1/skills", None),
            ("GET", "/api/v1/workflows/{id}", None), ("GET", "/agent/v1/runs", None), ("GET", "/api/v1/me", None),
            ("GET", "/agent/v1/runs/{runId}", None), ("GET", "/agent/v1/runs/{runId}/events", None),
            ("GET", "/agent/v1/interrupts", None), ("POST", "/api/v1/workflows/validate", {"name": "x"}),
            ("POST", "/agent/v1/runs/{runId}/cancel", {}), ("GET", "/healthz", None),
            ("POST", "/agent/v1/runs", body | {"input": {"else": 1}}), ("PATCH", "/api/v1/workflows/{id}", {"x": 1}),
        ]  # fmt: skip
        for method, path, sent in calls:
            place = path.replace("{id}", "1").replace("{runId}", "r")
            answer = await ada.request(method, place, json=sent, headers=POLL)
            response = described["paths"][path][method.lower()]["responses"][str(answer.status_code)]
            if "$ref" in response:
                response = described["components"]["responses"][response["$ref"].rpartition("/")[2]]
            schema = response["content"]["application/json"]["schema"] | {"components": described["components"]}
            jsonschema_rs.validate(schema, answer.json())

    async def test_an_open_interrupt_and_the_usage_of_a_model_have_no_undeclared_fields(
        self, world: World, described: Json
    ) -> None:
        """With every described object closed, so that a client made from the document has all fields that are sent."""
        ada = await world.user()
        await deployed(ada, chain(APPROVAL))
        await ada.post("/api/v1/skills", json={"name": "S"})
        await ada.post("/api/v1/skills/1/deploy")
        for body in ({"workflowId": 1, "runId": "waits"}, {"skillId": 1, "message": "hi", "runId": "asks"}):
            await ada.post("/agent/v1/runs", json=body)
        (item,) = (await ada.get("/agent/v1/interrupts")).json()["interrupts"]
        calls = (
            ("/agent/v1/interrupts", {}), ("/agent/v1/interrupts/{interruptId}", {"interruptId": item["interruptId"]}),
            *((path, {"runId": run}) for run in ("waits", "asks") for path in (
                "/agent/v1/runs/{runId}", "/agent/v1/runs/{runId}/events", "/agent/v1/runs/{runId}/graph")),
        )  # fmt: skip
        components = closed(described["components"])
        for path, named in calls:
            answer = await ada.get(path.format(**named), headers=POLL)
            content = described["paths"][path]["get"]["responses"]["200"]["content"]
            jsonschema_rs.validate(content["application/json"]["schema"] | {"components": components}, answer.json())

    async def test_a_refused_stream_matches_the_document(self, world: World, described: Json) -> None:
        """One event of the shape that the document has for its status, which is not an event of a run."""
        ada, stranger = await world.user(), await world.client()
        calls = (
            (ada, "POST", "/agent/v1/runs", {"workflowId": 9}, 404), (ada, "POST", "/agent/v1/runs", {}, 400),
            (ada, "POST", "/agent/v1/actions", {"action": {"toolId": "none"}}, 422),
            (ada, "POST", "/agent/v1/runs/{runId}/resume", {}, 404),
            (ada, "GET", "/agent/v1/runs/{runId}/events", None, 404),
            (stranger, "GET", "/api/v1/changes", None, 401), (stranger, "POST", "/agent/v1/assistant/chat", {}, 401),
        )  # fmt: skip
        for who, method, path, body, status in calls:
            answer = await who.request(
                method, path.format(runId="r"), json=body, headers={"Accept": "text/event-stream"}
            )
            (data,) = [line for line in answer.text.splitlines() if line.startswith("data: ")]
            refused = described["paths"][path][method.lower()]["responses"][str(answer.status_code)]
            assert (answer.status_code, streamed(refused["content"])) == (status, ("RefusedEvent",))
            components = closed(described["components"])
            ref = {"$ref": "#/components/schemas/RefusedEvent", "components": components}
            jsonschema_rs.validate(ref, json.loads(data.removeprefix("data: ")))

    async def test_a_stream_of_ag_ui_matches_the_document(self, world: World, described: Json) -> None:
        """Every event of a turn, and the one of a refusal, on a route whose other events are wfcore's."""
        ada = await world.user()
        await deployed(ada, chain(APPROVAL))
        components = closed(described["components"])
        for body, status in (({"workflowId": 1, "input": {}}, 200), ({"workflowId": 99}, 404)):
            answer = await ada.post("/agent/v1/runs", json=body, headers={"Accept": AG_UI})
            content = described["paths"]["/agent/v1/runs"]["post"]["responses"][str(answer.status_code)]["content"]
            schema = content[AG_UI]["schema"]["contentSchema"] | {"components": components}
            found = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
            assert (answer.status_code, all("type" in event for event in found)) == (status, True)
            assert found
            for event in found:
                jsonschema_rs.validate(schema, event)

    def test_every_route_that_needs_the_store_can_be_unavailable(self, described: Json) -> None:
        """503 of each operation but those that read no row."""
        without = {"/healthz", "/metrics", "/openapi.json", "/.well-known/oauth-protected-resource"}
        for path, item in described["paths"].items():
            for operation in item.values():
                assert ("503" in operation["responses"]) != (path.partition("/interfaces/mcp")[0] in without), path

    async def test_an_unknown_query_parameter_has_a_described_response(self, world: World, described: Json) -> None:
        """400 on every read, also on those without a credential."""
        ada = await world.user()
        for path, operations in described["paths"].items():
            if "get" in operations and not path.endswith("/callback"):  # servers may send it more
                answer = await ada.get(re.sub(r"{\w+}", "1", path) + "?nope=1", headers=POLL)
                assert (answer.status_code, "400" in operations["get"]["responses"]) == (400, True), path

    def test_bodies_are_described_by_the_shape_that_checks_them(self, world: World, described: Json) -> None:
        """The schema of a request body is the one of its use case's shape."""
        for route in route_table(world.core):
            if route.body is not None:
                content = described["paths"][route.path][route.method.lower()]["requestBody"]["content"]
                name = content["application/json"]["schema"]["$ref"].rpartition("/")[2]
                assert name == route.body.__name__
                properties = described["components"]["schemas"][name].get("properties", {})
                assert properties.keys() == shape_of(route.body).__annotations__.keys()
                assert [issue.rule for issue in check(route.body, [])] == ["type"]
