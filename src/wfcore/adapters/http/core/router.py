"""From a path to a route. Paths are matched as they were sent, segment by segment: `%2F` does not split one."""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, unquote_to_bytes

import attrs

from wfcore.adapters.http.core.responses import MethodNotAllowed
from wfcore.adapters.http.core.route import Route
from wfcore.domain.kernel.errors import NotFound


@attrs.define
class _Place:
    """A place in the tree of paths: the routes that end here, and where it goes on."""

    routes: dict[str, Route] = attrs.field(factory=dict)
    named: dict[str, "_Place"] = attrs.field(factory=dict)
    parameter: "tuple[str, _Place] | None" = None


class Router:
    """The route table as a tree. A segment by name comes before a parameter."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._top = _Place()
        for route in routes:
            self._place_of(route.path).routes[route.method] = route

    def find(self, method: str, segments: Iterable[str]) -> tuple[Route, dict[str, str]]:
        """The route and its path parameters. NotFound, or MethodNotAllowed; HEAD is like GET.

        A name with a NUL, which not every store could be asked for, becomes the empty one: neither is anybody's.
        """
        place, parameters = self._top, dict[str, str]()
        for segment in segments:
            if segment in place.named:
                place = place.named[segment]
            elif place.parameter and segment:
                name, place = place.parameter
                parameters[name] = "" if "\0" in segment else segment
            else:
                raise NotFound
        if not place.routes:
            raise NotFound
        route = place.routes.get("GET" if method == "HEAD" else method)
        if route is None:
            raise MethodNotAllowed(method, sorted(place.routes | dict.fromkeys(_head(place))))
        return route, parameters

    def _place_of(self, path: str) -> _Place:
        place = self._top
        for segment in path.split("/")[1:]:
            if segment.startswith("{"):
                place.parameter = place.parameter or (segment[1:-1], _Place())
                place = place.parameter[1]
            else:
                place = place.named.setdefault(segment, _Place())
        return place


def _head(place: _Place) -> list[str]:
    return ["HEAD"] if "GET" in place.routes else []


def segments_of(scope: Mapping[str, Any], root: str) -> list[str]:
    """The decoded segments of the request's path below `root`. NotFound when they are not UTF-8."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    try:
        segments = [unquote_to_bytes(part).decode() for part in raw.split(b"/")[1:]]
    except UnicodeDecodeError:
        raise NotFound from None
    above = root.split("/")[1:]
    return segments[len(above) :] if segments[: len(above)] == above else segments
