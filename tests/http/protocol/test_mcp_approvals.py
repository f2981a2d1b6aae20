"""Messages, outputs and approvals over MCP, with the official clients for Python and TypeScript (MCP, Elicitation)."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import httpx2
import mcp
import pytest
from clients import APPROVAL, Json, World, chain, deployed, node
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult
from node_libraries import NodeClient, library, node_client

pytestmark = pytest.mark.anyio

OLD, NEW = "legacy", "2026-07-28"
ERAS = pytest.mark.parametrize("mode", [OLD, NEW])
VERSION: Final = "1.32.2"
SHOW = node("show", "action", toolId="core.transform", params={"value": "{{ input }}"})
ANSWER = node("answer", "action", toolId="core.transform", params={"value": "{{ nodes.ask.output.data }}"})
FORM: Final[Json] = {
    "type": "object",
    "properties": {"amount": {"type": "number", "maximum": 10}, "why": {"type": "string", "title": "Reason"}},
    "required": ["amount"],
}
APPROVE: Final = {"action": "accept", "content": {"decision": "approve"}}


@asynccontextmanager
async def connected(
    caller: httpx.AsyncClient, path: str, mode: str, answer: Callable[[Any, Any], Awaitable[ElicitResult]] | None
) -> AsyncIterator[mcp.Client]:
    """The SDK's client with the credential of the caller, and what answers its questions. None: it shows no forms."""
    url, headers = str(caller.base_url).rstrip("/") + path, {"Authorization": caller.headers["Authorization"]}
    options: Json = {} if answer is None else {"elicitation_callback": answer}
    async with httpx2.AsyncClient(headers=headers, trust_env=False) as http:
        stream = streamable_http_client(url, http_client=http)
        async with mcp.Client(stream, cache=None, mode=mode, **options) as client:
            yield client


@asynccontextmanager
async def python_client(
    caller: httpx.AsyncClient, path: str, mode: str, answers: Sequence[Json] | None = None
) -> AsyncIterator[tuple[mcp.Client, list[Any]]]:
    """The SDK's client, whose user gives these answers; with the questions. None: it shows no forms."""
    questions, left = list[Any](), list(answers or ())

    async def answer(context: Any, params: Any) -> ElicitResult:
        questions.append(params)
        return ElicitResult(**left.pop(0))

    async with connected(caller, path, mode, None if answers is None else answer) as client:
        yield client, questions


@asynccontextmanager
async def typescript_client(
    caller: httpx.AsyncClient, path: str, answers: Sequence[Json] | None = None
) -> AsyncIterator[NodeClient]:
    main = library("@modelcontextprotocol/sdk", VERSION, "dist/esm/client/index.js")
    if not isinstance(main, Path):
        pytest.skip(main)  # it says what is missing
    token = caller.headers["Authorization"].removeprefix("Bearer ")
    url = str(caller.base_url).rstrip("/") + path
    async with node_client("mcp_client.mjs", main, url, token, json.dumps(answers)) as client:
        yield client


async def offered(client: httpx.AsyncClient, structure: Json, config: Json | None = None, **more: Any) -> str:
    """The path of the interface of a new workflow."""
    number = await deployed(client, structure, **more)
    row = await client.post(f"/api/v1/workflows/{number}/interfaces", json={"kind": "mcp", "config": config or {}})
    assert row.status_code == 201, row.text
    return httpx.URL(row.json()["url"]).path


def asking(**data: Any) -> Json:
    return node("ask", "humanApproval", message="Go on?", **data)


class TestDescription:
    """What a client reads of the tool."""

    @ERAS
    async def test_title_description_and_hints(self, real_world: World, mode: str) -> None:
        """From the workflow, or from the `config` of the interface; the hints follow from the graph."""
        ada = await real_world.user("ada")
        config = {"title": "Refund desk", "description": "Pays back"}
        http = node("h", "action", toolId="core.http", params={"url": "https://x.org"})
        for structure, own, expected in (
            (chain(SHOW), {}, ("Refunds", "Runs the workflow Refunds", True, False)),
            (chain(http), config, ("Refund desk", "Pays back", False, True)),
        ):
            path = await offered(ada, structure, own)
            async with python_client(ada, path, mode) as (client, _):
                (tool,) = (await client.list_tools()).tools
            hints = tool.annotations
            assert hints.title == tool.title
            assert (tool.title, tool.description, hints.read_only_hint, hints.open_world_hint) == expected

    async def test_the_texts_of_a_config_are_checked(self, real_world: World) -> None:
        ada = await real_world.user("ada")
        number = await deployed(ada, chain(SHOW))
        body = {"kind": "mcp", "config": {"title": 5, "description": "x" * 10_001}}
        refused = await ada.post(f"/api/v1/workflows/{number}/interfaces", json=body)
        assert [one["path"] for one in refused.json()["error"]["info"]["errors"]] == [
            "config.title",
            "config.description",
        ]


class TestOutputs:
    """`wfcore://runs/{runId}/output`."""

    @ERAS
    async def test_outputs_are_resources(self, real_world: World, mode: str) -> None:
        """The caller's own are listed and read, as text or JSON; those of others, and unknown ones, are not."""
        ada, bob = await real_world.user("ada"), await real_world.user("bob", scopes=["workflows:invoke"])
        path = await offered(ada, chain(SHOW))
        async with python_client(bob, path, mode) as (client, _):
            (template,) = (await client.list_resource_templates()).resource_templates
            assert template.uri_template == "wfcore://runs/{runId}/output"
            called = await client.call_tool("refunds", {"n": 1})
            (listed,) = (await client.list_resources()).resources
            assert listed.uri == f"wfcore://runs/{called.meta['io.wfcore/run-id']}/output"
            (contents,) = (await client.read_resource(listed.uri)).contents
            assert (json.loads(contents.text), contents.mime_type) == ({"n": 1}, "application/json")
            own = await ada.post("/agent/v1/runs", json={"workflowId": 1, "input": {}, "runId": f"x{real_world.org}"})
            assert own.status_code == 200
            for uri in (f"wfcore://runs/x{real_world.org}/output", "wfcore://runs/none/output", "file:///etc/passwd"):
                with pytest.raises(mcp.MCPError, match="there is no resource"):
                    await client.read_resource(uri)
        async with python_client(ada, path, mode) as (client, _):
            assert len((await client.read_resource(listed.uri)).contents) == 1

    async def test_a_parked_call_links_to_its_output(self, real_world: World) -> None:
        """A client that shows no forms gets the link; the output is there after the decision."""
        ada = await real_world.user("ada")
        path = await offered(ada, chain(APPROVAL, SHOW))
        async with python_client(ada, path, NEW) as (client, _):
            parked = await client.call_tool("refunds", {"n": 2})
            link = parked.content[1].uri
            with pytest.raises(mcp.MCPError, match="its status is `interrupted`"):
                await client.read_resource(link)
            await ada.post(f"/agent/v1/runs/{parked.meta['io.wfcore/run-id']}/resume", json={"decision": "approve"})
            assert json.loads((await client.read_resource(link)).contents[0].text) == {"n": 2}


class TestApprovals:
    """A client that shows forms gets the approvals that its user can decide."""

    @ERAS
    async def test_an_approval_is_a_form(self, real_world: World, mode: str) -> None:
        """The call goes on with the decision and the data; the tool's result is the output of the whole."""
        ada = await real_world.user("ada")
        path = await offered(ada, chain(asking(formSchema=FORM), ANSWER))
        content = {"decision": "approve", "data.amount": 4, "data.why": "late"}
        async with python_client(ada, path, mode, [{"action": "accept", "content": content}]) as (client, questions):
            done = await client.call_tool("refunds")
        (question,) = questions
        assert question.message == "Go on?"
        assert question.requested_schema["required"] == ["decision"]
        assert question.requested_schema["properties"]["data.amount"] == {
            "title": "amount", "type": "number", "maximum": 10,
        }  # fmt: skip
        assert (done.is_error, done.structured_content) == (False, {"amount": 4, "why": "late"})

    @ERAS
    async def test_decline_denies_and_cancel_leaves_it_parked(self, real_world: World, mode: str) -> None:
        ada = await real_world.user("ada")
        path = await offered(ada, chain(APPROVAL, SHOW))
        async with python_client(ada, path, mode, [{"action": "decline"}, {"action": "cancel"}]) as (client, questions):
            denied = await client.call_tool("refunds")
            parked = await client.call_tool("refunds")
        assert len(questions) == 2
        record = (await ada.get(f"/agent/v1/runs/{denied.meta['io.wfcore/run-id']}")).json()
        assert (record["status"], record["interrupts"]) == ("done", [])
        assert parked.structured_content["status"] == "interrupted"
        waiting = (await ada.get("/agent/v1/interrupts")).json()["interrupts"]
        assert [one["runId"] for one in waiting] == [parked.structured_content["runId"]]

    @ERAS
    async def test_a_wrong_answer_leads_to_another_question(self, real_world: World, mode: str) -> None:
        """With what was wrong above the question."""
        ada = await real_world.user("ada")
        path = await offered(ada, chain(asking(formSchema=FORM), ANSWER))
        wrong, right = ({"decision": "approve", "data.amount": amount} for amount in (11, 10))
        answers = [{"action": "accept", "content": content} for content in (wrong, right)]
        async with python_client(ada, path, mode, answers) as (client, questions):
            done = await client.call_tool("refunds")
        assert questions[1].message.startswith("`data.amount`: ")
        assert done.structured_content == {"amount": 10}

    @ERAS
    async def test_who_cannot_decide_gets_no_question(self, real_world: World, mode: str) -> None:
        """Nor is anybody where no flat form can answer."""
        ada = await real_world.user("ada")
        listed = {"type": "object", "properties": {"lines": {"type": "array"}}}
        for data in ({"approvers": {"emails": ["grace@x.org"]}}, {"formSchema": listed}):
            path = await offered(ada, chain(asking(**data), SHOW))
            async with python_client(ada, path, mode, []) as (client, questions):
                (tool,) = (await client.list_tools()).tools
                parked = await client.call_tool(tool.name)
            assert (parked.structured_content["status"], questions) == ("interrupted", [])

    async def test_a_decision_from_elsewhere_ends_the_wait(self, real_world: World) -> None:
        """The call goes on although its client never answers the question on its stream."""
        ada = await real_world.user("ada")
        path = await offered(ada, chain(APPROVAL, SHOW))

        async def decide_elsewhere(context: Any, params: Any) -> ElicitResult:
            (waiting,) = (await ada.get("/agent/v1/interrupts")).json()["interrupts"]
            await ada.post(f"/agent/v1/runs/{waiting['runId']}/resume", json={"decision": "approve"})
            await asyncio.Event().wait()
            raise AssertionError("it is cancelled with the client")

        async with connected(ada, path, OLD, decide_elsewhere) as client:
            done = await client.call_tool("refunds", {"n": 7})
        assert done.structured_content == {"n": 7}

    async def test_a_cancelled_run_ends_the_wait(self, real_world: World) -> None:
        """The call fails with the reason, although its client never answers the question."""
        ada = await real_world.user("ada")
        path = await offered(ada, chain(APPROVAL, SHOW))

        async def cancel(context: Any, params: Any) -> ElicitResult:
            (waiting,) = (await ada.get("/agent/v1/interrupts")).json()["interrupts"]
            assert (await ada.post(f"/agent/v1/runs/{waiting['runId']}/cancel")).status_code == 202
            await asyncio.Event().wait()
            raise AssertionError("it is cancelled with the client")

        async with connected(ada, path, OLD, cancel) as client:
            ended = await client.call_tool("refunds", {"n": 7})
        assert (ended.is_error, ended.content[0].text) == (True, "the run was cancelled")

    @pytest.mark.parametrize("how", ["interface", "run"])
    async def test_a_call_that_cannot_be_followed_any_more(
        self, real_world: World, how: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """When its interface is removed, or its run deleted, the call ends with an error that says so, and that is no
        fault of the server.
        """
        ada = await real_world.user("ada")
        path = await offered(ada, chain(APPROVAL, SHOW))

        async def remove(context: Any, params: Any) -> ElicitResult:
            (waiting,) = (await ada.get("/agent/v1/interrupts")).json()["interrupts"]
            run = (await ada.get(f"/agent/v1/runs/{waiting['runId']}")).json()
            if how == "interface":
                await ada.delete(f"/api/v1/workflows/{run['target']['id']}/interfaces")
            else:
                await ada.post(f"/agent/v1/runs/{run['runId']}/cancel")
                assert (await ada.delete(f"/agent/v1/runs/{run['runId']}")).status_code == 200
            await asyncio.Event().wait()
            raise AssertionError("it is cancelled with the client")

        async with connected(ada, path, OLD, remove) as client:
            with pytest.raises(mcp.MCPError, match="cannot be followed any more: not found") as ended:
                await client.call_tool("refunds", {"n": 7})
        assert ended.value.code == -32600
        assert not [one for one in caplog.records if one.levelname == "ERROR"]

    async def test_an_answer_of_another_user_decides_nothing(self, real_world: World) -> None:
        """The answer to a question counts for the caller who got it; the state of a call is its caller's."""
        ada, bob = await real_world.user("ada"), await real_world.user("bob")
        path = await offered(ada, chain(APPROVAL, SHOW))
        async with python_client(ada, path, NEW) as (client, _):
            parked = await client.call_tool("refunds")
        run_id = parked.structured_content["runId"]
        interrupt = parked.structured_content["interrupts"][0]["interruptId"]
        answer = {"jsonrpc": "2.0", "id": f"wfcore-ask {json.dumps([run_id, interrupt])}", "result": APPROVE}
        assert (await bob.post(path, json=answer)).status_code == 202
        assert (await ada.get(f"/agent/v1/runs/{run_id}")).json()["resumedBy"] is None
        async with python_client(bob, path, NEW) as (other, _):
            with pytest.raises(mcp.MCPError, match="requestState"):
                await other.session.call_tool("refunds", {}, request_state=run_id)
        assert (await ada.post(path, json=answer)).status_code == 202
        assert (await ada.get(f"/agent/v1/runs/{run_id}")).json()["resumedBy"] is not None


class TestAnswers:
    """Responses of clients to questions, each in a request of its own (MCP, Streamable HTTP)."""

    @pytest.mark.parametrize("question", ["other", "wfcore-ask {", "wfcore-ask [1, 2]", "wfcore-ask []", 7])
    async def test_a_response_to_no_question_is_refused(self, real_world: World, question: Any) -> None:
        ada = await real_world.user("ada")
        path = await offered(ada, chain(APPROVAL, SHOW))
        answer = await ada.post(path, json={"jsonrpc": "2.0", "id": question, "result": APPROVE})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32600)

    async def test_the_data_of_a_decision_is_an_object(self, real_world: World) -> None:
        """As in a decision over HTTP; a form has the same fields under the prefix `data.`."""
        ada = await real_world.user("ada")
        path = await offered(ada, chain(asking(formSchema=FORM), ANSWER))
        async with python_client(ada, path, NEW) as (client, _):
            parked = (await client.call_tool("refunds")).structured_content
        content = {"decision": "approve", "data": {"amount": 4}}
        question = f"wfcore-ask {json.dumps([parked['runId'], parked['interrupts'][0]['interruptId']])}"
        answer = {"jsonrpc": "2.0", "id": question, "result": {"action": "accept", "content": content}}
        assert (await ada.post(path, json=answer)).status_code == 202
        resumed = (await ada.get(f"/agent/v1/runs/{parked['runId']}")).json()["resumedBy"]
        events = await ada.get(f"/agent/v1/runs/{resumed}/events")
        assert json.loads(events.text.strip().rpartition("data: ")[2])["output"] == {"amount": 4}

    async def test_what_decides_nothing(self, real_world: World) -> None:
        """An error, an unknown action, another run, and an answer that comes after the decision: 202 and no change."""
        ada = await real_world.user("ada")
        path = await offered(ada, chain(APPROVAL, SHOW))
        async with python_client(ada, path, NEW) as (client, _):
            parked = (await client.call_tool("refunds")).structured_content
        interrupt = parked["interrupts"][0]["interruptId"]
        question = f"wfcore-ask {json.dumps([parked['runId'], interrupt])}"
        other = f"wfcore-ask {json.dumps(['other', interrupt])}"
        for body in (
            {"id": question, "error": {"code": -1, "message": "no"}},
            {"id": question, "result": {"action": "maybe"}},
            {"id": other, "result": APPROVE},
        ):
            assert (await ada.post(path, json={"jsonrpc": "2.0", **body})).status_code == 202
        record = f"/agent/v1/runs/{parked['runId']}"
        assert (await ada.get(record)).json()["resumedBy"] is None
        await ada.post(f"{record}/resume", json={"decision": "deny", "runId": f"denied-{real_world.org}"})
        late = {"jsonrpc": "2.0", "id": question, "result": APPROVE}
        assert (await ada.post(path, json=late)).status_code == 202
        assert (await ada.get(record)).json()["resumedBy"] == f"denied-{real_world.org}"


class TestTypeScript:
    """The official TypeScript SDK."""

    async def test_list_call_approve_and_read(self, real_world: World) -> None:
        ada = await real_world.user("ada")
        path = await offered(ada, chain(asking(formSchema=FORM), ANSWER), description="Pays back")
        answer = {"action": "accept", "content": {"decision": "approve", "data.amount": 3}}
        async with typescript_client(ada, path, [answer, {"action": "cancel"}]) as client:
            (tool,) = (await client.call(method="listTools"))["result"]["tools"]
            done = await client.call(method="callTool", name="refunds", arguments={})
            (listed,) = (await client.call(method="listResources"))["result"]["resources"]
            read = await client.call(method="readResource", uri=listed["uri"])
            parked = await client.call(method="callTool", name="refunds", arguments={})
        assert (tool["title"], tool["description"], tool["annotations"]["readOnlyHint"]) == (
            "Refunds",
            "Pays back",
            True,
        )
        assert [one["message"] for one in done["questions"]] == ["Go on?"]
        assert done["result"]["structuredContent"] == {"amount": 3}
        assert json.loads(read["result"]["contents"][0]["text"]) == {"amount": 3}
        assert parked["result"]["structuredContent"]["status"] == "interrupted"
        async with typescript_client(ada, path) as client:
            plain = await client.call(method="callTool", name="refunds", arguments={})
        assert (plain["questions"], plain["result"]["structuredContent"]["status"]) == ([], "interrupted")
