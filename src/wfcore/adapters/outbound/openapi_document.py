"""Operations of an OpenAPI document (OpenAPI Specification 3.0 and 3.1), with the JSON Schemas of what they take.

Only JSON bodies are supported. References outside of the document are refused: nothing is fetched for a schema.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from wfcore.domain.kernel.json_type import JSON

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch")
IDEMPOTENT: Final = frozenset({"get", "put", "delete", "options", "head"})
"""Methods that can be repeated (RFC 9110, 9.2.2)."""
KEY_HEADER: Final = "idempotency-key"
"""The header of the key of an effect (draft-ietf-httpapi-idempotency-key-header)."""
MAX_DEPTH: Final = 20
"""The most references in a row."""

_SCHEMAS: Final = "#/components/schemas/"
_OF_SCHEMAS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords with schemas by names that users chose."""
_VALUES: Final = frozenset({"enum", "const", "default", "example", "examples", "required", "discriminator"})
"""Keywords with values, which are not schemas."""
_IGNORED: Final = frozenset({"accept", "authorization", "content-type"})
"""Headers that are not parameters (OpenAPI, Parameter Object)."""
_NAME = re.compile(r"[^a-zA-Z0-9_.-]+")


@attrs.frozen
class OpenApiParameter:
    """A parameter: `name` in the request, `key` in the arguments of the tool. `style` and `explode` as in OpenAPI."""

    name: str
    key: str
    place: str
    required: bool
    schema: Mapping[str, JSON]
    style: str
    explode: bool


@attrs.frozen
class OpenApiOperation:
    """One operation. `path` has `{name}` for each path parameter; `body` is None, or whether it is required."""

    id: str
    method: str
    path: str
    summary: str
    parameters: tuple[OpenApiParameter, ...]
    body: bool | None
    arguments: Mapping[str, JSON]
    result: Mapping[str, JSON] | None
    takes_key: bool
    """Whether it declares the header `Idempotency-Key`."""
    security: Mapping[str, JSON] | None
    """The first scheme that it requires."""

    @property
    def idempotent(self) -> bool:
        return self.takes_key or self.method in IDEMPOTENT


class OpenApiDocument:
    """A parsed document. Raises ValueError that names the place of what is not valid or not supported."""

    def __init__(self, tree: JSON) -> None:
        if not isinstance(tree, dict) or not str(tree.get("openapi", "")).startswith("3."):
            raise ValueError("not an OpenAPI document of version 3")
        self._tree: Mapping[str, Any] = tree
        self._is_old = str(tree["openapi"]).startswith("3.0")

    @property
    def title(self) -> str:
        return str(self._tree.get("info", {}).get("title", ""))

    @property
    def server(self) -> str | None:
        """The first server, with its variables at their defaults; it can be relative to the document."""
        servers = self._tree.get("servers") or []
        if not servers:
            return None
        variables = servers[0].get("variables", {})
        url = str(servers[0]["url"])
        return re.sub(r"\{(\w+)\}", lambda found: str(variables.get(found[1], {}).get("default", found[0])), url)

    def operations(self, only: Sequence[str] | None = None) -> list[OpenApiOperation]:
        """The operations; with `only`, those with this `operationId`, or written as `GET /orders/{id}`.

        Raises ValueError for one that does not exist.
        """
        found = {names: (path, method) for path, method, names in self._places()}
        if only is None:
            return [self._operation(path, method, names[0]) for names, (path, method) in found.items()]
        chosen = []
        for wanted in only:
            match = [(names, place) for names, place in found.items() if wanted in names]
            if not match:
                known = ", ".join(f"`{names[0]}`" for names in found)
                raise ValueError(f"unknown operation `{wanted}`: use one of {known}")
            (names, (path, method)) = match[0]
            chosen.append(self._operation(path, method, names[0]))
        return chosen

    def _places(self) -> Iterator[tuple[str, str, tuple[str, str]]]:
        for path, item in self._tree.get("paths", {}).items():
            for method in METHODS:
                if method in item:
                    name = item[method].get("operationId") or f"{method}_{path.strip('/')}"
                    yield path, method, (_NAME.sub("_", str(name)).strip("_"), f"{method.upper()} {path}")

    def _operation(self, path: str, method: str, name: str) -> OpenApiOperation:
        where = f"{method.upper()} {path}"
        item = self._tree["paths"][path]
        own = item[method]
        definitions: dict[str, JSON] = {}
        given = self._parameters([*item.get("parameters", ()), *own.get("parameters", ())], where, definitions)
        parameters = tuple(each for each in given if each.name.lower() != KEY_HEADER)
        body, body_schema = self._body(own.get("requestBody"), where, definitions)
        properties: dict[str, JSON] = {each.key: dict(each.schema) for each in parameters}
        required: list[JSON] = [each.key for each in parameters if each.required]
        if body is not None:
            properties["body"] = body_schema
            required += ["body"] * body
        arguments: dict[str, JSON] = {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }
        return OpenApiOperation(
            name,
            method,
            path,
            str(own.get("description") or own.get("summary") or where),
            parameters,
            body,
            {**arguments, "$defs": definitions} if definitions else arguments,
            self._result(own.get("responses", {}), where),
            len(parameters) < len(given),
            self._security(own),
        )

    def _parameters(
        self, given: Sequence[Any], where: str, definitions: dict[str, JSON]
    ) -> tuple[OpenApiParameter, ...]:
        """Those of the operation replace those of its path with the same name and place."""
        found: dict[tuple[str, str], Mapping[str, Any]] = {}
        for each in given:
            entry = self._resolved(each, where)
            found[entry["name"], entry["in"]] = entry
        keys: set[str] = {"body"}
        parameters = []
        for (name, place), entry in found.items():
            if place == "header" and name.lower() in _IGNORED:
                continue
            required = bool(entry.get("required", place == "path"))
            if place == "cookie" or "content" in entry:
                if required:
                    raise ValueError(f"{where}: parameter `{name}`: cookies and `content` are not supported")
                continue
            key = name if name not in keys else f"{place}_{name}"
            keys.add(key)
            schema = self._schema(entry.get("schema", {}), where, definitions)
            if isinstance(text := entry.get("description"), str) and isinstance(schema, dict) and "$ref" not in schema:
                schema = {"description": text, **schema}
            style = entry.get("style", "form" if place == "query" else "simple")
            explode = bool(entry.get("explode", style == "form"))
            shape = schema if isinstance(schema, dict) else {}
            parameters.append(OpenApiParameter(name, key, place, required, shape, style, explode))
        return tuple(parameters)

    def _body(self, given: Any, where: str, definitions: dict[str, JSON]) -> tuple[bool | None, JSON]:
        if given is None:
            return None, None
        body = self._resolved(given, where)
        schema = _json_content(body.get("content", {}))
        if schema is None:
            if body.get("required"):
                raise ValueError(f"{where}: only JSON bodies are supported")
            return None, None
        return bool(body.get("required", False)), self._schema(schema, where, definitions)

    def _result(self, responses: Mapping[str, Any], where: str) -> Mapping[str, JSON] | None:
        """The schema of the first successful response with JSON."""
        for status in sorted(responses):
            if str(status).startswith("2"):
                schema = _json_content(self._resolved(responses[status], where).get("content", {}))
                if schema is not None:
                    definitions: dict[str, JSON] = {}
                    shape = self._schema(schema, where, definitions)
                    found = shape if isinstance(shape, dict) else {}
                    return {**found, "$defs": definitions} if definitions else found
        return None

    def _security(self, operation: Mapping[str, Any]) -> Mapping[str, JSON] | None:
        schemes = self._tree.get("components", {}).get("securitySchemes", {})
        for requirement in operation.get("security", self._tree.get("security", ())):
            for name in requirement:
                scheme: Mapping[str, JSON] = self._resolved(schemes.get(name, {}), name)
                return scheme
        return None

    def _resolved(self, value: Any, where: str) -> Any:
        """The value behind references in the document (RFC 6901)."""
        for _ in range(MAX_DEPTH):
            if not isinstance(value, dict) or "$ref" not in value:
                return value
            value = self._at(str(value["$ref"]), where)
        raise ValueError(f"{where}: a reference refers to itself")

    def _at(self, reference: str, where: str) -> Any:
        if not reference.startswith("#/"):
            raise ValueError(f"{where}: `{reference}`: only references within the document are supported")
        found: Any = self._tree
        for part in reference[2:].split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or name not in found:
                raise ValueError(f"{where}: `{reference}` does not exist")
            found = found[name]
        return found

    def _schema(self, schema: Any, where: str, definitions: dict[str, JSON]) -> JSON:
        """The schema in JSON Schema 2020-12; those that it refers to are added to `definitions`."""
        if isinstance(schema, list):
            return [self._schema(each, where, definitions) for each in schema]
        if not isinstance(schema, dict):
            return schema  # type: ignore[no-any-return]
        if isinstance(reference := schema.get("$ref"), str):
            # names of components need no change; other references get different names
            name = _NAME.sub(lambda odd: f"_{odd[0].encode().hex()}_", reference.removeprefix(_SCHEMAS))
            if name not in definitions:
                definitions[name] = {}  # reserved: a schema can refer to itself
                definitions[name] = self._schema(self._at(reference, where), where, definitions)
            return {"$ref": f"#/$defs/{name}"}
        made: dict[str, JSON] = {}
        for key, value in schema.items():
            if key in _OF_SCHEMAS and isinstance(value, dict):
                made[key] = {name: self._schema(each, where, definitions) for name, each in value.items()}
            else:
                made[key] = value if key in _VALUES else self._schema(value, where, definitions)
        return _of_draft_2020(made) if self._is_old else made


def _json_content(content: Mapping[str, Any]) -> Any:
    """The schema of JSON content; None if there is none."""
    for kind, media in content.items():
        main = kind.partition(";")[0].strip().lower()
        if main == "application/json" or main.endswith("+json") or main == "*/*":
            return media.get("schema", {})
    return None


def _of_draft_2020(schema: dict[str, JSON]) -> dict[str, JSON]:
    """A schema of OpenAPI 3.0: `nullable`, and bounds that are exclusive by a flag."""
    made = {key: value for key, value in schema.items() if key not in ("nullable", "example")}
    for flag, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(made.get(flag), bool) and made.pop(flag) and bound in made:
            made[flag] = made.pop(bound)
    if schema.get("nullable") is True:
        return {"anyOf": [made, {"type": "null"}]}
    return made
