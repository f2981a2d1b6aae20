"""Libraries of npm that tests run on Node, and clients in a Node process of their own.

A library is installed once, into the user's cache, if Node and npm are installed; otherwise its tests are skipped.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Final

import attrs
from clients import Json
from waiting import HANG

INSTALL_SECONDS: Final = 45
NPM_OPTIONS: Final = ("--fetch-retries=0", "--fetch-timeout=15000", "--ignore-scripts", "--no-save", "--loglevel=error")
LONGEST_LINE: Final = 2**22


@cache
def library(name: str, version: str, main: str, *, oldest_node: tuple[int, int] = (20, 0)) -> Path | str:
    """The main module of this library, or the reason why it is missing."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return "needs Node and npm"
    node = subprocess.run(["node", "--version"], check=True, capture_output=True, text=True).stdout
    if tuple(map(int, re.findall(r"[0-9]+", node)[:2])) < oldest_node:
        return f"needs Node {oldest_node[0]}.{oldest_node[1]}"
    cache_place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wfcore-tests"
    place = cache_place / f"{name.strip('@').replace('/', '-')}-{version}"
    found = place / "node_modules" / name / main
    if not found.exists():
        try:
            _install(place, f"{name}@{version}")
        except (OSError, subprocess.SubprocessError) as error:
            return f"{name} cannot be installed: {getattr(error, 'stderr', None) or error}"
    return found


def _install(place: Path, package: str) -> None:
    """Install the library atomically: another test worker can do the same."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as made:
        command = ["npm", "install", "--prefix", made, *NPM_OPTIONS, package]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS)
        try:
            Path(made).rename(place)
        except OSError:
            if not place.exists():
                raise


@attrs.frozen
class NodeClient:
    """A script on Node that answers each line of JSON with a line of JSON."""

    process: asyncio.subprocess.Process

    async def call(self, **command: object) -> Json:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        async with asyncio.timeout(HANG):
            line = await self.process.stdout.readline()
        assert line, "the script ended"
        found: Json = json.loads(line)
        return found


@asynccontextmanager
async def node_client(script: str, *arguments: str | Path) -> AsyncIterator[NodeClient]:
    """The script beside this module, with these arguments; it ends when its input does."""
    process = await asyncio.create_subprocess_exec(
        "node", Path(__file__).with_name(script), *arguments,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, limit=LONGEST_LINE,
    )  # fmt: skip
    try:
        yield NodeClient(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
