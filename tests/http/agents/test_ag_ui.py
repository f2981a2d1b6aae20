"""Runs for AG-UI clients (AG-UI 1.0): with the official client on Node, if installed, and by hand."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from clients import (
    APPROVAL,
    CONFLICT,
    POLL,
    Connect,
    Json,
    World,
    assert_envelope,
    chain,
    counting,
    deployed,
    new_world,
    node,
    serving,
)
from clients import count as count_calls
from node_libraries import NodeClient, library, node_client
from waiting import HANG

import wfcore.bootstrap
from wfcore.adapters.http import app
from wfcore.adapters.http.core.ag_ui import AgUiEvent
from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.core import Core
from wfcore.ports.providers import ModelRequest
from wfcore.runtime.common.installation import Settings

pytestmark = pytest.mark.anyio

VERSION: Final = "1.0.0"
PROFILE: Final = {"Accept": "text/event-stream; profile=ag-ui"}
ECHO: Final = node("echo", "action", toolId="core.transform", params={"value": "{{ input }}"})
SAY: Final = node("say", "action", toolId="core.transform", params={"value": "You said {{ input.message }}"})

requests: list[ModelRequest] = []


def reply(request: ModelRequest) -> Json:
    """A call of `count` for a message that begins with it, whose result is reported; otherwise an echo."""
    requests.append(request)
    last = request.messages[-1]
    if last["type"] == "tool":
        return {"content": f"counted {last['content']}"}
    text = str(last["content"])
    if text.startswith("count"):
        return {"toolCalls": [{"id": "call_1", "name": "count", "args": {"name": text}}]}
    return {"content": f"You said {text}"}


@pytest.fixture(scope="module")
async def server(anyio_backend: str) -> AsyncIterator[tuple[Core, Connect]]:
    options: Any = {"tools": [count_calls], "models": {"default": ScriptedModel(reply)}, "settings": Settings(grace=0)}
    async with (
        wfcore.bootstrap.open("sqlite://", secrets=b"k" * 32, **options) as core,
        serving(app(core, secret=b"s" * 32)) as port,
    ):
        yield core, partial(httpx.AsyncClient, base_url=f"http://127.0.0.1:{port}", timeout=HANG, trust_env=False)


@pytest.fixture
async def office(server: tuple[Core, Connect]) -> AsyncIterator[World]:
    requests.clear()
    async with AsyncExitStack() as closing:
        yield await new_world(*server, closing)


async def a_skill(client: httpx.AsyncClient, **fields: Any) -> int:
    made = await client.post("/api/v1/skills", json={"name": "Helper", "instructions": ["Help."], **fields})
    assert made.status_code == 201, made.text
    assert (await client.post(f"/api/v1/skills/{made.json()['id']}/deploy")).status_code == 200
    return int(made.json()["id"])


@asynccontextmanager
async def official(client: httpx.AsyncClient, path: str, thread: str = "thread-1") -> AsyncIterator[NodeClient]:
    """The official client, with the token of this one."""
    main = library("@ag-ui/client", VERSION, "dist/index.mjs")
    if not isinstance(main, Path):
        pytest.skip(f"the official client cannot be used: {main}")
    token = client.headers["Authorization"].removeprefix("Bearer ")
    async with node_client("ag_ui_client.mjs", main, str(client.base_url).rstrip("/") + path, token, thread) as made:
        yield made


def agent_input(text: Any, run_id: str = "run-1", **more: Any) -> Json:
    return {"threadId": "t", "runId": run_id, "messages": [{"id": "1", "role": "user", "content": text}], **more}


def events_of(answer: httpx.Response) -> list[Json]:
    """The data of each frame. The OpenAPI document declares the fields of those of AG-UI, which have no `kind`."""
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    found = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    assert {name for event in found if "kind" not in event for name in event} <= AgUiEvent.__annotations__.keys()
    return found


def types(events: list[Json]) -> list[str]:
    return [event["type"] if event["type"] != "CUSTOM" else event["name"] for event in events]


class TestOfficialClient:
    """`HttpAgent` of `@ag-ui/client`, which checks the shape and the order of every event."""

    async def test_a_conversation_with_a_skill(self, office: World) -> None:
        """Text streams, the thread goes on, the client's run and thread are the server's, usage is summed."""
        ada = await office.user("ada")
        skill = await a_skill(ada)
        async with official(ada, f"/agent/v1/ag-ui/skills/{skill}") as agent:
            first = await agent.call(message="hello", runId="r1")
            second = await agent.call(message="again", runId="r2")
        assert first["error"] is None
        assert first["result"] == "You said hello"
        assert types(first["events"])[:2] == ["RUN_STARTED", "STEP_STARTED"]
        assert types(first["events"])[-1] == "RUN_FINISHED"
        assert types(first["events"]).count("TEXT_MESSAGE_CONTENT") > 1
        assert first["events"][-1]["usage"][0]["outputTokens"] > 0
        texts = [(one["role"], one["content"]) for one in second["messages"]]
        assert texts == [
            ("user", "hello"), ("assistant", "You said hello"), ("user", "again"), ("assistant", "You said again"),
        ]  # fmt: skip
        record = (await ada.get("/agent/v1/runs/r2")).json()
        assert (record["threadId"], record["status"]) == ("thread-1", "done")
        spoken = [message["content"] for message in requests[-1].messages if message["type"] == "human"]
        assert spoken == ["hello", "again"]

    async def test_an_approved_call_of_a_tool(self, office: World) -> None:
        """The turn ends with an interrupt, whose answer resumes the run; the call and its result are the client's."""
        ada = await office.user("ada")
        skill = await a_skill(ada, toolset={"count": {"enabled": True, "requiresApproval": True}})
        async with official(ada, f"/agent/v1/ag-ui/skills/{skill}") as agent:
            parked = await agent.call(message=f"count {office.org}", runId="r1")
            (waiting,) = parked["pending"]
            unanswered = await agent.call(message="go on", runId="r2")
            answer = {"interruptId": waiting["id"], "status": "resolved", "payload": {"decision": "approve"}}
            done = await agent.call(resume=[answer], runId="r3")
        assert types(parked["events"])[-1] == "RUN_FINISHED"
        assert types(parked["events"]).count("interrupt") == 1
        assert (waiting["reason"], waiting["toolCallId"]) == ("tool_call", "call_1")
        assert waiting["metadata"]["arguments"] == {"name": f"count {office.org}"}
        assert waiting["responseSchema"]["required"] == ["decision"]
        assert "pending interrupt" in unanswered["error"]
        assert (done["error"], done["result"], done["pending"]) == (None, "counted 1", [])
        assert done["events"][0]["parentRunId"] == "r1"
        (called,) = [one for one in done["messages"] if one.get("toolCalls")]
        assert json.loads(called["toolCalls"][0]["function"]["arguments"]) == {"name": f"count {office.org}"}
        assert [one["content"] for one in done["messages"] if one["role"] == "tool"] == ["1"]

    async def test_a_workflow_with_an_approval(self, office: World) -> None:
        """Fields of `forwardedProps` are input beside the message; a cancelled answer denies; errors are errors."""
        ada = await office.user("ada")
        flow = await deployed(ada, chain(APPROVAL, ECHO))
        async with official(ada, f"/agent/v1/ag-ui/workflows/{flow}") as agent:
            parked = await agent.call(message="refund", forwardedProps={"amount": 4}, runId="w1")
            answer = {"interruptId": parked["pending"][0]["id"], "status": "resolved"}
            done = await agent.call(resume=[answer | {"payload": {"decision": "approve"}}], runId="w2")
        assert parked["pending"][0]["reason"] == "confirmation"
        assert parked["pending"][0]["message"] == "Go on?"
        assert done["result"] == {"amount": 4, "message": "refund"}
        failing = await deployed(ada, chain(node("no", "action", toolId="core.fail", params={"message": "no money"})))
        async with official(ada, f"/agent/v1/ag-ui/workflows/{failing}", "t2") as agent:
            failed = await agent.call(message="x", runId="w3")
        assert types(failed["events"])[-1] == "RUN_ERROR"
        assert "no money" in failed["events"][-1]["message"]
        async with official(ada, "/agent/v1/ag-ui/workflows/999", "t3") as agent:
            assert (await agent.call(message="x", runId="w4"))["error"].startswith("HTTP 404")


class TestRequests:
    """`POST /agent/v1/ag-ui/{workflows|skills}/{id}`."""

    async def test_an_output_without_a_message_is_said(self, office: World) -> None:
        """The text that a workflow returns is a message of the assistant."""
        ada = await office.user("ada")
        flow = await deployed(ada, chain(SAY))
        answer = await ada.post(f"/agent/v1/ag-ui/workflows/{flow}", json=agent_input("hi"))
        said = [event for event in events_of(answer) if event["type"] == "TEXT_MESSAGE_CONTENT"]
        assert [(one["messageId"], one["delta"]) for one in said] == [("run-1-output", "You said hi")]

    async def test_a_call_of_a_tool_and_a_refusal(self, office: World) -> None:
        """By hand: the call, its arguments and its result; a refused stream is one `RUN_ERROR`."""
        ada = await office.user("ada")
        skill = await a_skill(ada, toolset={"count": {"enabled": True}})
        called = events_of(await ada.post(f"/agent/v1/ag-ui/skills/{skill}", json=agent_input("count a")))
        assert {"TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"} <= {*types(called)}
        refused = events_of(await ada.get("/agent/v1/runs/none/events", headers=PROFILE))
        assert types(refused) == ["RUN_ERROR"]

    async def test_the_run_id_is_the_key(self, office: World) -> None:
        """The same request joins the stream, before and after a resume; another one is refused."""
        ada = await office.user("ada")
        flow = await deployed(ada, chain(APPROVAL, counting(office.org)))
        path = f"/agent/v1/ag-ui/workflows/{flow}"
        first, again = [events_of(await ada.post(path, json=agent_input("hi"))) for _ in range(2)]
        assert first == again
        resume = [{"interruptId": first[-1]["outcome"]["interrupts"][0]["id"], "status": "resolved",
                   "payload": {"decision": "approve"}}]  # fmt: skip
        resumed = agent_input("ignored", "run-2", resume=resume)
        done, repeated = [events_of(await ada.post(path, json=resumed)) for _ in range(2)]
        assert done == repeated
        assert done[-1]["result"] == 1
        other = await ada.post(path, json=agent_input("other"))
        assert_envelope(other, *CONFLICT)

    async def test_a_denial_and_a_pause(self, office: World) -> None:
        """`cancelled` denies an approval. A run that was parked on request waits for `paused`."""
        ada = await office.user("ada")
        flow = await deployed(ada, chain(APPROVAL, ECHO))
        path = f"/agent/v1/ag-ui/workflows/{flow}"
        waiting = events_of(await ada.post(path, json=agent_input("hi")))[-1]["outcome"]["interrupts"][0]["id"]
        resume = [{"interruptId": waiting, "status": "cancelled"}]
        await ada.post(path, json=agent_input("", "run-2", resume=resume))
        decided = (await ada.get("/agent/v1/interrupts", params={"status": "decided"})).json()["interrupts"][0]
        assert (decided["interruptId"], decided["decision"]) == (waiting, "deny")
        waits = node("wait", "action", toolId="core.wait", params={"seconds": 600})
        slow = await deployed(ada, chain(waits, ECHO))
        path = f"/agent/v1/ag-ui/workflows/{slow}"
        await ada.post(path, json=agent_input("hi", "run-3"), headers=POLL)
        await ada.post("/agent/v1/runs/run-3/interrupt")
        parked = events_of(await ada.get("/agent/v1/runs/run-3/events", headers=PROFILE))
        assert parked[-1]["outcome"]["interrupts"][0]["id"] == "paused"
        back = agent_input("", "run-4", resume=[{"interruptId": "paused", "status": "resolved"}])
        polled = await ada.post(path, json=back, headers=POLL)
        assert (polled.status_code, polled.json()["runId"]) == (202, "run-4")
        assert (await ada.get("/agent/v1/runs/run-4")).json()["parentRunId"] == "run-3"

    async def test_parts_and_context_are_attached(self, office: World) -> None:
        """Text parts are the message; documents and context are attached; the model gets them."""
        ada = await office.user("ada")
        skill = await a_skill(ada)
        content = [
            {"type": "text", "text": "Read"},
            {"type": "text", "text": "this"},
            {"type": "document", "source": {"type": "data", "value": "cGxhbg==", "mimeType": "text/plain"}},
        ]
        body = agent_input(content, context=[{"description": "page.txt", "value": "the open page"}])
        events = events_of(await ada.post(f"/agent/v1/ag-ui/skills/{skill}", json=body))
        assert events[-1]["type"] == "RUN_FINISHED", events
        sent = " ".join(str(message["content"]) for message in requests[-1].messages)
        assert all(part in sent for part in ("Read\nthis", "plan", "page.txt", "the open page"))

    @pytest.mark.parametrize(
        ("change", "path", "status"),
        [
            ({"tools": [{"name": "t"}]}, "tools", 422),
            ({"state": {"a": 1}}, "state", 422),
            ({"messages": []}, "messages", 400),
            ({"messages": [{"role": "assistant", "content": "x"}]}, "messages", 400),
            ({"messages": [{"role": "user", "content": " "}]}, "messages[0].content", 422),
            ({"messages": [{"role": "user", "content": [{"type": "audio"}]}]}, "messages[0].content[0]", 422),
            ({"forwardedProps": [1]}, "forwardedProps", 400),
            ({"runId": "a b"}, "runId", 422),
            ({"resume": [{"interruptId": "x", "status": "done"}]}, "resume[0].status", 422),
        ],
        ids=str,
    )
    async def test_what_cannot_be_served_is_refused(self, office: World, change: Json, path: str, status: int) -> None:
        """The error names the field."""
        ada = await office.user("ada")
        flow = await deployed(ada, chain(ECHO))
        answer = await ada.post(f"/agent/v1/ag-ui/workflows/{flow}", json=agent_input("hi") | change)
        assert answer.status_code == status, answer.text
        assert path in [issue["path"] for issue in answer.json()["error"]["info"]["errors"]]
        assert (await ada.get("/agent/v1/runs")).json()["runs"] == []

    async def test_faults_that_the_run_finds_are_named_too(self, office: World) -> None:
        """By their paths in the request, not in the body of the run that was made of it."""
        ada = await office.user("ada")
        schema = {"type": "object", "properties": {"n": {"type": "integer"}, "message": {"maxLength": 3}}}
        structure = chain(APPROVAL | {"data": {"message": "Go on?", "formSchema": {"type": "object"}}})
        structure["nodes"][0]["data"] = {"inputSchema": schema}
        flow = await deployed(ada, structure)
        path = f"/agent/v1/ag-ui/workflows/{flow}"
        source = {"type": "data", "value": "@", "mimeType": "image/png"}
        image = [{"type": "text", "text": "hi"}, {"type": "image", "source": source}]
        parked = events_of(await ada.post(path, json=agent_input("hi")))[-1]["outcome"]["interrupts"][0]["id"]
        approve = {"interruptId": parked, "status": "resolved", "payload": {"decision": "approve", "data": [1]}}
        for body, place in (
            (agent_input("hi", "r2", forwardedProps={"n": "x"}), "forwardedProps.n"),
            (agent_input("hello", "r2"), "messages[0].content"),
            (agent_input(image, "r2"), "messages[0].content[1].source.value"),
            (agent_input("", "r2", resume=[approve]), "resume[0].payload.data"),
            (agent_input("", "r2", resume=[{**approve, "payload": {"decision": "deny"}},
                                           {"interruptId": "x", "status": "cancelled"}]), "resume[1].interruptId"),
        ):  # fmt: skip
            answer = await ada.post(path, json=body)
            error = assert_envelope(answer, 422, "VALIDATION", "INVALID_ARGUMENT")
            assert [issue["path"] for issue in error["info"]["errors"]] == [place]
            assert error["message"].startswith(f"`{place}`: ")

    @pytest.mark.parametrize("kind", ["workflows", "skills"])
    @pytest.mark.parametrize("number", ["0", "-1", "01", "x", "999", "9" * 40])
    async def test_an_id_that_is_no_number_is_not_found(self, office: World, kind: str, number: str) -> None:
        """It is a 404, like the id of a workflow or skill that does not exist, and no rule of the body."""
        ada = await office.user("ada")
        assert_envelope(
            await ada.post(f"/agent/v1/ag-ui/{kind}/{number}", json=agent_input("hi"), headers=POLL),
            404,
            "NOT_FOUND",
            "NOT_FOUND",
        )

    async def test_a_resume_is_of_its_workflow(self, office: World) -> None:
        """Below a workflow that its caller cannot use, or that does not exist, a resume is a 404, as a start is; a
        repeated one too. Below another workflow, nothing waits for it.
        """
        ada, eve = await office.user("ada"), await office.user("eve")
        private = {"visibility": "private", "groupPermissions": {}, "sharedWith": []}
        flow, other = [await deployed(ada, chain(APPROVAL), accessConfig=private) for _ in range(2)]
        waiting = events_of(await ada.post(f"/agent/v1/ag-ui/workflows/{flow}", json=agent_input("hi")))[-1]
        entry = {"interruptId": waiting["outcome"]["interrupts"][0]["id"], "status": "cancelled"}
        resume = agent_input("", "r2", resume=[entry])
        for _ in range(2):
            for number in ("0", "999", "9" * 40):
                answer = await ada.post(f"/agent/v1/ag-ui/workflows/{number}", json=resume)
                assert_envelope(answer, 404, "NOT_FOUND", "NOT_FOUND")
            answer = await eve.post(f"/agent/v1/ag-ui/workflows/{flow}", json=resume)
            assert_envelope(answer, 404, "NOT_FOUND", "NOT_FOUND")
            answer = await ada.post(f"/agent/v1/ag-ui/workflows/{other}", json=resume)
            assert assert_envelope(answer, 409, "CONFLICT", "ALREADY_EXISTS")["info"]["reason"] == "not_interrupted"
            assert (await ada.post(f"/agent/v1/ag-ui/workflows/{flow}", json=resume)).status_code == 200

    async def test_only_what_waits_in_the_thread_is_resumed(self, office: World) -> None:
        """Another thread, another workflow or another interrupt: 409. A payload that is not a decision: 422."""
        ada = await office.user("ada")
        flow, other = await deployed(ada, chain(APPROVAL)), await deployed(ada, chain(APPROVAL))
        path = f"/agent/v1/ag-ui/workflows/{flow}"
        waiting = events_of(await ada.post(path, json=agent_input("hi")))[-1]["outcome"]["interrupts"][0]["id"]
        resume = [{"interruptId": waiting, "status": "resolved", "payload": {"decision": "approve"}}]
        for place, change in (
            (path, {"threadId": "u"}),
            (f"/agent/v1/ag-ui/workflows/{other}", {}),
            (path, {"resume": [resume[0] | {"interruptId": "other"}]}),
        ):
            answer = await ada.post(place, json=agent_input("", "r2", resume=resume) | change)
            error = assert_envelope(answer, 409, "CONFLICT", "ALREADY_EXISTS")
            assert error["info"]["reason"] == "not_interrupted"
        bad = await ada.post(path, json=agent_input("", "r2", resume=[resume[0] | {"payload": {"approved": True}}]))
        assert [issue["path"] for issue in bad.json()["error"]["info"]["errors"]] == ["resume[0].payload"]


class TestProfile:
    """`Accept: text/event-stream; profile=ag-ui` on the routes of runs."""

    async def test_starting_resuming_and_following(self, office: World) -> None:
        """Each of the three streams has AG-UI events; a client continues after the id that it has seen."""
        ada = await office.user("ada")
        flow = await deployed(ada, chain(APPROVAL, ECHO))
        body = {"workflowId": flow, "input": {"n": 1}, "runId": "p1"}
        started = await ada.post("/agent/v1/runs", json=body, headers=PROFILE)
        assert types(events_of(started))[0] == "RUN_STARTED"
        assert types(events_of(started))[-1] == "RUN_FINISHED"
        resumed = await ada.post(
            "/agent/v1/runs/p1/resume", json={"decision": "approve", "runId": "p2"}, headers=PROFILE
        )
        whole = events_of(resumed)
        assert (whole[-1]["outcome"], whole[-1]["result"]) == ({"type": "success"}, {"n": 1})
        followed = await ada.get("/agent/v1/runs/p2/events", headers=PROFILE)
        assert events_of(followed) == whole
        ids = [int(line[4:]) for line in followed.text.splitlines() if line.startswith("id: ")]
        rest = await ada.get("/agent/v1/runs/p2/events", headers=PROFILE | {"Last-Event-ID": str(ids[1])})
        assert 0 < len(events_of(rest)) < len(whole)
        assert events_of(rest) == whole[-len(events_of(rest)) :]
        plain = await ada.get("/agent/v1/runs/p2/events", headers={"Accept": "text/event-stream"})
        assert events_of(plain)[0]["kind"] == "run_started"
