"""Calls with a `concurrencyKey`: the slot that each of them needs, and the attempts that can have one."""

import pytest

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import CallSlot, CallTool, attempt_id
from wfcore.domain.run.replay import fold
from wfcore.domain.run.simulation import simulate
from wfcore.testing.histories import History, sketch

EACH = {"forEach": "input", "concurrencyKey": "k-{{ item }}", "concurrencyLimit": 3, "params": {"x": "{{ item }}"}}


def slots(history: History) -> list[CallSlot | None]:
    """The slots of the calls that are pending."""
    return [effect.slot for effect in history.machine.pending.values() if isinstance(effect, CallTool)]


def test_a_call_without_a_key_needs_no_slot() -> None:
    """Nor does any append of its execution name one."""
    history = History(sketch("s -> a"))
    assert (slots(history), history.machine.slots) == ([None], None)
    assert history.succeed("a", 1).machine.slots is None


def test_a_key_is_rendered_when_the_node_starts() -> None:
    """With the limit of the node, by default one; each item of a list has its own."""
    assert slots(History(sketch("s -> a", a={"concurrencyKey": "crm"}))) == [("crm", 1)]
    assert slots(History(sketch("s -> a", a={"concurrencyKey": "{{ input }}!"}), "x")) == [("x!", 1)]
    assert slots(History(sketch("s -> a", a=EACH), [1, 2])) == [("k-1", 3), ("k-2", 3)]


@pytest.mark.parametrize("key", [7, None, "", "x" * 201, "a\nb", ["a"]])
def test_a_key_that_is_not_valid_fails_the_node(key: JSON) -> None:
    """As an expression that fails does, also in a simulation that knows the input."""
    graph = sketch("s -> a", a={"concurrencyKey": "{{ input.key }}"})
    error = History(graph, {"key": key}).machine.error
    assert error is not None
    assert "`concurrencyKey` is not a text of 1 to 200 printable characters" in str(error["message"])
    assert error["info"] == {"reason": "expression", "nodeId": "a"}


def test_an_expression_of_a_key_that_fails_fails_the_node() -> None:
    """And takes its error edge."""
    history = History(sketch("s -> a", "a -error-> b", a={"concurrencyKey": "{{ input.none }}"}), {})
    assert [effect.key.rpartition(":")[0][-1] for effect in history.machine.pending.values()] == ["b"]


def test_attempts_that_can_have_a_slot() -> None:
    """Those that are pending in an open turn: an outcome, a retry and the end of the run leave them out."""
    history = History(sketch("s -> a", a={**EACH, "retry": {"maxAttempts": 2}}), ["x", "y"])
    first, second = [attempt_id(effect) for effect in history.machine.pending.values()]
    assert history.machine.slots == (first, second)
    history.fail("a", step=0)
    assert history.machine.slots == (first.replace(":1", ":2"), second)
    history.succeed("a", 1, 1)
    assert history.machine.slots == (first.replace(":1", ":2"),)
    assert history.cancel().machine.slots == ()
    assert fold(history.started_plan, history.entries).slots == ()
    assert history.machine.copy().slots == ()


def test_a_retry_of_the_run_needs_the_slot_again() -> None:
    """With the same key the calls go on; with another one the visit begins anew, and keeps results of items."""
    history = History(sketch("s -> a", a=EACH), [1, 2]).succeed("a", "one", 0).cancel()
    again = history.retry()
    assert slots(again) == [("k-2", 3)]
    other = again.cancel().retry(sketch("s -> a", a={**EACH, "concurrencyKey": "other"}))
    assert slots(other) == [("other", 3)]
    (call,) = other.machine.pending.values()
    assert call.attempt == 1
    assert other.succeed("a", "two", 1).machine.output == ["one", "two"]


def test_an_approved_call_needs_its_slot_afterwards() -> None:
    """While a person decides, nothing is held."""
    graph = sketch("s -> a", a={"concurrencyKey": "crm", "requiresApproval": True, "toolId": "x"})
    history = History(graph).succeed("a", {"digest": "d", "name": "n"}, -1)
    assert (slots(history), history.machine.slots) == ([], None)


@pytest.mark.parametrize("tool", ["core.transform", "core.wait", "core.fail", "core.workflow"])
def test_built_in_tools_need_no_slot(tool: str) -> None:
    """Also where an expression of the key would fail."""
    params = {"value": 1, "seconds": 1, "message": "m", "workflowId": 1}
    history = History(sketch("s -> a", a={"toolId": tool, "params": params, "concurrencyKey": "{{ input.none }}"}), {})
    assert history.machine.slots is None
    assert (history.machine.error or {}).get("message") in (None, "m")


@pytest.mark.parametrize(("given", "fails"), [({"key": 7}, True), ({"key": "crm"}, False)])
def test_a_simulation_renders_the_key(given: JSON, fails: bool) -> None:
    """With the input that it is given."""
    found = simulate(sketch("s -> a", a={"concurrencyKey": "{{ input.key }}"}), given)
    ends = {step for path in found.paths for step in path.steps}
    assert ends == ({("a", "expression")} if fails else {("a", "done"), ("a", "failed")})
