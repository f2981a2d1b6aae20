"""Write `wfcore.sync_types`: what the areas of `wfcore.SyncCore` are for type checkers and editors.

Each class of an area has a counterpart, with the methods that programs call and what their sync calls return. Run it
after a change of the signature or the docstring of a use case.
"""

import ast
import builtins
import inspect
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Final, get_args, get_type_hints

from wfcore.core import AREAS, Core, module_of

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "src" / "wfcore" / "sync_types"
NOTE: Final = "# Written by tests/typing/write_sync_types.py\n"
FIRST_PARTY: Final = '--config=lint.isort.known-first-party=["wfcore"]'
"""As ruff finds by itself when the files are there."""
OF_CORE: Final = {"on", "off", "principal"}
"""The methods of `Core` that `SyncCore` does not define itself."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Methods = Mapping[type, set[str]]
"""The names of the methods that programs call, by the class that defines them."""


def made() -> dict[str, str]:
    """The texts of the files by name: one for each package of use cases, and one with all areas."""
    areas = {area: getattr(import_module(module_of(area)), kind) for area, (_, kind, _) in AREAS.items()}
    classes = dict.fromkeys(each for kind in areas.values() for each in kind.__mro__)
    within = {name: of for kind in classes for name, of in _areas_in(kind).items()}
    methods = _methods(areas | within)
    areas = {area: kind for area, kind in areas.items() if _has_methods(kind, methods)}
    files: dict[str, _File] = defaultdict(_File)
    of_all = [*within.values(), *areas.values()]
    for kind in dict.fromkeys(each for area in of_all for each in reversed(area.__mro__)):
        if _has_methods(kind, methods):
            files[_group(kind)].add(_Class(kind, methods))
    files["__init__"].add(_Class(Core, {**methods, Core: OF_CORE}, areas))
    return {f"{name}.pyi": file.text() for name, file in files.items()}


def _areas_in(kind: type) -> dict[str, type]:
    """The areas that are attributes of an area, such as `core.workflows.interfaces`."""
    declared = vars(kind).get("__annotations__", {})
    return {name: of for name, of in declared.items() if isinstance(of, type) and hasattr(of, "area")}


def _methods(areas: Mapping[str, type]) -> Methods:
    from sphinx_parts.python_api import methods_of

    found: dict[type, set[str]] = {}
    for area, kind in areas.items():
        for name in methods_of(area, kind):
            owner = next(each for each in kind.__mro__ if name in vars(each))
            found.setdefault(owner, set()).add(name)
    return found


def _has_methods(kind: object, methods: Methods) -> bool:
    return isinstance(kind, type) and any(each in methods for each in kind.__mro__)


def _group(kind: type) -> str:
    """The file of a class: that of `wfcore.runtime.runs.reading.RunReading` is `runs`."""
    parts = kind.__module__.split(".")
    return parts[2] if len(parts) > 2 else parts[-1]


class _File:
    """Classes, and what they import."""

    def __init__(self) -> None:
        self._imports: dict[str, str] = {}
        self._classes: list[str] = []

    def add(self, written: "_Class") -> None:
        """ValueError if two classes import different things by one name."""
        self._classes.append(ast.unparse(ast.fix_missing_locations(written.node)))
        for name, line in written.imports.items():
            if self._imports.setdefault(name, line) != line:
                raise ValueError(f"two imports of one name: {line}; {self._imports[name]}")

    def text(self) -> str:
        text = "\n".join([NOTE, *self._imports.values(), *self._classes])
        for options in (["check", "--select=I", FIRST_PARTY, "--fix", "--quiet"], ["format", "--quiet"]):
            command = [sys.executable, "-m", "ruff", *options, f"--stdin-filename={FOLDER / '__init__.pyi'}", "-"]
            text = subprocess.run(command, cwd=ROOT, input=text, stdout=subprocess.PIPE, text=True, check=True).stdout
        return text


class _Class(ast.NodeTransformer):
    """The counterpart of a class as a syntax tree, and the lines that import its names."""

    def __init__(self, kind: type, methods: Methods, areas: Mapping[str, type] | None = None) -> None:
        self.imports: dict[str, str] = {}
        self._kind, self._methods = kind, methods
        self._module = import_module(kind.__module__)
        tree = ast.parse(inspect.getsource(self._module))
        self._imported = _imported(tree)
        (found,) = (each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == kind.__name__)
        attributes = [
            ast.AnnAssign(ast.Name(area), self._counterpart(of), simple=1)
            for area, of in (areas or _areas_in(kind)).items()
        ]
        functions = [each for each in found.body if isinstance(each, Function) and each.name in methods.get(kind, ())]
        body = [*_docstring(found), *attributes, *map(self._method, functions)]
        bases = [base for each in found.bases if (base := self._base(each))]
        self.node = ast.ClassDef("SyncUseCases" if kind is Core else f"Sync{kind.__name__}", bases, [], body, [])

    def _base(self, node: ast.expr) -> ast.expr | None:
        """`RecordServiceBase[Hook]` as `SyncRecordServiceBase[Hook]`; None for a base without methods for programs."""
        if isinstance(node, ast.Subscript):
            name = self._base(node.value)
            return name and ast.Subscript(name, self.visit(node.slice))
        assert isinstance(node, ast.Name)
        kind = getattr(self._module, node.id)
        if _has_methods(kind, self._methods):
            return self._counterpart(kind)
        return self.visit(node) if node.id == "Generic" else None

    def _counterpart(self, kind: type) -> ast.Name:
        name = f"Sync{kind.__name__}"
        if _group(kind) != _group(self._kind):
            self.imports[name] = f"from wfcore.sync_types.{_group(kind)} import {name}"
        return ast.Name(name)

    def _method(self, node: Function) -> ast.FunctionDef:
        every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        for argument in every:
            if argument and argument.annotation:
                argument.annotation = self.visit(argument.annotation)
        node.args.defaults = [_default(each) for each in node.args.defaults]
        node.args.kw_defaults = [each and _default(each) for each in node.args.kw_defaults]
        assert node.returns is not None
        returned = node.returns if isinstance(node, ast.AsyncFunctionDef) else self._awaited(node.returns)
        body = _docstring(node) or [ast.Expr(ast.Constant(...))]
        return ast.FunctionDef(node.name, node.args, body, [], self.visit(_iterated(returned)))

    def _awaited(self, node: ast.expr) -> ast.expr:
        """The result of what a function returns that is no coroutine function: `RunView` for `Turn`."""
        kind = getattr(self._module, node.id, None) if isinstance(node, ast.Name) else None
        if kind is None or not hasattr(kind, "__await__"):
            return node
        result = get_args(get_type_hints(kind.__await__)["return"])[2]  # of its Generator
        self._imported[result.__name__] = f"from {result.__module__} import {result.__name__}"
        return ast.Name(result.__name__)

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if not hasattr(builtins, node.id):
            own = f"from {self._module.__name__} import {node.id}"
            self.imports[node.id] = self._imported.get(node.id, own)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        """An annotation in quotes, which a stub does not need."""
        return self.visit(ast.parse(node.value, mode="eval").body) if isinstance(node.value, str) else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.Subscript:
        is_literal = isinstance(node.value, ast.Name) and node.value.id == "Literal"
        return ast.Subscript(self.visit(node.value), node.slice if is_literal else self.visit(node.slice))


def _imported(tree: ast.Module) -> dict[str, str]:
    """The lines of the imports of a module, each with one name, by that name."""
    found = {"Generator": "from collections.abc import Generator"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            start = f"from {node.module} " if isinstance(node, ast.ImportFrom) else ""
            found |= {each.asname or each.name: f"{start}import {ast.unparse(each)}" for each in node.names}
    return found


def _iterated(node: ast.expr) -> ast.expr:
    """`Generator[Event]` for `AsyncIterator[Event]`, as `wfcore.synchronous` iterates over it."""
    match node:
        case ast.Subscript(value=ast.Name(id="AsyncIterator"), slice=item):
            return ast.Subscript(ast.Name("Generator"), item)
        case ast.Subscript(value=ast.Name(id="AsyncGenerator"), slice=ast.Tuple(elts=[item, _])):
            return ast.Subscript(ast.Name("Generator"), item)
    return node


def _default(node: ast.expr) -> ast.expr:
    """A default as a stub can have it: a literal, or else `...`."""
    try:
        ast.literal_eval(node)
    except ValueError:
        return ast.Constant(...)
    return node


def _docstring(node: ast.ClassDef | Function) -> list[ast.stmt]:
    """The first paragraph."""
    text = ast.get_docstring(node)
    return [ast.Expr(ast.Constant(text.split("\n\n")[0]))] if text else []


if __name__ == "__main__":
    sys.path.append(str(ROOT / "docs"))
    for name, text in made().items():
        (FOLDER / name).write_text(text)
