"""Whether the built studio is the committed one: `make studio-check` builds it and then runs this."""

import gzip
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "src/wfcore/adapters/http/studio/static"


def main() -> int:
    """Print each file that differs from the last commit; compressed files are compared by what they contain."""
    listed = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=all", "--", str(STATIC)],
        check=True, cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    different = []
    for line in listed.stdout.splitlines():
        path = ROOT / line[3:]
        packed = path.suffix == ".gz" and path.exists()
        if packed and gzip.decompress(path.read_bytes()) == path.with_suffix("").read_bytes():
            continue
        different.append(line)
    print("\n".join(different) or "the output is the committed one")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
