"""The programs that `make` runs beside the suite can begin: they have another `sys.path` than tests."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import HANG

ROOT = Path(__file__).parents[3]
PROGRAMS = sorted(set(re.findall(r"\$\(BIN\)/python (tests/\S+)", (ROOT / "Makefile").read_text())))

LOAD = """
import runpy, sys
from pathlib import Path
program = Path(sys.argv[1])
sys.path.insert(0, str(program if program.is_dir() else program.parent))
runpy.run_path(str(program / "__main__.py" if program.is_dir() else program), run_name="loaded")
"""


def test_there_are_programs() -> None:
    """The names are found in the Makefile."""
    assert {"tests/crash", "tests/crash/disk/power_cuts.py", "tests/project/install_extras.py"} <= set(PROGRAMS)


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_finds_its_imports(program: str) -> None:
    """With the path that the program has when `make` starts it."""
    command = [sys.executable, "-P", "-c", LOAD, str(ROOT / program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
