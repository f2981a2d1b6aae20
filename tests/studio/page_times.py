"""The times of the pages in a real browser: `make times`.

They depend on the machine, so each bound has slack for a loaded machine of two cores without a graphics card.
`test_large_runs.py` counts the work, for each run of all tests.
"""

import statistics
import time
from typing import Any

import pytest
from large_runs import UNTIL, WATCH, burst, grab, open_in_builder, serve_run, show
from playwright.sync_api import Page, expect
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


@pytest.mark.parametrize(("nodes", "bound"), [(500, 1_000), (5_000, 3_000)])
def test_large_graphs_in_the_builder(
    open_page: Open, server: Server, ids: dict[str, str], nodes: int, bound: int
) -> None:
    """A graph of this size is opened to edit in time, and a node of it is dragged smoothly."""
    page, took = open_in_builder(open_page, server, ids["greet_workflow"], nodes)
    report(f"open {nodes} nodes in the builder", took, bound)
    print(f"longest task {page.evaluate('window.longest'):.0f} ms, {page.evaluate('window.rendered')} nodes rendered")
    x, y = grab(page, ".react-flow__node")
    page.evaluate(f"() => {{ window.frames_found = ({FRAMES})(1.5) }}")
    for step in range(60):
        page.mouse.move(x + step * 2, y + step)
        page.wait_for_timeout(20)
    found = page.evaluate("window.frames_found")
    page.mouse.up()
    print(f"drag at {nodes}: {found['fps']:.0f} fps, p95 {found['p95']:.0f} ms")
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
