"""The tree of a run's nodes."""

import io
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from wfcore.cli.progress import Progress, chain, outline
from wfcore.domain.run.events import Event, EventKind


def structure(edges: list[tuple[str, str]], nodes: str) -> dict[str, object]:
    kinds = {node: "start" if node == "s" else "action" for node in nodes}
    return {
        "nodes": [{"id": node, "type": kind} for node, kind in kinds.items()],
        "edges": [{"id": str(number), "source": a, "target": b} for number, (a, b) in enumerate(edges)],
    }


def test_a_chain_is_flat_and_a_fork_is_indented() -> None:
    """A successor is below its node, a branch is indented."""
    edges = [("s", "a"), ("a", "b"), ("a", "c"), ("c", "d")]
    assert list(outline(structure(edges, "sabcd"))) == [(0, "s"), (0, "a"), (1, "b"), (1, "c"), (1, "d")]


@given(st.lists(st.tuples(st.sampled_from("sabcdef"), st.sampled_from("sabcdef")), max_size=15))
def test_every_reachable_node_is_listed_once(edges: list[tuple[str, str]]) -> None:
    """In every graph, with joins and cycles: each node reachable from the start once, at most one level deeper."""
    reached, grown = {"s"}, True
    while grown:
        more = {b for a, b in edges if a in reached} - reached
        reached, grown = reached | more, bool(more)
    found = list(outline(structure(edges, "sabcdef")))
    assert sorted(node for _, node in found) == sorted(reached)
    assert all(after <= before + 1 for (before, _), (after, _) in pairwise(found))


def test_large_graphs_need_no_recursion() -> None:
    """5,000 nodes in a row, with a branch at every step."""
    names = ["s", *map(str, range(5_000))]
    nodes = [{"id": name, "type": "start" if name == "s" else "action"} for name in names]
    edges = [{"source": a, "target": b} for a, b in pairwise(names)]
    edges += [{"source": a, "target": b} for a, b in zip(names, names[2:], strict=False)]
    assert len(list(outline({"nodes": nodes, "edges": edges}))) == 5_001


def event(kind: EventKind, **data: object) -> Event:
    return Event(kind, "r", 1, 0, {"nodeId": "a", **data})


def shown(*events: Event, terminal: bool) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100, color_system=None, legacy_windows=False)
    with Progress("Refunds", structure([("s", "a")], "sa"), console) as progress:
        for one in events:
            progress.show(one)
    return out.getvalue()


def test_without_a_terminal_every_change_is_a_line() -> None:
    """One line per change of state, without control characters; partial text has none."""
    printed = shown(
        event(EventKind.run_started),
        event(EventKind.node_started),
        event(EventKind.message_delta, messageId="m", delta="some text"),
        event(EventKind.node_failed, error={"message": "no [bold]luck[/]"}),
        terminal=False,
    )
    assert printed.splitlines() == ["● a  action  running", "✘ a  action  failed  no [bold]luck[/]"]
    assert "\x1b" not in printed


def test_the_progress_of_a_tool_is_beside_its_node() -> None:
    """On a terminal, until the node changes its state; the text of the tool is one line."""
    reports = [{"progress": 3, "total": 10, "message": "page\n3"}, {"progress": None, "message": "soon"}]
    events = [event(EventKind.tool_progress, **report) for report in reports]
    printed = shown(event(EventKind.node_started), *events, terminal=True)
    assert "3/10 page 3" in printed
    assert "a  action  soon" in printed
    assert shown(event(EventKind.node_started), *events, terminal=False).splitlines() == ["● a  action  running"]


def test_events_inside_a_node_are_not_shown() -> None:
    """A child's node with the same id does not change the root's node."""
    inside = event(EventKind.node_failed, path=["a"], error={"message": "inside"})
    assert shown(event(EventKind.node_started), inside, terminal=False) == shown(
        event(EventKind.node_started), terminal=False
    )


def test_on_a_terminal_the_tree_is_live() -> None:
    """The tree is drawn at the start with every node, and again at each event, with states and partial text."""
    printed = shown(
        event(EventKind.node_started),
        event(EventKind.message_delta, messageId="m", delta="some text"),
        event(EventKind.node_finished, output=1),
        terminal=True,
    )
    assert printed.count("Refunds") >= 4
    assert "· a" in printed
    assert "● a  action  some text" in printed
    assert "✔ a" in printed


def test_the_graph_of_a_run_is_shown() -> None:
    """Items of a list and attempts are counted, an error is shown; an unchanged node is not shown again."""

    def node(
        name: str, status: str, attempts: int = 1, items: object = None, error: object = None
    ) -> dict[str, object]:
        return {"id": name, "type": "action", "status": status, "items": items,
                "visits": [{"attempts": attempts, "error": error}] if status != "pending" else []}  # fmt: skip

    before = [node("s", "done"), node("a", "pending"), node("b", "running", 3), node("c", "cancelled")]
    items = [{"status": "done"}, {"status": "running"}]
    after = [
        node("s", "done"),
        node("a", "running", items=items),
        node("b", "error", error={"message": "no"}),
        before[3],
    ]
    written = io.StringIO()
    progress = Progress("r", chain(before), Console(file=written, width=200))
    for nodes in (before, before, after):
        progress.show_graph(nodes)
    assert [line.split() for line in written.getvalue().splitlines()] == [
        ["✔", "s", "start", "done"], ["●", "b", "action", "running", "attempt", "3"],
        ["-", "c", "action", "skipped"], ["●", "a", "action", "running", "1/2", "items"],
        ["✘", "b", "action", "failed", "no"],
    ]  # fmt: skip
    shown = io.StringIO()
    with Progress("r", chain(before), Console(file=shown, width=200, force_terminal=True)) as live:
        live.show_graph(after)
    assert "1/2 items" in shown.getvalue()
