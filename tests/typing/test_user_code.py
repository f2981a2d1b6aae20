"""Types of the public interface: mypy and pyright, both strict, accept what users write, and refuse misspelt fields and
wrong types.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import HANG

CODE = Path(__file__).with_name("user_code.py")
ROOT = CODE.parents[2]
NODE = ROOT / ".venv-studio" / "bin" / "node"
PYRIGHT = CODE.parent / "node_modules" / "pyright" / "index.js"


def marked() -> set[tuple[int, str]]:
    """The lines that must be refused, each with the codes of mypy."""
    lines = enumerate(CODE.read_text("utf-8").splitlines(), 1)
    return {(number, code) for number, line in lines for code in re.findall(r"# E: ([a-z-]+)", line)}


def test_mypy_refuses_exactly_the_marked_lines() -> None:
    """Every marked line has an error of the marked code, and no other line has an error.

    The options are those of `make lint`, so that mypy reads what it stored there about the library.
    """
    command = [sys.executable, "-m", "mypy", "--strict", str(CODE)]
    output = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False).stdout
    found = {(int(line), code) for line, code in re.findall(r"user_code\.py:(\d+): error: .*\[([a-z-]+)\]", output)}
    assert found == marked(), output


@pytest.mark.skipif(not (NODE.exists() and PYRIGHT.exists()), reason="needs the Node of `make typing`")
def test_pyright_refuses_exactly_the_marked_lines(tmp_path: Path) -> None:
    """In its strict mode, the same lines as mypy."""
    (tmp_path / CODE.name).write_text(CODE.read_text("utf-8"))
    config = {"include": [CODE.name], "typeCheckingMode": "strict", "extraPaths": [str(ROOT / "src")]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    command = [str(NODE), str(PYRIGHT), "--pythonpath", sys.executable, "--outputjson", "-p", str(tmp_path)]
    output = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG).stdout
    found = {each["range"]["start"]["line"] + 1 for each in json.loads(output)["generalDiagnostics"]}
    assert found == {line for line, _ in marked()}, output
