"""Carries out the steps of `deploy/Dockerfile` without a container engine, each stage in a folder of its own.

`python tests/project/image_steps.py` prints each step. A stage has a new environment of Python; the paths of the image
are folders below the stage's. At the end the image's command serves until its health check has passed and its stop
signal has ended it.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # as the `pythonpath` of pytest

from waiting import HANG

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
PATHS = re.compile(r"(?<![\w.])/(?=(?:src|dist|var/lib/wfcore)\b)")
"""The slash of absolute paths that the steps name."""
PORT = "8080"


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """The instructions with their arguments, in order."""
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for line in lines.replace("\\\n", " ").splitlines():
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            yield name, rest.strip()


class Stage:
    """The folder of a stage, with an environment of Python."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.here = folder
        venv.create(folder / "python", with_pip=True)
        (folder / "python/bin/useradd").write_text("#!/bin/sh\nexit 0\n")  # the steps are done by one user
        (folder / "python/bin/useradd").chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "WFCORE", "VIRTUAL"))
        }
        return kept | {"PATH": f"{self.folder}/python/bin{os.pathsep}{os.environ['PATH']}", "HOME": str(self.here)}

    def within(self, text: str) -> str:
        """A text with the paths of the image below the folder."""
        return PATHS.sub(f"{self.folder}/", text)

    def work_in(self, path: str) -> None:
        self.here = Path(self.within(path))
        self.here.mkdir(parents=True, exist_ok=True)

    def run(self, command: str) -> None:
        subprocess.run(["sh", "-ec", self.within(command)], cwd=self.here, env=self.environment, check=True)

    def copy(self, arguments: str, stages: dict[str, "Stage"]) -> None:
        """From a stage, or the tracked files of the checkout."""
        *source, target = arguments.split()
        if source[0].startswith("--from="):
            shutil.copytree(stages[source[0].partition("=")[2]].within(source[1]), self.within(target))
            return
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
        for name in filter(None, listed.decode().split("\0")):
            place = self.here / target / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place)

    def serve(self, command: list[str], check: list[str], stop: str) -> None:
        """Raises RuntimeError unless the command becomes healthy, and ends by the signal."""
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = str(one.getsockname()[1])
        check = [word.replace(PORT, port) for word in check]
        process = subprocess.Popen([*command, "--port", port], cwd=self.here, env=self.environment)
        try:
            for _ in range(300):
                if subprocess.run(check, env=self.environment, stderr=subprocess.DEVNULL, check=False).returncode == 0:
                    break
                if process.poll() is not None:
                    raise RuntimeError(f"the command ended with {process.returncode}")
                time.sleep(0.1)
            else:
                raise RuntimeError("the health check does not pass")
            process.send_signal(getattr(signal, stop))
            if process.wait(timeout=HANG):
                raise RuntimeError(f"the command ended with {process.returncode} after {stop}")
        finally:
            process.kill()


STEPS = ("COPY", "RUN", "WORKDIR")
SERVED = ("CMD", "ENTRYPOINT", "EXPOSE", "HEALTHCHECK", "STOPSIGNAL")


def carry_out(folder: Path) -> None:
    """Do every step. Raises CalledProcessError for one that fails."""
    stages: dict[str, Stage] = {}
    found: dict[str, str] = {}
    for name, arguments in instructions(DOCKERFILE.read_text()):
        print(f"{name} {arguments}", flush=True)
        if name == "FROM":
            label = arguments.partition(" AS ")[2] or "last"
            stage = stages[label] = Stage(folder / label)
        elif name == "COPY":
            stage.copy(arguments, stages)
        elif name == "RUN":
            stage.run(arguments)
        elif name == "WORKDIR":
            stage.work_in(arguments)
        else:
            found[name] = arguments
    command = json.loads(found["ENTRYPOINT"]) + json.loads(found["CMD"])
    stage.serve(command, json.loads(found["HEALTHCHECK"].partition(" CMD ")[2]), found["STOPSIGNAL"])
    print("served, healthy, and ended by its signal")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        carry_out(Path(place))
    sys.exit(0)
