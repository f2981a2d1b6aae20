"""Types of the public interface: mypy accepts what users write, and refuses misspelt fields and wrong types."""

import re
import subprocess
import sys
from pathlib import Path

CODE = Path(__file__).with_name("user_code.py")


def test_mypy_refuses_exactly_the_marked_lines(tmp_path: Path) -> None:
    """Every marked line has an error of the marked code, and no other line has an error."""
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path)]
    root = CODE.parents[2]
    output = subprocess.run([*command, str(CODE)], capture_output=True, text=True, cwd=root, check=False).stdout
    found = {(int(line), code) for line, code in re.findall(r"user_code\.py:(\d+): error: .*\[([a-z-]+)\]", output)}
    marked = set[tuple[int, str]]()
    for number, line in enumerate(CODE.read_text("utf-8").splitlines(), 1):
        marked |= {(number, code) for code in re.findall(r"# E: ([a-z-]+)", line)}
    assert found == marked, output
