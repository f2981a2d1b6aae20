"""Rows on imports: the cost of `import wfcore`, of opening a file, and of commands."""

import asyncio
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from statistics import median

from benchmarks.library import ORG
from benchmarks.scale import Scale
from benchmarks.table import Figure
from wfcore.bootstrap import open as open_core

CLOCK = "import time; t = time.process_time(); import {module}; print(time.process_time() - t)"
COMPILED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""The environment of the processes: modules are compiled once, as after an installation."""

OPEN = """
import asyncio, wfcore
async def main():
    async with wfcore.open("{url}"):
        pass
asyncio.run(main())
"""

OPEN_NEW = """
import asyncio, tempfile, wfcore
async def main(folder):
    async with wfcore.open(f"sqlite:///{folder}/new.db"):
        pass
with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(folder))
"""


def imports(scale: Scale) -> Iterator[Figure]:
    """CPU time of an import statement in a new interpreter, in seconds."""
    wfcore, starlette, opened = (
        _median(name, scale) for name in ("wfcore", "starlette.applications", "wfcore.bootstrap")
    )
    yield Figure("import wfcore", "time to Starlette's", wfcore / starlette, "",
                 f"{starlette * 1e3:.0f} ms", f"{wfcore * 1e3:.0f} ms", at_most=1.0)  # fmt: skip
    yield Figure("", "with wfcore.open looked up", opened * 1e3, "ms")


def _median(module: str, scale: Scale) -> float:
    return median(_seconds(module) for _ in range(scale.rounds))


def _seconds(module: str) -> float:
    code = CLOCK.format(module=module)
    command = [sys.executable, "-c", code]
    return float(subprocess.run(command, check=True, capture_output=True, text=True, env=COMPILED).stdout)


def opening(scale: Scale) -> Iterator[Figure]:
    """CPU time of processes that open a file, and of commands, in seconds."""
    url = f"sqlite:///{scale.directory / 'opening.db'}"
    org, user = ORG, "u1"
    asyncio.run(_prepared(url, org, user))
    command = [sys.executable, "-m", "wfcore"]
    token = [*command, "token", "create", "--database", url, "--org", org, "--user-id", user, "--all-scopes"]
    for work, arguments, goal in (
        ("wfcore.open on a file, in a new process", [sys.executable, "-c", OPEN.format(url=url)], 0.25),
        ("wfcore.open on a new file, in a new process", [sys.executable, "-c", OPEN_NEW], 0.25),
        ("wfcore --help", [*command, "--help"], 0.15),
        ("wfcore token create", token, 0.4),
    ):
        seconds = median(_cpu_seconds(arguments) for _ in range(scale.rounds))
        yield Figure(work, "CPU", seconds, "s", at_most=goal)


async def _prepared(url: str, org: str, user: str) -> None:
    async with open_core(url, worker=False) as core:
        await core.directory.create_organization("Bench", id=org)
        await core.directory.add_member(org, user)


def _cpu_seconds(arguments: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(arguments, check=True, capture_output=True, env=COMPILED)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
