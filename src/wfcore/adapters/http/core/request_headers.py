"""The headers of a request in a table: handling one looks up some twenty names."""

from functools import cached_property
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import Scope


class RequestHeaders(Headers):
    """The headers of a request, found by their names in any case."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope=scope)
        self._values: dict[str, list[str]] = {}
        for name, value in self.raw:
            self._values.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))

    def getlist(self, key: str) -> list[str]:
        return list(self._values.get(key.lower(), ()))

    def get(self, key: str, default: Any = None) -> Any:
        values = self._values.get(key.lower())
        return default if values is None else values[0]

    def __getitem__(self, key: str) -> str:
        return self._values[key.lower()][0]

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and key.lower() in self._values


class TabledRequest(HTTPConnection):
    """A request, with its headers in a table."""

    @cached_property
    def headers(self) -> Headers:
        return RequestHeaders(self.scope)
