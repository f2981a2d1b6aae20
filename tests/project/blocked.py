"""Runs a program in which some packages cannot be imported: `python blocked.py PACKAGE,PACKAGE PROGRAM`."""

import sys
from collections.abc import Iterable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class Blocked(MetaPathFinder):
    """A finder for `sys.meta_path` that fails for these packages as the import system does for missing ones."""

    def __init__(self, packages: Iterable[str]) -> None:
        self._packages = frozenset(packages)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] in self._packages:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


if __name__ == "__main__":
    sys.meta_path.insert(0, Blocked(sys.argv[1].split(",")))
    program = sys.argv[2]
    sys.argv = ["wfcore"]
    exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
