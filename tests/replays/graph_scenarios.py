"""Workflows that nobody has to decide on, and single actions."""

from typing import TYPE_CHECKING, Any

from bench import Toolbox, act, graph, one, start
from playing import SCENARIOS, charge, node, plays, scenario

from wfcore.adapters.tools.catalog import tool
from wfcore.domain.run.entries import Limits
from wfcore.ports.providers import ToolCall
from wfcore.runtime.common.installation import Settings

if TYPE_CHECKING:
    from recorder import Recorder

BRANCHES = [{"handle": "large", "when": "input.n > 3"}]


plays("one_action", one(act("echo", value={"n": "{{ input.n + 1 }}", "é": [None, True, 0.5]})), {"n": 1})
plays("no_nodes_but_a_start", {"nodes": [{"id": "s", "type": "start"}], "edges": []}, {"kept": "as it is"})
plays(
    "a_branch_is_taken_and_others_are_skipped",
    graph("s>c c:large>a c:else>b b>d", c=node("condition", branches=BRANCHES), a=act("echo", value="large"),
          b=act("echo", value="small"), d=act("echo", value="after")),
    {"n": 7},
)  # fmt: skip
plays(
    "the_else_branch",
    graph("s>c c:large>a c:else>b", c=node("condition", branches=BRANCHES), a=act("echo"), b=act("echo", value="b")),
    {"n": 1},
)
plays(
    "two_branches_join",
    graph("s>a s>b a>j b>j", a=act("echo", value=1), b=act("echo", value=2),
          j=act("core.transform", value="{{ nodes.a.output + nodes.b.output }}")),
)  # fmt: skip


@scenario
async def a_cycle_is_left(recorder: "Recorder") -> None:
    calls: list[str] = []

    @tool(idempotent=True)
    async def counted(call: ToolCall) -> int:
        calls.append(call.key)
        return len(calls)

    again = node("condition", branches=[{"handle": "again", "when": "nodes.a.output < 3"}])
    async with recorder.open(tools=[counted, *Toolbox().all()]) as bench:
        structure = graph("s>a a>c c:again>a c:else>z", a=act("counted"), c=again, z=act("echo", value="z"))
        await recorder.keep(bench, await bench.ran(structure))


plays(
    "node_visits_are_bounded",
    graph("s>a a>c c:again>a", a=act("echo"), c=node("condition", branches=[{"handle": "again", "when": "true"}])),
    settings=Settings(limits=Limits(max_node_visits=9)),
)
plays("a_list", one(act("echo", value="{{ item }} of {{ input.items.size() }}",
                        more={"forEach": "input.items", "maxConcurrency": 2})), {"items": [1, 2, 3]})  # fmt: skip
plays("an_empty_list", graph("s>a a>b", a=act("echo", more={"forEach": "[]"}), b=act("echo", value="after")))
plays("a_list_with_a_failing_item", one(act("flaky", fails="{{ item }}", more={"forEach": "[0, 1, 0]"})))
plays("a_failure_without_an_error_edge", graph("s>a s>b", a=act("flaky", fails=9), b=act("core.wait", seconds=60)))
plays(
    "a_failure_with_an_error_edge",
    graph("s>a a:error>b a>c", a=act("flaky", fails=9), b=act("echo", value="{{ nodes.a.error.message }}"),
          c=act("echo")),
)  # fmt: skip
plays("core_fail", one(act("core.fail", message={"code": "{{ input.code }}"})), {"code": 7})
plays("an_expression_that_fails", one(act("echo", value="{{ input.no.such }}")), {})
plays(
    "an_input_schema",
    graph("s>a", s=start(type="object", required=["n"], properties={"n": {"type": "integer"}}),
          a=act("echo", value="{{ input.n }}")),
    {"n": 3},
)  # fmt: skip
plays("attempts_run_out", one(act("flaky", fails=9, more={"retry": {"maxAttempts": 3, "initialIntervalSeconds": 0}})))


plays("a_tool_that_is_announced", graph("s>a a>b", a=act("charge", amount=5), b=act("echo")),
      tools=[charge, *Toolbox().all()])  # fmt: skip


# Single actions


def acts(name: str, toolid: str, **params: Any) -> None:
    async def play(recorder: "Recorder") -> None:
        async with recorder.open() as bench:
            body = {"action": {"toolId": toolid, "params": params}, "previousOutputs": {"order": {"n": 1}}}
            await recorder.keep(bench, await bench.ended(await bench.core.runs.act(bench.me, body)))

    SCENARIOS[name] = play


acts("a_single_action", "echo", value="{{ nodes.order.output.n + 1 }}")
acts("a_single_action_that_fails", "flaky", fails=9)
