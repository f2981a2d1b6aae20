"""Each promise of the contract suites is broken once: the test of it fails on an adapter that is wrong in that way."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

from breaking import BROKEN

FOLDER = Path(__file__).parent
CLASSES = sorted({test.rpartition("::")[0] for test in BROKEN})
FILES = {file.name: file for file in FOLDER.rglob("test_*.py")}


def inherited_by(place: str) -> set[str]:
    """The tests that the class of an adapter inherits from its suite."""
    file, _, cls = place.partition("::")
    suite = getattr(import_module(file.removesuffix(".py")), cls)
    tests = [name for name in dir(suite) if name.startswith("test_")]
    return {f"{place}::{name}" for name in tests if getattr(suite, name).__module__.startswith("wfcore.testing.")}


def _place_of(test_class: str) -> str:
    """With the path of its file."""
    file, _, cls = test_class.partition("::")
    return f"{FILES[file]}::{cls}"


def test_every_promise_has_a_wrong_adapter() -> None:
    """A test that is gone loses its fault, a new one gets one: at least 95 % of the tests have one at any time."""
    tests = {test for place in CLASSES for test in inherited_by(place)}
    assert BROKEN.keys() - tests == set()
    missing = sorted(tests - BROKEN.keys())
    assert len(missing) <= len(tests) * 0.05, missing


def test_every_wrong_adapter_is_seen(tmp_path: Path) -> None:
    """In one process: every test of the table fails, in at least one of its variants."""
    report = tmp_path / "report.xml"
    options = [
        "-q",
        "--tb=no",
        "-p",
        "breaking",
        "-p",
        "no:xdist",
        "-W",
        "default",
        "--timeout=20",
        f"--junitxml={report}",
    ]
    command = [sys.executable, "-m", "pytest", *options, *(_place_of(each) for each in CLASSES)]
    ended = subprocess.run(command, cwd=FOLDER.parents[1], capture_output=True, text=True, check=False)
    seen: dict[str, bool] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        *_, module, cls = case.attrib["classname"].split(".")
        name = f"{module}.py::{cls}::{case.attrib['name'].partition('[')[0]}"
        seen[name] = seen.get(name, False) or case.find("failure") is not None or case.find("error") is not None
    assert set(seen) == set(BROKEN), ended.stdout
    assert [name for name, failed in seen.items() if not failed] == []
    assert len(BROKEN) >= 150
