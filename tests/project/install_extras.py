"""Builds wheel and source distribution, installs them into environments of their own, and uses them there.

`python tests/project/install_extras.py [core|sdist|EXTRA ...]` prints the number of distributions and their size in MB
without bytecode: for the core, for the core from the source distribution, and for the wheel with each extra alone. The
exit status is 1 when a use fails for a missing package, or when the core installs more distributions than its goal.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # as the `pythonpath` of pytest

from extra_uses import EXTRAS, GOAL, RESULT, ROOT, TWENTY_LINES, USES
from waiting import HANG

UV = str(Path(sys.executable).with_name("uv"))
MISSING = ("needs packages", "ModuleNotFoundError", "ImportError", "SyntaxError", "TypeError")
"""What stands in the output of a use that fails for another reason than the network."""


CORE, SDIST = "core", "sdist"


def built(folder: Path) -> tuple[Path, Path]:
    """The wheel, which is built from the source distribution, and the source distribution."""
    subprocess.run([UV, "build", "--quiet", "--out-dir", str(folder), str(ROOT)], check=True)
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


def installed(distribution: Path, extra: str, folder: Path) -> Path:
    """The interpreter of a fresh environment."""
    python = folder / "bin" / "python"
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    requirement = f"wfcore[{extra}] @ {distribution.as_uri()}" if extra else f"wfcore @ {distribution.as_uri()}"
    subprocess.run([UV, "pip", "install", "--quiet", "--python", str(python), requirement], check=True)
    return python


def measured(environment: Path) -> tuple[int, int]:
    """The number of distributions, and the bytes of their files."""
    (packages,) = environment.glob("lib/python3*/site-packages")
    files = [file for file in packages.rglob("*") if file.is_file() and file.suffix != ".pyc"]
    return len(list(packages.glob("*.dist-info"))), sum(file.stat().st_size for file in files)


def fault(python: Path, extra: str, folder: Path) -> str:
    """What is wrong with the installation; "" for nothing."""
    folder.mkdir()
    uses = [USES[name] for name in USES if name == extra or (extra == "all" and name != "testing")]
    for program, expected in [(TWENTY_LINES, RESULT), *((use, "") for use in uses)]:
        ended = subprocess.run(
            [str(python), "-c", f"import asyncio, sys\nsys.argv = ['wfcore']\n{program}"],
            cwd=folder, capture_output=True, text=True, check=False, timeout=HANG,
        )  # fmt: skip
        if expected not in ended.stdout or any(word in ended.stderr for word in MISSING):
            return ended.stderr
    return ""


def main(extras: list[str]) -> int:
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        wheel, source = built(Path(folder, "dist"))
        for name in extras:
            place, extra = Path(folder, name), "" if name in (CORE, SDIST) else name
            python = installed(source if name == SDIST else wheel, extra, place)
            count, size = measured(place)
            problem = fault(python, extra, place / "use")
            if not extra and count > GOAL:
                problem += f"the core installs {count} distributions, more than {GOAL}"
            failed += bool(problem)
            print(f"{name:<10} {count:4} distributions {size / 2**20:7.1f} MB  {problem or 'ok'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or [CORE, SDIST, *sorted(EXTRAS), "all"]))
