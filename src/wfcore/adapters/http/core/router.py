"""Finds the route of a path. Paths are matched segment by segment before decoding: `%2F` does not split one."""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, unquote_to_bytes

import attrs

from wfcore.adapters.http.core.responses import MethodNotAllowed
from wfcore.adapters.http.core.route import Route
from wfcore.domain.kernel.errors import NotFound


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

        A parameter with a NUL, which some stores cannot look up, becomes "": no resource has either as its id.
        """
        node, parameters = self._root, dict[str, str]()
        for segment in segments:
            if segment in node.named:
                node = node.named[segment]
            elif node.parameter and segment:
                name, node = node.parameter
                parameters[name] = "" if "\0" in segment else segment
            else:
                raise NotFound
        if not node.routes:
            raise NotFound
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


def _head(node: _Node) -> list[str]:
    return ["HEAD"] if "GET" in node.routes else []


def segments_of(scope: Mapping[str, Any], root: str) -> list[str]:
    """The decoded segments of the request's path below `root`. Raises NotFound when they are not UTF-8."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    try:
        segments = raw.decode().split("/")[1:]
        if b"%" in raw:
            segments = [unquote_to_bytes(part).decode() for part in segments]
    except UnicodeDecodeError:
        raise NotFound from None
    above = root.split("/")[1:]
    return segments[len(above) :] if segments[: len(above)] == above else segments
