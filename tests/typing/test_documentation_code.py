"""The programs of the documentation are those of a user with strict types: mypy accepts all of them."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
PROGRAM = re.compile(r"(?:Write\s+`(\w+)\.py`:\n\n)?^```(?:py|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXCERPT = re.compile(r"^<!-- from: .*?^```$", re.MULTILINE | re.DOTALL)


def programs() -> dict[str, str]:
    """The text of each program by the name of its module. An excerpt of an example is not a program."""
    found = dict[str, str]()
    for page in PAGES:
        text = EXCERPT.sub("", page.read_text("utf-8"))
        for number, (name, code) in enumerate(PROGRAM.findall(text)):
            found[name or f"{page.parent.name}_{page.stem}_{number}"] = code
    return found


def test_mypy_accepts_the_programs_of_the_documentation(tmp_path: Path) -> None:
    """In strict mode. The modules of a page import each other."""
    for name, code in programs().items():
        (tmp_path / f"{name}.py").write_text(code, "utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", *sorted(map(str, tmp_path.glob("*.py")))]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout
    assert len(programs()) > 30
