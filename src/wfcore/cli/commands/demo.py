"""The demo organization of `wfcore dev`: workflows, and runs that are finished, waiting and failed."""

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from wfcore.domain.kernel.errors import Conflict, NotFound
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Role

if TYPE_CHECKING:
    from wfcore.core import Core
    from wfcore.domain.resources.access import Principal

ORGANIZATION: Final = "00000000-0000-4000-8000-00000000de40"
"""The UUID of the demo organization."""

LAST: Final = "demo-failed"
"""The run that is made last: with it, the demo is complete."""


def _node(id: str, type: str, **data: JSON) -> JSON:
    return {"id": id, "type": type, "data": data}


def _graph(*nodes: JSON, edges: list[tuple[str, str, str | None]]) -> dict[str, JSON]:
    lines: list[JSON] = [
        {"id": f"{source}-{target}", "source": source, "target": target, **({"sourceHandle": by} if by else {})}
        for source, target, by in edges
    ]
    return {"nodes": [_node("start", "start"), *nodes], "edges": lines}


GREETING: Final = _graph(
    _node("greet", "action", toolId="core.transform", params={"value": "Hello, {{ input.name }}!"}),
    edges=[("start", "greet", None)],
)
REFUND: Final = _graph(
    _node("large", "condition", branches=[{"handle": "large", "when": "input.amount > 100.0"}]),
    _node(
        "approve", "humanApproval", message="Refund {{ input.amount }} to {{ input.customer }}?",
        formSchema={
            "type": "object",
            "properties": {"reason": {"type": "string", "title": "Reason", "minLength": 3}},
            "required": ["reason"],
        },
    ),
    _node("pay", "action", toolId="core.transform", params={"value": {"paid": "{{ input.amount }}"}}),
    _node("refuse", "action", toolId="core.transform", params={"value": {"paid": 0}}),
    edges=[
        ("start", "large", None), ("large", "approve", "large"), ("large", "pay", "else"),
        ("approve", "pay", "approved"), ("approve", "refuse", "denied"),
    ],
)  # fmt: skip
STOCK: Final = _graph(
    _node("look", "action", toolId="core.transform", params={"value": "{{ input.article }}"}),
    _node("known", "condition", branches=[{"handle": "known", "when": "nodes.look.output != 'C-404'"}]),
    _node("found", "action", toolId="core.transform", params={"value": {"inStock": 7}}),
    _node("missing", "action", toolId="core.fail", params={"message": "no article {{ input.article }}"}),
    edges=[
        ("start", "look", None), ("look", "known", None), ("known", "found", "known"), ("known", "missing", "else"),
    ],
)  # fmt: skip


async def create_demo(core: "Core", user: str) -> None:
    """Create the organization, its owner `user`, and its content. What is there already stays as it is."""
    await core.directory.ensure_organization("Demo", id=ORGANIZATION)
    await core.directory.add_member(ORGANIZATION, user, "demo@example.org", name="Demo", role=Role.OWNER)
    me = core.principal(ORGANIZATION, user, email="demo@example.org", role=Role.OWNER)
    try:
        await core.runs.get(me, LAST)
    except NotFound:
        with suppress(Conflict):  # a user has deleted parts of it, and wants them gone
            await _fill(core, me)


async def _fill(core: "Core", me: "Principal") -> None:
    greeting = await _deployed(core, me, "Greeting", "Says hello to somebody", GREETING)
    refunds = await _deployed(core, me, "Refunds", "Large refunds need an approval", REFUND)
    stock = await _deployed(core, me, "Stock", "Looks an article up", STOCK)
    for name in ("Ada", "Grace", "Linus"):
        await core.runs.start(me, workflow=greeting, input={"name": name}, key=f"demo-greeting-{name.lower()}")
    for customer, amount in (("Bob", 240.5), ("Eve", 1_200.0)):
        given: dict[str, JSON] = {"customer": customer, "amount": amount}
        await core.runs.start(me, workflow=refunds, input=given, key=f"demo-waiting-{customer.lower()}")
    small: dict[str, JSON] = {"customer": "Ann", "amount": 20.0}
    await core.runs.start(me, workflow=refunds, input=small, key="demo-refunded")
    await core.runs.start(me, workflow=stock, input={"article": "A-1"}, key="demo-in-stock")
    await core.runs.start(me, workflow=stock, input={"article": "C-404"}, key=LAST)


async def _deployed(core: "Core", me: "Principal", name: str, description: str, structure: dict[str, JSON]) -> int:
    """The id of the workflow, which is created and deployed once."""
    key = f"demo-{name.lower()}"
    body: dict[str, JSON] = {
        "name": name,
        "type": "workflow",
        "description": description,
        "workflowStructure": structure,
    }
    made = await core.workflows.create(me, body, key=key)
    if (await core.workflows.get(me, made.id)).resource.active_variation_id is None:
        await core.workflows.deploy(me, made.id)
    return made.id
