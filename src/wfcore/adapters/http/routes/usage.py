"""The routes of usage reports and suggestions."""

from collections.abc import Iterator

from starlette.responses import Response

from wfcore.adapters.http.core.request_parsing import INSTANT, Query, instant, one_of
from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import Call, Route
from wfcore.api.suggestions import SuggestionsDto as SuggestionsShape
from wfcore.api.usage import UsageReport
from wfcore.ports.repositories.usage import GROUPS
from wfcore.runtime.common.authorization import scopes_of
from wfcore.runtime.organization.usage import Usage
from wfcore.runtime.runs.suggestions import Suggestions

_FROM = Query("from", instant, INSTANT, "Calls at this time or later; default: 30 days before `to`")
_TO = Query("to", instant, INSTANT, "Calls before this time; default: now. At most 366 days after `from`")
_GROUP = Query("groupBy", one_of(*GROUPS), {"type": "string", "enum": list(GROUPS), "default": GROUPS[0]},
               "What the sums are grouped by; default: `model`", GROUPS[0])  # fmt: skip


class UsageRoutes:
    """Usage of models, and suggested prompts."""

    def __init__(self, usage: Usage, suggestions: Suggestions) -> None:
        self._usage = usage
        self._suggestions = suggestions

    def table(self) -> Iterator[Route]:
        yield Route(
            "usage.report", "GET", "/api/v1/usage", self.report, "Report the usage of models",
            scopes_of(self._usage.report), UsageReport, query=(_FROM, _TO, _GROUP),
        )  # fmt: skip
        yield Route(
            "suggestions.list", "GET", "/api/v1/suggestions", self.suggest, "List suggested prompts",
            scopes_of(self._suggestions.suggest), SuggestionsShape,
        )  # fmt: skip

    async def report(self, call: Call) -> Response:
        since, until, group_by = (call.query[query.name] for query in (_FROM, _TO, _GROUP))
        report = await self._usage.report(call.me, since=since, until=until, group_by=group_by)
        return json_response(report.to_wire())

    async def suggest(self, call: Call) -> Response:
        found = await self._suggestions.suggest(call.me)
        return json_response({"suggestions": [one.to_wire() for one in found]})
