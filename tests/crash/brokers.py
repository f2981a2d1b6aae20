"""Servers of NATS that a storm kills and suspends."""

import contextlib
import json
import signal
import time
import urllib.request
from pathlib import Path
from typing import Any

from nats_server import NatsServer, cluster


class Brokers:
    """One server, or a cluster of three that replicates the queue. `urls` are those of all of them."""

    def __init__(self, place: Path, count: int) -> None:
        place.mkdir()
        self._servers = cluster(place) if count == 3 else [NatsServer(place).start()]
        self._continues: dict[int, float] = {}
        for server in self._servers:
            server.wait()

    def spec(self) -> dict[str, Any]:
        """The option of a process that uses these servers."""
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
        """Continue the servers whose suspension is over, or of all, `whatever` the time is."""
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
