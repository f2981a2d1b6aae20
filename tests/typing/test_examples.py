"""The examples are programs of a user with strict types: mypy accepts all of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
FOLDERS = sorted({file.relative_to(EXAMPLES).parts[0] for file in EXAMPLES.glob("*/*.py")})


@pytest.mark.parametrize("folder", [".", *FOLDERS])
def test_mypy_accepts_the_examples(folder: str) -> None:
    """In strict mode, with the modules of the folder as those of a program that begins there."""
    place = EXAMPLES / folder
    files = sorted(place.glob("*.py" if folder == "." else "**/*.py"))
    config = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    command = [sys.executable, "-m", "mypy", *config, *map(str, files)]
    path = {"MYPYPATH": os.pathsep.join([str(ROOT / "src"), str(place)])}
    done = subprocess.run(command, capture_output=True, text=True, cwd=place, env=os.environ | path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
