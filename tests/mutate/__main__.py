"""Change the rules of the domain, one small thing at a time, and see which changes no test notices.

Usage: python tests/mutate [--show] [NAME...], with names of MODULES; without any, all of them. It works on a copy of
the repository, prints for each file how many mutants were killed, and names the survivors; `--show` prints what each
of them changed. The exit status is 0 whatever survived: a mutant can mean the same as the original.

Mutants are tried in forks of one process that has imported everything. What a module does while it is imported is over
by then, so that a mutant there survives whatever the tests say: survivors are tried once more, each in a process that
imports the mutant.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
DOMAIN: Final = "src/wfcore/domain"
TESTS: Final = "tests/unit/domain"

MODULES: Final[Mapping[str, tuple[list[str], list[str]]]] = {
    "access": ([f"{DOMAIN}/resources/access.py"], [f"{TESTS}/resources/test_access*.py"]),
    "lifecycle": ([f"{DOMAIN}/resources/lifecycle.py"], [f"{TESTS}/resources/test_lifecycle*.py"]),
    "schedule": ([f"{DOMAIN}/triggers/schedule.py"], [f"{TESTS}/triggers/test_schedule*.py"]),
    "graph": ([f"{DOMAIN}/graph/*.py"], [f"{TESTS}/graph"]),
    "run": ([f"{DOMAIN}/run/*.py"], [f"{TESTS}/run", "tests/replays/test_replays.py"]),
}
"""What is changed, and the tests that have to notice."""

KILLED: Final = {1: "killed", 3: "killed", 0: "survived", 5: "no tests", 33: "no tests"}
"""Exit statuses of a mutant's tests. Any other one is a test that does not end."""

PRELOADED: Final = ("attrs", "celpy", "hypothesis", "jsonschema_rs", "lark", "msgspec", "orjson", "pytest", "re2")

FIRST: Final = 'process_isolation = "fork"\ntimeout_multiplier = 5.0\n'
AGAIN: Final = """process_isolation = "forkserver"
forkserver_warmup = "import"
preload_modules_file = "preloaded.txt"
timeout_multiplier = 5.0
timeout_constant = 60.0
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("names", nargs="*", choices=[*MODULES, []], metavar="NAME")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wfcore-mutants-") as place:
        folder = copied(Path(place))
        chosen = [MODULES[name] for name in given.names or MODULES]
        run(folder, chosen, FIRST)
        if undecided := [name for name, status in results(folder) if status == "survived"]:
            run(folder, chosen, AGAIN, *undecided)
        report(folder)
        if given.show:
            for name in (name for name, status in results(folder) if status == "survived"):
                subprocess.run([*MUTMUT, "show", name], cwd=folder, check=False)


MUTMUT: Final = (sys.executable, "-m", "mutmut")


def copied(place: Path) -> Path:
    """A copy of what is tested, with which nothing else happens meanwhile."""
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", place)
    (place / "preloaded.txt").write_text("\n".join(PRELOADED))
    return place


def run(folder: Path, chosen: Collection[tuple[list[str], list[str]]], how: str, *mutants: str) -> None:
    """Try these mutants, or all of the chosen files."""
    files = [file for group, _ in chosen for file in group]
    tests = [str(path.relative_to(folder)) for _, group in chosen for name in group for path in folder.glob(name)]
    settings = f"source_paths = ['src/']\nonly_mutate = {files}\npytest_add_cli_args_test_selection = {tests}\n"
    kept = (ROOT / "pyproject.toml").read_text()
    (folder / "pyproject.toml").write_text(f"{kept}\n[tool.mutmut]\n{settings}{how}")
    command = [*MUTMUT, "run", "--max-children", str(os.cpu_count() or 1), *mutants]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout[-3000:]}{done.stderr}")


def results(folder: Path) -> Iterator[tuple[str, str]]:
    """Each mutant and what became of it."""
    for file in sorted((folder / "mutants").rglob("*.meta")):
        for name, status in json.loads(file.read_text())["exit_code_by_key"].items():
            yield name, KILLED.get(status, "timeout")


def report(folder: Path) -> None:
    counts: dict[str, Counter[str]] = {}
    left: dict[str, Counter[str]] = {}
    for name, status in results(folder):
        module, _, function = name.partition("__mutmut_")[0].rpartition(".")
        counts.setdefault(module, Counter())[status] += 1
        if status in ("survived", "no tests"):
            left.setdefault(module, Counter())[f"{function.removeprefix('x_')} ({status})"] += 1
    for module, found in counts.items():
        killed, total = found["killed"] + found["timeout"], found.total()
        print(f"{module}: {killed} of {total} killed, {found['survived']} survived, {found['no tests']} without tests")
        for function, count in left.get(module, Counter()).most_common():
            print(f"    {count:4} {function}")


if __name__ == "__main__":
    main()
