"""Change the rules of the domain, one small thing at a time, and see which changes no test notices.

Usage: python tests/mutate [--show] [NAME...], with names of MODULES; without any, all of them. It works on a copy of
the repository, prints for each file how many mutants were killed, and names the survivors; `--show` prints what each
of them changed. The exit status is 0 whatever survived: a mutant can mean the same as the original.

Mutants are tried in forks of one process that has imported everything. What a module does while it is imported is over
by then, so that a mutant there survives whatever the tests say. Survivors in functions that run during the import are
therefore tried once more, each in a new process.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
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
    "flow": (
        [f"{DOMAIN}/run/flow.py"],
        [
            f"{TESTS}/run/test_flow.py",
            f"{TESTS}/run/test_loops.py",
            f"{TESTS}/run/test_retry.py",
            "tests/properties/runs/test_run_laws.py",
            "tests/properties/runs/test_repair_laws.py",
        ],
    ),
    "run": ([f"{DOMAIN}/run/*.py"], [f"{TESTS}/run", "tests/replays/test_replays.py"]),
}
"""What is changed, and the tests that have to notice."""

STATUS: Final = {None: "not tried", 0: "survived", 1: "killed", 3: "killed", 5: "no tests", 33: "no tests"}
"""What the exit status of a mutant's tests means. Any other one is of tests that did not end."""

MUTMUT: Final = (sys.executable, "-m", "mutmut")
CORES: Final = os.cpu_count() or 1
LIMIT: Final = 120
"""Seconds that the tests of one mutant may take in a process of their own."""

IMPORTING: Final = """
import importlib, sys
called = set()
sys.setprofile(lambda frame, event, value: called.add(frame.f_code.co_name) if event == "call" else None)
for module in sys.argv[1:]:
    importlib.import_module(module)
sys.setprofile(None)
print(*(name.partition("__mutmut_")[0] for name in called if "__mutmut_" in name))
"""
"""Prints which functions of a mutated module run while it is imported."""

Results = dict[str, str]
"""What became of each mutant."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("names", nargs="*", choices=[*MODULES, []], metavar="NAME")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wfcore-mutants-") as place:
        folder = copied(Path(place))
        for name in given.names or MODULES:
            found = tried(folder, *MODULES[name])
            report(found)
            if given.show:
                show(folder, found)


def show(folder: Path, found: Results) -> None:
    """Print what the survivors changed."""
    for mutant in (mutant for mutant, status in found.items() if status == "survived"):
        subprocess.run([*MUTMUT, "show", mutant], cwd=folder, check=False)


def copied(place: Path) -> Path:
    """A copy of what is tested, with which nothing else happens meanwhile."""
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    return place


def tried(folder: Path, files: list[str], patterns: list[str]) -> Results:
    """Try every mutant of these files on these tests."""
    tests = sorted(str(path.relative_to(folder)) for pattern in patterns for path in folder.glob(pattern))
    settings = {"source_paths": ["src/"], "only_mutate": files, "pytest_add_cli_args_test_selection": tests}
    lines = [f"{key} = {value}" for key, value in settings.items()]
    project = (ROOT / "pyproject.toml").read_text()
    (folder / "pyproject.toml").write_text("\n".join([project, "[tool.mutmut]", *lines, "timeout_multiplier = 5.0\n"]))
    shutil.rmtree(folder / "mutants", ignore_errors=True)
    command = [*MUTMUT, "run", "--max-children", str(CORES)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout[-3000:]}{done.stderr}")
    found = dict(results(folder))
    early = called_by_imports(folder / "mutants", {mutant.rpartition(".")[0] for mutant in found})
    left = [mutant for mutant, status in found.items() if status == "survived" and function_of(mutant) in early]
    with ThreadPoolExecutor(CORES) as pool:
        again = pool.map(lambda mutant: tried_alone(folder / "mutants", mutant, tests), left)
        return found | dict(zip(left, again, strict=True))


def function_of(mutant: str) -> str:
    """The name of the changed function, as mutmut writes it."""
    return mutant.partition("__mutmut_")[0].rpartition(".")[2]


def called_by_imports(place: Path, modules: set[str]) -> set[str]:
    """The functions that run while one of these modules is imported."""
    environment = {**os.environ, "MUTANT_UNDER_TEST": "", "PYTHONPATH": "src"}
    command = [sys.executable, "-c", IMPORTING, *sorted(modules)]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def tried_alone(place: Path, mutant: str, tests: list[str]) -> str:
    """What became of one mutant in a process that imports it."""
    environment = {**os.environ, "MUTANT_UNDER_TEST": mutant, "PYTHONPATH": "src"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", *tests]
    try:
        done = subprocess.run(command, cwd=place, env=environment, capture_output=True, check=False, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return "timeout"
    return "killed" if done.returncode else "survived"


def results(folder: Path) -> Iterator[tuple[str, str]]:
    """Each mutant and what became of it in a fork."""
    for file in sorted((folder / "mutants").rglob("*.meta")):
        for mutant, status in json.loads(file.read_text())["exit_code_by_key"].items():
            yield mutant, STATUS.get(status, "timeout")


def report(found: Results) -> None:
    counts: dict[str, Counter[str]] = {}
    left: dict[str, Counter[str]] = {}
    for mutant, status in found.items():
        module, function = mutant.rpartition(".")[0], function_of(mutant)
        counts.setdefault(module, Counter())[status] += 1
        if status not in ("killed", "timeout"):
            left.setdefault(module, Counter())[f"{function.removeprefix('x_')} ({status})"] += 1
    for module, count in counts.items():
        killed = count["killed"] + count["timeout"]
        others = ", ".join(f"{count[key]} {key}" for key in ("survived", "no tests", "not tried") if count[key])
        print(f"{module}: {killed} of {count.total()} killed{others and ', '}{others}", flush=True)
        for function, number in left.get(module, Counter()).most_common():
            print(f"    {number:4} {function}", flush=True)


if __name__ == "__main__":
    main()
