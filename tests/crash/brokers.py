"""Servers of NATS or Temporal that a storm kills and suspends."""

import contextlib
import json
import signal
import time
import urllib.request
from pathlib import Path
from typing import Any, Protocol

from nats_server import NatsServer, cluster
from temporal_server import TemporalServer


class Engine(Protocol):
    """What dispatches the runs of a storm."""

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
        self._server.wait()

    def spec(self) -> dict[str, Any]:
        return {"temporal": self._server.url}

    def disturb(self, choice: float, seconds: float) -> None:
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


class Brokers:
    """One server, or a cluster of three that replicates the queue. `urls` are those of all of them."""

    def __init__(self, place: Path, count: int) -> None:
        place.mkdir()
        self._servers = cluster(place) if count == 3 else [NatsServer(place).start()]
        self._continues: dict[int, float] = {}
        for server in self._servers:
            server.wait()

    def spec(self) -> dict[str, Any]:
        return {"nats": [server.url for server in self._servers], "replicas": len(self._servers)}

    def disturb(self, choice: float, seconds: float) -> None:
        """Kill the leader of the queue, or all servers, and start them again; or suspend the leader for a time."""
        leader = self._leader()
        if choice < 1 / 2:
            self._servers[leader].signal(signal.SIGSTOP)
            self._continues[leader] = time.monotonic() + seconds
            return
        ended = self._servers if choice > 7 / 8 else [self._servers[leader]]
        for server in ended:
            server.kill()
        for server in ended:
            server.start()

    def go_on(self, *, whatever: bool = False) -> None:
        for number, moment in list(self._continues.items()):
            if whatever or time.monotonic() > moment:
                del self._continues[number]
                self._servers[number].signal(signal.SIGCONT)

    def close(self) -> None:
        for server in self._servers:
            server.kill()

    def _leader(self) -> int:
        """The number of the server that leads the queue, by the first server that responds; 0 without a leader."""
        for server in self._servers:
            with contextlib.suppress(OSError, KeyError, IndexError, ValueError):
                url = f"http://127.0.0.1:{server.monitor}/jsz?accounts=1&streams=1"
                with urllib.request.urlopen(url, timeout=0.2) as response:
                    (account,) = json.load(response)["account_details"]
                return int(account["stream_detail"][0]["cluster"]["leader"].removeprefix("n"))
        return 0
