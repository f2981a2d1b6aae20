"""Server programs that tests start, signal, kill, and start again."""

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self, TypeVar


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


class ServerProcess:
    """A program that accepts connections at `port` of 127.0.0.1, and keeps its data through a kill."""

    def __init__(self, command: Sequence[str], port: int) -> None:
        self.port = port
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> Self:
        self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        return self

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

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
                if connecting.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.01)  # another process starts: there is nothing else to wait for


S = TypeVar("S", bound=ServerProcess)


def shared(make: Callable[[Path], S]) -> S:
    """A server in a directory of its own, until this process ends."""
    folder = Path(tempfile.mkdtemp(prefix=f"server-{os.getpid()}-"))
    server = make(folder).start()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(server.kill)
    server.wait()
    return server
