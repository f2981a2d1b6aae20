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
from contextlib import suppress
from pathlib import Path
from random import SystemRandom
from typing import Self, TypeVar

PORTS = range(12_000, 32_000)
"""Below those that Linux gives to connections: one of these would take a port before its server listens at it."""


def free_port() -> int:
    """A port at which nothing listens. Hypothesis seeds `random`, and other processes would choose the same ports."""
    while True:
        port = SystemRandom().choice(PORTS)
        with socket.socket() as listening, suppress(OSError):
            listening.bind(("127.0.0.1", port))
            return port


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
