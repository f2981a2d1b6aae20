"""The routes of webhooks: a manager reads and rotates the secret, a sender posts messages without any token."""

from collections.abc import Callable, Iterator
from http import HTTPStatus

from starlette.responses import Response

from wfcore.adapters.http.core.request_parsing import if_match
from wfcore.adapters.http.core.responses import json_answer
from wfcore.adapters.http.core.route import IF_MATCH, Call, Route
from wfcore.api.management import WebhookSecret
from wfcore.api.resources import Body
from wfcore.api.runs import RunAccepted
from wfcore.domain.triggers.webhooks import Webhook
from wfcore.runtime.common.authorization import scopes_of
from wfcore.runtime.resources.webhooks import WebhookUseCases
from wfcore.runtime.triggers.webhook_deliveries import Deliveries

SIGNED = ("webhook-id", "webhook-timestamp", "webhook-signature")


class WebhookRoutes:
    """Below the base path of workflows; `route` makes an entry of the table there."""

    def __init__(self, cases: WebhookUseCases, route: Callable[..., Route]) -> None:
        self._cases = cases
        self._route = route

    def table(self) -> Iterator[Route]:
        cases, place = self._cases, "/{id}/webhook"
        yield self._route(
            "webhook", "GET", place, self.get, "Where messages that start runs are sent, and what signs them",
            scopes_of(cases.webhook), answer=WebhookSecret,
        )  # fmt: skip
        yield self._route(
            "rotateWebhook", "POST", f"{place}/rotate", self.rotate, "A new secret; the old one is refused at once",
            scopes_of(cases.rotate_webhook), answer=WebhookSecret, body=Body, headers=(IF_MATCH,),
        )  # fmt: skip

    async def get(self, call: Call) -> Response:
        return _answer(call, await self._cases.webhook(call.me, call.id))

    async def rotate(self, call: Call) -> Response:
        return _answer(call, await self._cases.rotate_webhook(call.me, call.id, if_match=if_match(call.headers)))


class DeliveryRoutes:
    """The one route that senders know."""

    def __init__(self, deliveries: Deliveries) -> None:
        self._deliveries = deliveries

    def table(self) -> list[Route]:
        return [
            Route(
                "webhooks.receive", "POST", "/webhooks/{webhookId}", self.receive,
                "Start the run of a message signed as Standard Webhooks has it", None, RunAccepted,
                HTTPStatus.ACCEPTED, signed=SIGNED,
            )
        ]  # fmt: skip

    async def receive(self, call: Call) -> Response:
        view = await self._deliveries.receive(call.path["webhookId"], call.headers.items(), call.raw)
        return json_answer({"runId": view.id, "status": view.status}, HTTPStatus.ACCEPTED)


def _answer(call: Call, webhook: Webhook) -> Response:
    return json_answer({"url": call.origin + call.url(webhook.path), "secret": webhook.secret})
