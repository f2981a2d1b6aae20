"""Children that wait under a time limit, and children of a `forEach`: which of them says something, and what ends."""

from typing import Any

import pytest
from bench import Bench, act, ask, graph, one, opened, why
from played import Played, asks, enabled

from wfcore.adapters.tools.catalog import tool
from wfcore.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio


def child(number: int, **more: Any) -> dict[str, Any]:
    return act("core.workflow", workflowId=number, more=more)


async def test_a_child_that_waits_under_a_time_limit_parks(bench: Bench) -> None:
    """Its limit does not count as work: the turn ends as interrupted, the deadline begins the next turn, and so
    does an answer before it.
    """
    inner = await bench.deployed(graph("s>h h:approved>a", h=ask(), a=act("echo", value="yes")))
    outer = graph("s>c c:error>e", c=child(inner, timeoutSeconds=3_600), e=act("core.transform", value="late"))
    run = await bench.ran(outer)
    assert run.status == "interrupted"
    turn = await bench.ended(await bench.core.runs.resume(bench.me, run.id, decision="approve"))
    assert (turn.status, turn.output) == ("done", "yes")


async def test_its_deadline_passes_while_parked(database: str) -> None:
    """The system makes the next turn, in which the node that called it fails with reason `timeout`."""
    async with opened(database) as bench:
        inner = await bench.deployed(graph("s>h h:approved>a", h=ask(), a=act("echo")))
        run = await bench.ran(one(child(inner, timeoutSeconds=3_600)))
        assert run.status == "interrupted"
    later = FakeClock(bench.clock.now() + 3_600_000)
    async with opened(database, org=bench.org, clock=later) as again:
        turn = await again.ended(await again.resumed_by(run))
        assert why(turn) == ("no end within 3600 seconds", "timeout")


async def test_which_item_a_child_is_of(bench: Bench) -> None:
    """`items` stands beside `path` in events and interrupts; without a `forEach` on the way there is none."""
    inner = await bench.deployed(graph("s>h h:approved>a", h=ask(), a=act("echo", value="{{ input.n }}")))
    middle = await bench.deployed(graph("s>one", one=child(inner)))
    each = act("core.workflow", workflowId=middle, input={"n": "{{ item }}"}, more={"forEach": "[7, 8]"})
    run = await bench.ran(graph("s>each s>lone", each=each, lone=child(middle)))
    waiting = run.to_wire()["interrupts"]
    assert sorted((one["path"], one.get("items")) for one in waiting if one["path"][0] == "each") == [
        (["each", "one"], [0, None]), (["each", "one"], [1, None])
    ]  # fmt: skip
    assert [one.get("items") for one in waiting if one["path"][0] == "lone"] == [None]
    second = next(one["interruptId"] for one in waiting if one.get("items") == [1, None])
    turn = await bench.ended(await bench.core.runs.resume(bench.me, run.id, decision="deny", interrupt_id=second))
    shown = [event.data for event in await bench.events(turn.id) if event.data.get("path") == ["each", "one"]]
    assert {tuple(data["items"]) for data in shown} == {(1, None)}


@pytest.mark.parametrize("more", [{}, {"retry": {"maxAttempts": 2, "initialIntervalSeconds": 0}}])
async def test_a_failure_with_an_object(bench: Bench, more: dict[str, Any]) -> None:
    """The `message` of `core.fail` becomes JSON text, whoever performs it."""
    failing = act("core.fail", message={"code": "{{ input.code }}", "ok": False}, more=more)
    message, _ = why(await bench.ran(one(failing), {"code": 7}))
    assert message.endswith('{"code":7,"ok":false}')


async def test_arguments_are_checked_before_an_approval(database: str) -> None:
    """A model that calls wrongly gets the error at once; a person approves the call that can be made."""

    @tool(idempotent=True)
    def pay(amount: int) -> str:
        return f"paid {amount}"

    model = Played(asks("pay", amount="much", to="me"), asks("pay", amount=5), "well")
    async with opened(database, models={"default": model}, tools=[pay]) as bench:
        skill = await bench.core.skills.create(bench.me, name="s", toolset=enabled("pay", requiresApproval=True))
        await bench.core.skills.deploy(bench.me, skill.id)
        agent = {"type": "agent", "data": {"agent_id": skill.id, "message": "go"}}
        run = await bench.ran(one(agent))
        (interrupt,) = run.to_wire()["interrupts"]
        assert interrupt["arguments"] == {"amount": 5}
        first = model.tool_results()[0]["content"]
        assert "`params.to`: `to` is not allowed" in first
        assert "`params.amount`: must be integer" in first
