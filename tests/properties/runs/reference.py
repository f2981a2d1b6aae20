"""What a graph means, written down a second time: naive, slow, from the definition alone.

Nothing is counted and nothing is kept up to date: which edges are decided, which nodes may go and which
cycles have been left is worked out anew, from the set of outcomes, on each call. Cycles are natural
loops: an edge closes one when its target is on the path of the depth-first walk that found its source.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

SKIPPED, FAILED = "(skipped)", "(failed)"


class Edge(NamedTuple):
    """An edge, by its position and the ids of its ends."""

    position: int
    source: str
    target: str
    handle: str | None


class Reference:
    """The nodes' outcomes so far. `starts` counts how often each node ran."""

    def __init__(self, structure: Mapping[str, Any]) -> None:
        self.data = {node["id"]: node for node in structure["nodes"]}
        self.edges = [
            Edge(position, edge["source"], edge["target"], edge.get("sourceHandle"))
            for position, edge in enumerate(structure["edges"])
        ]
        self.start = next(name for name, node in self.data.items() if node["type"] == "start")
        self.closing = set(self._closing(self.start, (), set()))
        self.cycles = {head: self._cycle(head) for head in {edge.target for edge in self.closing}}
        self.outcome: dict[str, str | None] = {}
        self.output: dict[str, Any] = {}
        self.running: set[str] = set()
        self.anew: set[str] = set()
        self.remembered: set[Edge] = set()
        self.void: set[str] = set()
        self.starts = dict.fromkeys(self.data, 0)
        self.raced = False

    # The shape of the graph

    def _closing(self, node: str, path: tuple[str, ...], seen: set[str]) -> Iterator[Edge]:
        seen.add(node)
        for edge in self.edges:
            if edge.source == node:
                if edge.target in (*path, node):
                    yield edge
                elif edge.target not in seen:
                    yield from self._closing(edge.target, (*path, node), seen)

    def _cycle(self, head: str) -> frozenset[str]:
        """The head and whatever reaches one of its closing edges without passing it."""
        body = {head}
        todo = [edge.source for edge in self.closing if edge.target == head]
        while todo:
            node = todo.pop()
            if node not in body:
                body.add(node)
                todo += [edge.source for edge in self.edges if edge.target == node]
        return frozenset(body)

    @property
    def reducible(self) -> bool:
        """Whether every cycle can be entered by its head alone."""
        return all(edge.source not in self._reach_without(edge.target) for edge in self.closing)

    def _reach_without(self, banned: str) -> set[str]:
        found: set[str] = set()
        todo = [self.start]
        while todo:
            node = todo.pop()
            if node != banned and node not in found:
                found.add(node)
                todo += [edge.target for edge in self.edges if edge.source == node]
        return found

    # What is known

    def _left(self, edge: Edge) -> list[frozenset[str]]:
        return [body for body in self.cycles.values() if edge.source in body and edge.target not in body]

    def decided(self, edge: Edge) -> bool:
        """An edge is decided when its source is, and when every cycle it leads out of has come to rest."""
        return edge.source in self.outcome and all(node in self.outcome for body in self._left(edge) for node in body)

    def taken(self, edge: Edge) -> bool:
        return edge in self.remembered or self.outcome[edge.source] == (edge.handle or "")

    def into(self, node: str) -> list[Edge]:
        return [edge for edge in self.edges if edge.target == node and edge not in self.closing]

    def ready(self) -> list[str]:
        """The nodes that must go now: to run or to be skipped."""
        return [
            node
            for node in self.data
            if node not in self.outcome
            and node not in self.running
            and (node in self.anew or all(map(self.decided, self.into(node))))
        ]

    def runs(self, node: str) -> bool:
        return node == self.start or node in self.anew or any(map(self.taken, self.into(node)))

    # What happens

    def begin(self, node: str) -> None:
        assert node in self.ready(), f"{node} started before its time"
        assert self.runs(node), f"{node} started on a dead path"
        self.anew.discard(node)
        self.running.add(node)
        self.starts[node] += 1

    def skip(self, node: str) -> None:
        if node in self.void:
            self.void.discard(node)
            return
        assert node in self.ready(), f"{node} skipped before its time"
        assert not self.runs(node), f"{node} skipped though an edge was taken"
        self._end(node, SKIPPED)

    def finish(self, node: str, handle: str | None, output: Any) -> None:
        self.running.remove(node)
        self.output[node] = output
        self._end(node, handle or "")

    def fail(self, node: str) -> bool:
        """False if nothing catches it."""
        self.running.remove(node)
        caught = any(edge.source == node and edge.handle == "error" for edge in self.edges)
        self._end(node, "error" if caught else FAILED)
        return caught

    def _end(self, node: str, outcome: str) -> None:
        self.outcome[node] = outcome
        mine = [edge for edge in self.edges if edge.source == node and (edge.handle or "") == outcome]
        self.remembered |= {edge for edge in mine if self._left(edge)}
        bodies = [self.cycles[edge.target] for edge in mine if edge in self.closing]
        if bodies:
            body = max(bodies, key=len)
            self._start_anew(next(head for head, found in self.cycles.items() if found == body), body)

    def _start_anew(self, head: str, body: frozenset[str]) -> None:
        self.raced = self.raced or any(node not in self.outcome for node in body)
        self.void |= self.running & body
        self.running -= body
        self.outcome = {node: outcome for node, outcome in self.outcome.items() if node not in body}
        self.remembered = {edge for edge in self.remembered if edge.source not in body or edge.target not in body}
        self.anew = self.anew - body | {head}

    def result(self) -> Any:
        """The output of the nodes that ran without failing and led nowhere."""
        ends = {
            node: self.output[node]
            for node in self.data
            if node in self.output
            and self.outcome[node] not in (SKIPPED, FAILED)
            and not (self.outcome[node] == "error" and self.data[node]["type"] in ("action", "agent"))
            and not any(self.taken(edge) for edge in self.edges if edge.source == node)
        }
        return next(iter(ends.values())) if len(ends) == 1 else ends or None


Outcome = tuple[str | None, Any]
"""The handle by which a node is left and its output; the handle `(failed)` for a failure."""


def interpret(structure: Mapping[str, Any], outcome: Callable[[str, int, Mapping[str, Any]], Outcome]) -> Any:
    """Run a graph to its end, each node at once: (status, output, how often each node ran).

    `outcome` returns how a visit of a node ends: its id, the visit from 1, all outputs so far.
    """
    known = Reference(structure)
    while ready := known.ready():
        node = ready[0]
        if not known.runs(node):
            known.skip(node)
            continue
        known.begin(node)
        handle, output = outcome(node, known.starts[node], known.output)
        if handle != FAILED:
            known.finish(node, handle, output)
        elif not known.fail(node):
            return "error", None, known.starts
    return "done", known.result(), known.starts
