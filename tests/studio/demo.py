"""Real data for the pages: workflows that fail in parallel with children, wait for a form, and loop over items."""

import time
from typing import Any

import httpx
from waiting import PATIENCE

Json = dict[str, Any]

TEN_FIELDS: Json = {
    "type": "object",
    "required": ["amount", "reason", "account", "confirm"],
    "properties": {
        "amount": {"type": "number", "title": "Amount", "minimum": 1, "maximum": 5000, "default": 120.5},
        "reason": {"type": "string", "title": "Reason", "minLength": 5, "description": "Shown to the customer."},
        "account": {"type": "string", "title": "Account", "enum": ["main", "savings", "travel", "tax", "payroll"]},
        "speed": {"type": "string", "title": "Speed", "enum": ["normal", "fast"], "default": "normal"},
        "date": {"type": "string", "title": "Date", "format": "date"},
        "count": {"type": "integer", "title": "Instalments", "minimum": 1, "maximum": 12, "default": 1},
        "notes": {"type": "string", "title": "Notes", "maxLength": 2000},
        "tags": {"type": "array", "title": "Tags", "items": {"type": "string", "enum": ["vip", "legal", "repeat"]}},
        "contact": {
            "type": "object",
            "title": "Contact",
            "required": ["email"],
            "properties": {
                "email": {"type": "string", "title": "Email", "format": "email"},
                "phones": {"type": "array", "title": "Phones", "items": {"type": "string"}},
            },
        },
        "confirm": {"type": "boolean", "title": "I checked the account", "const": True},
    },
}


def node(name: str, kind: str, **data: Any) -> Json:
    return {"id": name, "type": kind, "data": data}


def edge(source: str, target: str, handle: str | None = None) -> Json:
    found: Json = {"id": f"{source}-{target}", "source": source, "target": target}
    return found | ({"sourceHandle": handle} if handle else {})


def transform(name: str, value: Any, **data: Any) -> Json:
    return node(name, "action", toolId="core.transform", params={"value": value}, **data)


def graph(nodes: list[Json], *edges: tuple[str, ...]) -> Json:
    return {"nodes": [node("start", "start"), *nodes], "edges": [edge(*each) for each in edges]}


CHILD = graph(
    [
        transform("price", "{{ input.sku + ' costs 10' }}"),
        node("known", "condition", branches=[{"handle": "yes", "when": "input.sku != 'C-404'"}]),
        node("refuse", "action", toolId="core.fail", params={"message": "the catalog has no article {{ input.sku }}"}),
        transform("done", "{{ nodes.price.output }}"),
    ],
    ("start", "price"), ("price", "known"), ("known", "done", "yes"), ("known", "refuse", "else"),
)  # fmt: skip


LINES = ["A-100", "B-200", "C-404"]


def parallel(child: int) -> Json:
    call = {"workflowId": child, "input": {"sku": "{{ item }}"}}
    return graph(
        [
            transform("load_order", {"id": "{{ input.order }}", "lines": LINES, "customer": {"name": "Grace Hopper"}}),
            transform("check_stock", "{{ nodes.load_order.output.lines.map(line, line + ' in stock') }}"),
            node("price_lines", "action", toolId="core.workflow", params=call, forEach="nodes.load_order.output.lines"),
            transform("notify", "Order {{ input.order }} is being prepared"),
            node("reserve", "action", toolId="core.wait", params={"seconds": 3600}),  # until the run has failed
            node("vip", "condition", branches=[{"handle": "vip", "when": "input.order > 1000"}]),
            transform("greet_vip", "Hello"),
            transform("label", "label-{{ input.order }}"),
            transform("ship", "shipped"),
        ],
        ("start", "load_order"), ("load_order", "check_stock"), ("load_order", "price_lines"), ("load_order", "notify"),
        ("check_stock", "reserve"), ("notify", "vip"), ("vip", "greet_vip", "vip"), ("vip", "label", "else"),
        ("reserve", "ship"), ("price_lines", "ship"), ("label", "ship"),
    )  # fmt: skip


ASK = "Refund order {{ input.order }} to Ada Lovelace?"
REFUND = graph(
    [
        transform("case", {"order": "{{ input.order }}", "customer": "Ada Lovelace", "total": 420}),
        node("approve_refund", "humanApproval", message=ASK, formSchema=TEN_FIELDS, timeoutSeconds=86400),
        transform("book", "{{ nodes.approve_refund.output.data }}"),
    ],
    ("start", "case"), ("case", "approve_refund"), ("approve_refund", "book", "approved"),
)  # fmt: skip

BOOKING = {"to": "ledger", "amount": 1250, "lines": [{"sku": "A", "qty": 3}], "order": "{{ input.order }}"}
CALL = graph(
    [
        transform("post", BOOKING, requiresApproval=True),
    ],
    ("start", "post"),
)  # fmt: skip

PLAIN = graph([node("ask", "humanApproval", message="Publish release {{ input.order }}?")], ("start", "ask"))
QUORUM = graph(
    [
        node(
            "ask",
            "humanApproval",
            message="Close the books for {{ input.order }}?",
            requiredApprovals=2,
            timeoutSeconds=1800,
        )
    ],
    ("start", "ask"),
)
QUICK = graph([transform("greet", "Hello {{ input.order }}")], ("start", "greet"))

EVIL = (
    "\u202egnp.exe <img src=x onerror=alert(1)> javascript:alert(1) [x](javascript:alert(1)) "
    "</script><script>alert(1)</script>"
)
HOSTILE = graph(
    [
        transform(EVIL, {"__proto__": {"x": 1}, "html": EVIL, "long": "x" * 100_000, "deep": [[[[[[EVIL]]]]]]}),
        node("ask", "humanApproval", message=EVIL + " " + "y" * 5000, formSchema={
            "type": "object", "title": EVIL, "properties": {
                EVIL: {"type": "string", "title": EVIL, "description": EVIL},
                "__proto__": {"type": "string"},
                "constructor": {"type": "string", "enum": [EVIL, "<b>b</b>"]},
                **{f"field{number}": {"type": "string"} for number in range(300)},
            },
        }),
    ],
    ("start", EVIL), (EVIL, "ask"),
)  # fmt: skip


def workflow(client: httpx.Client, name: str, structure: Json, **more: Any) -> int:
    made = client.post(
        "/api/v1/workflows", json={"name": name, "type": "workflow", "workflowStructure": structure, **more}
    )
    assert made.status_code == 201, made.text
    deployed = client.post(f"/api/v1/workflows/{made.json()['id']}/deploy")
    assert deployed.status_code == 200, deployed.text
    return int(made.json()["id"])


def run(client: httpx.Client, workflow_id: int, **data: Any) -> str:
    started = client.post(
        "/agent/v1/runs", json={"workflowId": workflow_id, "input": data}, headers={"Accept": "application/json"}
    )
    assert started.status_code in (200, 202), started.text
    return str(started.json()["runId"])


def settle(client: httpx.Client, run_id: str, seconds: float = PATIENCE) -> Json:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        record: Json = client.get(f"/agent/v1/runs/{run_id}").json()
        if record["status"] not in ("queued", "running"):
            return record
        time.sleep(0.05)  # the server is another process, on the real clock
    raise AssertionError(f"run {run_id} did not settle")


def fill(client: httpx.Client, quick: int = 20) -> dict[str, str]:
    """Create the workflows and runs. Returns the run ids by name."""
    child = workflow(client, "Price one line", CHILD)
    order = workflow(client, "Fulfil order", parallel(child), description="Prices, reserves and ships an order")
    refund = workflow(client, "Refund", REFUND, description="Refunds an order after approval")
    call = workflow(client, "Post to ledger", CALL)
    plain = workflow(client, "Publish release", PLAIN)
    quorum = workflow(client, "Close the books", QUORUM)
    greet = workflow(client, "Greet", QUICK)
    for number in range(quick):
        run(client, greet, order=number)
    ids = {
        "failed": run(client, order, order=77),
        "form": run(client, refund, order=4711),
        "call": run(client, call, order=12),
        "quorum": run(client, quorum, order=2026),
        **{f"plain{number}": run(client, plain, order=number) for number in range(4)},
        "done": run(client, greet, order=1),
    }
    for each in ids.values():
        settle(client, each)
    ids["order_workflow"] = str(order)
    ids["refund_workflow"] = str(refund)
    ids["plain_workflow"] = str(plain)
    ids["greet_workflow"] = str(greet)
    return ids
