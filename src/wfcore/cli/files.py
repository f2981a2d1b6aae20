"""What commands read: workflow files, the input of a run, Python tools."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cyclopts import CycloptsError

from wfcore.domain.kernel.errors import Issue, Malformed, refuse
from wfcore.domain.kernel.json_type import JSON

if TYPE_CHECKING:
    from wfcore.ports.providers import Tool


def read_workflow(path: str) -> dict[str, JSON]:
    """The body of a create request (interface, CreateAgentDto) from a file of JSON or YAML 1.2.

    `type` may be missing, and `name`: then it is that of the file. Malformed when the file holds no such thing.
    """
    file = Path(path)
    content = _read(file)
    tree = _json(content) if file.suffix == ".json" else _yaml(content)
    if not isinstance(tree, dict):
        refuse([Issue("", "the file holds no object", "type")])
    return {"name": file.stem, "type": "workflow", **tree}


def read_input(text: str) -> dict[str, JSON]:
    """A run's input: JSON, or `@FILE` that holds it, or `-` for what comes in on stdin."""
    if text == "-":
        content = sys.stdin.buffer.read()
    else:
        content = _read(Path(text[1:])) if text.startswith("@") else text.encode("utf-8", "replace")
    try:
        value = _json(content)
    except Malformed as error:
        raise CycloptsError(msg=f"--input: {error.message}") from None
    if not isinstance(value, dict):
        raise CycloptsError(msg="--input: a run's input is an object")
    return value


def load_tools(places: Sequence[str]) -> "list[Callable[..., Any] | Tool]":
    """The tools at `MODULE:NAME` or `FILE.py:NAME`, each a function, a `Tool`, or a list of them."""
    found: list[Any] = []
    for place in places:
        tools = _object_at(place)
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
    """Through the same gate as JSON, so that both mean the same: no other values, the same bounds."""
    from ruamel.yaml.error import YAMLError

    from wfcore.domain.json.codec import dumps

    try:
        return _json(dumps(_parser().load(content.decode())).encode())
    except UnicodeDecodeError:
        problem = "not UTF-8"
    except YAMLError as error:
        problem = f"not YAML: {_in_short(error)}"
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"not what JSON can hold: {error}"
    return refuse([Issue("", problem, "json")])


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


def _in_short(error: Exception) -> str:
    """The problem and its line, without the parser's pages."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
    return f"line {mark.line + 1}: {problem}" if mark is not None else problem


def _object_at(place: str) -> Any:
    where, _, name = place.rpartition(":")
    if not where:
        raise CycloptsError(msg=f"--tools: `{place}` is not MODULE:NAME")
    try:
        return getattr(_module(where), name)
    except AttributeError:
        raise CycloptsError(msg=f"--tools: `{where}` has no `{name}`") from None
    except Exception as error:  # noqa: BLE001  (a module of the user's may raise anything)
        raise CycloptsError(msg=f"--tools: cannot import `{where}`: {type(error).__name__}: {error}") from None


def _module(where: str) -> ModuleType:
    """A module by name, or a file of Python, which finds its neighbours as a script does."""
    file = Path(where)
    if file.suffix != ".py":
        sys.path.insert(0, "")
        return importlib.import_module(where)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None or not file.exists():
        raise FileNotFoundError(f"there is no file `{where}`")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.parent.absolute()))
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module
