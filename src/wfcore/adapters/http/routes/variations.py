"""The routes of a single variation, and of the difference of two."""

from collections.abc import Callable, Iterator

from starlette.responses import Response

from wfcore.adapters.http.core.request_parsing import OPAQUE_ID, Query, opaque_id
from wfcore.adapters.http.core.responses import json_response, tagged
from wfcore.adapters.http.core.route import Call, Route
from wfcore.api.variations import VariationDifference, VariationRecord
from wfcore.runtime.common.authorization import scopes_of
from wfcore.runtime.resources.variations import ACTIVE, DRAFT, VariationUseCases

_FROM = Query("from", opaque_id, {**OPAQUE_ID, "default": ACTIVE}, "`active`, `draft` or an id", ACTIVE)
_TO = Query("to", opaque_id, {**OPAQUE_ID, "default": DRAFT}, "`active`, `draft` or an id", DRAFT)


class VariationRoutes:
    """Routes below the base path of a kind of resource; `route` creates a `Route` below that path."""

    def __init__(self, cases: VariationUseCases, route: Callable[..., Route]) -> None:
        self._cases = cases
        self._route = route

    def table(self) -> Iterator[Route]:
        yield self._route(
            "variation", "GET", "/{id}/variations/{variationId}", self.get, "Read a variation",
            scopes_of(self._cases.variation), response=VariationRecord,
        )  # fmt: skip
        yield self._route(
            "diff", "GET", "/{id}/diff", self.diff, "Compare two variations", scopes_of(self._cases.diff),
            response=VariationDifference, query=(_FROM, _TO),
        )  # fmt: skip

    async def get(self, call: Call) -> Response:
        found = await self._cases.variation(call.me, call.id, call.path["variationId"])
        return tagged(json_response(found.to_wire()))

    async def diff(self, call: Call) -> Response:
        found = await self._cases.diff(call.me, call.id, call.query["from"], call.query["to"])
        return json_response(found.to_wire())
