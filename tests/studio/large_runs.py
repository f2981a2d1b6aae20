"""Runs and graphs of thousands of nodes for the tests of the pages, and what a page counts while it shows them."""

import json
from typing import Any

from playwright.sync_api import Page, Route, expect
from servers import Server
from watching import Open

WATCH = """
window.longest = 0;
new PerformanceObserver((list) => list.getEntries().forEach((one) => {
  window.longest = Math.max(window.longest, one.duration);
})).observe({ type: 'longtask' });
window.rendered = window.batches = 0;
const attach = Element.prototype.attachShadow;
Element.prototype.attachShadow = function (init) {
  const root = attach.call(this, init);
  new MutationObserver((changes) => {
    window.batches += 1;
    changes.forEach(({ addedNodes }) => addedNodes.forEach((one) => {
      if (one.nodeType !== 1) return;
      window.rendered += one.matches('.react-flow__node') ? 1 : one.querySelectorAll('.react-flow__node').length;
    }));
  }).observe(root, { childList: true, subtree: true });
  return root;
};"""
"""Counts the nodes that were ever rendered and the updates of the page, and measures the longest task."""

UNTIL = """(selector) => new Promise((done) => {
  const began = performance.now();
  const found = (root) => root.querySelector(selector)
    ?? [...root.querySelectorAll('wfcore-application, wfcore-run, wfcore-builder')].map((one) => one.shadowRoot && found(one.shadowRoot)).find(Boolean);
  const look = () => found(document) ? done(performance.now() - began) : requestAnimationFrame(look);
  look();
})"""  # noqa: E501
"""Waits in the page: what the test would do while it polls is not part of the tasks of the page."""

SETTLED = """async (graph) => {
  let quiet = 0;
  const watcher = new MutationObserver(() => { quiet = 0; });
  watcher.observe(graph, { subtree: true, childList: true, attributes: true });
  for (; quiet < 5; quiet++) await new Promise((done) => requestAnimationFrame(() => requestIdleCallback(done)));
  watcher.disconnect();
}"""
"""Waits until nothing of the graph has changed in five frames with time left, however slow the machine is."""

TOUCHED = """(graph) => {
  window.touched = new Set();
  const watched = { subtree: true, childList: true, attributes: true, characterData: true };
  new MutationObserver((all) => all.forEach((one) => touched.add(one.target))).observe(graph, watched);
}"""
"""Counts the elements of the graph that change."""


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


def open_in_builder(open_page: Open, server: Server, workflow: str, nodes: int) -> tuple[Page, float]:
    """Open a workflow of so many nodes to edit it, with the code loaded by another. Returns the milliseconds too."""
    structure = large(nodes)
    for each in structure["nodes"][1:]:
        each["data"] = {"toolId": "core.transform", "params": {"value": 1}}
    body = {"name": f"Large {nodes}", "type": "workflow", "workflowStructure": structure}
    with server.client() as client:
        number = client.post("/api/v1/workflows", json=body).json()["id"]
    page = open_page(f"/studio/workflows/{workflow}", script=WATCH)
    expect(page.locator(".react-flow__node").first).to_be_visible()
    page.evaluate("window.rendered = window.longest = 0")
    address = f"/studio/workflows/{number}"
    page.evaluate(f"history.pushState(null, '', '{address}'); dispatchEvent(new PopStateEvent('popstate'))")
    return page, float(page.evaluate(UNTIL, ".react-flow__node[data-id=n1]"))


def grab(page: Page, selector: str) -> tuple[float, float]:
    """Press the mouse on the middle of the first element. Returns where."""
    box = page.locator(selector).first.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    return x, y
