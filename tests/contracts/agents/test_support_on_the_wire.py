"""The support agent of the examples with a remote model."""

import json
import os
import sys
from importlib import util
from pathlib import Path

import pytest
from wire_stub import WireStub
from wires import CHAT, KEY

pytestmark = pytest.mark.anyio

EXAMPLE = Path(__file__).parents[3] / "examples" / "support_agent.py"


def asks(name: str, **args: object) -> dict[str, object]:
    return {"content": "", "toolCalls": [{"id": f"call-{name}", "name": name, "args": args}]}


async def test_support_with_a_model_on_the_wire(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment names model, address and key; tools, memories and results are sent; a refund waits for a `y`."""
    spec = util.spec_from_file_location("example_support_on_the_wire", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    support = util.module_from_spec(spec)
    spec.loader.exec_module(support)
    replies = [asks("find_order", number=7), asks("refund", order=7, amount=12.5), "Half of it is on its way."]
    reads, writes = os.pipe()
    os.write(writes, b"My order 7 arrived broken.\ny\n")
    os.close(writes)
    async with WireStub([CHAT.says(reply) for reply in replies]) as stub:
        for name, value in (("MODEL", "small"), ("BASE_URL", stub.base_url), ("API_KEY", KEY)):
            monkeypatch.setenv(f"OPENAI_{name}", value)
        with os.fdopen(reads) as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            await support.main()
    first, *_, last = stub.calls
    assert len(stub.calls) == 3
    assert (first.body["model"], first.headers["authorization"]) == ("small", f"Bearer {KEY}")
    assert [tool["function"]["name"] for tool in first.body["tools"]] == ["find_order", "refund"]
    assert "An order that arrived broken is paid back in full." in first.body["messages"][0]["content"]
    looked_up, paid = (message["content"] for message in last.body["messages"] if message["role"] == "tool")
    assert json.loads(looked_up) == support.ORDERS[7]
    assert paid == "12.5 euros for order 7 are on their way"
    assert list(support.REFUNDS.values()) == [(7, 12.5)]
    assert "allow refund {'order': 7, 'amount': 12.5}? (y/n)" in capsys.readouterr().err
