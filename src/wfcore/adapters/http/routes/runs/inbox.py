"""The routes of the inbox (interface, `/agent/v1/interrupts`)."""

from collections.abc import Iterator, Sequence

import attrs
from starlette.responses import Response

from wfcore.adapters.http.core.request_parsing import Query, one_of, resource_id
from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import PAGING, Call, Route
from wfcore.api.inbox import DecideInterrupts, DecisionOutcomes, InboxCount, InboxPageDto
from wfcore.api.runs import InboxItemDto
from wfcore.runtime.common.authorization import scopes_of
from wfcore.runtime.runs.connects import Connects
from wfcore.runtime.runs.inbox import Inbox, ListedItem

INTERRUPTS = "/agent/v1/interrupts"
_STATUSES = ("open", "decided")
_ORDERS = ("newest", "deadline")
_STATUS = Query("status", one_of(*_STATUSES), {"enum": list(_STATUSES), "default": "open"},
                "`open`: what waits for the caller; `decided`: what was decided or has expired", "open")  # fmt: skip
_WORKFLOW = Query("workflowId", resource_id, {"type": "integer", "minimum": 1}, "Only those of this workflow")
_ORDER = Query("order", one_of(*_ORDERS), {"enum": list(_ORDERS), "default": "newest"},
               "`deadline`: the next deadline first", "newest")  # fmt: skip


class InboxRoutes:
    """What waits for the caller, and its decisions."""

    def __init__(self, inbox: Inbox, connects: Connects) -> None:
        self._inbox = inbox
        self._connects = connects

    def table(self) -> Iterator[Route]:
        inbox = self._inbox
        yield Route(
            "interrupts.list", "GET", INTERRUPTS, self.list, "List the caller's inbox, newest first",
            scopes_of(inbox.page), InboxPageDto,
            query=(_STATUS, _WORKFLOW, _ORDER, *PAGING),
        )  # fmt: skip
        yield Route(
            "interrupts.get", "GET", f"{INTERRUPTS}/{{interruptId}}", self.get,
            "Read an interrupt that the caller can decide, can see or has decided", scopes_of(inbox.item), InboxItemDto,
        )  # fmt: skip
        yield Route(
            "interrupts.decide", "POST", f"{INTERRUPTS}/decide", self.decide, "Decide several interrupts of any runs",
            scopes_of(inbox.decide), DecisionOutcomes, body=DecideInterrupts, body_required=True,
        )  # fmt: skip
        yield Route(
            "me.inboxCount", "GET", "/api/v1/me/inbox/count", self.count, "Count what waits for the caller",
            scopes_of(inbox.count), InboxCount,
        )  # fmt: skip

    async def list(self, call: Call) -> Response:
        status, workflow, order = (call.query[one.name] for one in (_STATUS, _WORKFLOW, _ORDER))
        bound_to = ("interrupts", status, workflow, order)
        page = await self._inbox.page(
            call.me, decided=status == "decided", workflow=workflow, order=order, limit=call.query["pageSize"],
            after=call.position(*bound_to),
        )  # fmt: skip
        items = await self._linked(call, page.items)
        return call.page("interrupts", items, page.following, *bound_to, more={"total": page.total})

    async def get(self, call: Call) -> Response:
        (item,) = await self._linked(call, [await self._inbox.item(call.me, call.path["interruptId"])])
        return json_response(item.to_wire())

    async def _linked(self, call: Call, items: Sequence[ListedItem]) -> Sequence[ListedItem]:
        """The items with the links to authorize connections."""
        links = await self._connects.links_of_items(call.me, [one.item for one in items], call.address)
        return [attrs.evolve(one, link=links.get(one.item.found.interrupt.id)) for one in items]

    async def decide(self, call: Call) -> Response:
        outcomes = await self._inbox.decide(call.me, call.body)
        return json_response({"outcomes": [one.to_wire(call.request_id) for one in outcomes]})

    async def count(self, call: Call) -> Response:
        return json_response({"count": await self._inbox.count(call.me)})
