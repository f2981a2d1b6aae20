"""The examples of agents do what they say."""

import asyncio
import os
import sys
from importlib import util
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def load(name: str) -> ModuleType:
    spec = util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_support_pays_back_what_was_allowed_and_nothing_else(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through a pipe: an order is looked up without asking, a refund waits for a `y`, an empty line ends the talk."""
    monkeypatch.delenv("OPENAI_MODEL", raising=False)
    support = load("support_agent")
    reads, writes = os.pipe()
    os.write(writes, b"hello\norder 7 arrived broken\nn\norder 7 arrived broken\ny\nwhere is order 9?\n\nnever read\n")
    os.close(writes)
    with os.fdopen(reads) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        asyncio.run(support.main())
    told = capsys.readouterr()
    assert told.out.splitlines() == [
        "agent> Which order is it? Please send me its number.",
        "agent> About order 7: error: the call was denied by a person.",
        "agent> About order 7: 40 euros for order 7 are on their way.",
        "agent> About order 9: error: there is no order 9.",
    ]
    assert told.err.count("allow refund {'order': 7, 'amount': 40}? (y/n)") == 2
    assert list(support.REFUNDS.values()) == [(7, 40)]


def test_a_supervisor_hands_each_part_to_who_knows_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Both subordinates use their own tools alone, further in, and the supervisor's answer has what both said."""
    asyncio.run(load("supervisor").main())
    weather, train = "sun over Bonn, 21 degrees", "09:12 from platform 4, in Bonn at 10:40"
    told = capsys.readouterr().out.splitlines()
    assert {f"    {weather}", f"<- {weather}", f"    {train}", f"<- {train}"} < set(told)
    assert [line for line in told if line.startswith("    ->")] == [
        "    -> forecast {'place': 'Bonn'}",
        "    -> next_train {'to': 'Bonn'}",
    ]
    assert told[-1] == f"{weather}; {train}"


def test_an_agent_between_actions_gives_them_what_fits(capsys: pytest.CaptureFixture[str]) -> None:
    """An answer that does not fit is asked for again; the action behind gets the fields of the one that does."""
    example = load("agent_between_actions")
    asyncio.run(example.main())
    told = capsys.readouterr().out
    assert "judge again: the answer does not fit `outputSchema`" in told
    assert told.endswith("done: ticket for shipping: Lid arrived broken\n")
    assert list(example.TICKETS.values()) == [{"team": "shipping", "title": "Lid arrived broken"}]
