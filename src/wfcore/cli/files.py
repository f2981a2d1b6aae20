"""The inputs of commands: workflow files, the input of a run, and Python tools."""

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cyclopts import CycloptsError

from wfcore.domain.kernel.errors import Issue, Malformed
from wfcore.domain.kernel.json_type import JSON

if TYPE_CHECKING:
    from wfcore.ports.providers import Tool


def read_workflow(path: str) -> dict[str, JSON]:
    """The body of a create request (interface, CreateAgentDto) from a file of JSON or YAML 1.2, or of a `Flow` at
    `FILE.py:NAME`.

    `type` is optional, and `name` defaults to the name of the file. Raises Malformed when the file is not an object,
    FlowError for a flow that cannot run.
    """
    if _FLOW.fullmatch(path):
        return _body_of_flow(path)
    file = Path(path)
    content = _read(file)
    tree = _json(content) if file.suffix == ".json" else _yaml(content)
    if not isinstance(tree, dict):
        raise _malformed("the file must contain an object", "type")
    return {"name": file.stem, "type": "workflow", **tree}


_FLOW = re.compile(r".+\.py:\w+")


def _body_of_flow(reference: str) -> dict[str, JSON]:
    from wfcore.flows import Flow

    flow = _import_object(reference, "FILE")
    if not isinstance(flow, Flow):
        raise CycloptsError(msg=f"FILE: `{reference}` is not a `wfcore.Flow`")
    return {"name": flow.name, "type": "workflow", "workflowStructure": flow.structure()}


def read_input(text: str) -> dict[str, JSON]:
    """A run's input: JSON text, `@FILE` for a file of JSON, or `-` for JSON on stdin."""
    if text == "-":
        content = sys.stdin.buffer.read()
    else:
        content = _read(Path(text[1:])) if text.startswith("@") else text.encode("utf-8", "replace")
    try:
        value = _json(content)
    except Malformed as error:
        raise CycloptsError(msg=f"--input: {error.message}") from None
    if not isinstance(value, dict):
        raise CycloptsError(msg="--input: must be a JSON object")
    return value


def load_tools(references: Sequence[str]) -> "list[Callable[..., Any] | Tool]":
    """The tools at `MODULE:NAME` or `FILE.py:NAME`, each a function, a `Tool`, or a list of them."""
    found: list[Any] = []
    for reference in references:
        tools = _import_object(reference)
        found += tools if isinstance(tools, Iterable) else [tools]
    return found


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise CycloptsError(msg=f"cannot read `{file}`: {error.strerror}") from None


def _json(content: bytes) -> JSON:
    from wfcore.domain.json.parsing import parse_json

    return parse_json(content)


def _yaml(content: bytes) -> JSON:
    """YAML, checked like JSON: the same values and the same limits."""
    from ruamel.yaml.error import YAMLError

    from wfcore.domain.json.codec import dumps

    try:
        return _json(dumps(_parser().load(content.decode())).encode())
    except UnicodeDecodeError:
        problem = "not UTF-8"
    except YAMLError as error:
        problem = f"not YAML: {_summary(error)}"
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"not representable as JSON: {error}"
    raise _malformed(problem, "json")


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


def _summary(error: Exception) -> str:
    """The problem and its line, without the parser's long message."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
    return f"line {mark.line + 1}: {problem}" if mark is not None else problem


def _import_object(reference: str, option: str = "--tools") -> Any:
    module, _, name = reference.rpartition(":")
    if not module:
        raise CycloptsError(msg=f"{option}: `{reference}` must be MODULE:NAME or FILE.py:NAME")
    try:
        return getattr(_import_module(module), name)
    except AttributeError:
        raise CycloptsError(msg=f"{option}: `{module}` has no `{name}`") from None
    except Exception as error:  # noqa: BLE001  (the user's module can raise anything)
        raise CycloptsError(msg=f"{option}: cannot import `{module}`: {type(error).__name__}: {error}") from None


def _import_module(name: str) -> ModuleType:
    """A module by name, or a Python file, which can import modules beside it as a script can."""
    file = Path(name)
    if file.suffix != ".py":
        sys.path.insert(0, "")
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None or not file.exists():
        raise FileNotFoundError(f"file `{name}` does not exist")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.parent.absolute()))
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module
