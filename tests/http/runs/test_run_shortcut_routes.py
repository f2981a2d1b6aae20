"""Chats and single actions over HTTP, and every `info.reason` of the run API (interface, Resume a run and Events)."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import httpx
import pytest
from clients import (
    APPROVAL,
    CODES,
    CONFLICT,
    POLL,
    Json,
    World,
    assert_envelope,
    chain,
    counting,
    deployed,
    error_of,
    frames,
    keyed,
    let_go,
    new_world,
    node,
    performed,
)

import wfcore.bootstrap
from wfcore.adapters.http import app
from wfcore.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

SKILL, ASSISTANT = "/agent/v1/skills/1/chat", "/agent/v1/assistant/chat"


def action(tool: str, **params: Any) -> Json:
    return {"action": {"toolId": tool, "params": params}}


async def with_skill(world: World, **skill: Any) -> httpx.AsyncClient:
    """A client in an organization whose skill 1 is deployed."""
    ada = await world.user()
    await ada.post("/api/v1/skills", json={"name": "Clerk", **skill})
    assert (await ada.post("/api/v1/skills/1/deploy")).status_code == 200
    return ada


class TestChats:
    """`POST /agent/v1/skills/{id}/chat` and `/agent/v1/assistant/chat`."""

    @pytest.mark.parametrize("path", [SKILL, ASSISTANT])
    async def test_a_reply_is_streamed(self, either: World, path: str) -> None:
        """The stream has the message in deltas and in full, and ends with `done`; the record has it as output."""
        ada = await with_skill(either)
        answer = await ada.post(path, json={"message": "good morning"})
        assert answer.status_code == 200
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        events = [data for _, data in frames(answer.text)]
        assert [data["seq"] for data in events] == list(range(1, len(events) + 1))
        [whole] = [data["content"] for data in events if data["kind"] == "message"]
        assert "".join(data["delta"] for data in events if data["kind"] == "message_delta") == whole
        assert "good morning" in whole
        assert (events[-1]["kind"], events[-1]["output"]) == ("done", whole)
        record = (await ada.get(answer.headers["Location"])).json()
        assert (record["status"], record["output"]) == ("done", whole)
        assert record["target"]["type"] == ("skill" if path == SKILL else "assistant")

    @pytest.mark.parametrize(("path", "target"), [(SKILL, {"skillId": 1}), (ASSISTANT, {"assistant": True})])
    async def test_a_chat_joins_the_run_of_the_same_body(self, either: World, path: str, target: Json) -> None:
        """The same key and body join through either route and transport; another body is 409 on both."""
        ada = await with_skill(either)
        body = {"message": "hello", "sessionId": "s"}
        first = await ada.post(path, json=body, headers=keyed("k"))
        again = await ada.post("/agent/v1/runs", json=body | target, headers=keyed("k"))
        assert first.text == again.text
        polled = await ada.post(path, json=body, headers=keyed("k", **POLL))
        assert (polled.status_code, polled.json()) == (200, {"runId": "k", "status": "done"})
        other = await ada.post(path, json=body | {"message": "else"}, headers=keyed("k"))
        assert (other.status_code, [data["kind"] for _, data in frames(other.text)]) == (409, ["error"])
        refused = await ada.post(path, json=body | {"message": "else"}, headers=keyed("k", **POLL))
        assert assert_envelope(refused, *CONFLICT)["info"] == {"reason": "key_reused"}

    @pytest.mark.parametrize(("path", "body", "status"), [
        (SKILL, {}, 400), (SKILL, {"message": 1}, 400), (SKILL, {"message": ""}, 422),
        (SKILL, {"message": "m", "skillId": 2}, 422), (SKILL, {"message": "m", "input": {}}, 422),
        (SKILL, {"message": "m", "decision": "approve"}, 422), (ASSISTANT, {"message": "m", "workflowId": 1}, 422),
        (SKILL, {"message": "m", "config": {"toolset": {"count": {"enabled": True}}}}, 422),
        (SKILL, {"message": "m", "config": {"model": "none"}}, 422),
        (SKILL, {"message": "m", "attachments": {"images": [{"storageKey": "../x"}]}}, 422),
        ("/agent/v1/skills/2/chat", {"message": "m"}, 404), ("/agent/v1/skills/01/chat", {"message": "m"}, 404),
        ("/agent/v1/skills/x/chat", {"message": "m"}, 404), ("/agent/v1/skills/1%0A/chat", {"message": "m"}, 404),
    ])  # fmt: skip
    async def test_invalid_chats_are_refused(self, world: World, path: str, body: Json, status: int) -> None:
        """The error is an event of a stream, or an envelope; and no run is started."""
        ada = await with_skill(world)
        for headers in ({}, POLL):
            answer = await ada.post(path, json=body, headers=headers)
            assert (answer.status_code, error_of(answer)["code"]) == (status, CODES[status]), answer.text
        assert (await ada.get("/agent/v1/runs")).json()["runs"] == []

    async def test_runs_of_a_skill_are_listed(self, world: World) -> None:
        """`skillId` filters the list, and cannot be combined with `workflowId`."""
        ada = await with_skill(world)
        await ada.post(SKILL, json={"message": "m"}, headers=keyed("s"))
        await ada.post(ASSISTANT, json={"message": "m"}, headers=keyed("a"))
        for query, expected in (("skillId=1", ["s"]), ("skillId=2", []), ("workflowId=1", [])):
            assert [run["runId"] for run in (await ada.get(f"/agent/v1/runs?{query}")).json()["runs"]] == expected
        assert_envelope(await ada.get("/agent/v1/runs?skillId=1&workflowId=1"), 400, "BAD_REQUEST", "INVALID_ARGUMENT")
        refused = assert_envelope(await ada.get("/agent/v1/runs?skillId=01"), 400, "BAD_REQUEST", "INVALID_ARGUMENT")
        assert refused["message"] == "`skillId`: must be an id: a positive integer without leading zeros"


class TestActions:
    """`POST /agent/v1/actions` (interface, Execute a workflow action)."""

    async def test_it_streams_and_polls(self, either: World) -> None:
        """Frames start at 1 and end with `done` and the tool's output; the same key joins when polling."""
        ada = await either.user()
        body = action("core.transform", value="{{ nodes.order.output.amount }}") | {
            "previousOutputs": {"order": {"amount": 40}}, "timezone": "Europe/Paris", "sessionId": "s",
            "origin": "automation", "organizationId": either.org,
        }  # fmt: skip
        answer = await ada.post("/agent/v1/actions", json=body, headers=keyed("k"))
        assert answer.status_code == 200
        got = frames(answer.text)
        assert [seq for seq, _ in got] == list(range(1, len(got) + 1))
        assert (got[-1][1]["kind"], got[-1][1]["output"]) == ("done", 40)
        polled = await ada.post("/agent/v1/actions", json=body, headers=keyed("k", **POLL))
        assert (polled.status_code, polled.json()) == (200, {"runId": "k", "status": "done"})
        assert (await ada.get("/agent/v1/runs/k")).json()["target"] == {"type": "action", "id": None}
        rest = await ada.post("/agent/v1/actions", json=body, headers=keyed("k", **{"Last-Event-ID": "2"}))
        assert frames(rest.text) == got[2:]

    async def test_it_ends_in_error_or_is_cancelled(self, either: World) -> None:
        """The terminal event is `error` when the tool fails, and `cancelled` when the run is cancelled."""
        ada = await either.user()
        failed = await ada.post("/agent/v1/actions", json=action("core.fail", message="no"))
        last = frames(failed.text)[-1][1]
        assert (last["kind"], last["error"]["message"]) == ("error", "no")
        going_on = await ada.post("/agent/v1/actions", json=action("hold", name=f"{either.org}x"),
                                  headers=keyed("r", **POLL))  # fmt: skip
        assert going_on.status_code == 202
        assert (await ada.post("/agent/v1/runs/r/cancel")).json() == {"runId": "r", "status": "cancelled"}
        assert frames((await ada.get("/agent/v1/runs/r/events")).text)[-1][1]["kind"] == "cancelled"

    async def test_a_key_of_something_else_is_409(self, either: World) -> None:
        """Runs and actions share one space of ids: an `error` event on the stream, an envelope when polling."""
        ada, eve = await either.user("ada"), await either.user("eve")
        number = await deployed(ada, chain(APPROVAL))
        await ada.post("/agent/v1/runs", json={"workflowId": number, "input": {}}, headers=keyed("r"))
        await ada.post("/agent/v1/actions", json=action("core.transform", value=1), headers=keyed("k"))
        for client, what, key in (
            (ada, action("core.transform", value=2), "k"), (eve, action("core.transform", value=1), "k"),
            (ada, action("core.transform", value=1), "r"),
        ):  # fmt: skip
            refused = await client.post("/agent/v1/actions", json=what, headers=keyed(key))
            assert (refused.status_code, [data["kind"] for _, data in frames(refused.text)]) == (409, ["error"])
            polled = await client.post("/agent/v1/actions", json=what, headers=keyed(key, **POLL))
            assert assert_envelope(polled, *CONFLICT)["info"] == {"reason": "key_reused"}
        taken = await ada.post("/agent/v1/runs", json={"workflowId": number, "input": {}}, headers=keyed("k", **POLL))
        assert_envelope(taken, *CONFLICT)

    @pytest.mark.parametrize(("body", "status", "path"), [
        ({}, 400, "action"), (action("nothing"), 422, "action.toolId"),
        (action("core.transform") | {"timezone": "Nowhere"}, 422, "timezone"),
        (action("core.transform") | {"organizationId": "00000000-0000-4000-8000-000000000000"}, 422, "organizationId"),
        (action("core.transform") | {"message": "m"}, 422, "message"),
        (action("core.transform", value="{{ nodes.gone.output }}"), 422, "action.params"),
        (action("count", name=1), 422, "action.params.name"),
    ])  # fmt: skip
    async def test_invalid_actions_are_refused(self, world: World, body: Json, status: int, path: str) -> None:
        """The error names the field, and no run is started."""
        ada = await world.user()
        answer = await ada.post("/agent/v1/actions", json=body)
        assert answer.status_code == status
        assert [issue["path"] for issue in error_of(answer)["info"]["errors"]] == [path]
        assert (await ada.get("/agent/v1/runs")).json()["runs"] == []


class TestFiftyAtOnce:
    """Fifty identical requests at once, over sockets, half of them streamed: executed once."""

    async def ask(self, client: httpx.AsyncClient, path: str, body: Json) -> list[httpx.Response]:
        answers = await asyncio.gather(
            *(client.post(path, json=body, headers=keyed("k", **(POLL if i % 2 else {}))) for i in range(50))
        )
        assert {answer.status_code for answer in answers} <= {200, 202}
        assert len({answer.text for answer in answers[::2]}) == 1
        assert {answer.json()["runId"] for answer in answers[1::2]} == {"k"}
        return answers

    async def test_a_resume(self, real_world: World) -> None:
        """One decision is recorded, and its effects happen once."""
        ada = await real_world.user()
        name = f"{real_world.org}resumed"
        number = await deployed(ada, chain(APPROVAL, counting(name)))
        await ada.post("/agent/v1/runs", json={"workflowId": number, "input": {}}, headers=keyed("r"))
        await self.ask(ada, "/agent/v1/runs/r/resume", {"decision": "approve"})
        assert performed[name] == 1
        assert len((await ada.get("/agent/v1/runs")).json()["runs"]) == 2

    async def test_an_action(self, real_world: World) -> None:
        """Its tool is called once."""
        ada = await real_world.user()
        name = f"{real_world.org}acted"
        await self.ask(ada, "/agent/v1/actions", action("count", name=name))
        assert performed[name] == 1
        assert len((await ada.get("/agent/v1/runs")).json()["runs"]) == 1

    async def test_a_chat(self, real_world: World) -> None:
        """One run is created."""
        ada = await with_skill(real_world)
        await self.ask(ada, SKILL, {"message": "hello"})
        assert len((await ada.get("/agent/v1/runs")).json()["runs"]) == 1


class TestReasons:
    """Every `info.reason` of a refused start, resume or decision."""

    async def refused(self, client: httpx.AsyncClient, path: str, body: Json, status: int, **headers: str) -> Json:
        answer = await client.post(path, json=body, headers=headers | POLL)
        assert answer.status_code == status, answer.text
        info: Json = answer.json()["error"]["info"]
        return info

    async def test_of_a_start(self, world: World) -> None:
        """`not_deployed` for workflows and skills; a deleted one is 409 to managers and 404 to users."""
        ada, bob = await world.user("ada"), await world.user("bob")
        shared = {"visibility": "private", "groupPermissions": {}, "sharedWith": [{"email": "bob@x.org"}]}
        for kind, body in (("workflows", {"workflowId": 1, "input": {}}), ("skills", {"skillId": 1, "message": "m"})):
            made = {"name": "x", "accessConfig": shared} | ({"type": "workflow"} if kind == "workflows" else {})
            await ada.post(f"/api/v1/{kind}", json=made)
            assert (await self.refused(ada, "/agent/v1/runs", body, 409))["reason"] == "not_deployed"
            assert (await self.refused(bob, "/agent/v1/runs", body, 409))["reason"] == "not_deployed"
            await ada.delete(f"/api/v1/{kind}/1")
            assert (await self.refused(ada, "/agent/v1/runs", body, 409))["reason"] == "deleted"
            assert (await bob.post("/agent/v1/runs", json=body)).status_code == 404

    async def test_of_a_resume(self, world: World) -> None:
        """`ambiguous` with the open ids, `already_resumed`, `not_interrupted` of each kind, `key_reused`."""
        ada = await world.user()
        resume = "/agent/v1/runs/{}/resume".format
        both = {"nodes": [node("s", "start"), node("a", "humanApproval"), node("b", "humanApproval")],
                "edges": [{"id": n, "source": "s", "target": n} for n in "ab"]}  # fmt: skip
        number = await deployed(ada, both)
        started = await ada.post("/agent/v1/runs", json={"workflowId": number, "input": {}}, headers=keyed("r"))
        ids = [one["interruptId"] for one in frames(started.text)[-1][1]["interrupts"]]
        info = await self.refused(ada, resume("r"), {"decision": "approve"}, 409)
        assert (info["reason"], sorted(info["interruptIds"])) == ("ambiguous", sorted(ids))
        twice = {"decisions": [{"interruptId": ids[0], "decision": each} for each in ("approve", "deny")]}
        assert (await self.refused(ada, resume("r"), twice, 409))["reason"] == "duplicate"
        one = {"decision": "approve", "interruptId": ids[0]}
        assert (await ada.post(resume("r"), json=one, headers=keyed("r2"))).status_code == 200
        assert (await self.refused(ada, resume("r"), one, 409))["reason"] == "already_resumed"
        assert (await self.refused(ada, resume("r2"), one, 409))["reason"] == "already_resumed"
        key = keyed("r2")
        assert (await self.refused(ada, resume("r2"), {"decision": "deny"}, 409, **key))["reason"] == "key_reused"
        assert (await ada.post(resume("r2"), json={"decision": "deny"}, headers=keyed("r3"))).status_code == 200
        assert (await self.refused(ada, resume("r3"), {"decision": "deny"}, 409))["reason"] == "not_interrupted"
        assert (await self.refused(ada, resume("r3"), {}, 409))["reason"] == "not_interrupted"
        name = f"{world.org}busy"
        await ada.post("/agent/v1/actions", json=action("hold", name=name), headers=keyed("h", **POLL))
        for body in ({}, {"decision": "approve"}):
            assert (await self.refused(ada, resume("h"), body, 409))["reason"] == "not_interrupted"
        let_go(name)

    async def test_of_a_decision_after_the_deadline(self) -> None:
        """`expired`, also before the driver has seen that the deadline passed."""
        clock = FakeClock()
        async with AsyncExitStack() as closing:
            settings, ports = wfcore.Settings(grace=0), wfcore.Overrides(clock=clock)
            core = await closing.enter_async_context(wfcore.bootstrap.open("sqlite://", settings=settings, ports=ports))
            transport = httpx.ASGITransport(app(core))
            connect = partial(httpx.AsyncClient, transport=transport, base_url="http://wfcore", trust_env=False)
            ada = await (await new_world(core, connect, closing)).user()
            number = await deployed(ada, chain(node("ask", "humanApproval", timeoutSeconds=60)))
            await ada.post("/agent/v1/runs", json={"workflowId": number, "input": {}}, headers=keyed("r"))
            clock._now += 60_000
            answer = await ada.post("/agent/v1/runs/r/resume", json={"decision": "approve"}, headers=POLL)
            assert assert_envelope(answer, *CONFLICT)["info"]["reason"] == "expired"

    async def test_of_a_caller_who_cannot_decide(self, world: World) -> None:
        """403 with `not_an_approver`, `self_approval`, `already_decided`; the interrupt stays open."""
        ada, bob = await world.user("ada"), await world.user("bob")
        resume = "/agent/v1/runs/{}/resume".format
        named = node("ask", "humanApproval", approvers={"emails": ["bob@x.org"]})
        twice = node("ask", "humanApproval", requiredApprovals=2)
        others = node("ask", "humanApproval", allowSelfApproval=False)
        for key, approval in (("named", named), ("twice", twice), ("others", others)):
            number = await deployed(ada, chain(approval))
            await ada.post("/agent/v1/runs", json={"workflowId": number, "input": {}}, headers=keyed(key))
        approve = {"decision": "approve"}
        assert (await self.refused(ada, resume("named"), approve, 403))["reason"] == "not_an_approver"
        assert (await self.refused(ada, resume("others"), approve, 403))["reason"] == "self_approval"
        assert (await ada.post(resume("twice"), json=approve, headers=keyed("first"))).status_code == 200
        assert (await self.refused(ada, resume("first"), approve, 403))["reason"] == "already_decided"
        waiting = (await bob.get("/agent/v1/interrupts")).json()["interrupts"]
        assert [one["runId"] for one in waiting] == ["others", "first", "named"]

    async def test_one_interrupt_of_a_caller_who_cannot_decide(self, world: World) -> None:
        """It is read as long as the caller can see it, or has decided it, and says whether the caller can decide it."""
        ada, bob = await world.user("ada"), await world.user("bob")
        number = await deployed(ada, chain(node("ask", "humanApproval", requiredApprovals=2)))
        await ada.post("/agent/v1/runs", json={"workflowId": number, "input": {}}, headers=keyed("r"))
        (item,) = (await ada.get("/agent/v1/interrupts")).json()["interrupts"]
        place = f"/agent/v1/interrupts/{item['interruptId']}"
        assert (await ada.get(place)).json() == item
        assert item["canDecide"] is True
        await ada.post("/agent/v1/runs/r/resume", json={"decision": "approve"}, headers=keyed("first"))
        seen = (await ada.get(place)).json()
        assert (seen["status"], seen["canDecide"], seen["approvals"]) == ("open", False, 1)
        assert [one["userId"] for one in seen["decidedBy"]] == ["ada"]
        assert (await bob.get(place)).json()["canDecide"] is True
        await bob.post("/agent/v1/runs/first/resume", json={"decision": "approve"}, headers=keyed("second"))
        for who in (ada, bob):
            past = (await who.get(place)).json()
            assert (past["status"], past["decision"], past["canDecide"]) == ("decided", "approve", False)
        assert (await ada.get("/agent/v1/interrupts/int_none")).status_code == 404

    async def test_of_a_run_that_has_ended(self, world: World) -> None:
        """Cancelling or parking what has ended or was resumed is 409 with its reason."""
        ada = await world.user()
        number = await deployed(ada, chain(APPROVAL))
        for key in ("ended", "resumed"):
            await ada.post("/agent/v1/runs", json={"workflowId": number, "input": {}}, headers=keyed(key))
        await ada.post("/agent/v1/runs/ended/cancel")
        await ada.post("/agent/v1/runs/resumed/resume", json={"decision": "approve"})
        for key, how, reason in (
            ("ended", "cancel", "ended"), ("ended", "interrupt", "not_running"),
            ("resumed", "cancel", "already_resumed"), ("resumed", "interrupt", "already_resumed"),
        ):  # fmt: skip
            assert (await self.refused(ada, f"/agent/v1/runs/{key}/{how}", {}, 409))["reason"] == reason

    async def test_a_refusal_is_in_words(self, world: World) -> None:
        """It names the state of the run, and not the event of the machine that cannot happen."""
        ada = await world.user()
        number = await deployed(ada, chain(APPROVAL))
        for key in ("parked", "ended"):
            await ada.post("/agent/v1/runs", json={"workflowId": number, "input": {}}, headers=keyed(key))
        await ada.post("/agent/v1/runs/ended/cancel")
        for key, how, message in (
            ("ended", "cancel", "the run has ended as `cancelled`"),
            ("ended", "interrupt", "the run has ended as `cancelled`"),
            ("parked", "interrupt", "this is not possible while the run is `interrupted`"),
        ):
            refused = await ada.post(f"/agent/v1/runs/{key}/{how}")
            assert (refused.status_code, refused.json()["error"]["message"]) == (409, message)
