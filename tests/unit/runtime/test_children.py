"""Workflows that call workflows: `core.workflow` (interface, Built-in tools; Events, `path`)."""

from typing import Any

import pytest
from bench import Bench, Toolbox, act, agent, ask, deployed_skill, graph, kinds, one, opened, private, start, why

from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.domain.kernel.errors import Invalid
from wfcore.runtime.execution import plans
from wfcore.runtime.execution.children import MAX_CHILD_DEPTH

pytestmark = pytest.mark.anyio


def child(number: Any, given: Any = None, **more: Any) -> dict[str, Any]:
    return act("core.workflow", workflowId=number, more=more, **({} if given is None else {"input": given}))


async def test_a_child_gives_its_output(bench: Bench) -> None:
    """The child gets its input and gives its output; its events stand on the root's stream under the node's path, live
    as they are read later."""
    inner = await bench.deployed(graph("s>double", double=act("echo", value="{{ input.n * 2 }}")))
    outer = graph("s>call call>after", call=child(inner, {"n": "{{ input.n }}"}),
                  after=act("core.transform", value="{{ nodes.call.output + 1 }}"))  # fmt: skip
    number = await bench.deployed(outer)
    events = [event async for event in bench.core.runs.start(bench.me, workflow=number, input={"n": 4})]
    run = await bench.core.runs.get(bench.me, events[0].run_id)
    assert (run.status, run.output) == ("done", 9)
    assert [(str(event.kind), event.data.get("nodeId")) for event in events if event.data.get("path") == ["call"]] == [
        ("node_started", "s"), ("node_finished", "s"), ("node_started", "double"), ("node_finished", "double"),
    ]  # fmt: skip
    assert kinds(events).count("run_started") == kinds(events).count("done") == 1
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert events == await bench.core.runs.events(bench.me, run.id)
    ((_, _, key, _),) = bench.tools.calls
    assert key.partition(":")[2].startswith("call:1")


async def test_an_approval_in_a_child(bench: Bench) -> None:
    """It is open on the root's run with its path, answered there, and the child goes on; the deploy between does not
    touch what was pinned."""
    inner = await bench.deployed(graph("s>h h:approved>a", h=ask(), a=act("echo", value="old")))
    run = await bench.ran(one(child(inner)))
    (interrupt,) = run.to_wire()["interrupts"]
    assert (interrupt["nodeId"], interrupt["path"], interrupt["runId"]) == ("h", ["a"], run.id)
    ((item,), _) = await bench.core.runs.interrupts(bench.me)
    assert (item.to_wire()["path"], item.to_wire()["runId"]) == (["a"], run.id)
    await bench.core.workflows.patch(bench.me, inner, workflow_structure=one(act("echo", value="new")))
    await bench.core.workflows.deploy(bench.me, inner)
    turn = await bench.ended(await bench.core.runs.resume(bench.me, run.id, decision="approve"))
    assert (turn.status, turn.output) == ("done", "old")
    assert (await bench.ran(one(child(inner)))).output == "new"


async def test_a_child_that_fails(bench: Bench) -> None:
    """Its failure is the node's: retried as often as the node says, then by the error edge, or the run's own end."""
    inner = await bench.deployed(one(act("flaky", fails=99)))
    retry = {"maxAttempts": 2, "initialIntervalSeconds": 0}
    caught = graph("s>c c:error>e", c=child(inner, retry=retry), e=act("core.transform", value="caught"))
    assert (await bench.ran(caught)).output == "caught"
    assert bench.tools.count("flaky") == 2
    message, _ = why(await bench.ran(one(child(inner))))
    assert message == "RuntimeError: attempt 1 fails"


async def test_children_inside_children(bench: Bench) -> None:
    """Down to the bound, each with the path to it; one level more fails, and a workflow that calls itself ends so."""
    number = await bench.deployed(one(act("echo", value="bottom")))
    for _ in range(MAX_CHILD_DEPTH - 1):
        number = await bench.deployed(one(child(number)))
    run = await bench.ran(one(child(number)))
    assert run.output == "bottom"
    assert max(len(event.data.get("path", ())) for event in await bench.events(run.id)) == MAX_CHILD_DEPTH
    below = await bench.deployed(one(child(number)))
    assert why(await bench.ran(one(child(below))))[0] == f"children go at most {MAX_CHILD_DEPTH} levels deep"


@pytest.mark.parametrize("case", ["missing", "private", "deleted", "draft"])
async def test_what_cannot_be_opened(bench: Bench, case: str) -> None:
    """A workflow that is not there, not the deployer's, or deleted has the same message; a draft as such."""
    number = 77
    if case != "missing":
        access = {"access": private()} if case == "private" else {}
        view = await bench.core.workflows.create(bench.other, name="Theirs", structure=one(act("echo")), **access)
        number = view.id
        if case != "draft":
            await bench.core.workflows.deploy(bench.other, number)
        if case == "deleted":
            await bench.core.workflows.delete(bench.other, number)
    chosen = one(act("core.workflow", more={"retry": {"maxAttempts": 3}}, workflowId="{{ input.id }}", input={}))
    message, _ = why(await bench.ran(chosen, {"id": number}))
    reason = "is not deployed" if case == "draft" else "does not exist, or may not be used here"
    assert message == f"workflow `{number}` {reason}"


async def test_a_deploy_checks_the_children_that_it_names(bench: Bench) -> None:
    """One that the deployer cannot use is an error, the same for a private and a missing one; a draft is a warning."""
    hidden = await bench.core.workflows.create(bench.other, name="T", structure=one(act("echo")), access=private())
    await bench.core.workflows.deploy(bench.other, hidden.id)
    fine = await bench.deployed(one(act("echo")))
    draft = await bench.core.workflows.create(bench.me, name="D", structure=one(act("echo")))
    names = {"a": hidden.id, "b": 77, "c": fine, "d": draft.id, "e": 77.0, "f": "{{ 70 + 7 }}"}
    structure = graph("s>a s>b s>c s>d s>e s>f", **{name: child(number) for name, number in names.items()})
    issues = await bench.core.workflows.validate(bench.me, {"workflowStructure": structure})
    assert [(issue.path, issue.severity) for issue in issues] == [
        (f"workflowStructure.nodes[{number}].data.params.workflowId", severity)
        for number, severity in ((1, "error"), (2, "error"), (4, "warning"), (5, "error"), (6, "error"))
    ]
    assert [issue.message for issue in issues] == [
        f"node `a`: there is no workflow `{hidden.id}` that you can use",
        "node `b`: there is no workflow `77` that you can use",
        f"node `d`: the workflow `{draft.id}` is not deployed yet",
        "node `e`: there is no workflow `77` that you can use",
        "node `f`: there is no workflow `77` that you can use",
    ]
    with pytest.raises(Invalid):
        await bench.deployed(structure)
    assert await bench.deployed(graph("s>c s>d", c=child(fine), d=child(draft.id)))


async def test_an_id_from_an_expression_needs_the_caller_s_access(bench: Bench) -> None:
    """A deployer lends access to the children that the graph names, not to any that an input names."""
    secret = await bench.deployed(one(act("echo", value="secret")), access=private())
    chosen = await bench.deployed(one(act("core.workflow", workflowId="{{ input.id }}", input={})))
    named = await bench.deployed(one(child(secret)))
    constant = await bench.deployed(one(child(f"{{{{ {secret} }}}}")))

    async def ran(me: Any, workflow: int, given: dict[str, Any]) -> Any:
        return await bench.ended(await bench.core.runs.start(me, workflow=workflow, input=given))

    assert (await ran(bench.me, chosen, {"id": secret})).output == "secret"
    assert (await ran(bench.other, named, {})).output == "secret"
    assert (await ran(bench.other, constant, {})).output == "secret"
    message, _ = why(await ran(bench.other, chosen, {"id": secret}))
    assert message == f"workflow `{secret}` does not exist, or may not be used here"


async def test_a_deploy_checks_the_groups_of_approvers(bench: Bench) -> None:
    """A group that does not exist could never answer."""
    group = await bench.core.groups.create(await bench.joined("boss", "owner"), name="Finance")
    gone = "00000000-0000-4000-8000-000000000009"
    known = graph("s>a", a=ask(approvers={"groups": [group.id, bench.org]}))
    assert await bench.core.workflows.validate(bench.me, {"workflowStructure": known}) == []
    unknown = graph("s>a", a=ask(approvers={"groups": [group.id, gone]}))
    (issue,) = await bench.core.workflows.validate(bench.me, {"workflowStructure": unknown})
    assert (issue.path, issue.severity) == ("workflowStructure.nodes[1].data.approvers.groups[1]", "error")


async def test_whose_access_counts(bench: Bench) -> None:
    """A node opens a child as who deployed its own workflow, whoever runs it, at any depth; lost, it says so."""
    mine = private("other@x.org")
    secret = await bench.deployed(one(act("echo", value="for me and other")), access=private())
    middle = await bench.deployed(one(child(secret)), access=mine)
    theirs = await bench.core.workflows.create(bench.other, name="Theirs", structure=one(child(middle)))
    await bench.core.workflows.deploy(bench.other, theirs.id)

    async def ran() -> Any:
        anybody = bench.person("third")
        run = await bench.core.runs.start(anybody, workflow=theirs.id, input={})
        return await bench.ended(run)

    for person in ("me", "other"):
        await bench.core.directory.add_member(bench.org, person, f"{person}@x.org")
    assert (await ran()).output == "for me and other"
    await bench.core.workflows.patch(bench.me, middle, access=private())
    assert why(await ran())[0] == f"workflow `{middle}` does not exist, or may not be used here"


async def test_the_input_has_to_fit(bench: Bench) -> None:
    """The child's start says what it takes; what does not fit fails the node, by the path within the input."""
    schema = start(type="object", required=["n"], properties={"n": {"type": "integer"}})
    inner = await bench.deployed(graph("s>a", s=schema, a=act("echo", value="{{ input.n }}")))
    assert (await bench.ran(one(child(inner, {"n": 3})))).output == 3
    assert why(await bench.ran(one(child(inner, {"n": "x"}))))[0] == "`input.n`: must be integer"
    assert why(await bench.ran(one(child(inner))))[0] == "`input.n`: `n` is missing"
    assert bench.tools.count("echo") == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({}, "`input.message`: `message` is missing"),
        ({"message": 5}, "`input.message`: must be string"),
        ({"message": "hi", "tone": "kind"}, "`input.tone`: `tone` is not allowed"),
    ],
)
async def test_a_subordinate_takes_a_message_alone(args: Any, message: str) -> None:
    """The model that calls it with other arguments receives what is wrong, and the subordinate does not begin."""
    call = {"toolCalls": [{"id": "c1", "name": "skill_skill", "args": args}]}
    async with opened("sqlite://", models={"default": ScriptedModel([call, "sorry"])}) as bench:
        helper = await deployed_skill(bench)
        boss = await deployed_skill(bench, supervisionSubordinateIds=[str(helper)])
        run = await bench.core.runs.start(bench.me, skill=boss, message="hello")
        (result,) = [event.data for event in await bench.events(run.id) if event.kind == "tool_result"]
        assert (result["error"]["message"], result["error"]["info"]["reason"]) == (message, "input")
        assert (await bench.ended(run)).output == "sorry"


async def test_cancelling_reaches_into_children(bench: Bench) -> None:
    """The tool of a child is broken off with the run; nothing of the child is left in the inbox."""
    inner = await bench.deployed(graph("s>w s>h", w=act("hold"), h=ask()))
    run = await bench.started(one(child(inner)))
    await bench.until("it")
    await bench.core.runs.cancel(bench.me, run.id)
    assert kinds(await bench.events(run.id))[-1] == "cancelled"
    assert await bench.core.runs.interrupts(bench.me) == ([], None)


async def test_for_each_item_a_child(bench: Bench) -> None:
    """A list of children side by side, their outputs in the list's order."""
    inner = await bench.deployed(one(act("echo", value="{{ input.n }}")))
    node = child(inner, {"n": "{{ item }}"}, forEach="input.all")
    assert (await bench.ran(one(node), {"all": list(range(20))})).output == list(range(20))


async def test_a_restart_within_a_child(database: str) -> None:
    """Nothing that is done is done again; what was under way is, under its key; the child's plan is found again."""
    async with opened(database) as bench:
        inner = await bench.deployed(graph("s>a a>w", a=act("echo", value=1), w=act("hold")))
        run = await bench.started(one(child(inner)))
        await bench.until("it")
    async with opened(database, after := Toolbox(), org=bench.org) as again:
        after.free["it"].set()
        assert (await again.ended(run.id)).output == "it"
        assert [name for name, *_ in after.calls] == ["hold"]
        assert after.calls[0][2] == bench.tools.calls[1][2]


async def test_plans_outlive_the_cache(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one plan kept in the process, runs with three at once go on, answers and followers included."""
    monkeypatch.setattr(plans, "KEPT", 1)
    inner = await bench.deployed(graph("s>h h:approved>a", h=ask(), a=act("echo", value="end")))
    middle = await bench.deployed(one(child(inner)))
    runs = [await bench.ran(one(child(middle))) for _ in range(2)]
    for run in runs:
        turn = await bench.ended(await bench.core.runs.resume(bench.me, run.id, decision="approve"))
        assert (turn.status, turn.output) == ("done", "end")


async def test_an_agent_in_a_child_streams_to_the_root(database: str) -> None:
    """What a child's agent says is seen on the root's stream as it comes, with the path."""
    async with opened(database, models={"default": ScriptedModel("one two")}) as bench:
        inner = await bench.deployed(one(agent(message="hi")))
        run = await bench.ran(one(child(inner)))
        events = await bench.events(run.id)
        said = [event for event in events if event.kind in ("message_delta", "message")]
        assert {tuple(event.data["path"]) for event in said} == {("a",)}
        assert run.to_wire()["usage"]["calls"] == 1
