"""Tool parameters of nodes and actions: checked before a run begins, as far as they have no templates."""

from typing import Any

import pytest
from bench import Bench, act, agent, deployed_skill, graph, one, opened, paths

from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.adapters.tools.catalog import tool
from wfcore.domain.kernel.errors import Invalid
from wfcore.domain.kernel.json_readers import as_list
from wfcore.domain.kernel.json_type import JSON
from wfcore.ports.providers import Tool, ToolCall

pytestmark = pytest.mark.anyio

PARAMS = "workflowStructure.nodes[1].data.params"


@tool(idempotent=True)
def book(seat: int, names: list[str], note: str = "") -> int:
    return seat


@pytest.mark.parametrize(
    ("node", "found"),
    [
        (act("core.transform"), {("value", "required")}),
        (act("core.transform", value=1, valeu=2), {("valeu", "additionalProperties")}),
        (act("core.wait", seconds="{{ input.s }}", unit="h"), {("unit", "additionalProperties")}),
        (act("core.wait", seconds=-1), {("seconds", "minimum")}),
        (act("core.http", body={"a": 1}), {("url", "required")}),
        (act("core.workflow", workflowId="3"), {("workflowId", "type")}),
        (act("core.fail", message={"any": "thing"}), set()),
        (act("book", seat="{{ input.s }}", names="{{ input.all }}"), set()),
        (act("book", seat=1, names=["{{ input.a }}", 2]), {("names[1]", "type")}),
        (act("book", seat="1", names=[]), {("seat", "type")}),
        (act("book", names=[], note="seat {{ input.s }}"), {("seat", "required")}),
    ],
)
async def test_a_deploy_checks_parameters(database: str, node: dict[str, Any], found: set[tuple[str, str]]) -> None:
    """A missing or unknown key is always an error, a value only without templates; paths name it."""
    wanted = {(f"{PARAMS}.{path}", rule) for path, rule in found}
    async with opened(database, tools=[book]) as bench:
        issues = await bench.core.workflows.validate(bench.me, {"workflowStructure": one(node)})
        assert {(issue.path, issue.rule) for issue in issues if issue.severity == "error"} == wanted
        if wanted:
            with pytest.raises(Invalid) as error:
                await bench.deployed(one(node))
            assert paths(error) == wanted


@pytest.mark.parametrize(
    ("params", "found"),
    [({}, ("value", "required")), ({"value": 1, "more": 2}, ("more", "additionalProperties"))],
)
async def test_an_action_checks_built_in_tools(bench: Bench, params: dict[str, Any], found: tuple[str, str]) -> None:
    """Their parameters are checked like those of any other tool: 422, and nothing runs."""
    with pytest.raises(Invalid) as error:
        await bench.core.runs.act(bench.me, action={"toolId": "core.transform", "params": params})
    assert paths(error) == {(f"action.params.{found[0]}", found[1])}


@pytest.mark.parametrize(
    ("node", "path"),
    [
        (act("core.transform", value="{{ item }}"), "params.value"),
        (act("core.transform", value="{{ item }}", more={"forEach": "[item]"}), "forEach"),
        ({"type": "condition", "data": {"branches": [{"handle": "x", "when": "item == 1"}]}}, "branches[0].when"),
        ({"type": "humanApproval", "data": {"message": "{{ item }}?"}}, "message"),
        (act("core.transform", value="{{ item }}", more={"forEach": "input.all"}), ""),
        (act("core.transform", value="{{ input.all.map(item, item) }}"), ""),
    ],
)
async def test_item_exists_only_in_a_for_each(bench: Bench, node: dict[str, Any], path: str) -> None:
    """Outside the `params` of a `forEach` it is an error with rule `reference`; that of a macro is independent."""
    issues = await bench.core.workflows.validate(bench.me, {"workflowStructure": one(node)})
    found = {(issue.path, issue.rule) for issue in issues if issue.severity == "error"}
    assert found == ({(f"workflowStructure.nodes[1].data.{path}", "reference")} if path else set())


async def test_an_unknown_model(database: str) -> None:
    """A warning at the node that names it, since it can be configured before the run needs it."""
    async with opened(database, models={"default": ScriptedModel("x")}) as bench:
        nodes = graph("s>a s>b", a=agent(message="x", model="none"), b=agent(message="x", model="default"))
        (issue,) = await bench.core.workflows.validate(bench.me, {"workflowStructure": nodes})
        path = "workflowStructure.nodes[1].data.model"
        assert (issue.path, issue.rule, issue.severity) == (path, "reference", "warning")


async def test_a_config_selects_existing_items(database: str) -> None:
    """An unknown context item is 422 with its path."""
    async with opened(database, models={"default": ScriptedModel("x")}) as bench:
        skill = await deployed_skill(bench)
        config = {"contextSelections": [{"id": "none"}]}
        with pytest.raises(Invalid) as error:
            await bench.core.runs.start(bench.me, skill=skill, message="x", config=config)
        assert paths(error) == {("config.contextSelections[0].id", "reference")}


async def test_settings_without_effect_on_a_tool(bench: Bench) -> None:
    """They are warnings: an immediate tool needs no time limit and no retry."""
    both = {"retry": {"maxAttempts": 2}, "timeoutSeconds": 5}
    structure = graph(
        "s>t s>w s>f",
        t=act("core.transform", value=1, more=both),
        w=act("core.wait", seconds=1, more=both),
        f=act("core.fail", message="x", more=both),
    )
    issues = await bench.core.workflows.validate(bench.me, {"workflowStructure": structure})
    assert {(issue.path.partition(".")[2], issue.rule, issue.severity) for issue in issues} == {
        ("nodes[1].data.retry", "idle", "warning"), ("nodes[1].data.timeoutSeconds", "idle", "warning"),
        ("nodes[2].data.retry", "idle", "warning"), ("nodes[3].data.timeoutSeconds", "idle", "warning"),
    }  # fmt: skip


def emptied(items: list[JSON], table: dict[str, JSON]) -> int:
    """Changes its arguments at all levels; the result is how many values it received."""
    count = len(items) + len(as_list(items[0])) + len(table)
    as_any: Any = items[0]
    as_any.clear()
    items.clear()
    table.clear()
    return count


@tool(idempotent=True)
def empty(items: list, table: dict) -> int:
    return emptied(items, table)


@tool(idempotent=True)
async def empty_soon(items: list, table: dict) -> int:
    return emptied(items, table)


@pytest.mark.parametrize("name", ["empty", "empty_soon", "empty_mapping"])
async def test_a_tool_changes_only_its_own_arguments(database: str, name: str) -> None:
    """What a tool does to its arguments changes no later call of the run and no later run."""

    def empty_all(params: Any, _: ToolCall) -> int:
        count = emptied(params["items"], params["table"])
        params.clear()
        return count

    mapping = Tool("empty_mapping", empty_all, "Empty")
    fixed, taken = {"items": [[1, 2]], "table": {"a": {}}}, {"items": "{{ input.items }}", "table": "{{ input.table }}"}
    calls = {call: act(name, **params) for call, params in zip("abcd", (fixed, taken, taken, fixed), strict=True)}
    async with opened(database, tools=[empty, empty_soon, mapping]) as bench:
        flow = await bench.deployed(graph("s>a a>b b>c c>d", **calls))
        for _ in range(2):
            run = await bench.core.runs.start(bench.me, workflow=flow, input=fixed)
            events = [event async for event in await bench.core.runs.follow(bench.me, run.id)]
            assert [event.output for event in events if event.kind == "node_finished"] == [fixed, 4, 4, 4, 4]
