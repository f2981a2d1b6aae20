"""The progress of a run on a terminal: a tree of its nodes, each with its state."""

import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text
from rich.tree import Tree

from wfcore.cli.plain import plain
from wfcore.domain.kernel.json_readers import as_integer, as_number, as_object, as_objects, as_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.events import Event, EventKind

GLYPHS: Final = {
    "pending": ("·", "dim"),
    "running": ("●", "yellow"),
    "retrying": ("↻", "yellow"),
    "waiting": ("?", "magenta"),
    "done": ("✔", "green"),
    "failed": ("✘", "red"),
    "skipped": ("-", "dim"),
}
_STATES: Final = {
    EventKind.node_started: "running",
    EventKind.node_retrying: "retrying",
    EventKind.interrupt: "waiting",
    EventKind.node_finished: "done",
    EventKind.node_failed: "failed",
    EventKind.node_skipped: "skipped",
}
_STATUSES: Final = {
    "pending": "pending", "running": "running", "waiting": "waiting", "done": "done", "error": "failed",
    "skipped": "skipped", "cancelled": "skipped",
}  # fmt: skip
"""The states of nodes by their status in a run's graph."""
TAIL: Final = 60
"""Characters shown of a partial message, or of the message of an interrupt."""


class Progress:
    """Shows the events of a run: a live tree on a terminal, else a line for each change. Use it with `with`."""

    def __init__(self, title: str, structure: Mapping[str, JSON], console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self._title = title
        self._nodes = {as_text(node["id"]): node for node in as_objects(structure.get("nodes") or ())}
        self._outline = list(outline(structure))
        self._states = dict.fromkeys(self._nodes, "pending")
        self._details: dict[str, str] = {}
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live = Live(self._tree(), console=self.console, auto_refresh=False)
            self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the live display while a prompt uses the terminal."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()

    def show(self, event: Event) -> None:
        """Show an event. Events inside a node are not shown."""
        if "path" in event.data:
            return
        node, state = str(event.data.get("nodeId")), _STATES.get(event.kind)
        if node not in self._states:
            return
        if event.kind is EventKind.message_delta:
            self._details[node] = (self._details.get(node, "") + as_text(event.data["delta"]))[-TAIL:]
        if event.kind is EventKind.tool_progress:
            self._details[node] = _progress(event.data)
        if state is not None:
            self._states[node] = state
            self._details[node] = _detail(event)
        if self._live is not None:
            self._live.update(self._tree(), refresh=True)
        elif state is not None:
            self.console.print(self._label(node), highlight=False, soft_wrap=True)

    def show_graph(self, nodes: Sequence[Mapping[str, JSON]]) -> None:
        """Show the nodes of a run's graph (interface, Graph of a run)."""
        for node in nodes:
            name, state, detail = as_text(node["id"]), _STATUSES[as_text(node["status"])], _graph_detail(node)
            if name not in self._states or (state, detail) == (self._states[name], self._details.get(name, "")):
                continue
            is_news = state != self._states[name]
            self._states[name], self._details[name] = state, detail
            if self._live is None and is_news:
                self.console.print(self._label(name), highlight=False, soft_wrap=True)
        if self._live is not None:
            self._live.update(self._tree(), refresh=True)

    def _tree(self) -> Tree:
        root = Tree(Text(self._title, "bold"))
        levels = [root]
        for depth, node in self._outline:
            del levels[depth + 1 :]
            levels.append(levels[depth].add(self._label(node)))
        return root

    def _label(self, node: str) -> Text:
        state = self._states[node]
        glyph, style = GLYPHS[state]
        declared = self._nodes[node]
        kind = as_object(declared.get("data", {})).get("toolId") or declared["type"]
        label = Text.assemble(
            (f"{glyph} {node}", style), (f"  {kind}", "dim"), ("" if self.console.is_terminal else f"  {state}")
        )
        detail = plain(" ".join(self._details.get(node, "").split()))
        return label.append(f"  {detail}", "dim" if state != "failed" else "red") if detail else label


def outline(structure: Mapping[str, JSON]) -> Iterator[tuple[int, str]]:
    """The nodes with their depth, each once, from the start node: branches are indented, successors are not."""
    nodes, edges = as_objects(structure.get("nodes") or ()), as_objects(structure.get("edges") or ())
    targets: dict[str, list[str]] = {as_text(node["id"]): [] for node in nodes}
    for edge in edges:
        targets[as_text(edge["source"])].append(as_text(edge["target"]))
    starts = [as_text(node["id"]) for node in nodes if node["type"] == "start"]
    seen: set[str] = set()
    todo = [(0, node) for node in reversed(starts)]
    while todo:
        depth, node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        yield depth, node
        inner = depth + (len(targets[node]) > 1)
        todo += [(inner, target) for target in reversed(targets[node])]


def _progress(data: Mapping[str, JSON]) -> str:
    """The progress of a tool: `3/10 page 3`."""
    counts = [f"{as_number(data[name]):g}" for name in ("progress", "total") if data.get(name) is not None]
    return " ".join(["/".join(counts), as_text(data.get("message", ""))]).strip()[:TAIL]


def _detail(event: Event) -> str:
    """The detail of an event: the error message, or the message of an interrupt."""
    data = event.data
    if event.kind is EventKind.interrupt:
        return str(data.get("message") or "").partition("\n")[0][:TAIL]
    error = data.get("error")
    return str(error.get("message") if isinstance(error, Mapping) else error or "")


def chain(nodes: Sequence[Mapping[str, JSON]]) -> dict[str, JSON]:
    """A structure of the nodes of a run's graph, one after the other: the graph does not name the ends of edges."""
    names = [as_text(node["id"]) for node in nodes]
    edges: list[JSON] = [{"id": f"{a}-{b}", "source": a, "target": b} for a, b in itertools.pairwise(names)]
    first = [{**node, "type": "start" if index == 0 else node["type"]} for index, node in enumerate(nodes)]
    return {"nodes": first, "edges": edges}


def _graph_detail(node: Mapping[str, JSON]) -> str:
    """How many items are done, the attempts of a node that is retried, or its error."""
    items, visits = as_objects(node["items"] or ()), as_objects(node["visits"])
    if visits and visits[-1]["error"] is not None:
        return as_text(as_object(visits[-1]["error"])["message"])
    if items:
        return f"{sum(item['status'] == 'done' for item in items)}/{len(items)} items"
    attempts = as_integer(visits[-1]["attempts"]) if visits else 0
    return f"attempt {attempts}" if attempts > 1 else ""


def interactive() -> bool:
    """Whether a prompt can be answered: a user must see it on a terminal; a pipe need not."""
    return sys.stderr.isatty() or not sys.stdin.isatty()
