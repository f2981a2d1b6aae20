"""Loop nesting of a graph: which edges close a cycle, and which cycle each node belongs to.

An edge closes a cycle when it leads back to an ancestor in the depth-first walk from the start node (edges in
the order they are written). The nodes of a cycle are found as in Havlak, "Nesting of Reducible and
Irreducible Loops" (1997): backwards from the closing edges, inner cycles first and then taken as one. No
recursion; near linear.
"""

from collections.abc import Sequence

import attrs


@attrs.frozen
class Loop:
    """A cycle: its head, the enclosing cycle (-1 for none), and the nodes and cycles directly in it."""

    head: int
    parent: int
    nodes: tuple[int, ...]
    children: tuple[int, ...]


def loops_within(loops: Sequence[Loop], loop: int) -> list[int]:
    """The cycle at this position and all cycles inside it."""
    found, left = list[int](), [loop]
    while left:
        found.append(left.pop())
        left += loops[found[-1]].children
    return found


@attrs.frozen
class Nesting:
    """`closing` holds the positions of edges that close a cycle; `innermost[node]` is a loop's position or
    -1.
    """

    closing: frozenset[int]
    loops: tuple[Loop, ...]
    innermost: tuple[int, ...]

    def left_by(self, source: int, target: int) -> int:
        """The outermost loop that an edge leads out of, or -1. A loop stands before the loops around it."""
        here, there, left = self.innermost[source], self.innermost[target], -1
        while here != there:
            if there < 0 or 0 <= here < there:
                left, here = here, self.loops[here].parent
            else:
                there = self.loops[there].parent
        return left


def nesting(count: int, start: int, edges: Sequence[tuple[int, int]]) -> Nesting:
    """The loop nesting of the part of a graph of `count` nodes that `start` reaches; `edges` are (source,
    target).
    """
    outgoing: list[list[int]] = [[] for _ in range(count)]
    for position, (source, _) in enumerate(edges):
        outgoing[source].append(position)
    number, last, order = _walk(start, outgoing, edges, count)

    forward_into: list[list[int]] = [[] for _ in range(count)]
    closing_into: list[list[int]] = [[] for _ in range(count)]
    closing = set()
    for position, (source, target) in enumerate(edges):
        if number[source] < 0:
            continue
        if number[target] <= number[source] <= last[target]:
            closing.add(position)
            closing_into[target].append(source)
        else:
            forward_into[target].append(source)
    if not closing:
        return Nesting(frozenset(), (), (-1,) * count)

    joined = list(range(count))

    def find(node: int) -> int:
        root = node
        while joined[root] != root:
            root = joined[root]
        while joined[node] != root:
            joined[node], node = root, joined[node]
        return root

    heads: list[int] = []
    members: list[tuple[int, ...]] = []
    for head in reversed(order):
        if not closing_into[head]:
            continue
        body = {find(source) for source in closing_into[head]} - {head}
        todo = list(body)
        while todo:
            for source in forward_into[todo.pop()]:
                inner = find(source)
                if not number[head] <= number[inner] <= last[head]:
                    forward_into[head].append(inner)  # an entry beside the head: it belongs to an outer cycle
                elif inner not in body and inner != head:
                    body.add(inner)
                    todo.append(inner)
        for node in body:
            joined[node] = head
        heads.append(head)
        members.append(tuple(sorted(body)))
    return _forest(count, frozenset(closing), heads, members)


def _walk(
    start: int, outgoing: list[list[int]], edges: Sequence[tuple[int, int]], count: int
) -> tuple[list[int], list[int], list[int]]:
    """Depth first from `start`: number of each node in preorder (-1 unreached), last number below it, the
    order.
    """
    number, last, order = [-1] * count, [-1] * count, [start]
    number[start] = 0
    path = [(start, iter(outgoing[start]))]
    while path:
        node, rest = path[-1]
        for position in rest:
            target = edges[position][1]
            if number[target] < 0:
                number[target] = len(order)
                order.append(target)
                path.append((target, iter(outgoing[target])))
                break
        else:
            last[node] = len(order) - 1
            path.pop()
    return number, last, order


def _forest(count: int, closing: frozenset[int], heads: list[int], members: list[tuple[int, ...]]) -> Nesting:
    """Loops were found inner before outer; a member that heads a loop stands for that whole loop."""
    at_head = {head: loop for loop, head in enumerate(heads)}
    parent = [-1] * len(heads)
    innermost = [-1] * count
    nodes: list[tuple[int, ...]] = []
    children: list[tuple[int, ...]] = []
    for loop, body in enumerate(members):
        inner = tuple(at_head[node] for node in body if at_head.get(node, loop) < loop)
        plain = tuple(node for node in body if at_head.get(node, loop) >= loop)
        for child in inner:
            parent[child] = loop
        nodes.append((heads[loop], *plain))
        children.append(inner)
        for node in nodes[-1]:
            innermost[node] = loop
    loops = tuple(Loop(head, parent[loop], nodes[loop], children[loop]) for loop, head in enumerate(heads))
    return Nesting(closing, loops, tuple(innermost))
