"""What wfcore needs of the product: principals for its users, a tool, a workflow, and a handler that sends mail."""

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Annotated, Any
from uuid import NAMESPACE_URL, uuid5

from django.conf import settings
from django.contrib.auth.models import User
from django.core.mail import send_mail
from django.db import close_old_connections

import wfcore
from refunds.models import Refund
from wfcore.contrib.django import DjangoAutomation, database

ACME = "6f2d8a52-6b0e-4b7c-9a55-0d6a3c1e9f01"
MANAGERS = "managers"


def group_id(name: str) -> str:
    """wfcore's id of a group of Django."""
    return str(uuid5(NAMESPACE_URL, f"https://shop.example/groups/{name}"))


def principal_of(core: wfcore.Core | wfcore.SyncCore, user: User) -> wfcore.Principal:
    groups = [group_id(group.name) for group in user.groups.all()]
    return core.principal(ACME, user=user.username, email=user.email or None, groups=groups)


@wfcore.tool(idempotent=True)
def send_refund(
    order: int, amount: Decimal, ctx: wfcore.RunContext[None], _: Annotated[None, wfcore.Provide(database)]
) -> Decimal:
    """Pay an amount back to the customer of an order."""
    Refund.objects.get_or_create(key=ctx.key, defaults={"order": order, "amount": amount})
    return amount


REFUND: dict[str, Any] = {
    "type": "object",
    "properties": {
        "order": {"type": "integer", "minimum": 1},
        "amount": {"type": "string", "pattern": r"^[0-9]{1,8}(\.[0-9]{1,2})?$"},
    },
    "required": ["order", "amount"],
    "additionalProperties": False,
}
"""The input of a run: wfcore refuses any other, also of those that are started over the mounted API."""


def refund_flow() -> wfcore.Flow:
    flow = wfcore.Flow("Refunds", input=REFUND)
    check = flow.condition(large="double(input.amount) > 100.0")
    ask = flow.approval(f"Pay back {flow.input.amount} for order {flow.input.order}?", groups=[group_id(MANAGERS)],
                        after=check["large"])  # fmt: skip
    flow.action(send_refund, order=flow.input.order, amount=flow.input.amount, after=[ask, check.otherwise])
    return flow


@contextmanager
def thread_connections() -> Iterator[None]:
    """A handler runs in a worker thread, which must not keep a connection of Django."""
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()


def mail_managers(event: wfcore.HookEvent) -> None:
    """At least once for each approval that waits; a mail that comes twice does no harm."""
    with thread_connections():
        to = list(User.objects.filter(groups__name=MANAGERS).values_list("email", flat=True))
        send_mail("A refund waits for you", f"Decide it: /approvals/{event.data['runId']}", None, to)


async def prepare(core: wfcore.Core) -> None:
    """The organization and the workflow of a first start, and the mail of each approval that waits."""
    await core.directory.ensure_organization("Acme", id=ACME)
    await core.directory.ensure_group(ACME, MANAGERS, id=group_id(MANAGERS))
    owner = core.principal(ACME, user="product")
    if not await core.workflows.page(owner):
        flow = refund_flow()
        made = await core.workflows.create(owner, name=flow.name, structure=flow.structure())
        await core.workflows.deploy(owner, made.id)
    core.on("interrupt.opened", mail_managers, name="mail managers")


automation = DjangoAutomation(f"sqlite:///{settings.FILE}", principal=principal_of, ready=prepare, tools=[send_refund])
