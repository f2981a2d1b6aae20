"""Telemetry of runs: turns, nodes and effects as nested spans, and the counters."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import attrs
import pytest
from opentelemetry.sdk import trace as sdk
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

import wfcore.bootstrap
from wfcore.adapters.telemetry import Metrics, Traces
from wfcore.adapters.telemetry import opentelemetry as adapter
from wfcore.core import Core
from wfcore.domain.resources.access import Principal
from wfcore.domain.run.effects import CallTool, OpenChild
from wfcore.domain.run.entries import Succeeded
from wfcore.ports.providers import ToolFailed
from wfcore.ports.telemetry import RUN
from wfcore.runtime.execution import telemetry
from wfcore.runtime.execution.telemetry import TracedPerformer, node_of

pytestmark = pytest.mark.anyio

ORG = "00000000-0000-4000-8000-000000000001"
Json = dict[str, Any]


@attrs.frozen
class Watched:
    """An open core, and what its telemetry recorded."""

    core: Core
    me: Principal
    registry: CollectorRegistry
    exporter: InMemorySpanExporter

    async def run(self, *nodes: Json, edges: list[tuple[str, str]] | None = None) -> str:
        """Deploy and run a graph until it rests; returns the run's id."""
        run = await self.core.runs.start(self.me, workflow=await self.deploy(*nodes, edges=edges), input={})
        await self.at_rest()
        return run.id

    async def deploy(self, *nodes: Json, edges: list[tuple[str, str]] | None = None) -> int:
        every = [{"id": "start", "type": "start"}, *nodes]
        ids = [node["id"] for node in every]
        pairs = edges or list(pairwise(ids))
        wires = [{"id": f"e{i}", "source": a, "target": b} for i, (a, b) in enumerate(pairs)]
        for wire in wires:
            if wire["source"] == "ask":
                wire["sourceHandle"] = "approved"
        flow = await self.core.workflows.create(self.me, name="F", structure={"nodes": every, "edges": wires})
        return (await self.core.workflows.deploy(self.me, flow.id)).id

    async def at_rest(self) -> None:
        while driven := list(self.core.ports.dispatcher._active.values()):  # type: ignore[attr-defined]
            await asyncio.wait(driven)

    def spans(self, run_id: str | None = None) -> list[ReadableSpan]:
        found = self.exporter.get_finished_spans()
        return [span for span in found if run_id is None or of(span).get("wfcore.run.id") == run_id]

    def value(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0


def of(span: ReadableSpan) -> Mapping[str, Any]:
    return span.attributes or {}


def named(spans: list[ReadableSpan], name: str) -> ReadableSpan:
    (found,) = [span for span in spans if span.name == name]
    return found


def parent(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


def own(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


async def echo(value: int = 0) -> int:
    """Return the value."""
    return value


async def flaky(call: wfcore.ToolCall) -> int:
    """Fail at first."""
    if call.attempt < 3:
        raise ToolFailed("not yet")
    return call.attempt


async def broken() -> None:
    """Fail permanently."""
    raise ToolFailed("never", retryable=False)


async def whose() -> str:
    """The run that drives this call."""
    return RUN.get()


def act(id: str, tool: str = "echo", **data: Any) -> Json:
    return {"id": id, "type": "action", "data": {"toolId": tool, **data}}


AT_ONCE = wfcore.Settings(grace=0)
"""At exit, active runs stop at once."""


@asynccontextmanager
async def watching(database: str = "sqlite://") -> AsyncIterator[Watched]:
    exporter, provider, registry = InMemorySpanExporter(), TracerProvider(), CollectorRegistry()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    observers = [Metrics(registry), Traces(provider)]
    tools = [echo, flaky, broken, whose]
    async with wfcore.bootstrap.open(database, tools=tools, telemetry=observers, settings=AT_ONCE) as core:
        await core.directory.create_organization("Watched", id=ORG)
        yield Watched(core, core.principal(ORG, "u1"), registry, exporter)


async def test_a_chain_is_a_turn_of_nodes_of_effects() -> None:
    """One span for the turn, in it one per node with effects, in each one per attempt; each has the ids of its run."""
    async with watching() as watched:
        run_id = await watched.run(act("one"), act("tw o/ö"))
        spans = watched.spans(run_id)
        turn, one, two = named(spans, "turn"), named(spans, "node one"), named(spans, "node tw o/ö")
        effects = [span for span in spans if span.name == "app echo"]
        assert [parent(span) for span in (one, two)] == [own(turn)] * 2
        assert [parent(span) for span in effects] == [own(one), own(two)]
        assert of(turn)["wfcore.organization.id"] == ORG
        assert [of(span)["wfcore.outcome"] for span in spans] == ["succeeded"] * 4 + ["done"]
        assert of(effects[1]) == {
            "wfcore.run.id": run_id, "wfcore.node.id": "tw o/ö", "wfcore.tool.id": "echo",
            "wfcore.effect.kind": "app", "wfcore.effect.attempt": 1, "wfcore.outcome": "succeeded",
        }  # fmt: skip


async def test_attempts_share_the_span_of_their_node() -> None:
    """Three attempts are three effects in one node; failed ones are marked, without the text of the error."""
    async with watching() as watched:
        retry = {"maxAttempts": 3, "initialIntervalSeconds": 0.001}
        spans = watched.spans(await watched.run(act("try", "flaky", retry=retry), act("then")))
        tries = [span for span in spans if span.name == "app flaky"]
        assert [of(span)["wfcore.effect.attempt"] for span in tries] == [1, 2, 3]
        assert {parent(span) for span in tries} == {own(named(spans, "node try"))}
        assert [span.status.is_ok for span in tries] == [False, False, True]
        assert "not yet" not in "".join(span.to_json() for span in spans)
        assert watched.value("wfcore_effects_total", kind="app", outcome="failed") == 2
        assert watched.value("wfcore_effect_seconds_count", kind="app") == 4


async def test_nesting_of_parallel_calls_and_branches() -> None:
    """Calls of one `forEach`, and parallel branches, are each within their own node."""
    async with watching() as watched:
        many = act("many", params={"value": "{{ item }}"}, forEach="[1, 2, 3]")
        edges = [("start", "many"), ("start", "beside"), ("many", "last"), ("beside", "last")]
        spans = watched.spans(await watched.run(many, act("beside"), act("last"), edges=edges))
        nodes = {own(named(spans, f"node {name}")): name for name in ("many", "beside", "last")}
        within = sorted(nodes[parent(span) or 0] for span in spans if span.name == "app echo")
        assert within == ["beside", "last", "many", "many", "many"]


async def test_a_node_ends_when_its_last_effect_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The span of a node covers those of its effects, and no time after them. Clocks tick when they are read."""
    ticks = count(1)
    monkeypatch.setattr(telemetry, "perf_counter", lambda: next(ticks) / 1e3)
    for reader in (adapter, sdk):
        monkeypatch.setattr(reader, "time_ns", lambda: next(ticks) * 1_000_000)
    async with watching() as watched:
        spans = watched.spans(await watched.run(act("a"), act("b")))
        moments = list[int | None]()
        for node in (named(spans, "node a"), named(spans, "node b")):
            (effect,) = [span for span in spans if parent(span) == own(node)]
            moments += [node.start_time, effect.start_time, effect.end_time, node.end_time]
        assert moments == sorted(moments, key=lambda moment: moment or 0)


async def test_runs_are_counted_as_they_start_and_come_to_rest() -> None:
    """Each turn counts once at its start and once at its end, by status; a resume starts another one."""
    async with watching() as watched:
        await watched.run(act("a"))
        await watched.run(act("b", "broken"))
        run_id = await watched.run({"id": "ask", "type": "humanApproval", "data": {}}, act("c"))
        parked = await watched.run({"id": "ask", "type": "humanApproval", "data": {}}, act("c"))
        ended = {s: watched.value("wfcore_runs_ended_total", status=s) for s in ("done", "error", "interrupted")}
        assert ended == {"done": 1, "error": 1, "interrupted": 2}
        await watched.core.runs.resume(watched.me, run_id, {"decision": "approve"})
        await watched.core.runs.cancel(watched.me, parked)
        await watched.at_rest()
        ended = {s: watched.value("wfcore_runs_ended_total", status=s) for s in ("done", "interrupted", "cancelled")}
        assert ended == {"done": 2, "interrupted": 2, "cancelled": 1}
        assert watched.value("wfcore_runs_started_total") == 5
        assert watched.value("wfcore_executions_held") == 0


async def test_a_turn_that_is_resumed_while_active_ends_once() -> None:
    """A decision while another branch is active ends that turn as interrupted; each started turn has one end."""
    free, began = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        """Wait until the test releases it."""
        began.set()
        await free.wait()

    registry = CollectorRegistry()
    async with wfcore.bootstrap.open(
        "sqlite://", tools=[hold], telemetry=[Metrics(registry)], settings=AT_ONCE
    ) as core:
        await core.directory.create_organization("Watched", id=ORG)
        watched = Watched(core, core.principal(ORG, "u1"), registry, InMemorySpanExporter())
        ask = {"id": "ask", "type": "humanApproval", "data": {}}
        flow = await watched.deploy(ask, act("work", "hold"), edges=[("start", "ask"), ("start", "work")])
        run = await core.runs.start(watched.me, workflow=flow, input={})
        await began.wait()
        await core.runs.resume(watched.me, run.id, {"decision": "approve"})
        free.set()
        await watched.at_rest()
        ends = {s: watched.value("wfcore_runs_ended_total", status=s) for s in ("interrupted", "done")}
        assert (watched.value("wfcore_runs_started_total"), ends) == (2, {"interrupted": 1, "done": 1})


async def test_appends_and_commits(tmp_path: Path) -> None:
    """With a file every append is timed, and every commit; there are no more commits than appends."""
    async with watching(f"sqlite:///{tmp_path}/w.db") as watched:
        await watched.run(*[act(f"n{i}") for i in range(5)])
        appends = watched.value("wfcore_journal_append_seconds_count", outcome="written")
        commits = watched.value("wfcore_journal_commit_seconds_count")
        assert appends >= 6
        assert 0 < commits <= appends + watched.value("wfcore_journal_append_seconds_count", outcome="conflict") + 2
        assert watched.value("wfcore_journal_commit_seconds_sum") > 0


async def test_a_tool_can_read_its_run_id() -> None:
    """Inside a tool, `RUN` is the current run, with and without telemetry."""
    async with watching() as watched:
        run_id = await watched.run(act("a", "whose"))
        assert (await watched.core.runs.get(watched.me, run_id)).to_wire()["output"] == run_id
    async with wfcore.bootstrap.open("sqlite://", tools=[whose]) as core:
        await core.directory.create_organization("Quiet", id=ORG)
        quiet = Watched(core, core.principal(ORG, "u1"), CollectorRegistry(), InMemorySpanExporter())
        run_id = await quiet.run(act("a", "whose"))
        assert (await core.runs.get(quiet.me, run_id)).to_wire()["output"] == run_id


async def test_cancelled_work_ends_its_spans() -> None:
    """Effects, nodes and turns that a stop cancels end as `broken_off`: no span stays open."""
    began = asyncio.Event()

    async def forever() -> None:
        """Never end."""
        began.set()
        await asyncio.Event().wait()

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with wfcore.bootstrap.open(
        "sqlite://", tools=[forever], telemetry=[Traces(provider)], settings=AT_ONCE
    ) as core:
        await core.directory.create_organization("Watched", id=ORG)
        me = core.principal(ORG, "u1")
        structure = {
            "nodes": [{"id": "start", "type": "start"}, act("a", "forever"), act("b", "forever")],
            "edges": [{"id": "1", "source": "start", "target": "a"}, {"id": "2", "source": "start", "target": "b"}],
        }
        flow = await core.workflows.create(me, name="F", structure=structure)
        await core.workflows.deploy(me, flow.id)
        await core.runs.start(me, workflow=flow.id, input={})
        await began.wait()
    outcomes = sorted((span.name, of(span)["wfcore.outcome"]) for span in exporter.get_finished_spans())
    assert outcomes == [
        ("app forever", "broken_off"), ("app forever", "broken_off"),
        ("node a", "broken_off"), ("node b", "broken_off"), ("turn", "broken_off"),
    ]  # fmt: skip


@attrs.define
class Session:
    """The state in which a performer is observed: pending effects, and the code that performs them."""

    performer: Any
    pending: list[tuple[int, ...]] = attrs.field(factory=list)
    run_id: str = "r"

    @property
    def machine(self) -> Any:
        return self

    async def perform(self, execution: Any, effect: Any, stream: Any, now: Any) -> Any:
        self.pending.remove(effect.address)
        return Succeeded(0, 1, 1, 0, 1, None)


async def test_a_child_is_within_the_node_that_opened_it() -> None:
    """Nodes of a child frame are within the opener's node, which lasts until they end."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    session = Session(None)
    session.performer = session
    traced = TracedPerformer(session, Traces(provider))
    above, below, after = (1, 1, 0), (1, 1, 0, 1, 2, 1, 0), (2, 1, 0)
    for effect in (
        OpenChild(above, 1, "r:sub:1", "workflow", 7, {}),
        CallTool(below, 1, "r:sub:1:deep:1", "echo", {}),
        CallTool(after, 1, "r:next:1", "echo", {}),
    ):
        session.pending.append(effect.address)
        await traced.perform(None, effect, None, int)  # type: ignore[arg-type]
    traced.end_nodes(())
    spans = {span.name: span for span in exporter.get_finished_spans()}
    sub, deep, following = spans["node sub"], spans["node deep"], spans["node next"]
    assert [span.name for span in exporter.get_finished_spans()] == [
        "child", "app echo", "node sub", "node deep", "app echo", "node next",
    ]  # fmt: skip
    assert (parent(deep), parent(sub), parent(following)) == (own(sub), None, None)
    assert sub.end_time is not None
    assert deep.start_time is not None
    assert sub.end_time >= deep.start_time


@pytest.mark.parametrize(
    ("key", "node"),
    [("r:a:1", "a"), ("r:x:y:a:1.3", "a"), ("r:a%3Ab%2F%C3%B6:12", "a:b/ö")],
)
def test_the_node_is_part_of_the_key(key: str, node: str) -> None:
    """The parsed node id equals the one in the key, whatever the run's id is."""
    assert node_of(CallTool((1, 1, 0), 1, key, "echo", {})) == node
