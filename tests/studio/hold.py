"""A tool for runs that go on when a test says so, not when time has passed."""

import time
from pathlib import Path

import wfcore


@wfcore.tool(idempotent=True)
def hold(path: str) -> str:
    """Return as soon as the file exists."""
    while not Path(path).exists():
        time.sleep(0.05)  # another process makes the file
    return "released"
