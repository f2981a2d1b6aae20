"""Rows without a disk: the cost of the interpreter and of the driver."""

import asyncio
import itertools
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from statistics import median
from time import time_ns
from typing import Final
from uuid import uuid4

import msgspec
from msgspec import structs

from benchmarks import raw
from benchmarks.graphs import chain, diamonds, thresholds
from benchmarks.library import ORG, Library, opened, step
from benchmarks.measure import Cost, Stopwatch, Turns, exponent, take_turns
from benchmarks.runs.slow import slow_nodes
from benchmarks.scale import Scale
from benchmarks.table import Figure, rate
from wfcore.domain.json.schema import Schema, compile_schema
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run import entries as e
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.plan import Plan, compile_plan
from wfcore.ports.executions.rows import Execution, ExecutionRef, RunRow

TIMES: Final = 5
"""Runs of a long chain in one measurement. The raw code is repeated too: the first run after a garbage collection finds
nothing in the caches of the CPU, and takes longer than the others.
"""

NO_ARGUMENTS: Final[JSON] = {"type": "object", "properties": {}, "additionalProperties": False}

_DECODE: Final = msgspec.json.Decoder().decode


def chains(scale: Scale) -> Iterator[Figure]:
    """A chain of actions: the machine alone, then the whole library."""
    length = scale.nodes
    graph = raw.prepare(chain(length))
    repeats = 20
    spent = partial(_repeated, partial(raw.interpret, graph), repeats)
    alone = take_turns(scale.rounds, spent, partial(_repeated, partial(drive, compile_plan(chain(length))), 2))
    yield _figure("chain in memory, the machine alone", alone, length, repeats, 2, None)
    with asyncio.Runner() as runner:
        flat = take_turns(scale.rounds, spent, lambda: runner.run(_flat(length)))
    yield _figure("chain in memory, one loop without a machine", flat, length, repeats, 1, None)
    with asyncio.Runner() as runner:
        whole = runner.run(_library_chain(scale, spent))
    yield _figure("chain in memory, the whole library", whole, length, repeats, TIMES, 0.20)
    yield Figure("", "CPU a node", whole.typical("ours", "cpu") / (TIMES * length) * 1e6, "us")
    with asyncio.Runner() as runner:
        yield Figure("", "growth of CPU", runner.run(_growth(scale)), "exponent", at_most=1.03)
    count, spent = (
        scale.runs * scale.steps,
        partial(_repeated, partial(raw.interpret, raw.prepare(chain(scale.steps))), scale.runs),
    )
    with asyncio.Runner() as runner:
        flat = take_turns(scale.rounds, spent, lambda: runner.run(_flat_runs(scale)))
    yield _figure(f"{scale.runs} runs x {scale.steps} nodes, without a machine", flat, count, 1, 1, None)
    with asyncio.Runner() as runner:
        crowd = runner.run(_crowd(scale, spent))
    yield _figure(f"{scale.runs} runs x {scale.steps} nodes, in memory", crowd, count, 1, 1, 0.10)
    yield Figure("", "CPU a node", crowd.typical("ours", "cpu") / count * 1e6, "us")


async def _flat(length: int) -> Cost:
    """What each call needs in any loop. A bound for the library."""
    schema = compile_schema(NO_ARGUMENTS)
    with Stopwatch() as watch:
        await _calls(schema, length, [])
    return watch.cost


async def _calls(schema: Schema, length: int, journal: list[e.Entry]) -> dict[str, JSON]:
    """Checked arguments, the coroutine of the tool, its result as JSON of its own, the entry and the output."""
    encode, decode = msgspec.json.encode, _DECODE
    outputs, params = dict[str, JSON](), dict[str, JSON]()
    for number in range(length):
        if schema.check(params, "params"):
            raise ValueError(params)
        output = decode(encode(await step()))
        journal.append(e.Succeeded(time_ns() // 1_000_000, number, 1, 0, 1, output))
        outputs[f"n{number}"] = {"output": output}
    return outputs


async def _flat_runs(scale: Scale) -> Cost:
    """What each run needs beside its calls: an id, an input and a digest of its own, the rows of the execution and of
    its run, a task, and the row of its end. Nobody is authorized, nothing is claimed, compared or read.
    """
    schema, encode, decode = compile_schema(NO_ARGUMENTS), msgspec.json.encode, _DECODE
    rows, executions, tasks = dict[str, RunRow](), dict[int, Execution](), list[asyncio.Task[None]]()

    async def start(number: int, given: JSON) -> RunRow:
        if schema.check(given, "input"):
            raise ValueError(given)
        text, now, run_id = encode(given), time_ns() // 1_000_000, str(uuid4())
        ref = ExecutionRef(ORG, number)
        executions[number] = Execution(ref, "workflow", 1, "v1", "u1", run_id, run_id, 1)
        rows[run_id] = RunRow(run_id, ref, "u1", sha256(text).digest(), "running", None, None, None, now, now, None,
                              "workflow", 1, run_id)  # fmt: skip
        journal: list[e.Entry] = [e.Started(now, run_id, e.Actor("u1"), decode(text), {"id": run_id})]
        tasks.append(asyncio.create_task(drive_to_its_end(rows[run_id], journal)))
        return rows[run_id]

    async def drive_to_its_end(row: RunRow, journal: list[e.Entry]) -> None:
        outputs = await _calls(schema, scale.steps, journal)
        rows[row.id] = structs.replace(row, status="done", result=outputs, finished_at=time_ns() // 1_000_000)

    with Stopwatch() as watch:
        await asyncio.gather(*(start(number, {}) for number in range(scale.runs)))
        await asyncio.wait(tasks)
    return watch.cost


def _repeated(work: object, times: int) -> Cost:
    with Stopwatch() as watch:
        for _ in range(times):
            work()  # type: ignore[operator]
    return watch.cost


def _figure(work: str, turns: Turns, count: int, raw_runs: int, our_runs: int, goal: float | None) -> Figure:
    before, ours = turns.typical("raw", "cpu") / raw_runs, turns.typical("ours", "cpu") / our_runs
    return Figure(work, "speed to raw", turns.ratio("cpu") * our_runs / raw_runs, "%",
                  rate(count, before), rate(count, ours), at_least=goal)  # fmt: skip


def drive(plan: Plan) -> Machine:
    """The machine with nothing but a loop around it, collecting events."""
    machine = Machine(plan, [])
    machine.apply(e.Started(1, "run", e.Actor("u1"), {}, {}))
    while machine.pending:
        effect = next(iter(machine.pending.values()))
        machine.apply(e.Succeeded(1, *effect.address, effect.attempt, {"n": 500}))
    return machine


async def _library_chain(scale: Scale, spent: partial[Cost]) -> Turns:
    async with opened(None) as library:
        flow = await library.deploy(chain(scale.nodes))
        await library.timed(flow)
        pairs = [(spent(), await library.timed(flow, times=TIMES)) for _ in range(scale.rounds)]
        return Turns(*zip(*pairs, strict=True))


async def _crowd(scale: Scale, spent: partial[Cost]) -> Turns:
    """Simultaneous runs, against as many walks of the same graph."""
    async with opened(None) as library:
        flow = await library.deploy(chain(scale.steps))
        await library.timed(flow, scale.runs)
        pairs = [(spent(), await library.timed(flow, scale.runs)) for _ in range(scale.rounds)]
        return Turns(*zip(*pairs, strict=True))


async def _growth(scale: Scale) -> float:
    async with opened(None) as library:
        return exponent(scale.lengths, [await _best(library, length, scale) for length in scale.lengths])


async def _best(library: Library, length: int, scale: Scale) -> float:
    flow = await library.deploy(chain(length))
    return min([(await library.timed(flow, times=TIMES)).cpu for _ in range(scale.rounds)])


def conditions(scale: Scale) -> Iterator[Figure]:
    """Diamonds: a condition, two branches, a join."""
    with asyncio.Runner() as runner:
        turns = runner.run(_diamonds(scale))
    yield _figure("condition diamonds in memory", turns, scale.diamonds, 100, 10 * TIMES, 0.05)
    yield Figure("", "CPU a diamond", turns.typical("ours", "cpu") / (10 * TIMES * scale.diamonds) * 1e6, "us")
    with asyncio.Runner() as runner:
        deploy = runner.run(_deploy(scale))
    yield Figure(f"first deploy of {scale.diamonds} distinct conditions", "CPU", deploy * 1e3, "ms", at_most=20)


async def _diamonds(scale: Scale) -> Turns:
    bare = partial(_repeated, partial(raw.branch, scale.diamonds), 100)
    async with opened(None) as library:
        flow = await library.deploy(diamonds(scale.diamonds))
        await library.timed(flow, n=0)
        pairs = [(bare(), await library.timed(flow, times=10 * TIMES, n=0)) for _ in range(scale.rounds)]
        return Turns(*zip(*pairs, strict=True))


async def _deploy(scale: Scale) -> float:
    """Seconds."""
    costs = []
    async with opened(None) as library:
        await library.deploy(chain(3))
        for first in itertools.islice(itertools.count(step=scale.diamonds), scale.rounds):
            graph = thresholds(scale.diamonds, first)
            flow = await library.core.workflows.create(library.me, name="Conditions", structure=graph)
            with Stopwatch() as watch:
                await library.core.workflows.deploy(library.me, flow.id)
            costs.append(watch.cost.cpu)
    return median(costs)


def parallel(scale: Scale) -> Iterator[Figure]:
    """Many simultaneous slow nodes."""
    yield slow_nodes(scale, None, "in memory", goal=1.05)
