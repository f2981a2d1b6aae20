"""Agents end to end over HTTP: missing connections, supervision, and the organization's assistant."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import httpx
import pytest
from clients import (
    POLL,
    Connect,
    Json,
    World,
    chain,
    count,
    deployed,
    frames,
    held,
    hold,
    let_go,
    new_world,
    node,
    performed,
    serving,
)
from real_mcp import Office, office
from waiting import HANG

import wfcore.bootstrap
from wfcore.adapters.http import app
from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.core import Core
from wfcore.ports.providers import ModelRequest
from wfcore.runtime.common.installation import Settings
from wfcore.runtime.execution.children import MAX_CHILD_DEPTH

pytestmark = pytest.mark.anyio

SECRET = b"s" * 32
RUNS = "/agent/v1/runs"
ASSISTANT = "You are the assistant"

script: dict[str, list[Any]] = {}
"""The completions of each agent: by the start of its system text, one for each round since the last message."""
model_requests: list[ModelRequest] = []


def play(request: ModelRequest) -> Any:
    model_requests.append(request)
    system, *messages = (dict(message) for message in request.messages)
    last = max(at for at, message in enumerate(messages) if message["type"] == "human")
    (lines,) = [lines for name, lines in script.items() if system["content"].startswith(name)]
    line = lines[sum(message["type"] == "ai" for message in messages[last:])]
    return line(request) if callable(line) else line


def calls(name: str, /, **args: Any) -> Json:
    return {"content": "", "toolCalls": [{"id": f"call-{name}", "name": name, "args": args}]}


def tool_results(request: ModelRequest) -> str:
    """The tool results of the latest round."""
    return " ".join(str(message["content"]) for message in request.messages if message["type"] == "tool")


@pytest.fixture(autouse=True)
def no_requests() -> None:
    script.clear()
    model_requests.clear()


@pytest.fixture(scope="module")
async def server(anyio_backend: str) -> AsyncIterator[Office]:
    async with office("good") as made:
        yield made


@pytest.fixture(scope="module")
async def stages(
    anyio_backend: str, server: Office, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[dict[str, tuple[Core, Connect]]]:
    """A core in memory, called in process, and one on a file, called over sockets."""
    path = tmp_path_factory.mktemp("agents") / "wfcore.db"
    settings = Settings(http_allow=[f"127.0.0.1:{server.port}"], synchronous="NORMAL", grace=0)
    options: Any = {
        "tools": [count, hold],
        "models": {"default": ScriptedModel(play)},
        "settings": settings,
    }
    async with AsyncExitStack() as stack:
        memory = await stack.enter_async_context(wfcore.bootstrap.open("sqlite://", secrets=b"k" * 32, **options))
        file = await stack.enter_async_context(wfcore.bootstrap.open(f"sqlite:///{path}", **options))
        port = await stack.enter_async_context(serving(app(file, secret=SECRET)))
        transport = httpx.ASGITransport(app(memory, secret=SECRET))
        client = partial(httpx.AsyncClient, timeout=HANG, trust_env=False)
        yield {
            "in process": (memory, partial(client, transport=transport, base_url="http://wfcore")),
            "over sockets": (file, partial(client, base_url=f"http://127.0.0.1:{port}")),
        }


@pytest.fixture(params=["in process", "over sockets"])
async def stage(request: pytest.FixtureRequest, stages: Any) -> AsyncIterator[World]:
    async with AsyncExitStack() as closing:
        yield await new_world(*stages[request.param], closing)


@pytest.fixture
async def world(stages: Any) -> AsyncIterator[World]:
    async with AsyncExitStack() as closing:
        yield await new_world(*stages["in process"], closing)


async def skill(client: httpx.AsyncClient, name: str, **fields: Any) -> int:
    """A new skill, deployed, whose instructions are its name."""
    made = await client.post("/api/v1/skills", json={"name": name, "instructions": [name], **fields})
    assert made.status_code == 201, made.text
    assert (await client.post(f"/api/v1/skills/{made.json()['id']}/deploy")).status_code == 200
    return int(made.json()["id"])


async def ended(client: httpx.AsyncClient, answer: httpx.Response) -> tuple[Json, list[Json]]:
    """The run's record and all its events."""
    assert answer.status_code == 200, answer.text
    events = [data for _, data in frames(answer.text)]
    record = (await client.get(f"{RUNS}/{events[0]['runId']}")).json()
    return record, events


async def begun(client: httpx.AsyncClient, **body: Any) -> tuple[Json, list[Json]]:
    return await ended(client, await client.post(RUNS, json={"input": {}, **body}))


async def resumed(client: httpx.AsyncClient, run: Json, decision: str) -> tuple[Json, list[Json]]:
    return await ended(client, await client.post(f"{RUNS}/{run['runId']}/resume", json={"decision": decision}))


def of_kind(events: list[Json], kind: str) -> list[Json]:
    return [event for event in events if event["kind"] == kind]


class TestConnecting:
    """A tool without its connection opens a connect interrupt (interface, Resume a run)."""

    @pytest.mark.parametrize("by", ["agent", "action"])
    async def test_the_run_continues_once_the_connection_works(self, stage: World, server: Office, by: str) -> None:
        """After two refused attempts the connection works: the call is made once, and the connection has its status."""
        ada = await stage.user()
        config = {"url": server.url, "headers": {"X-Token": "bad"}}
        body = {"name": "Office", "provider": "office", "kind": "mcp", "config": config}
        row = (await ada.post("/api/v1/connections", json=body)).json()
        where, tool = f"/api/v1/connections/{row['id']}", f"mcp.{row['id']}.add"
        script["CLERK"] = [calls("mcp_add", a=1, b=2), lambda request: f"it is {tool_results(request)}"]
        clerk = await skill(ada, "CLERK", toolset={tool: {"enabled": True}})
        work = node("work", "action", toolId=tool, params={"a": 1, "b": 2})
        number = await deployed(ada, chain(work if by == "action" else node("work", "agent", agent_id=clerk)))
        server.calls.clear()
        run, events = await begun(ada, workflowId=number)
        for _ in range(2):
            assert (run["status"], events[-1]["kind"], events[-1]["status"]) == ("interrupted", "done", "interrupted")
            (wait,) = of_kind(events, "interrupt")
            assert (wait["type"], wait["nodeId"], wait["provider"]) == ("connect", "work", "office")
            assert (wait["connectionId"], wait["toolId"]) == (row["id"], tool)
            assert (await ada.get(where)).json()["status"] == "error"
            (item,) = (await ada.get("/agent/v1/interrupts")).json()["interrupts"]
            assert item["runId"] == run["runId"]
            run, events = await resumed(ada, run, "connected")
        wrong = await ada.post(f"{RUNS}/{run['runId']}/resume", json={"decision": "approve"}, headers=POLL)
        assert wrong.status_code == 422
        await ada.patch(where, json={"config": {"headers": {"X-Token": "good"}}})
        run, _ = await resumed(ada, run, "connected")
        assert (run["status"], run["output"]) == ("done", {"result": 3} if by == "action" else 'it is {"result":3}')
        assert server.calls == [("add", (1, 2))]
        row = (await ada.get(where)).json()
        assert (row["status"], row["lastCheckedAt"] is None) == ("active", False)

    @pytest.mark.parametrize("by", ["agent", "action"])
    async def test_a_connection_can_be_refused(self, world: World, by: str) -> None:
        """The model receives `cancelled`, and an action node fails; later decisions are refused."""
        ada = await world.user()
        config = {"url": "https://mcp.example/", "headers": {}}
        body = {"name": "O", "provider": "o", "kind": "mcp", "config": config, "status": "disabled"}
        row = (await ada.post("/api/v1/connections", json=body)).json()
        tool = f"mcp.{row['id']}.add"
        script["CLERK"] = [calls("mcp_add"), lambda request: f"no: {tool_results(request)}"]
        clerk = await skill(ada, "CLERK", toolset={tool: {"enabled": True}})
        work = node("work", "action", toolId=tool) if by == "action" else node("work", "agent", agent_id=clerk)
        parked, _ = await begun(ada, workflowId=await deployed(ada, chain(work)))
        run, events = await resumed(ada, parked, "cancelled")
        if by == "agent":
            assert (run["status"], run["output"]) == (
                "done", "no: error: the connection that the call needs was refused by a person"
            )  # fmt: skip
            assert of_kind(events, "tool_result")[0]["error"]["info"]["reason"] == "cancelled"
        else:
            assert (run["status"], run["error"]["info"]["cause"]) == ("error", "connection_cancelled")
        late = await ada.post(f"{RUNS}/{parked['runId']}/resume", json={"decision": "connected"}, headers=POLL)
        assert (late.status_code, late.json()["error"]["info"]["reason"]) == (409, "already_resumed")

    async def test_the_catalog_lists_servers(self, stage: World, server: Office) -> None:
        """The tools of a server, and the reason why those of another are missing; pages keep their order."""
        ada = await stage.user()
        rows = []
        for token in ("good", "bad"):
            config = {"url": server.url, "headers": {"X-Token": token}}
            body = {"name": token, "provider": "o", "kind": "mcp", "config": config}
            rows.append((await ada.post("/api/v1/connections", json=body)).json()["id"])
        page = (await ada.get("/api/v1/tools", params={"pageSize": "100"})).json()
        (add,) = [tool for tool in page["tools"] if tool["id"].endswith(".add")]
        assert (add["id"], add["connectionId"], add["description"]) == (f"mcp.{rows[0]}.add", rows[0], "Adds.")
        problems = {server["connectionId"]: server["problem"] for server in page["servers"]}
        assert problems == {rows[0]: None, rows[1]: "the MCP server refused the credentials"}


class TestSupervision:
    """A supervisor and its subordinates (interface, functional areas: supervision)."""

    async def staff(self, ada: httpx.AsyncClient, **toolset: Any) -> int:
        """BOSS, who supervises 1 (READER) and 2 (WRITER)."""
        await skill(ada, "READER", instructions=["READER"])
        await skill(ada, "WRITER", toolset=toolset)
        return await skill(
            ada, "BOSS", supervisionSubordinateIds=["1", "2"],
            supervisionSubordinateDescriptions={"1": "Reads old letters", "2": "Writes letters"},
            toolset={"hold": {"enabled": True}},
        )  # fmt: skip

    async def test_a_supervisor_delegates_work(self, stage: World) -> None:
        """Each is a tool with its description and receives only its message; events and conversation show all of it."""
        ada = await stage.user()
        boss = await self.staff(ada)
        both = [
            *calls("skill_reader", message="read 7")["toolCalls"],
            *calls("skill_writer", message="write")["toolCalls"],
        ]
        script["BOSS"] = [{"content": "wait", "toolCalls": both}, lambda request: f"all: {tool_results(request)}"]
        script["READER"], script["WRITER"] = ["seven"], ["dear sir"]
        run, events = await begun(ada, skillId=boss, message="go", fileThreadId="letters")
        assert (run["status"], run["output"]) == ("done", "all: seven dear sir")
        (first, *_) = [request for request in model_requests if request.messages[0]["content"] == "BOSS"]
        assert {tool.name: tool.description for tool in first.tools} == {
            "hold": "Wait until the test calls `let_go`.",
            "skill_reader": "Reads old letters", "skill_writer": "Writes letters",
        }  # fmt: skip
        (reader,) = [request for request in model_requests if request.messages[0]["content"] == "READER"]
        assert [message["content"] for message in reader.messages] == ["READER", "read 7"]
        inside = [event for event in events if event.get("path") == ["agent"]]
        assert {event["content"] for event in of_kind(inside, "message")} == {"seven", "dear sir"}
        assert {event["kind"] for event in events if "path" in event}.isdisjoint({"run_started", "done", "error"})
        assert [data["seq"] for data in events] == list(range(1, len(events) + 1))
        read = (await ada.get(f"/api/v1/skills/{boss}/conversations/letters")).json()
        (asking,) = [
            message for message in read["messages"] if message.get("toolCalls") and message["content"] == "wait"
        ]
        assert [call["name"] for call in asking["toolCalls"]] == ["skill_reader", "skill_writer"]
        results = [message["content"] for message in read["messages"] if message["type"] == "tool"]
        assert results == ["seven", "dear sir"]
        assert (await ada.get("/api/v1/skills/0/conversations/letters")).json()["messages"] == read["messages"]

    async def test_an_approval_of_a_subordinate_is_on_the_root(self, stage: World) -> None:
        """The interrupt is on the root's stream, record and inbox with its `path`; the stored call is made."""
        ada, name = await stage.user(), f"{stage.org}-letter"
        boss = await self.staff(ada, count={"enabled": True, "requiresApproval": True})
        script["BOSS"] = [calls("skill_writer", message="write"), lambda request: f"sent: {tool_results(request)}"]
        script["WRITER"] = [calls("count", name=name), "written"]
        run, events = await begun(ada, skillId=boss, message="go")
        (wait,) = of_kind(events, "interrupt")
        assert (wait["path"], wait["nodeId"], wait["toolId"]) == (["agent"], "agent", "count")
        assert (wait["arguments"], performed[name]) == ({"name": name}, 0)
        (item,) = (await ada.get("/agent/v1/interrupts")).json()["interrupts"]
        assert (item["interruptId"], item["path"], item["runId"]) == (wait["interruptId"], ["agent"], run["runId"])
        run, _ = await resumed(ada, run, "approve")
        assert (run["status"], run["output"], performed[name]) == ("done", "sent: written", 1)

    async def test_a_subordinate_needs_the_callers_access(self, world: World) -> None:
        """Without access it is not offered; when access is lost during the run, the call is refused by name."""
        ada, bob = await world.user(), await world.user("bob")
        boss = await self.staff(ada)
        mine = {"accessConfig": {"visibility": "private", "sharedWith": [{"email": "bob@x.org"}]}}
        await ada.patch("/api/v1/skills/1", json={"accessConfig": {"visibility": "private"}})
        await ada.patch("/api/v1/skills/2", json=mine)
        context = (await bob.post(f"/api/v1/skills/{boss}/context", json={"message": "go"})).json()
        assert [tool["name"] for tool in context["tools"]] == ["hold", "skill_writer"]
        assert "old letters" not in str(context)
        name = f"{world.org}-below"
        script["BOSS"] = [calls("hold", name=name), calls("skill_writer", message="w"), tool_results]
        body = {"skillId": boss, "input": {}, "message": "go"}
        run = (await bob.post(RUNS, json=body, headers=POLL)).json()
        while name not in held:  # noqa: ASYNC110  (the tool is called when the run comes to it)
            await asyncio.sleep(0)
        await ada.patch("/api/v1/skills/2", json={"accessConfig": {"visibility": "private"}})
        let_go(name)
        record, _ = await ended(bob, await bob.get(f"{RUNS}/{run['runId']}/events"))
        assert record["output"] == f"{name} error: skill `2` does not exist, or may not be used here"

    async def test_depth_is_limited(self, world: World) -> None:
        """Below the deepest level no subordinate runs: the agent there gets an error and continues."""
        ada = await world.user()
        last = await skill(ada, "LEVEL0")
        for level in range(1, MAX_CHILD_DEPTH + 2):
            last = await skill(ada, f"LEVEL{level}", supervisionSubordinateIds=[str(last)])
            script[f"LEVEL{level}"] = [calls(f"skill_level{level - 1}", message="down"), tool_results]
        run, _ = await begun(ada, skillId=last, message="go")
        assert run["output"] == f"error: children go at most {MAX_CHILD_DEPTH} levels deep"
        assert len({str(request.messages[0]["content"]) for request in model_requests}) == MAX_CHILD_DEPTH + 1


class TestAssistant:
    """The organization's assistant (interface, functional areas: an org-wide assistant)."""

    async def test_the_assistant_delegates_to_skills(self, stage: World) -> None:
        """By run and by chat, with the organization's context; its conversations are under skill 0 and private."""
        ada, bob = await stage.user(), await stage.user("bob")
        await skill(ada, "READER", description="Reads letters")
        await ada.post("/api/v1/context-items", json={"title": "Hours", "content": "Open at noon."})
        script[ASSISTANT] = [calls("skill_reader", message="read"), lambda request: f"it says {tool_results(request)}"]
        script["READER"] = ["seven"]
        run, events = await begun(ada, assistant=True, message="read it", fileThreadId="talk")
        assert (run["output"], run["target"]) == ("it says seven", {"type": "assistant", "id": None})
        assert [event["content"] for event in of_kind(events, "message") if event.get("path")] == ["seven"]
        assert "Open at noon." in str(model_requests[0].messages[0]["content"])
        again, _ = await ended(ada, await ada.post(
            "/agent/v1/assistant/chat", json={"message": "and again", "fileThreadId": "talk"}))  # fmt: skip
        assert again["output"] == "it says seven seven"
        read = (await ada.get("/api/v1/skills/0/conversations/talk")).json()
        assert [message["content"] for message in read["messages"] if message["type"] == "human"] == [
            "read it", "and again",
        ]  # fmt: skip
        listed = (await ada.get("/api/v1/skills/0/conversations")).json()["conversations"]
        assert [one["threadId"] for one in listed] == ["talk"]
        assert (await bob.get("/api/v1/skills/0/conversations/talk")).status_code == 404

    async def test_a_workflow_waits_for_approval(self, stage: World) -> None:
        """After the approval it is called with the arguments that were shown, and the agent receives its result."""
        ada, name = await stage.user(), f"{stage.org}-refund"
        structure = chain(node("count", "action", toolId="count", params={"name": "{{ input.order }}"}))
        schema = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
        structure["nodes"][0]["data"] = {"inputSchema": schema}
        await deployed(ada, structure, description="Pays back")
        script[ASSISTANT] = [calls("workflow_refunds", order=name), lambda request: f"refund {tool_results(request)}"]
        run, events = await begun(ada, assistant=True, message="pay back")
        (wait,) = of_kind(events, "interrupt")
        assert (wait["type"], wait["toolId"], wait["arguments"]) == ("approval", "workflow:1", {"order": name})
        assert (model_requests[0].tools[0].description, model_requests[0].tools[0].parameters["required"]) == (
            "Pays back",
            ["order"],
        )
        assert performed[name] == 0
        denied, _ = await begun(ada, assistant=True, message="pay back")
        denied, _ = await resumed(ada, denied, "deny")
        assert denied["output"] == "refund error: the call was denied by a person"
        run, events = await resumed(ada, run, "approve")
        assert (run["output"], performed[name]) == ("refund 1", 1)
        assert [event["nodeId"] for event in of_kind(events, "node_finished") if event.get("path")] == [
            "start",
            "count",
        ]

    async def test_only_usable_resources_are_offered(self, world: World) -> None:
        """Hidden skills and workflows, and drafts, are neither offered nor named."""
        ada, bob = await world.user(), await world.user("bob")
        for hidden in ({}, {"accessConfig": {"visibility": "private"}}):
            await skill(ada, "READER", **hidden)
            await deployed(ada, chain(), **hidden)
        await ada.post("/api/v1/skills", json={"name": "DRAFT"})
        context = (await bob.post("/api/v1/assistant/context", json={"message": "x"})).json()
        assert [(tool["toolId"], tool["requiresApproval"]) for tool in context["tools"]] == [
            ("skill:1", False), ("workflow:1", True),
        ]  # fmt: skip
        assert len((await ada.post("/api/v1/assistant/context", json={"message": "x"})).json()["tools"]) == 4
