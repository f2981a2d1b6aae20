"""The examples of agents work."""

import asyncio
import os
import sys
from importlib import util
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"


def load(name: str) -> ModuleType:
    spec = util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_support_refunds_only_with_approval(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through a pipe: an order lookup needs no approval, a refund waits for a `y`, an empty line ends the chat.

    A message that is not valid is refused, and the chat goes on.
    """
    monkeypatch.delenv("OPENAI_MODEL", raising=False)
    support = load("support_agent")
    reads, writes = os.pipe()
    os.write(
        writes,
        b"hel\0lo\nhello\norder 7 arrived broken\nn\norder 7 arrived broken\ny\nwhere is order 9?\n\nnever read\n",
    )
    os.close(writes)
    with os.fdopen(reads) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        asyncio.run(support.main())
    output = capsys.readouterr()
    assert output.out.splitlines() == [
        "agent> Which order is it? Please send me its number.",
        "agent> About order 7: error: the call was denied by a person.",
        "agent> About order 7: 40 euros for order 7 are on their way.",
        "agent> About order 9: error: there is no order 9.",
    ]
    assert "error: `message`: NUL in a string\n" in output.err
    assert output.err.count("allow refund {'order': 7, 'amount': 40}? (y/n)") == 2
    assert list(support.REFUNDS.values()) == [(7, 40)]


def test_a_supervisor_calls_both_subordinates(capsys: pytest.CaptureFixture[str]) -> None:
    """Each subordinate uses only its own tools, indented, and the output of the supervisor has both results."""
    asyncio.run(load("supervisor").main())
    weather, train = "sun over Bonn, 21 degrees", "09:12 from platform 4, in Bonn at 10:40"
    output = capsys.readouterr().out.splitlines()
    assert {f"    {weather}", f"<- {weather}", f"    {train}", f"<- {train}"} < set(output)
    assert [line for line in output if line.startswith("    ->")] == [
        "    -> forecast {'place': 'Bonn'}",
        "    -> next_train {'to': 'Bonn'}",
    ]
    assert output[-1] == f"{weather}; {train}"


def test_an_agent_between_actions_has_valid_output(capsys: pytest.CaptureFixture[str]) -> None:
    """A completion that does not fit is tried again; the next action receives the fields of one that fits."""
    example = load("agent_between_actions")
    asyncio.run(example.main())
    output = capsys.readouterr().out
    assert "judge again: the answer does not fit `outputSchema`" in output
    assert output.endswith("done: ticket for shipping: Lid arrived broken\n")
    assert list(example.TICKETS.values()) == [{"team": "shipping", "title": "Lid arrived broken"}]
