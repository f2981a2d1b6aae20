"""The inputs of commands: workflow files, the input of a run, and Python tools."""

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cyclopts import CycloptsError

from wfcore.domain.kernel.errors import Malformed
from wfcore.domain.kernel.json_type import JSON

if TYPE_CHECKING:
    from wfcore.domain.kernel.errors import Issue
    from wfcore.ports.providers import Tool


def read_workflow(path: str) -> dict[str, JSON]:
    """The body of a create request from a file of JSON or YAML 1.2 (`wfcore.workflow_files`), or of a `Flow` at
    `FILE.py:NAME`.

    Raises Malformed when the file is not an object, FlowError for a flow that cannot run.
    """
    from wfcore.workflow_files import read_workflow as read

    if _FLOW.fullmatch(path):
        return _body_of_flow(path)
    try:
        return read(path)
    except OSError as error:
        raise _unreadable(path, error) from None


def read_skill(path: str) -> dict[str, JSON]:
    """The body of a create request of a skill from a file of JSON or YAML 1.2; see `read_workflow`."""
    from wfcore.workflow_files import read_body

    try:
        return read_body(path)
    except OSError as error:
        raise _unreadable(path, error) from None


def located(path: str, issues: Iterable[Mapping[str, JSON]]) -> list[dict[str, JSON]]:
    """The issues of a workflow or skill file, each with the `line` of its value; those of a `Flow` have none."""
    from wfcore.workflow_files import line_at, lines_of

    lines = {} if _FLOW.fullmatch(path) else lines_of(_read(Path(path)))
    found = [(dict(issue), line_at(lines, str(issue["path"]))) for issue in issues]
    return [issue if line is None else {**issue, "line": line} for issue, line in found]


def tool_hints(messages: Iterable[str]) -> list[str]:
    """A line that says how a tool becomes known, if one of these messages names an unknown one."""
    if not any("unknown tool `" in message for message in messages):
        return []
    return ["tools of your own are given with `--tools MODULE:NAME` or `--tools FILE.py:NAME`, here or to the server"]


def shown_issues(path: str, issues: "Iterable[Issue]") -> list[str]:
    """A line of text for each issue: the file, the line, the path in the file, the message. A hint can follow."""
    issues = list(issues)
    places = [issue.get("line") for issue in located(path, [issue.to_wire() for issue in issues])]
    shown = [
        f"{issue.severity}: {path}{'' if line is None else f':{line}'}: `{issue.path}`: {issue.message}"
        for issue, line in zip(issues, places, strict=True)
    ]
    return [*shown, *tool_hints(shown)]


_FLOW = re.compile(r".+\.py:\w+")


def _body_of_flow(reference: str) -> dict[str, JSON]:
    from wfcore.flows import Flow

    flow = _import_object(reference, "FILE")
    if not isinstance(flow, Flow):
        raise CycloptsError(msg=f"FILE: `{reference}` is not a `wfcore.Flow`")
    return {"name": flow.name, "type": "workflow", "workflowStructure": flow.structure()}


def read_input(text: str, option: str = "--input") -> dict[str, JSON]:
    """The object that an option gives: JSON text, `@FILE` for a file of JSON, or `-` for JSON on stdin."""
    if text == "-":
        content = sys.stdin.buffer.read()
    else:
        content = _read(Path(text[1:])) if text.startswith("@") else text.encode("utf-8", "replace")
    try:
        value = _json(content)
    except Malformed as error:
        raise CycloptsError(msg=f"{option}: {error.message}") from None
    if not isinstance(value, dict):
        raise CycloptsError(msg=f"{option}: must be a JSON object")
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
        raise _unreadable(file, error) from None


def _unreadable(file: str | Path, error: OSError) -> CycloptsError:
    return CycloptsError(msg=f"cannot read `{file}`: {error.strerror}")


def _json(content: bytes) -> JSON:
    from wfcore.domain.json.parsing import parse_json

    return parse_json(content)


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
