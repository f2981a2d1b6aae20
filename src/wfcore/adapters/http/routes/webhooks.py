"""The routes of webhooks: managers read and rotate the secret; senders post signed messages without a token."""

from collections.abc import Callable, Iterator
from http import HTTPStatus

from starlette.responses import Response

from wfcore.adapters.http.core.request_parsing import if_match
from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import IF_MATCH, Call, Route
from wfcore.api.management import WebhookSecret
from wfcore.api.resources import Body
from wfcore.api.runs import RunAccepted
from wfcore.domain.triggers.webhooks import Webhook
from wfcore.runtime.common.authorization import scopes_of
from wfcore.runtime.resources.webhooks import WebhookUseCases
from wfcore.runtime.triggers.webhook_deliveries import Deliveries

SIGNATURE_HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")


class WebhookRoutes:
    """Routes below the base path of workflows; `route` creates a `Route` below that path."""

    def __init__(self, cases: WebhookUseCases, route: Callable[..., Route]) -> None:
        self._cases = cases
        self._route = route

    def table(self) -> Iterator[Route]:
        cases, path = self._cases, "/{id}/webhook"
        yield self._route(
            "webhook", "GET", path, self.get, "Read the URL for messages that start runs, and their secret",
            scopes_of(cases.webhook), response=WebhookSecret,
        )  # fmt: skip
        yield self._route(
            "rotateWebhook", "POST", f"{path}/rotate", self.rotate,
            "Create a new secret; the old one stops working at once",
            scopes_of(cases.rotate_webhook), response=WebhookSecret, body=Body, headers=(IF_MATCH,),
        )  # fmt: skip

    async def get(self, call: Call) -> Response:
        return _response(call, await self._cases.webhook(call.me, call.id))

    async def rotate(self, call: Call) -> Response:
        return _response(call, await self._cases.rotate_webhook(call.me, call.id, if_match=if_match(call.headers)))


class DeliveryRoutes:
    """The route for senders."""

    def __init__(self, deliveries: Deliveries) -> None:
        self._deliveries = deliveries

    def table(self) -> list[Route]:
        return [
            Route(
                "webhooks.receive", "POST", "/webhooks/{webhookId}", self.receive,
                "Start a run with a message that is signed according to Standard Webhooks", None, RunAccepted,
                HTTPStatus.ACCEPTED, signature_headers=SIGNATURE_HEADERS,
            )
        ]  # fmt: skip

    async def receive(self, call: Call) -> Response:
        view = await self._deliveries.receive(call.path["webhookId"], call.headers.items(), call.raw)
        return json_response({"runId": view.id, "status": view.status}, HTTPStatus.ACCEPTED)


def _response(call: Call, webhook: Webhook) -> Response:
    return json_response({"url": call.origin + call.url(webhook.path), "secret": webhook.secret})
