"""The times of the pages in a real browser: bounds with slack, for a loaded machine of two cores without a GPU."""

import json
import statistics
import time
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect
from servers import Server
from watching import Open

SLACK = 3
"""How many times the bound a machine may take that is idle and fast; another one takes as many times longer."""

ADDITIONS, AT_BEST = 1_000_000, 0.05
"""How many additions measure how slow and how busy the machine is, and their seconds if it is fast and idle."""

TRIES = 3
"""How often a short time is measured until it is in its bound: another process can take the core meanwhile."""

SLOW_NETWORK = {"offline": False, "latency": 0, "downloadThroughput": 1_250_000, "uploadThroughput": 1_250_000}
"""Bytes a second."""

SHOWN = """addEventListener('DOMContentLoaded', () => {
  const shown = (root) => [...root.querySelectorAll('*')].some(
    (one) => one.matches('.react-flow__node') || (one.shadowRoot && shown(one.shadowRoot)));
  const look = () => { if (shown(document)) window.shown = performance.now(); else requestAnimationFrame(look); };
  look();
})"""
"""Measures in the page, frame by frame: the polling of the test is no part of the time."""

WATCH = """
window.longest = 0;
new PerformanceObserver((list) => list.getEntries().forEach((one) => {
  window.longest = Math.max(window.longest, one.duration);
})).observe({ type: 'longtask' });
window.rendered = 0;
const attach = Element.prototype.attachShadow;
Element.prototype.attachShadow = function (init) {
  const root = attach.call(this, init);
  new MutationObserver((changes) => changes.forEach(({ addedNodes }) => addedNodes.forEach((one) => {
    if (one.nodeType !== 1) return;
    window.rendered += one.matches('.react-flow__node') ? 1 : one.querySelectorAll('.react-flow__node').length;
  }))).observe(root, { childList: true, subtree: true });
  return root;
};"""
"""Counts the nodes that were ever rendered, and measures the longest task."""

UNTIL = """(selector) => new Promise((done) => {
  const began = performance.now();
  const found = (root) => root.querySelector(selector)
    ?? [...root.querySelectorAll('wfcore-application, wfcore-run, wfcore-builder')].map((one) => one.shadowRoot && found(one.shadowRoot)).find(Boolean);
  const look = () => found(document) ? done(performance.now() - began) : requestAnimationFrame(look);
  look();
})"""  # noqa: E501
"""Waits in the page: what the test would do while it polls is not part of the tasks of the page."""

FRAMES = """async (seconds) => {
  const times = [];
  let last = performance.now();
  const until = last + seconds * 1000;
  while (last < until) {
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    times.push(now - last);
    last = now;
  }
  times.sort((a, b) => a - b);
  return { fps: times.length / seconds, p95: times[Math.floor(times.length * 0.95)] };
}"""


def record(run_id: str, status: str) -> dict[str, Any]:
    at = "2026-01-01T00:00:00.000Z"
    return {
        "runId": run_id, "status": status, "target": {"type": "workflow", "id": 900_001}, "threadId": None,
        "parentRunId": None, "resumedBy": None, "output": None, "error": None, "interrupts": [], "usage": {},
        "createdAt": at, "updatedAt": at, "finishedAt": at if status == "done" else None, "variationId": None,
    }  # fmt: skip


def large(count: int) -> dict[str, Any]:
    """A graph of this many nodes, each with up to three successors."""
    nodes = [{"id": f"n{number}", "type": "action" if number else "start", "data": {}} for number in range(count)]
    edges = [
        {"id": f"e{number}", "source": f"n{(number - 1) // 3}", "target": f"n{number}"} for number in range(1, count)
    ]
    return {"nodes": nodes, "edges": edges}


def burst(count: int) -> list[dict[str, Any]]:
    """Events of a run: each node begins and ends."""
    events: list[dict[str, Any]] = [{"kind": "run_started"}]
    for number in range((count - 2) // 2):
        events += [
            {"kind": "node_started", "nodeId": f"n{number}"},
            {"kind": "node_finished", "nodeId": f"n{number}", "output": 1},
        ]
    events.append({"kind": "done", "status": "done", "output": None})
    return [
        {**event, "runId": "r", "seq": seq, "at": "2026-01-01T00:00:00.000Z"} for seq, event in enumerate(events, 1)
    ]


def serve_run(page: Page, nodes: int, events: list[dict[str, Any]], *, live: bool = False) -> None:
    """Answer the calls of the run page with a large run, so that only the browser is measured."""
    state = {"status": "running" if live else "done"}

    def answer(value: Any) -> Any:
        return lambda route: route.fulfill(json=value)

    def stream(route: Route) -> None:
        if route.request.headers.get("accept") == "text/event-stream":
            body = "".join(f"id: {event['seq']}\ndata: {json.dumps(event)}\n\n" for event in events)
            state["status"] = "done"
            route.fulfill(body=body, content_type="text/event-stream")
        else:
            route.fulfill(json={"events": events})

    workflow = {"id": 900_001, "name": "Large", "variation": {"workflowStructure": large(nodes)}}
    page.route("**/api/v1/workflows/900001", answer(workflow))
    page.route("**/agent/v1/runs/r", lambda route: route.fulfill(json=record("r", state["status"])))
    page.route("**/agent/v1/runs/r/graph", lambda route: route.fulfill(status=404, json={}))
    page.route("**/agent/v1/runs/r/events", stream)


def show(page: Page, selector: str = ".react-flow__node") -> float:
    """Open the large run from the list, so that the code is loaded. Returns the milliseconds until it is shown."""
    page.evaluate("history.pushState(null, '', '/studio/runs/r'); dispatchEvent(new PopStateEvent('popstate'))")
    return float(page.evaluate(UNTIL, selector))


def test_cold_load(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """A small run is usable within 0.5 s of its address; the median of five new browsers."""
    times = []
    for _ in range(5):
        page = open_page(f"/studio/runs/{ids['done']}", script=SHOWN)
        expect(page.locator(".react-flow__node").first).to_be_visible()
        times.append(page.evaluate("window.shown"))
    report("cold load", statistics.median(times), 500)


@pytest.mark.parametrize(("nodes", "bound"), [(500, 1_000), (5_000, 3_000)])
def test_large_graphs(open_page: Open, server: Server, ids: dict[str, str], nodes: int, bound: int) -> None:
    """A graph without positions opens in time, and moves smoothly."""
    page = open_page("/studio/runs")
    expect(page.locator(".line").first).to_be_visible()
    serve_run(page, nodes, burst(20))
    report(f"open {nodes} nodes", show(page), bound)
    box = page.locator(".react-flow__pane").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    page.mouse.down()
    page.evaluate(f"() => {{ window.frames_found = ({FRAMES})(1.5) }}")
    for step in range(60):
        page.mouse.move(box["x"] + 20 + step * 6, box["y"] + 20 + step * 4)
        page.wait_for_timeout(20)
    found = page.evaluate("window.frames_found")
    page.mouse.up()
    print(f"pan at {nodes}: {found['fps']:.0f} fps, p95 {found['p95']:.0f} ms")
    assert found["p95"] <= 34 * slack()


TOUCHED = """(graph) => {
  window.touched = new Set();
  const watched = { subtree: true, childList: true, attributes: true, characterData: true };
  new MutationObserver((all) => all.forEach((one) => touched.add(one.target))).observe(graph, watched);
}"""
"""Counts the elements of the graph that change."""


@pytest.mark.parametrize(("nodes", "bound"), [(500, 1_000), (5_000, 3_000)])
def test_large_graphs_in_the_builder(
    open_page: Open, server: Server, ids: dict[str, str], nodes: int, bound: int
) -> None:
    """A graph of this size is opened to edit in time, and a node of it is dragged smoothly."""
    structure = large(nodes)
    for each in structure["nodes"][1:]:
        each["data"] = {"toolId": "core.transform", "params": {"value": 1}}
    body = {"name": f"Large {nodes}", "type": "workflow", "workflowStructure": structure}
    with server.client() as client:
        number = client.post("/api/v1/workflows", json=body).json()["id"]
    page = open_page(f"/studio/workflows/{ids['greet_workflow']}", script=WATCH)
    expect(page.locator(".react-flow__node").first).to_be_visible()
    address = f"/studio/workflows/{number}"
    page.evaluate("window.rendered = window.longest = 0")
    page.evaluate(f"history.pushState(null, '', '{address}'); dispatchEvent(new PopStateEvent('popstate'))")
    report(f"open {nodes} nodes in the builder", float(page.evaluate(UNTIL, ".react-flow__node[data-id=n1]")), bound)
    print(f"longest task {page.evaluate('window.longest'):.0f} ms, {page.evaluate('window.rendered')} nodes rendered")
    assert page.evaluate("window.rendered") < 1_200
    one = page.locator(".react-flow__node").first.bounding_box()
    assert one is not None
    x, y = one["x"] + one["width"] / 2, one["y"] + one["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.evaluate(f"() => {{ window.frames_found = ({FRAMES})(1.5) }}")
    for step in range(60):
        page.mouse.move(x + step * 2, y + step)
        page.wait_for_timeout(20)
        if step == 20:  # the node was selected, and what came into sight with it was drawn
            page.locator(".react-flow").evaluate(TOUCHED)
    found, touched = page.evaluate("window.frames_found"), page.evaluate("window.touched.size")
    page.mouse.up()
    print(f"drag at {nodes}: {found['fps']:.0f} fps, p95 {found['p95']:.0f} ms, {touched} elements touched")
    assert 0 < touched < 60, "only what the dragged node changes is drawn, whatever the size of the graph"
    assert nodes > 500 or found["p95"] <= 34 * slack()  # the goal is for 500 nodes: more are measured only


@pytest.mark.parametrize(("count", "bound"), [(1_001, 250), (10_001, 500)])
def test_bursts(open_page: Open, server: Server, ids: dict[str, str], count: int, bound: int) -> None:
    """A run that ends in one burst of events is shown as done in time, without a task over 100 ms."""
    took, longest = list[float](), list[float]()
    for _ in range(TRIES):
        page = open_page("/studio/runs", script=WATCH)
        expect(page.locator(".line").first).to_be_visible()
        serve_run(page, min(count // 2, 500), burst(count), live=True)
        page.evaluate("window.longest = 0")
        took.append(show(page, ".head .status.ok"))
        longest.append(page.evaluate("window.longest"))
        if took[-1] <= bound + 1_000 and longest[-1] <= 100:
            break
    report(f"{count} events in a burst, with opening the page", min(took), bound + 1_000)
    report("longest task", min(longest), 100)


def test_only_nodes_in_sight_are_rendered(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """Not even once to be measured: of 5,000 nodes, those beside the window are never elements of the page."""
    page = open_page("/studio/runs", script=WATCH)
    expect(page.locator(".line").first).to_be_visible()
    serve_run(page, 5_000, burst(20))
    show(page)
    page.wait_for_timeout(300)
    shown = page.locator(".react-flow__node").count()
    print(f"rendered {page.evaluate('window.rendered')} of 5,000 nodes, {shown} are in sight")
    assert 0 < shown < 400
    assert page.evaluate("window.rendered") <= 2 * shown


def throttled(page: Page, rate: int) -> None:
    """From now on, the page has this part of the processor and, if less than all, 10 Mbit/s."""
    tools = page.context.new_cdp_session(page)
    tools.send("Emulation.setCPUThrottlingRate", {"rate": rate})
    if rate > 1:
        tools.send("Network.enable")
        tools.send("Network.emulateNetworkConditions", SLOW_NETWORK)


def compare(name: str, took: dict[int, list[float]], bound: float) -> None:
    """Report the times at a quarter of the speed, and their ratio to those at full speed of the same minute."""
    full, slow = (statistics.median(took[rate]) for rate in (1, 4))
    report(f"{name} at a quarter of the speed", slow, bound)
    print(f"{slow / full:.1f} times as long as at full speed")
    assert slow <= 4 * slack() * full


def test_a_slow_processor(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """A quarter of the speed and 10 Mbit/s: usable within 1.8 s, and in proportion to the speed."""
    took: dict[int, list[float]] = {1: [], 4: []}
    for rate in (1, 4) * 3:
        page = open_page("/nothing", script=SHOWN)
        throttled(page, rate)
        page.goto(f"{server.url}/studio/runs/{ids['done']}")
        page.evaluate(UNTIL, ".react-flow__node")
        took[rate].append(page.evaluate("window.shown"))
    compare("cold load", took, 1_800)


@pytest.mark.parametrize(
    ("name", "selector", "events", "bound"),
    [
        ("open 500 nodes", ".react-flow__node", burst(20), 4_000),
        ("1001 events", ".head .status.ok", burst(1_001), 5_000),
    ],
)
def test_large_runs_on_a_slow_processor(
    open_page: Open, ids: dict[str, str], name: str, selector: str, events: list[dict[str, Any]], bound: int
) -> None:
    """Nothing waits for what does not become faster with the processor, nor the other way round."""
    took: dict[int, list[float]] = {1: [], 4: []}
    for rate in (1, 4) * 2:
        page = open_page("/studio/runs")
        expect(page.locator(".line").first).to_be_visible()
        serve_run(page, 500, events, live=len(events) > 20)
        throttled(page, rate)
        took[rate].append(show(page, selector))
    compare(name, took, bound)


def slack() -> float:
    """`SLACK`, times how many times longer some work takes here and now than on a fast and idle machine."""
    began, number = time.perf_counter(), 0
    while number < ADDITIONS:
        number += 1
    return SLACK * max(1.0, (time.perf_counter() - began) / AT_BEST)


def report(name: str, milliseconds: float, bound: float) -> None:
    print(f"{name}: {milliseconds:.0f} ms (bound {bound:.0f})")
    assert milliseconds <= bound or milliseconds <= bound * slack()
