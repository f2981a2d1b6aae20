"""Tools that need a connection: what they receive, the interrupt without one, and what is never shown."""

import base64
import logging
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from bench import Bench, act, graph, one, opened, why

from wfcore.adapters.tools.catalog import tool
from wfcore.domain.agents.secret_masks import SecretMask
from wfcore.domain.json.codec import dumps
from wfcore.ports.providers import ConnectionRequired, ToolCall, ToolFailed
from wfcore.runtime.tools.connection_use import ConnectionUse

pytestmark = pytest.mark.anyio

CANARY = "canary-5d8f-secret"
KEY = b"k" * 32


_FORMS: dict[str, Callable[[str], str]] = {
    "raw": str,
    "query": lambda key: f"https://x.org/?key={quote(key, safe='')}",
    "path": lambda key: f"https://x.org/{quote(key)}",
    "form": lambda key: f"key={quote_plus(key)}",
    "basic": lambda key: f"Basic {base64.b64encode(f'u:{key}'.encode()).decode()}",
    "cut": lambda key: key[:-3],
    "base64url": lambda key: base64.urlsafe_b64encode(key.encode()).decode(),
}


@tool(provider="payments", idempotent=True)
async def pay(call: ToolCall, amount: int = 1) -> dict[str, Any]:
    """Pays with the key of the connection."""
    assert call.connection is not None
    return {"by": call.connection.id, "kind": call.connection.kind, "knows": call.connection.config["apiKey"] == CANARY}


@tool(provider="payments", idempotent=True)
async def indiscreet(call: ToolCall) -> None:
    assert call.connection is not None
    raise RuntimeError(f"401 for {call.connection.config['apiKey']} ({call!r})")


@tool(provider="payments", idempotent=True)
async def careless(call: ToolCall, form: str) -> None:
    """Fails with a form of its key in the message, as clients of HTTP do."""
    assert call.connection is not None
    raise ToolFailed(f"401 for {_FORMS[form](call.connection.config['apiKey'])}", retryable=False)


class Panic(BaseException):
    """As a module in Rust raises it: no Exception."""


@tool(provider="payments", idempotent=True)
async def panicking(call: ToolCall) -> None:
    assert call.connection is not None
    raise Panic(f"401 for {call.connection.config['apiKey']} ({call!r})")


@tool(provider="payments")
async def refused(call: ToolCall) -> str:
    assert call.connection is not None
    if call.connection.config["apiKey"] == "old":
        raise ConnectionRequired("the key `old` is not valid")
    return "paid"


@tool(provider="payments", idempotent=True)
async def echo(call: ToolCall) -> dict[str, Any]:
    """Returns the headers that it sent, as a service that reflects requests does."""
    assert call.connection is not None
    key = call.connection.config["apiKey"]
    basic = [base64.b64encode(f"{user}:{key}".encode()).decode() for user in ("", "u", "us")]
    return {
        "sent": f"Bearer {key}",
        "url": f"/?key={quote(key, safe='')}",
        "basic": basic,
        key: [{"deep": key}],
        "n": 1,
    }


@tool(provider="payments", idempotent=True)
async def reading(call: ToolCall) -> dict[str, Any]:
    """Returns the header that it sent, and the token that a service reads in it."""
    assert call.connection is not None
    header = call.connection.config["apiKey"]
    return {"header": header, "token": header.split()[1]}


@tool(provider="payments", idempotent=True)
async def repeating(form: str, call: ToolCall) -> list[str]:
    """Returns its key in a few texts, or in many."""
    assert call.connection is not None
    return [f"key {call.connection.config['apiKey']}"] * (5_000 if form == "many" else 5)


@tool(provider="payments", idempotent=True)
async def telling(call: ToolCall) -> None:
    """Reports its progress with the beginning of its key."""
    assert call.connection is not None
    call.progress(message=f"signed in with {call.connection.config['apiKey'][:9]}")


@pytest.fixture
async def bench(database: str) -> AsyncIterator[Bench]:
    async with opened(
        database, tools=[pay, indiscreet, careless, panicking, refused, echo, reading, repeating, telling], secrets=KEY
    ) as made:
        yield made


async def connect(bench: Bench, key: str = CANARY, **fields: Any) -> str:
    body = {"name": "Till", "provider": "payments", "kind": "api_key", "config": {"apiKey": key}, **fields}
    return (await bench.core.connections.create(bench.me, body)).id


async def test_the_tool_receives_the_connection(bench: Bench) -> None:
    """The oldest active connection of the tool's provider, with its secrets; never one of another organization."""
    await connect(bench, "no", status="disabled")
    await connect(bench, "no", provider="mail")
    wanted = await connect(bench)
    await connect(bench, "younger")
    assert (await bench.ran(one(act("pay")))).output == {"by": wanted, "kind": "api_key", "knows": True}


@pytest.mark.parametrize("fields", [None, {"provider": "mail"}, {"status": "disabled"}])
async def test_a_missing_connection_opens_an_interrupt(bench: Bench, fields: Any) -> None:
    """None, one of another provider, a disabled one; `connected` too early opens a new one."""
    if fields:
        await connect(bench, **fields)
    run = await bench.ran(graph("s>a a>b", a=act("pay"), b=act("core.transform", value="{{ nodes.a.output.knows }}")))
    for _ in range(2):
        assert run.status == "interrupted"
        (asked,) = run.to_wire()["interrupts"]
        assert (asked["type"], asked["nodeId"]) == ("connect", "a")
        assert asked["provider"] == "payments"
        run = await bench.ended(await bench.core.runs.resume(bench.me, run.id, decision="connected"))
    await connect(bench)
    run = await bench.ended(await bench.core.runs.resume(bench.me, run.id, decision="connected"))
    assert (run.status, run.output) == ("done", True)


async def test_refused_credentials_open_an_interrupt(bench: Bench) -> None:
    """A tool whose service refuses the key opens one; `cancelled` fails the node, by its error edge."""
    old = await connect(bench, "old")
    parked = await bench.ran(one(act("refused")))
    assert parked.to_wire()["interrupts"][0]["connectionId"] == old
    await bench.core.connections.patch(bench.me, old, config={"apiKey": "new"})
    assert (await bench.ended(await bench.core.runs.resume(bench.me, parked.id, decision="connected"))).output == "paid"
    await bench.core.connections.delete(bench.me, old)
    parked = await bench.ran(graph("s>a a:error>c", a=act("refused"), c=act("core.transform", value="caught")))
    turn = await bench.ended(await bench.core.runs.resume(bench.me, parked.id, decision="cancelled"))
    assert (turn.status, turn.output) == ("done", "caught")


async def test_a_lost_key_is_a_missing_connection(database: str) -> None:
    """Secrets that this installation cannot open lead to an interrupt; they are not shown."""
    async with opened(database, tools=[pay], secrets=KEY) as bench:
        await connect(bench)
    async with opened(database, tools=[pay], secrets=b"o" * 32, org=bench.org) as again:
        parked = await again.ran(one(act("pay")))
        assert parked.to_wire()["interrupts"][0]["type"] == "connect"


@pytest.mark.parametrize(("name", "error"), [("indiscreet", "RuntimeError"), ("panicking", "Panic")])
async def test_secrets_are_never_shown(bench: Bench, caplog: pytest.LogCaptureFixture, name: str, error: str) -> None:
    """A tool that puts its key into an exception: neither record, event nor log has it."""
    await connect(bench)
    with caplog.at_level(logging.DEBUG):
        run = await bench.ran(one(act(name)))
    assert why(run)[0].startswith(f"{error}: 401 for *** (ToolCall(")
    shown = dumps([run.to_wire(), *(event.to_wire() for event in await bench.events(run.id))])
    assert CANARY not in shown + caplog.text


@pytest.mark.parametrize("form", [form for form in _FORMS if form != "cut"])
async def test_an_exception_shows_no_form_of_a_secret(bench: Bench, form: str) -> None:
    """As in results: the secret, and its forms in URLs and in base64."""
    key = "canary/5d8f secret+="
    await connect(bench, key)
    run = await bench.ran(one(act("careless", form=form)))
    before, _, after = why(run)[0].partition("***")
    sent = f"401 for {_FORMS[form](key)}"
    assert sent.startswith(before)
    assert sent.endswith(after)
    assert len(before + after) <= len(sent) - len(key)


async def test_an_exception_shows_no_short_secret(bench: Bench) -> None:
    """It is masked in a message, where that costs nothing."""
    await connect(bench, "k-7")
    assert why(await bench.ran(one(act("careless", form="raw"))))[0] == "401 for ***"


async def test_a_result_shows_no_secret(bench: Bench) -> None:
    """A result that succeeds is masked too: the secret, and its forms in URLs and in base64 at any position."""
    key = "canary/5d8f secret+="
    await connect(bench, key)
    output = (await bench.ran(one(act("echo")))).output
    assert (output["sent"], output["url"], output["***"], output["n"]) == (
        "Bearer ***",
        "/?key=***",
        [{"deep": "***"}],
        1,
    )
    for text in output["basic"]:
        assert "***" in text
        assert len(text) < 10
    assert "5d8f" not in dumps(output)


async def test_a_large_result_is_masked_in_a_thread(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop serves others meanwhile: a result can have megabytes of short texts."""
    threads = list[bool]()
    masked = SecretMask.value

    def value(self: SecretMask, output: Any) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return masked(self, output)

    monkeypatch.setattr(SecretMask, "value", value)
    await connect(bench)
    for form in ("many", "few"):
        output = (await bench.ran(one(act("repeating", form=form)))).output
        assert set(output) == {"key ***"}
    assert threads == [False, True]


async def test_a_result_shows_no_token_without_its_scheme(bench: Bench) -> None:
    """A credential can be stored with its scheme, and a service names the token alone."""
    await connect(bench, f"Bearer {CANARY}")
    output = (await bench.ran(one(act("reading")))).output
    assert output == {"header": "***", "token": "***"}


async def test_a_message_that_is_cut_shows_no_part_of_a_secret(bench: Bench) -> None:
    """Adapters cut what a service said, and can do so within the secret that it repeats."""
    await connect(bench)
    assert why(await bench.ran(one(act("careless", form="cut"))))[0] == "401 for ***"
    run = await bench.ran(one(act("telling")))
    reports = [event.data["message"] for event in await bench.events(run.id) if event.kind == "tool_progress"]
    assert reports == ["signed in with ***"]


async def test_a_short_secret_is_not_masked(bench: Bench) -> None:
    """Three characters could be part of any text."""
    await connect(bench, "e")
    assert (await bench.ran(one(act("echo")))).output["sent"] == "Bearer e"


async def test_a_use_that_cannot_be_recorded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The result of the call is kept; the log says why the connection does not show that it works."""

    async def keep(*_: Any) -> None:
        raise RuntimeError("read-only")

    monkeypatch.setattr(ConnectionUse, "_keep", keep)
    config = {"apiKey": CANARY}
    await bench.core.connections.create(bench.me, name="P", provider="payments", kind="api_key", config=config)
    with caplog.at_level(logging.WARNING, "wfcore.connections"):
        run = await bench.ran(one(act("pay")))
    assert (run.status, run.output["knows"]) == ("done", True)
    assert "could not be recorded" in caplog.text
