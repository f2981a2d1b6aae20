"""Single actions (interface, Execute a workflow action): one tool call as its own run."""

import asyncio
from typing import Any

import pytest
from bench import Bench, act, kinds, one, paths, private, why

from wfcore.domain.kernel.errors import Conflict, Invalid, Malformed, NotFound, WfcoreError

pytestmark = pytest.mark.anyio


def action(tool: str, **params: Any) -> dict[str, Any]:
    return {"action": {"toolId": tool, "params": params}}


async def done(bench: Bench, body: dict[str, Any], **more: Any) -> Any:
    return await bench.ended(await bench.core.runs.act(bench.me, body, **more))


class TestActing:
    """The effects of an action."""

    async def test_the_tool_is_called_and_its_output_is_the_run_s(self, bench: Bench) -> None:
        """The run has the events of one node, and its target is an action."""
        run = await done(bench, action("echo", value={"n": 1}))
        assert (run.status, run.output) == ("done", {"n": 1})
        assert run.to_wire()["target"] == {"type": "action", "id": None}
        events = await bench.events(run.id)
        assert kinds(events) == [
            "run_started",
            "node_started",
            "node_finished",
            "node_started",
            "node_finished",
            "done",
        ]
        assert [event.data.get("nodeId") for event in events[1:5]] == ["start", "start", "action", "action"]

    async def test_outputs_of_earlier_steps_are_read(self, bench: Bench) -> None:
        """`nodes.<id>.output` in templates of the parameters, with their types; `run` has the fields of the body."""
        body = action("echo", value=["{{ nodes.order.output.n + 1 }}", "{{ run.timezone }}, {{ nodes.x.output }}"])
        body |= {"previousOutputs": {"order": {"n": 1}, "x": "y"}, "timezone": "Europe/Paris", "origin": "automation"}
        run = await done(bench, {**body, "fileThreadId": "order-7"})
        assert run.output == [2, "Europe/Paris, y"]
        assert [run.to_wire()[name] for name in ("origin", "threadId")] == ["automation", "order-7"]

    async def test_what_was_rendered_is_data(self, bench: Bench) -> None:
        """A rendered value that looks like a template is passed on unchanged."""
        body = action("echo", value="{{ nodes.a.output }}") | {"previousOutputs": {"a": "{{ run.id }}"}}
        assert (await done(bench, body)).output == "{{ run.id }}"

    async def test_a_failing_tool_ends_the_run_in_error(self, bench: Bench) -> None:
        """One attempt is made, and the error has the tool's message."""
        run = await done(bench, action("flaky", fails=9))
        assert why(run) == ("RuntimeError: attempt 1 fails", "tool")
        assert why(await done(bench, action("core.fail", message="no"))) == ("no", "failed")

    async def test_built_in_actions_of_the_machine(self, bench: Bench) -> None:
        """`core.transform` and `core.wait` work as in a workflow."""
        assert (await done(bench, action("core.transform", value=[1, {"a": None}]))).output == [1, {"a": None}]
        run = await bench.core.runs.act(bench.me, action("core.wait", seconds=3_600))
        assert run.status in ("queued", "running")
        assert (await bench.core.runs.cancel(bench.me, run.id)).status == "cancelled"

    async def test_a_workflow_as_an_action(self, bench: Bench) -> None:
        """`core.workflow` runs a usable workflow as a child; its events have a `path`. A hidden one fails."""
        number = await bench.deployed(one(act("echo", value="{{ input.n }}")), access=private())
        body = action("core.workflow", workflowId=number, input={"n": 7})
        run = await done(bench, body)
        assert (run.status, run.output) == ("done", 7)
        assert {tuple(event.data["path"]) for event in await bench.events(run.id) if "path" in event.data} == {
            ("action",)
        }
        theirs = await bench.core.runs.act(bench.other, body)
        async for _ in await bench.core.runs.follow(bench.other, theirs.id):
            pass
        assert why(await bench.core.runs.get(bench.other, theirs.id))[1] == "not_found"

    async def test_only_the_starter_sees_an_action(self, bench: Bench) -> None:
        """A colleague does not see it."""
        run = await done(bench, action("echo", value=1))
        with pytest.raises(NotFound):
            await bench.core.runs.get(bench.other, run.id)
        assert await bench.core.runs.page(bench.other) == []


class TestKeys:
    """The same idempotency as runs, with the same ids."""

    async def test_fifty_at_once_call_the_tool_once(self, bench: Bench) -> None:
        """Fifty identical actions with one key are one run."""
        body = action("echo", value=1)
        views = await asyncio.gather(*(bench.core.runs.act(bench.me, body, key="k") for _ in range(50)))
        assert {view.id for view in views} == {"k"}
        await bench.ended("k")
        assert bench.tools.count("echo") == 1

    async def test_another_request_with_the_key_is_a_conflict(self, bench: Bench) -> None:
        """Another body, another caller, and a run of the same id: a conflict that reveals nothing."""
        await bench.core.runs.act(bench.me, {**action("echo", value=1), "runId": "k"})
        for who, what in ((bench.me, action("echo", value=2)), (bench.other, action("echo", value=1))):
            with pytest.raises(Conflict) as error:
                await bench.core.runs.act(who, what, key="k")
            assert error.value.info == {"reason": "key_reused"}
        with pytest.raises(Conflict):
            await bench.core.runs.start(bench.me, assistant=True, message="m", key="k")

    async def test_an_unknown_organization_has_no_runs(self, bench: Bench) -> None:
        """Neither an action nor the assistant, which need no resource of the organization, starts there."""
        org = "0192f0c0-1111-7000-8000-00000000000a"
        me = bench.core.principal(org, "u")
        for turn in (
            bench.core.runs.act(me, action("echo", value=1)),
            bench.core.runs.start(me, assistant=True, message="m"),
        ):
            with pytest.raises(NotFound, match=f"^unknown organization `{org}`$"):
                await turn


REFUSED: list[tuple[dict[str, Any], type[WfcoreError], set[tuple[str, str]]]] = [
    ({}, Malformed, {("action", "required")}),
    ({"action": {}}, Malformed, {("action.toolId", "required")}),
    ({"action": {"toolId": 1}}, Malformed, {("action.toolId", "type")}),
    ({"action": {"toolId": "echo", "args": {}}}, Invalid, {("action.args", "unknown")}),
    ({"action": {"toolId": "nothing"}}, Invalid, {("action.toolId", "reference")}),
    (action("echo") | {"workflowId": 1}, Invalid, {("workflowId", "unknown")}),
    (action("echo") | {"organizationId": "else"}, Invalid, {("organizationId", "organization")}),
    (action("echo") | {"timezone": "Mars/Olympus"}, Invalid, {("timezone", "timezone")}),
    (action("echo") | {"timezone": "localtime"}, Invalid, {("timezone", "timezone")}),
    (action("echo") | {"origin": "home"}, Invalid, {("origin", "enum")}),
    (action("echo") | {"previousOutputs": []}, Malformed, {("previousOutputs", "type")}),
    (action("echo", value="{{ 1 + }}"), Invalid, {("action.params.value", "expression")}),
    (action("echo", value="{{ nodes.a.output }}"), Invalid, {("action.params", "expression")}),
    (action("echo", value="{{ 'x' }}" * 2 + "y" * 2**20), Invalid, {("action.params", "expression")}),
    (action("hold", name=1), Invalid, {("action.params.name", "type")}),
    (action("hold", other=1), Invalid, {("action.params.other", "additionalProperties")}),
]


async def test_invalid_bodies(bench: Bench) -> None:
    """400 for the shape, 422 for a rule, each with its path; nothing starts."""
    for body, error, found in REFUSED:
        with pytest.raises(error) as refused:
            await bench.core.runs.act(bench.me, body)
        assert (type(refused.value), paths(refused)) == (error, found)
    assert await bench.core.runs.page(bench.me) == []


async def test_the_organization_id_of_a_body(bench: Bench) -> None:
    """`organizationId` must be the caller's organization, unlike elsewhere. Without it, it is the same run."""
    body: dict[str, Any] = {**action("echo", value=1), "organizationId": bench.org, "runId": "r"}
    assert (await done(bench, body)).status == "done"
    del body["organizationId"]
    assert (await done(bench, body)).id == "r"
