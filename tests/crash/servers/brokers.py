"""Servers of NATS or Temporal that a storm kills and suspends."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from nats_server import NatsServer, cluster
from partitions import Network
from server_process import free_port
from temporal_server import TemporalServer


class Engine(Protocol):
    """What dispatches the runs of a storm. `counts` are the disturbances so far, by kind."""

    counts: Counter[str]

    def spec(self) -> dict[str, Any]:
        """The options of a process that uses it."""
        ...

    def disturb(self, choice: float, seconds: float) -> None:
        """Kill and start it again, or suspend it for so many seconds."""
        ...

    def go_on(self, *, whatever: bool = False) -> None:
        """Continue what is suspended once its time is over, or at once, `whatever` the time is."""
        ...

    def close(self) -> None: ...


class Temporal:
    """One server, which keeps its workflows in a file."""

    def __init__(self, place: Path) -> None:
        place.mkdir()
        self._server = TemporalServer(place).start()
        self._continues = 0.0
        self.counts: Counter[str] = Counter()
        self._server.wait()

    def spec(self) -> dict[str, Any]:
        return {"temporal": self._server.url}

    def disturb(self, choice: float, seconds: float) -> None:
        self.counts["suspended" if choice < 1 / 2 else "killed"] += 1
        if choice < 1 / 2:
            self._server.signal(signal.SIGSTOP)
            self._continues = time.monotonic() + seconds
            return
        self._server.kill()
        self._server.start()
        self._continues = 0.0

    def go_on(self, *, whatever: bool = False) -> None:
        if self._continues and (whatever or time.monotonic() > self._continues):
            self._continues = 0.0
            self._server.signal(signal.SIGCONT)

    def close(self) -> None:
        self._server.kill()


SLOW_CALLS = "pwrite64,fsync,fdatasync,renameat,unlinkat"
"""What JetStream calls to change its files."""

SLOW_SECONDS = 0.2
"""The delay of each call to a slow disk."""


class SlowDisk:
    """Delays each change of a process's files, by `strace`, until `end`."""

    def __init__(self, pid: int) -> None:
        delay = f"inject={SLOW_CALLS}:delay_enter={int(SLOW_SECONDS * 1e6)}"
        self._tracer = subprocess.Popen(
            ["strace", "-qq", "-f", "-p", str(pid), "-e", f"trace={SLOW_CALLS}", "-e", delay, "-o", os.devnull],
            stderr=subprocess.DEVNULL,
        )

    def end(self) -> None:
        self._tracer.terminate()
        self._tracer.wait()

    @staticmethod
    def is_available() -> bool:
        """Whether this user may trace processes."""
        return shutil.which("strace") is not None and not subprocess.run(
            ["strace", "-qq", "-e", f"inject={SLOW_CALLS}:delay_enter=1", "-o", os.devnull, "true"], check=False,
            stderr=subprocess.DEVNULL,
        ).returncode  # fmt: skip


class Brokers:
    """One server, or a cluster of three that replicates the queue."""

    def __init__(self, place: Path, count: int) -> None:
        place.mkdir()
        self.counts: Counter[str] = Counter()
        self._network: Network | None = None
        if count == 3:
            ports = [free_port() for _ in range(count)]
            self._network = Network(ports)
            self._servers = cluster(place, ports, self._network.ports)
        else:
            self._servers = [NatsServer(place).start()]
        self._kinds = ["suspended", "killed", *(["all killed", "cut off"] if self._network else [])]
        if SlowDisk.is_available():
            self._kinds.append("slow disk")
        self._until = 0.0
        self._end: Callable[[], object] = lambda: None
        for server in self._servers:
            server.wait()

    def spec(self) -> dict[str, Any]:
        return {"nats": [server.url for server in self._servers], "replicas": len(self._servers)}

    def disturb(self, choice: float, seconds: float) -> None:
        """Kill the leader of the queue, or all servers, and start them again; or disturb the leader for a time.

        Nothing while it is disturbed already. A cut and a slow disk last three times as long: an election takes some
        four seconds.
        """
        self.go_on()
        if self._until:
            return
        kind, leader = self._kinds[int(choice * len(self._kinds))], self._leader()
        self.counts[kind] += 1
        server = self._servers[leader]
        match kind:
            case "suspended":
                server.signal(signal.SIGSTOP)
                self._disturb_until(seconds, lambda: server.signal(signal.SIGCONT))
            case "cut off" if self._network is not None:
                self._network.cut(leader)
                self._disturb_until(3 * seconds, partial(self._network.cut, None))
            case "slow disk":
                self._disturb_until(3 * seconds, SlowDisk(server.pid).end)
            case _:
                ended = self._servers if kind == "all killed" else [server]
                for each in ended:
                    each.kill()
                for each in ended:
                    each.start()

    def _disturb_until(self, seconds: float, end: Callable[[], object]) -> None:
        self._until, self._end = time.monotonic() + seconds, end

    def go_on(self, *, whatever: bool = False) -> None:
        if self._until and (whatever or time.monotonic() > self._until):
            self._until = 0.0
            self._end()

    def close(self) -> None:
        self.go_on(whatever=True)
        for server in self._servers:
            server.kill()
        if self._network is not None:
            self._network.close()

    def _leader(self) -> int:
        """The number of the server that leads the queue, by the first server that responds; 0 without a leader."""
        for server in self._servers:
            with contextlib.suppress(OSError, KeyError, IndexError, ValueError):
                url = f"http://127.0.0.1:{server.monitor}/jsz?accounts=1&streams=1"
                with urllib.request.urlopen(url, timeout=0.2) as response:
                    (account,) = json.load(response)["account_details"]
                return int(account["stream_detail"][0]["cluster"]["leader"].removeprefix("n"))
        return 0
