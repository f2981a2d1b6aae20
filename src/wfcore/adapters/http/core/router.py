"""Finds the route of a path. Paths are matched segment by segment before decoding: `%2F` does not split one."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

import attrs

from wfcore.adapters.http.core.responses import MethodNotAllowed
from wfcore.adapters.http.core.route import Route
from wfcore.domain.kernel.errors import NotFound

_ABSOLUTE: Final = re.compile(rb"https?://[^/]*/?", re.IGNORECASE)


@attrs.define
class _Node:
    """A node in the tree of paths: the routes that end here, and the nodes of further segments."""

    routes: dict[str, Route] = attrs.field(factory=dict)
    named: dict[str, "_Node"] = attrs.field(factory=dict)
    parameter: "tuple[str, _Node] | None" = None


class Router:
    """The route table as a tree. A literal segment precedes a parameter."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Node()
        for route in routes:
            self._node_of(route.path).routes[route.method] = route

    def find(self, method: str, segments: Iterable[str]) -> tuple[Route, dict[str, str]]:
        """The route and its path parameters; HEAD finds the route of GET. Raises NotFound or MethodNotAllowed.

        Where a literal segment leads to no route, it is a parameter: `/runs/retry/events` is of the run `retry`.
        A parameter with a NUL, which some stores cannot look up, becomes "": no resource has either as its id.
        """
        found = _match(self._root, [*segments], 0)
        if found is None:
            raise NotFound
        node, parameters = found
        route = node.routes.get("GET" if method == "HEAD" else method)
        if route is None:
            raise MethodNotAllowed(method, sorted(node.routes | dict.fromkeys(_head(node))))
        return route, parameters

    def _node_of(self, path: str) -> _Node:
        node = self._root
        for segment in path.split("/")[1:]:
            if segment.startswith("{"):
                node.parameter = node.parameter or (segment[1:-1], _Node())
                node = node.parameter[1]
            else:
                node = node.named.setdefault(segment, _Node())
        return node


def _match(node: _Node, segments: Sequence[str], at: int) -> tuple[_Node, dict[str, str]] | None:
    """The node with routes to which the segments from `at` on lead, by literal segments first, and its parameters."""
    if at == len(segments):
        return (node, {}) if node.routes else None
    segment, found = segments[at], None
    if segment in node.named:
        found = _match(node.named[segment], segments, at + 1)
    if found is None and node.parameter and segment:
        name, below = node.parameter
        if found := _match(below, segments, at + 1):
            found[1][name] = "" if "\0" in segment else segment
    return found


def _head(node: _Node) -> list[str]:
    return ["HEAD"] if "GET" in node.routes else []


def segments_of(scope: Mapping[str, Any], root: str) -> list[str]:
    """The decoded segments of the request's path below `root`. Raises NotFound when they are not UTF-8."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    if not raw.startswith(b"/"):  # the absolute form of a request to a proxy (RFC 9112, 3.2.2)
        raw = _ABSOLUTE.sub(b"/", raw)
    try:
        segments = raw.decode().split("/")[1:]
        if b"%" in raw:
            segments = [unquote_to_bytes(part).decode() for part in segments]
    except UnicodeDecodeError:
        raise NotFound from None
    above = root.split("/")[1:]
    return segments[len(above) :] if segments[: len(above)] == above else segments
