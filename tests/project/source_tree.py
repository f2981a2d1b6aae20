"""The modules of `src`, and the imports between them, read from the syntax trees."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"

Graph = Mapping[str, set[str]]


@cache
def modules() -> dict[str, ast.Module]:
    """The syntax tree of every module of wfcore, by dotted name; a package stands for its `__init__`."""
    found = {}
    for file in sorted(SRC.rglob("*.py")):
        parts = file.relative_to(SRC).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = ast.parse(file.read_text(), str(file))
    return found


@cache
def packages() -> set[str]:
    """The names of the modules that are packages."""
    return {".".join(file.parent.relative_to(SRC).parts) for file in SRC.rglob("__init__.py")}


def imported_names(tree: ast.Module) -> Iterator[str]:
    """Every dotted name that a module imports, at any depth: in functions and under `TYPE_CHECKING` too."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.ImportFrom():
                raise ValueError("the sources of wfcore use absolute imports only")
            case ast.Call(func=ast.Name(id="import_module"), args=[ast.Constant(value=str(name)), *_]):
                yield name


@cache
def imports() -> Graph:
    """For every module of wfcore, the modules of wfcore that it imports."""
    known = modules()
    return {
        name: {target for imported in imported_names(tree) if (target := _module_of(imported, known))} - {name}
        for name, tree in known.items()
    }


def _module_of(imported: str, known: Mapping[str, ast.Module]) -> str | None:
    """The module that a dotted name stands for or in which it is defined; None outside of wfcore."""
    for name in (imported, imported.rpartition(".")[0]):
        if name in known:
            return name
    return None


def cycles(graph: Graph) -> list[list[str]]:
    """The strongly connected components of more than one node (Tarjan 1972), each sorted."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(graph.get(node, ())):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            at = stack.index(node)
            component = stack[at:]
            del stack[at:]
            if len(component) > 1:
                found.append(sorted(component))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def siblings(package: str, graph: Graph) -> Graph:
    """The imports between the direct children of a package, each child with all that is below it.

    The package's own `__init__` is left out: a front imports its children, and no child may import the front, which the
    graph of modules shows.
    """
    prefix = f"{package}."

    def child(module: str) -> str | None:
        return prefix + module[len(prefix) :].split(".", maxsplit=1)[0] if module.startswith(prefix) else None

    between: dict[str, set[str]] = {}
    for module, targets in graph.items():
        if source := child(module):
            between.setdefault(source, set()).update(
                other for target in targets if (other := child(target)) and other != source
            )
    return between
