"""Two PostgreSQL servers that Patroni and etcd manage, behind HAProxy: the programs of Debian's packages."""

import json
import os
import shutil
import signal
import subprocess
import threading
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psycopg
from server_process import free_port
from stores import PostgresServer
from waiting import HANG

PROGRAMS: Final = ("etcd", "haproxy", "patroni", "pg_ctl")
NAMES: Final = ("one", "two")

HAPROXY: Final = """
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen primary
  bind 127.0.0.1:{port}
  option httpchk GET /primary
  http-check expect status 200
  default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions
"""


class PatroniCluster(PostgresServer):
    """Implements `Store`. A disturbance kills the primary, alone or with its Patroni, as a loss of the machine does.

    Replication is synchronous. `outages` are the seconds from each kill to the first commit of the next primary.
    """

    def __init__(self, place: Path) -> None:
        missing = [name for name in PROGRAMS if shutil.which(name) is None]
        assert not missing, f"install {missing}: Debian has `etcd-server`, `haproxy`, `patroni` and `postgresql`"
        self.keeps_acknowledged = True
        self.outages: list[float] = []
        self._place = place
        self._user = "pgserver" if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root
        self._ports = {name: (free_port(), free_port()) for name in NAMES}  # of PostgreSQL and of Patroni
        self._etcd = free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._failover = threading.Thread()
        place.mkdir(mode=0o755)
        place.parent.chmod(0o755)
        if self._user:
            shutil.chown(place, self._user)
        client, peer = f"http://127.0.0.1:{self._etcd}", f"http://127.0.0.1:{free_port()}"
        self._begin("etcd", "--data-dir", str(place / "etcd"), "--initial-cluster", f"default={peer}",
                    "--listen-client-urls", client, "--advertise-client-urls", client,
                    "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer)  # fmt: skip
        for name in NAMES:
            self._begin_patroni(name)
        port = free_port()
        servers = [f"  server {name} 127.0.0.1:{own} check port {api}\n" for name, (own, api) in self._ports.items()]
        (place / "haproxy.cfg").write_text(HAPROXY.format(port=port) + "".join(servers))
        self._begin("haproxy", "-f", str(place / "haproxy.cfg"))
        self.url = f"postgresql://postgres@127.0.0.1:{port}/seed"
        self._wait_until_ready()
        self._run("CREATE DATABASE seed")

    def disturb(self, url: str, choice: float, seconds: float) -> None:
        """Kill the primary while there is a synchronous replica; otherwise do nothing."""
        leader = self._leader() if not self._failover.is_alive() else None
        if leader is None:
            return
        machine = choice > 3 / 4  # Patroni does not detect it at once: the lock in etcd must expire
        if machine:
            self._end(leader)
        with suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int((self._place / leader / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
        self._failover = threading.Thread(target=self._measure, args=(leader if machine else None,))
        self._failover.start()

    def prepare_outages(self) -> None:
        """Nothing: `synchronous_commit` is on."""

    def close(self) -> None:
        if self._failover.is_alive():
            self._failover.join()
        for name in list(self._processes):
            self._end(name, signal.SIGTERM)

    def _measure(self, machine: str | None) -> None:
        began = time.monotonic()
        self._wait_until_ready(replica=False)
        self.outages.append(time.monotonic() - began)
        if machine is not None:
            self._begin_patroni(machine)
        self._wait_until_ready()

    def _wait_until_ready(self, *, replica: bool = True) -> None:
        """Return once the primary commits, and, with `replica`, a synchronous replica has all of it."""
        while True:
            with suppress(psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction):  # of the former primary
                self._run("CREATE TABLE IF NOT EXISTS promoted ()")
                if not replica or self._leader() is not None:
                    return
            time.sleep(0.1)  # nothing notifies of this

    def _leader(self) -> str | None:
        """The primary, if it has a synchronous replica."""
        for _, api in self._ports.values():
            with suppress(OSError, ValueError):
                with urllib.request.urlopen(f"http://127.0.0.1:{api}/cluster", timeout=1) as response:
                    found = {member["role"]: member["name"] for member in json.load(response)["members"]
                             if member["state"] in ("running", "streaming")}  # fmt: skip
                if "sync_standby" in found:
                    return found.get("leader")
        return None

    def _begin_patroni(self, name: str) -> None:
        postgres, api = self._ports[name]
        program = Path(str(shutil.which("pg_ctl"))).resolve().parent
        settings: dict[str, Any] = {
            "scope": "storm",
            "name": name,
            "restapi": {"listen": f"127.0.0.1:{api}", "connect_address": f"127.0.0.1:{api}"},
            "etcd3": {"hosts": f"127.0.0.1:{self._etcd}"},
            "bootstrap": {
                "dcs": {
                    "ttl": 20,
                    "loop_wait": 1,
                    "retry_timeout": 3,
                    "primary_start_timeout": 0,
                    "synchronous_mode": True,
                    "postgresql": {"use_pg_rewind": True, "parameters": {"max_connections": 200}},
                },
                "initdb": [{"encoding": "UTF8"}, {"auth": "trust"}],
            },
            "postgresql": {
                "listen": f"127.0.0.1:{postgres}",
                "connect_address": f"127.0.0.1:{postgres}",
                "data_dir": str(self._place / name),
                "bin_dir": str(program),
                "pgpass": str(self._place / f"{name}.pgpass"),
                "authentication": {"superuser": {"username": "postgres"}, "replication": {"username": "postgres"}},
                "parameters": {"unix_socket_directories": "", "wal_log_hints": "on"},
                "pg_hba": ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"],
            },
        }
        (self._place / f"{name}.yml").write_text(json.dumps(settings))  # YAML includes JSON
        self._begin(name, str(self._place / f"{name}.yml"), program="patroni")

    def _begin(self, name: str, *arguments: str, program: str | None = None) -> None:
        with (self._place / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [program or name, *arguments], user=self._user, cwd=self._place, stdout=log, stderr=log
            )

    def _end(self, name: str, by: signal.Signals = signal.SIGKILL) -> None:
        process = self._processes.pop(name)
        process.send_signal(by)
        process.wait(HANG)
