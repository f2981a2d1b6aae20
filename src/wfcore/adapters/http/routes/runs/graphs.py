"""The routes of a run's graph (interface, Graph of a run)."""

from collections.abc import Iterator, Mapping
from typing import Final

from starlette.responses import Response

from wfcore.adapters.http.core.request_parsing import Query, one_of, opaque_id, whole_number
from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import Call, Route
from wfcore.adapters.http.core.turns import RUNS
from wfcore.api.run_graphs import RunGraphDto, ValueDto
from wfcore.domain.kernel.json_type import JSON
from wfcore.runtime.common.authorization import scopes_of
from wfcore.runtime.common.requests import bad_query
from wfcore.runtime.runs.graph import RunGraph, path_of
from wfcore.runtime.runs.runs import Runs

FIELDS = ("input", "output", "error")
_NUMBER: Final[Mapping[str, JSON]] = {"type": "integer", "minimum": 0}
_LONGEST: Final = 4_096
"""The most characters of a path: more than children within children can have, with ids of 255 characters."""


def _node_ids(text: str) -> tuple[str, ...]:
    if len(text) > _LONGEST or "\0" in text:
        raise ValueError(f"must have at most {_LONGEST} characters, none of them NUL")
    return path_of(text)


_PATH = Query(
    "path", _node_ids, {"type": "string"},
    "Node ids, separated by commas: the graph of the child there. In an id, `%2C` is a comma and `%25` a percent sign",
)  # fmt: skip
_NODE = Query("nodeId", opaque_id, {"type": "string", "minLength": 1}, "The node")
_VISIT = Query("visit", whole_number, _NUMBER, "The visit of the node; default: the first", 1)
_FIELD = Query("field", one_of(*FIELDS), {"enum": list(FIELDS)}, "Which value; default: `output`", "output")
_ITEM = Query("item", whole_number, _NUMBER, "The item of a `forEach`")


class RunGraphRoutes:
    """The graph of a run, and the large values in it."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def table(self) -> Iterator[Route]:
        scopes = scopes_of(self._runs.graph)
        yield Route(
            "runs.graph", "GET", f"{RUNS}/{{runId}}/graph", self.graph, "Read what each node of a run has done", scopes,
            RunGraphDto, query=(_PATH,),
        )  # fmt: skip
        yield Route(
            "runs.graphValue", "GET", f"{RUNS}/{{runId}}/graph/value", self.value,
            "Read a value that is too large for the graph", scopes, ValueDto,
            query=(_NODE, _VISIT, _FIELD, _ITEM, _PATH),
        )  # fmt: skip

    async def graph(self, call: Call) -> Response:
        return json_response((await self._read(call)).to_wire())

    async def value(self, call: Call) -> Response:
        graph, names = await self._read(call), (_NODE, _VISIT, _FIELD, _ITEM)
        if call.query["nodeId"] is None:
            raise bad_query("nodeId", "is required")
        return json_response({"value": graph.value(*(call.query[one.name] for one in names))})

    async def _read(self, call: Call) -> RunGraph:
        path = call.query["path"] or ()
        return await self._runs.graph(call.me, call.run_id, path=path, base=call.url(RUNS, call.run_id))
