"""Workflows as Python programs and commands receive them: the body of a create request (interface, CreateAgentDto), as
a value, as an object that builds one, or as a file in JSON or YAML 1.2.
"""

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from wfcore.domain.graph.shapes import GraphOfBody
from wfcore.domain.json.codec import dumps
from wfcore.domain.json.parsing import DEFAULT_LIMITS, parse_json
from wfcore.domain.json.values import without_nulls
from wfcore.domain.kernel.errors import Issue, Malformed, join_path
from wfcore.domain.kernel.json_type import JSON
from wfcore.extras import needs_extra

_NOT_PRINTABLE: Final = re.compile("[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
"""Characters that YAML 1.2 does not take as they are (5.1), or that older parsers read as line breaks."""


class HasStructure(Protocol):
    """An object that builds a graph, such as a `Flow`: its `structure` is a `workflowStructure`."""

    @property
    def structure(self) -> Any: ...


Workflow = Mapping[str, Any] | HasStructure | str | Path
"""A `workflowStructure` or the body of a create request, what builds one, or a file of one in JSON or YAML."""


def body_of(workflow: Workflow) -> Mapping[str, JSON]:
    """The body of a create request for any form of a workflow. Raises OSError and Malformed for a file."""
    if isinstance(workflow, (str, Path)):
        return read_workflow(workflow)
    body: Any = workflow
    if not isinstance(workflow, Mapping):
        body = workflow.structure
        body = body() if callable(body) else body
    is_body = not {"workflowStructure", "agentSelection"}.isdisjoint(body)
    return without_nulls(GraphOfBody, body if is_body else {"workflowStructure": dict(body)})


def read_workflow(path: str | Path) -> dict[str, JSON]:
    """The body of a workflow in a file; see `read_body`. `type` is optional, and nulls of its graph are absent."""
    return {"type": "workflow", **without_nulls(GraphOfBody, read_body(path))}


def read_body(path: str | Path) -> dict[str, JSON]:
    """The body of a workflow or skill in a file. `name` defaults to the name of the file.

    Raises OSError when it cannot be read, Malformed when it is not an object. YAML needs the extra `cli`.
    """
    file = Path(path)
    content = file.read_bytes()
    tree = parse_json(content) if file.suffix == ".json" else parse_yaml(content)
    if not isinstance(tree, dict):
        raise _malformed("the file must contain an object", "type")
    return {"name": file.stem, **tree}


def parse_yaml(content: bytes) -> JSON:
    """YAML, checked like JSON: the same values and the same limits. Raises Malformed. It needs the extra `cli`."""
    with needs_extra("cli", "a workflow file in YAML"):
        from ruamel.yaml.error import YAMLError

    try:
        tree = _parser().load(content.decode())
        if _has_more_values(tree, DEFAULT_LIMITS.max_values):
            raise _malformed(f"more than {DEFAULT_LIMITS.max_values} values", "json")
        return parse_json(dumps(tree).encode())
    except UnicodeDecodeError:
        problem = "not UTF-8"
    except YAMLError as error:
        problem = f"not YAML: {_summary(error)}"
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"not representable as JSON: {error}"
    raise _malformed(problem, "json")


def _has_more_values(tree: Any, limit: int) -> bool:
    """Whether the value written as JSON has more than `limit` values: aliases make a short text a large value."""
    todo, count = [tree], 0
    while todo and count <= limit:
        value = todo.pop()
        count += 1
        if isinstance(value, (dict, list)):
            todo.extend(value.values() if isinstance(value, dict) else value)
    return count > limit


def write_yaml(tree: JSON) -> str:
    """The value as YAML 1.2 that `parse_yaml` reads as the same value: texts of several lines as blocks, keys in order.

    It needs the extra `cli`.
    """
    with needs_extra("cli", "a workflow file in YAML"):
        written = io.StringIO()
        _writer().dump(tree, written)
    text = written.getvalue()
    try:
        is_same = dumps(parse_yaml(text.encode())) == dumps(tree)
    except (Malformed, UnicodeEncodeError):
        is_same = False
    return text if is_same else f"{_NOT_PRINTABLE.sub(_escaped, dumps(tree))}\n"  # JSON is YAML too


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def lines_of(content: bytes) -> dict[str, int]:
    """The line of each value of a file in YAML or JSON, from 1, by wire path; empty for another text.

    It needs the extra `cli`.
    """
    with needs_extra("cli", "a workflow file in YAML"):
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError

    try:
        root = YAML(typ="safe", pure=True).compose(io.StringIO(content.decode()))
    except (YAMLError, ValueError, RecursionError):
        return {}
    found, seen, todo = {"": 1}, set[int](), [("", root)]
    for path, node in todo:  # grows meanwhile
        if node is None or id(node) in seen or isinstance(node.value, str):  # an alias is the same node again
            continue
        seen.add(id(node))
        for index, item in enumerate(node.value):
            key, inner = item if isinstance(item, tuple) else (item, item)
            below = join_path(path, str(key.value) if isinstance(item, tuple) else f"[{index}]")
            found[below] = key.start_mark.line + 1
            todo.append((below, inner))
    return found


def line_at(lines: Mapping[str, int], path: str) -> int | None:
    """The line of the value at this path, else of the nearest value around it; None without any line."""
    while path and path not in lines:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return lines.get(path)


def _malformed(problem: str, rule: str) -> Malformed:
    return Malformed(problem, {"errors": [Issue("", problem, rule).to_wire()]})


def _parser() -> Any:
    """YAML 1.2, in which `on` is a string; dates are strings too, as in JSON."""
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import SafeConstructor

    class Constructor(SafeConstructor):
        pass

    Constructor.add_constructor("tag:yaml.org,2002:timestamp", lambda self, node: self.construct_scalar(node))
    parser = YAML(typ="safe", pure=True)
    parser.Constructor = Constructor
    return parser


def _writer() -> Any:
    """YAML in the order of the keys, without aliases."""
    from ruamel.yaml import YAML
    from ruamel.yaml.representer import SafeRepresenter

    class Representer(SafeRepresenter):
        def ignore_aliases(self, data: Any) -> bool:
            return True

        def represent_mapping(self, tag: Any, mapping: Any, flow_style: Any = None) -> Any:
            return super().represent_mapping(tag, list(mapping.items()), flow_style)

    def text(self: Any, data: str) -> Any:
        return self.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data.strip("\n") else None)

    Representer.add_representer(str, text)
    writer = YAML(typ="safe", pure=True)
    writer.Representer, writer.default_flow_style, writer.width, writer.allow_unicode = Representer, False, 120, True
    return writer


def _summary(error: Exception) -> str:
    """The problem and its line, without the parser's long message."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
    return f"line {mark.line + 1}: {problem}" if mark is not None else problem
