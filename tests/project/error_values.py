"""The values of `rule` and `info.reason` that the source can produce, found in its syntax trees."""

import ast
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src/wfcore"
EXAMPLES = "adapters/http/openapi/examples.py"


@cache
def values(name: str) -> dict[str, set[str]]:
    """Each constant that is given as the parameter, key or field `name`, with the modules that give it."""
    places = _positions(name)
    found = dict[str, set[str]]()
    for module, nodes in _nodes().items():
        if module != EXAMPLES and not module.startswith("cli/"):
            for value in _given(nodes, name, places):
                found.setdefault(value, set()).add(module)
    return found


@cache
def _nodes() -> dict[str, list[ast.AST]]:
    """The definitions, calls and dictionaries of each module."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Call | ast.Dict
    return {
        path.relative_to(SOURCE).as_posix(): [
            node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)
        ]
        for path in SOURCE.rglob("*.py")
    }


def _positions(name: str) -> dict[str, set[int]]:
    """Functions and classes with a parameter or field `name`, and where it stands in their calls."""
    places = dict[str, set[int]]()
    for node in chain.from_iterable(_nodes().values()):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [each.arg for each in node.args.args if each.arg not in {"self", "cls"}]
        elif isinstance(node, ast.ClassDef):
            names = _parameters(node)
        else:
            continue
        if name in names:
            places.setdefault(node.name, set()).add(names.index(name))
    return places


def _parameters(node: ast.ClassDef) -> list[str]:
    """The parameters of the constructor: its own, else the fields of the class."""
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            return [argument.arg for argument in each.args.args[1:]]
    fields = [each.target for each in node.body if isinstance(each, ast.AnnAssign)]
    return [field.id for field in fields if isinstance(field, ast.Name)]


def _given(nodes: list[ast.AST], name: str, places: dict[str, set[int]]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Call):
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            for position in places.get(called, ()):
                yield from _texts(node.args[position : position + 1])
            yield from _texts([each.value for each in node.keywords if each.arg == name])
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            yield from _texts([value for key, value in pairs if isinstance(key, ast.Constant) and key.value == name])


def _texts(nodes: list[ast.expr]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.IfExp):
            yield from _texts([node.body, node.orelse])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value:
            yield node.value
