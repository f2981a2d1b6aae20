"""The layout of `src`: no import cycle at any depth, small folders, one meaning for each class name."""

import ast
from collections import Counter
from pathlib import Path

import pytest
from source_tree import SRC, cycles, imports, modules, packages, siblings

MOST_MODULES = 17
MOST_LINES = 500


def test_no_import_cycle_between_modules() -> None:
    """No module imports itself through others, with imports in functions and under `TYPE_CHECKING` counted."""
    assert cycles(imports()) == []


@pytest.mark.parametrize("package", sorted(packages()))
def test_no_import_cycle_between_siblings(package: str) -> None:
    """The children of a package import each other in one direction only, each taken with everything below it."""
    assert cycles(siblings(package, imports())) == []


def test_a_cycle_is_found() -> None:
    """The search reports the modules of each cycle, and no module that only leads to one."""
    graph = {"p.a": {"p.b"}, "p.b": {"p.c.x"}, "p.c.x": set(), "p.c.y": {"p.a"}, "p.d": {"p.a"}}
    assert cycles(graph) == []
    assert cycles(siblings("p", graph)) == [["p.a", "p.b", "p.c"]]
    assert cycles({"a": {"b"}, "b": {"a"}, "c": {"a"}}) == [["a", "b"]]


def test_folders_are_small() -> None:
    """A folder of `src` has at most 17 modules, so that a reader sees its whole list at once."""
    folders = {folder for file in SRC.rglob("*.py") for folder in [file.parent] if folder != SRC}
    counted = {str(folder.relative_to(SRC)): len(_modules_in(folder)) for folder in folders}
    assert {name: count for name, count in counted.items() if count > MOST_MODULES} == {}


def test_files_are_short() -> None:
    """A module of `src` has fewer than 500 lines. A step of the schema that was released never changes."""
    modules = {str(file.relative_to(SRC)): file for file in SRC.rglob("*.py") if "versions" not in file.parts}
    long = {
        name: count for name, file in modules.items() if (count := len(file.read_text().splitlines())) >= MOST_LINES
    }
    assert long == {}


def _modules_in(folder: Path) -> list[Path]:
    return [file for file in folder.glob("*.py") if file.name != "__init__.py"]


def test_a_class_name_is_defined_once() -> None:
    """One public class name, one class: a reader who meets a name knows which one it is."""
    nodes = [node for tree in modules().values() for node in ast.walk(tree)]
    names = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef) and node.name[0] != "_")
    assert {name for name, count in names.items() if count > 1} == set()
