"""A client in TypeScript, generated from the OpenAPI document: one file without dependencies, for browsers and Node.

Every component is a type, every operation a method of its area: `client.runs.start({workflowId: 7})`. An operation that
can stream also has a method `...Stream`, which yields typed events.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import attrs

from wfcore.domain.kernel.json_readers import as_list, as_object, as_objects, as_text, as_texts, optional_text
from wfcore.domain.kernel.json_type import JSON

SERVER: Final = "server"
"""The area of operations that have none, such as `me`."""

_METHODS: Final = ("get", "post", "put", "patch", "delete")
_NAME: Final = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)
_SCALARS: Final = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_EVENTS, _JSON = "text/event-stream", "application/json"


def typescript(document: Mapping[str, JSON]) -> str:
    """The source of the client for an OpenAPI 3.1 document of this API."""
    schemas = as_object(as_object(document["components"])["schemas"])
    areas: defaultdict[str, list[str]] = defaultdict(list)
    for path, item in as_object(document["paths"]).items():
        for method, operation in as_object(item).items():
            if method in _METHODS:
                found = _Operation.of(method, path, as_object(operation))
                if found is not None:
                    areas[found.area].extend(found.methods())
    types = "\n\n".join(_declared(name, as_object(schema)) for name, schema in schemas.items())
    return f"{_HEADER}{types}\n\n{_RUNTIME}{''.join(_class_body(areas))}}}\n"


def _declared(name: str, schema: Mapping[str, JSON]) -> str:
    return f"{_comment(schema.get('description'))}export type {name} = {type_of(schema)};"


def _class_body(areas: Mapping[str, Iterable[str]]) -> Iterator[str]:
    for area, methods in areas.items():
        lines = "".join(f"    {line}\n" for method in methods for line in method.splitlines())
        yield f"\n  readonly {area} = {{\n{lines}  }};\n"


# Types


def type_of(schema: JSON) -> str:
    """The TypeScript type of a JSON Schema, as this API writes them. What a type cannot say is left out."""
    if not isinstance(schema, Mapping):
        return "unknown"
    if "$ref" in schema:
        return as_text(schema["$ref"]).rpartition("/")[2]
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(map(json.dumps, as_list(schema["enum"])))
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " | ".join(dict.fromkeys(_within(type_of(part)) for part in as_list(schema[key])))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(dict.fromkeys(_within(type_of({**schema, "type": each})) for each in kind))
    if kind == "array":
        return f"Array<{type_of(schema.get('items', {}))}>"
    if kind == "object" or "properties" in schema:
        return _object(schema)
    return _SCALARS.get(str(kind), "unknown")


def _object(schema: Mapping[str, JSON]) -> str:
    required = set(as_texts(schema.get("required", ())))
    fields = [
        f"{_key(name)}{'' if name in required else '?'}: {type_of(field)}"
        for name, field in as_object(schema.get("properties", {})).items()
    ]
    more = schema.get("additionalProperties", not fields)
    others = "unknown" if fields or more is True else type_of(more)
    shown = f"{{ {'; '.join(fields)} }}" if fields else ""
    index = f"{{ [key: string]: {others} }}" if more is not False else ""
    return " & ".join(filter(None, (shown, index))) or "Record<string, never>"


def _within(shown: str) -> str:
    return f"({shown})" if " & " in shown else shown


def _key(name: str) -> str:
    return name if _NAME.fullmatch(name) else json.dumps(name)


# Operations


@attrs.frozen
class _Operation:
    """One operation: `reply` is the type of its JSON, `event` that of a streamed event; None without."""

    area: str
    name: str
    method: str
    path: str
    summary: str
    parameters: list[Mapping[str, JSON]]
    body: str | None
    is_json: bool
    needs_body: bool
    reply: str | None
    event: str | None

    @classmethod
    def of(cls, method: str, path: str, operation: Mapping[str, JSON]) -> "_Operation | None":
        """None for an operation that answers with a page or another text: a browser opens it."""
        replies = _replies(operation)
        if replies and not {_JSON, _EVENTS} & replies.keys():
            return None
        area, _, name = as_text(operation["operationId"]).rpartition(".")
        request = as_object(operation.get("requestBody") or {})
        content = as_object(request.get("content") or {})
        is_json = _JSON in content
        body = type_of(as_object(content[_JSON])["schema"]) if is_json else "Blob | Uint8Array<ArrayBuffer> | string"
        return cls(
            area or SERVER, name, method.upper(), path, as_text(operation.get("summary") or name),
            list(as_objects(operation.get("parameters", ()))), body if content else None, is_json,
            bool(request.get("required")),
            type_of(replies[_JSON].get("schema")) if _JSON in replies else None,
            type_of(as_object(replies[_EVENTS]["schema"])["contentSchema"]) if _EVENTS in replies else None,
        )  # fmt: skip

    def methods(self) -> Iterator[str]:
        """The methods of the client, as entries of an object."""
        yield self._entry(self.name, f"Promise<{self.reply or 'void'}>", "request")
        if self.event is not None:
            yield self._entry(f"{self.name}Stream", f"AsyncGenerator<{self.event}>", "stream")

    def _entry(self, name: str, result: str, how: str) -> str:
        places = [each for each in self.parameters if each["in"] == "path"]
        others = [each for each in self.parameters if each["in"] in ("query", "header")]
        given = [f"{as_text(each['name'])}: {type_of(each['schema'])}" for each in places]
        if self.body is not None:
            given.append(f"body{'' if self.needs_body else '?'}: {self.body}")
        fields = [f"{_key(as_text(each['name']))}{'' if each.get('required') else '?'}: {type_of(each['schema'])}"
                  for each in others]  # fmt: skip
        content = [] if self.is_json or self.body is None else ["contentType?: string"]
        options = "; ".join([*fields, *content, "signal?: AbortSignal"])
        default = "" if any(each.get("required") for each in others) else " = {}"
        given.append(f"options: {{ {options} }}{default}")
        path = re.sub(r"\{(\w+)\}", r"${encodeURIComponent(\1)}", self.path)
        names = [[as_text(each["name"]) for each in others if each["in"] == where] for where in ("query", "header")]
        sent = f"body, {json.dumps(self.is_json)}" if self.body is not None else "undefined, true"
        call = f'this.{how}("{self.method}", `{path}`, {sent}, options, {json.dumps(names[0])}, {json.dumps(names[1])})'
        return f"{_comment(self.summary)}{name}: ({', '.join(given)}): {result} => {call},"


def _replies(operation: Mapping[str, JSON]) -> dict[str, Mapping[str, JSON]]:
    """The contents of the responses to a success or a redirect, by media type."""
    found: dict[str, Mapping[str, JSON]] = {}
    for status, response in as_object(operation["responses"]).items():
        if status[0] in "23":
            content = as_object(as_object(response).get("content") or {})
            found |= {kind: as_object(each) for kind, each in content.items() if kind not in found}
    return found


def _comment(text: JSON) -> str:
    words = optional_text(text)
    return f"/** {' '.join(words.split()).replace('*/', '')} */\n" if words else ""


_HEADER: Final = """\
// Generated by `wfcore openapi --typescript`. Do not edit.

"""

_RUNTIME: Final = """\
/** A response with a status of 400 or more; `envelope` is its body. */
export class ApiError extends Error {
  constructor(readonly status: number, readonly envelope: ErrorEnvelope | undefined) {
    super(envelope?.error?.message ?? `the server answered ${status}`);
  }
}

/** The error envelope in a body of JSON, or in the only event of a stream that was refused. */
function envelopeIn(text: string): ErrorEnvelope | undefined {
  try {
    return JSON.parse(/^data: ?(.*)$/m.exec(text)?.[1] ?? text) as ErrorEnvelope;
  } catch {
    return undefined;
  }
}

export interface ClientOptions {
  /** The address of the server, with the path under which it is mounted. */
  baseUrl: string;
  /** A bearer token; without one, the cookies of the page are sent. */
  token?: string | (() => string | Promise<string>);
  /** Replaces the global `fetch`. */
  fetch?: typeof fetch;
}

type Options = { signal?: AbortSignal; contentType?: string };

/** The API of a server, as the current user. */
export class Client {
  constructor(private readonly options: ClientOptions) {}

  private async send(
    accept: string, method: string, path: string, body: unknown, isJson: boolean, options: Options,
    query: string[], headers: string[],
  ): Promise<Response> {
    const given = options as Record<string, unknown>;
    const url = new URL(this.options.baseUrl.replace(/\\/$/, "") + path);
    for (const name of query) if (given[name] != null) url.searchParams.set(name, String(given[name]));
    const sent: Record<string, string> = { accept };
    for (const name of headers) if (given[name] != null) sent[name] = String(given[name]);
    const plain = options.contentType ?? "application/octet-stream";
    if (body !== undefined) sent["content-type"] = isJson ? "application/json" : plain;
    const { token } = this.options;
    if (token !== undefined) sent["authorization"] = `Bearer ${typeof token === "string" ? token : await token()}`;
    const init: RequestInit = { method, headers: sent };
    if (body !== undefined) init.body = isJson ? JSON.stringify(body) : (body as BodyInit);
    if (options.signal !== undefined) init.signal = options.signal;
    const response = await (this.options.fetch ?? fetch)(url, init);
    if (response.status < 400) return response;
    throw new ApiError(response.status, envelopeIn(await response.text()));
  }

  private async request<T>(
    method: string, path: string, body: unknown, isJson: boolean, options: Options, query: string[], headers: string[],
  ): Promise<T> {
    const response = await this.send("application/json", method, path, body, isJson, options, query, headers);
    const text = await response.text();
    return (text === "" ? undefined : JSON.parse(text)) as T;
  }

  private async *stream<T>(
    method: string, path: string, body: unknown, isJson: boolean, options: Options, query: string[], headers: string[],
  ): AsyncGenerator<T> {
    const response = await this.send("text/event-stream", method, path, body, isJson, options, query, headers);
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        const blocks = (rest + value.replace(/\\r/g, "")).split("\\n\\n");
        rest = blocks.pop()!;
        for (const block of blocks) {
          const lines = block.split("\\n").filter((line) => line.startsWith("data:"));
          const data = lines.map((line) => line.slice(5).replace(/^ /, "")).join("\\n");
          if (data !== "") yield JSON.parse(data) as T;
        }
      }
    } finally {
      await reader.cancel();
    }
  }
"""
