"""Kill real processes at every point of every scenario, and print the results: `make crash`.

    python tests/crash [--store STORE] [--seconds S] [--scenario NAME ...] [--point NAME] [--storm S] [--histories S]
        [--nats N | --temporal] [--servers N] [--workers N] [--databases N]

Without `--seconds` there is an experiment for every point; with it as many as the time allows, evenly over scenarios
and boundaries, the same ones each time. `--point` runs the experiment of one point, `write/amid/3`, as the list of
problems names it. Of the stores, `sqlite`, `aiosqlite` and `postgres` are for all experiments, `replica`, `async-
replica` and `patroni` for storms with failovers of PostgreSQL to a replica. `--nats` dispatches the runs of a storm by
a server of NATS, or by a cluster of three, `--temporal` by a server of Temporal, which are disturbed too;
`--servers` and `--workers` are the processes of a storm. With `--databases` it has so many organizations, which are
moved between so many shards. `--histories` records concurrent operations of two processes for so many seconds, and as
long while the processes are killed, and checks that they are linearizable. The exit status is 1 when a completed step
was repeated, an acknowledged event lost, a run stranded, an output different, or a history has no valid order.
"""

import argparse
import itertools
import queue
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1]))  # as the `pythonpath` of pytest
sys.path.extend(str(Path(__file__).with_name(folder)) for folder in ("consistency", "processes", "servers"))

from brokers import Brokers, Engine, Temporal
from failover import ReplicatedServer
from fork_server import ForkServer
from histories import Histories
from kill_experiments import FAULTS, SCENARIOS, Baseline, Verdict
from patroni_cluster import PatroniCluster
from process_roles import ORG
from random_kills import RandomKills
from scenarios import spec
from shards import ShardedStore
from stores import PostgresServer, SqliteFiles, Store

GOLDEN = 0.6180339887498949
SCHEMES = {"sqlite": "sqlite", "aiosqlite": "sqlite+aiosqlite"}
MIDWAY = "append/acknowledged/4"
"""The kill of the first process of `recovery`: its points are those of the process that takes over."""

STORES = ("sqlite", "aiosqlite", "postgres", "replica", "async-replica", "patroni")

Clusters = ReplicatedServer | PatroniCluster
"""The stores that fail over."""

Task = tuple[Baseline, str]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    with tempfile.TemporaryDirectory(prefix="crash-") as root:
        store: Store | None = None
        fork_servers = [ForkServer(*_to_warm_up_on(options.store)) for _ in range(2)]
        try:
            parts = [_store(options.store, Path(root), number) for number in range(options.databases)]
            store = ShardedStore(parts) if len(parts) > 1 else parts[0]
            seed = spec(Path(root), store.url, "seed", "seed", orgs=_orgs(options))
            assert fork_servers[0].run(seed) == 0, Path(root, "seed.out").read_text()
            faults = _run_all(options, Path(root), store, fork_servers)
            for kills in (False, True) if options.histories else ():
                faults += Histories(Path(root), store, fork_servers, options.histories, kills=kills).run()
            if options.storm:
                faults += _storm(options, Path(root), store, fork_servers)
        finally:
            for fork_server in fork_servers:
                fork_server.close()
            for part in _parts(store):
                if isinstance(part, Clusters):
                    part.close()
    return int(faults > 0)


def _storm(options: argparse.Namespace, root: Path, store: Store, fork_servers: list[ForkServer]) -> int:
    brokers: Engine | None = Brokers(root / "brokers", options.nats) if options.nats else None
    if options.temporal:
        brokers = Temporal(root / "brokers")
    try:
        roles = ["server"] * options.servers + ["worker"] * options.workers + ["mover"] * (options.databases > 1)
        orgs = _orgs(options)
        return RandomKills(root, store, fork_servers, options.storm, brokers=brokers, roles=roles, orgs=orgs).run()
    finally:
        outages = [seconds for part in _parts(store) if isinstance(part, Clusters) for seconds in part.outages]
        if outages:
            print(f"{len(outages)} failovers, {max(outages):.1f} s without a primary at most")
        if brokers is not None:
            print("brokers:", ", ".join(f"{count} {kind}" for kind, count in sorted(brokers.counts.items())))
            brokers.close()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("crash", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", choices=STORES, default="sqlite")
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--scenario", action="append", choices=(*SCENARIOS, "recovery", "none"))
    parser.add_argument("--point")
    parser.add_argument("--histories", type=float, default=0.0)
    parser.add_argument("--storm", type=float, default=0.0)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--databases", type=int, default=1)
    parser.add_argument("--nats", type=int, choices=(0, 1, 3), default=0)
    parser.add_argument("--temporal", action="store_true")
    return parser.parse_args(arguments)


def _to_warm_up_on(store: str) -> list[str]:
    return [PostgresServer().url] if store == "postgres" else []


def _store(name: str, root: Path, number: int) -> Store:
    place = root / f"servers-{number}"
    if name == "patroni":
        return PatroniCluster(place)
    if "replica" in name:
        return ReplicatedServer(place, synchronous=name == "replica")
    return PostgresServer() if name == "postgres" else SqliteFiles(root, SCHEMES[name])


def _parts(store: Store | None) -> Sequence[Store | None]:
    return store.parts if isinstance(store, ShardedStore) else [store]


def _orgs(options: argparse.Namespace) -> list[str]:
    """An organization for each database."""
    return [ORG[:-1] + str(number) for number in range(1, options.databases + 1)]


def _run_all(options: argparse.Namespace, root: Path, store: Store, fork_servers: list[ForkServer]) -> int:
    """Run and print all experiments, the table last. Returns the number of faults."""
    wholes = [_baseline(name, root, store, fork_servers[0]) for name in options.scenario or (*SCENARIOS, "recovery")
              if name != "none"]  # fmt: skip
    tasks = [(whole, point) for whole in wholes for point in whole.points if options.point in (None, point)]
    verdicts, began = [], time.monotonic()
    for verdict in _verdicts(_evenly(tasks), root, fork_servers, options.seconds):
        verdicts.append(verdict)
        for problem in verdict.problems:
            print(problem, flush=True)
    _print_table(tasks, verdicts)
    print(f"{len(verdicts)} stories in {time.monotonic() - began:.0f} s")
    return sum(len(verdict.problems) for verdict in verdicts)


def _baseline(name: str, root: Path, store: Store, fork_server: ForkServer) -> Baseline:
    place = root / name
    place.mkdir()
    if name == "recovery":
        return Baseline("demo", place, store, fork_server, kills=[MIDWAY])
    return Baseline(name, place, store, fork_server)


def _evenly(tasks: list[Task]) -> list[Task]:
    """The tasks in an order in which every prefix is spread evenly over the whole."""
    return [task for _, task in sorted(enumerate(tasks), key=lambda numbered: numbered[0] * GOLDEN % 1)]


def _verdicts(tasks: list[Task], root: Path, fork_servers: list[ForkServer], seconds: float) -> Iterator[Verdict]:
    """The results of all tasks, two at a time, until the time is over."""
    end = time.monotonic() + (seconds or float("inf"))
    free: queue.Queue[ForkServer] = queue.Queue()
    for fork_server in fork_servers:
        free.put(fork_server)
    numbers = itertools.count()

    def experiment(task: Task) -> Verdict | None:
        if time.monotonic() > end:
            return None
        whole, point = task
        fork_server = free.get()
        try:
            with tempfile.TemporaryDirectory(dir=root, prefix=f"{next(numbers)}-") as place:
                return whole.experiment(Path(place), fork_server, point)
        finally:
            free.put(fork_server)

    with ThreadPoolExecutor(len(fork_servers)) as pool:
        yield from (verdict for verdict in pool.map(experiment, tasks) if verdict)


def _print_table(tasks: list[Task], verdicts: list[Verdict]) -> None:
    """Print a row for each scenario and boundary. `killed` excludes points that a process ended before."""
    points = Counter((whole.label, point.partition("/")[0]) for whole, point in tasks)
    killed = Counter((verdict.scenario, verdict.kills[-1].partition("/")[0]) for verdict in verdicts if verdict.reached)
    faults = {
        name: Counter(
            (verdict.scenario, verdict.kills[-1].partition("/")[0])
            for verdict in verdicts
            for _ in getattr(verdict, name)
        )
        for name in FAULTS
    }
    print(f"{'scenario':<12}{'boundary':<10}" + "".join(f"{name:>10}" for name in ("points", "killed", *FAULTS)))
    for row in points:
        print(f"{row[0]:<12}{row[1]:<10}{points[row]:>10}{killed[row]:>10}"
              + "".join(f"{faults[name][row]:>10}" for name in FAULTS))  # fmt: skip
    totals = [points.total(), killed.total(), *(faults[name].total() for name in FAULTS)]
    print(f"{'all':<22}" + "".join(f"{total:>10}" for total in totals), flush=True)


if __name__ == "__main__":
    sys.exit(main())
