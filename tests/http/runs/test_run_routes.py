"""Runs over HTTP: streamed and polled, resumed, joined, cancelled (interface, Run-resume and Events)."""

import asyncio
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
    holding,
    keyed,
    let_go,
    node,
    pages,
    performed,
)
from starlette.datastructures import Headers

from wfcore.adapters.http.core.request_parsing import prefers_json

pytestmark = pytest.mark.anyio


async def start(client: httpx.AsyncClient, number: int, key: str, **headers: str) -> httpx.Response:
    body = {"workflowId": number, "input": {}}
    return await client.post("/agent/v1/runs", json=body, headers=keyed(key, **headers))


async def until(client: httpx.AsyncClient, run: str, status: str) -> Json:
    """Wait for the run to reach this status. Returns its record."""
    for _ in range(1_000):
        record: Json = (await client.get(f"/agent/v1/runs/{run}")).json()
        if record.get("status") == status:
            return record
        await asyncio.sleep(0.002)
    raise AssertionError(record)


class TestTransports:
    """A turn is streamed by default, and polled when JSON is preferred."""

    @pytest.mark.parametrize("path", ["/agent/v1/runs", "/agent/runs"])
    async def test_a_run_streams_to_its_end(self, either: World, path: str) -> None:
        """Frames count from 1 without gaps, begin with `run_started`, and end with one terminal event."""
        ada = await either.user()
        number = await deployed(ada, chain(counting(f"{either.org}{path}")))
        answer = await ada.post(path, json={"workflowId": number, "input": {"a": 1}})
        assert answer.status_code == 200
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Accel-Buffering"] == "no"
        got = frames(answer.text)
        assert [seq for seq, _ in got] == [data["seq"] for _, data in got] == list(range(1, len(got) + 1))
        assert got[0][1]["kind"] == "run_started"
        assert [data["kind"] for _, data in got if data["kind"] in ("done", "error", "cancelled")] == ["done"]
        assert (got[-1][1]["status"], got[-1][1]["output"]) == ("done", 1)
        run = got[0][1]["runId"]
        assert {data["runId"] for _, data in got} == {run}
        record = (await ada.get(answer.headers["Location"])).json()
        assert (record["runId"], record["status"], record["output"]) == (run, "done", 1)
        assert record["target"] == {"type": "workflow", "id": number}

    async def test_polling_is_202_during_a_turn_and_200_after_it(self, either: World) -> None:
        """The body is `{runId, status}`."""
        ada = await either.user()
        number = await deployed(ada, chain(holding(either.org), APPROVAL))
        going_on = await start(ada, number, "r", **POLL)
        assert going_on.status_code == 202
        assert going_on.json().keys() == {"runId", "status"}
        assert going_on.json()["status"] in ("queued", "running")
        assert going_on.headers["Location"] == "/agent/v1/runs/r"
        assert (await start(ada, number, "r", **POLL)).status_code == 202
        let_go(either.org)
        await until(ada, "r", "interrupted")
        parked = await start(ada, number, "r", **POLL)
        assert (parked.status_code, parked.json()) == (200, {"runId": "r", "status": "interrupted"})
        done = await ada.post("/agent/v1/runs/r/resume", json={"decision": "approve"}, headers=keyed("r2", **POLL))
        assert (done.status_code, done.json()) == (200, {"runId": "r2", "status": "done"})

    @pytest.mark.parametrize(("accept", "polls"), [
        (None, False), ("", False), ("*/*", False), ("text/event-stream", False), ("application/json", True),
        ("application/json, text/event-stream", False), ("text/event-stream, application/json", False),
        ("application/json, text/event-stream;q=0.9", True), ("application/json;q=0.5, text/event-stream", False),
        ("application/json, text/plain, */*", True), ("*/*, application/json;q=0.1", False),
        ("application/json;q=0", False), ("application/*", True), ("text/*, application/*;q=0.9", False),
        ("APPLICATION/JSON; charset=utf-8", True), ("application/json;q=2", False),
        ("application/json;q=0.8, */*;q=0.8", True),
        ("text/html", False), ("application/json;q=0.001, text/event-stream;q=0", True), (",;,=", False),
    ])  # fmt: skip
    def test_accept_is_weighed(self, accept: str | None, polls: bool) -> None:
        """RFC 9110, 12.5.1: quality first, then named types before wildcards, then the stream."""
        assert prefers_json(Headers({} if accept is None else {"Accept": accept})) is polls


class TestEnds:
    """Ended streams, and run ids that no URL can have."""

    async def test_after_the_last_event_a_stream_is_204(self, either: World) -> None:
        """204 for a stream that is joined after the last event, so that an `EventSource` stops; before it, the rest."""
        ada = await either.user()
        number = await deployed(ada, chain(APPROVAL))
        last = frames((await start(ada, number, "r")).text)[-1][0]
        for after, status in ((last - 1, 200), (last, 204), (last + 1, 204)):
            answer = await ada.get("/agent/v1/runs/r/events", headers={"Last-Event-ID": str(after)})
            assert (answer.status_code, len(frames(answer.text))) == (status, max(last - after, 0))
        polled = await ada.get("/agent/v1/runs/r/events", headers={"Last-Event-ID": str(last), **POLL})
        assert (polled.status_code, polled.json()) == (200, {"events": []})

    @pytest.mark.parametrize("name", [".", ".."])
    async def test_a_run_id_cannot_be_dots(self, world: World, name: str) -> None:
        """No URL can have it: 422, as a key and in the body."""
        ada = await world.user()
        number = await deployed(ada, chain(counting(world.org)))
        body = {"workflowId": number, "input": {}}
        by_body = await ada.post("/agent/v1/runs", json={**body, "runId": name}, headers=POLL)
        by_key = await ada.post("/agent/v1/runs", json=body, headers=keyed(name, **POLL))
        assert (by_body.status_code, by_key.status_code) == (422, 422)
        for fine in ("...", "..a", ".a"):
            assert (await ada.post("/agent/v1/runs", json={**body, "runId": fine}, headers=POLL)).status_code < 300


class TestDecisions:
    """Interface, States: an interrupted run awaits a decision."""

    async def test_an_approval_is_listed_and_decided(self, either: World) -> None:
        """The turn ends as interrupted, the inbox shows it, and the resume is a new run of the same thread."""
        ada, bob = await either.user("ada"), await either.user("bob")
        number = await deployed(ada, chain(APPROVAL, counting(either.org)))
        last = frames((await start(ada, number, "r")).text)[-1][1]
        assert (last["kind"], last["status"]) == ("done", "interrupted")
        waiting = (await bob.get("/agent/v1/interrupts")).json()
        assert waiting["nextPageToken"] is None
        [item] = waiting["interrupts"]
        assert (item["runId"], item["type"], item["nodeId"], item["message"]) == ("r", "approval", "ask", "Go on?")
        assert item["interruptId"] == last["interrupts"][0]["interruptId"]
        answered = await bob.post("/agent/v1/runs/r/resume", json={"decision": "approve"}, headers=keyed("r2"))
        assert frames(answered.text)[-1][1]["output"] == 1
        first, second = [(await ada.get(f"/agent/v1/runs/{run}")).json() for run in ("r", "r2")]
        assert (first["status"], first["resumedBy"], second["parentRunId"]) == ("interrupted", "r2", "r")
        assert first["threadId"] == second["threadId"]
        assert (await bob.get("/agent/v1/interrupts")).json()["interrupts"] == []
        again = await bob.post("/agent/v1/runs/r/resume", json={"decision": "deny"}, headers=POLL)
        assert assert_envelope(again, *CONFLICT)["info"]["reason"] == "already_resumed"

    async def test_concurrent_decisions_leave_one(self, either: World) -> None:
        """Of concurrent decisions one is recorded, and the others get 409."""
        ada = await either.user()
        name = f"{either.org}once"
        await start(ada, await deployed(ada, chain(APPROVAL, counting(name))), "r")
        answers = await asyncio.gather(
            *(ada.post("/agent/v1/runs/r/resume", json={"decision": "approve"}, headers=POLL) for _ in range(10))
        )
        assert sorted(answer.status_code for answer in answers)[1:] == [409] * 9
        winner = next(answer.json()["runId"] for answer in answers if answer.status_code != 409)
        await until(ada, winner, "done")
        assert performed[name] == 1

    @pytest.mark.parametrize(("body", "status"), [
        ({"decision": "connected"}, 422), ({"decision": "maybe"}, 422), ({"decision": 1}, 400), ({}, 422),
        ({"decision": "approve", "interruptId": "int_x"}, 422), ({"streamProtocolVersion": 1}, 422),
        ({"decision": "approve", "surprise": 1}, 422), ({"interruptId": "x"}, 422), ({"decisions": []}, 422),
    ])  # fmt: skip
    async def test_an_invalid_decision_is_refused(self, world: World, body: Json, status: int) -> None:
        """The error is an event of a stream, or an envelope; and the interrupt stays open."""
        ada = await world.user()
        await start(ada, await deployed(ada, chain(APPROVAL)), "r")
        for headers in ({}, POLL):
            answer = await ada.post("/agent/v1/runs/r/resume", json=body, headers=headers)
            assert (answer.status_code, error_of(answer)["code"]) == (status, CODES[status])
        assert len((await ada.get("/agent/v1/interrupts")).json()["interrupts"]) == 1

    async def test_the_inbox_is_paged(self, world: World) -> None:
        """Pages of size one have every interrupt once, newest first; `total` counts them."""
        ada = await world.user()
        number = await deployed(ada, chain(APPROVAL))
        for key in "abc":
            await start(ada, number, key)
        seen = await pages(ada, "/agent/v1/interrupts", "interrupts", 1)
        assert [item["runId"] for item in seen] == ["c", "b", "a"]
        assert (await ada.get("/agent/v1/interrupts?pageSize=1")).json()["total"] == 3
        assert (await ada.get("/api/v1/me/inbox/count")).json() == {"count": 3}

    async def test_several_are_decided_at_once(self, either: World) -> None:
        """Over any runs, with an outcome for each; the decided ones are history, with who decided."""
        ada, bob = await either.user(), await either.user("bob")
        number = await deployed(ada, chain(APPROVAL))
        for key in ("first", "second"):
            await start(ada, number, key)
        items = (await bob.get(f"/agent/v1/interrupts?workflowId={number}&order=deadline")).json()["interrupts"]
        assert [(one["workflowName"], one["requestedBy"]["userId"], one["decidedBy"]) for one in items] == [
            ("Refunds", "ada", [])] * 2  # fmt: skip
        names = [one["interruptId"] for one in items]
        wanted = [{"interruptId": name, "decision": "approve"} for name in (*names, "int_none", names[0])]
        done = (await bob.post("/agent/v1/interrupts/decide", json={"decisions": wanted})).json()["outcomes"]
        assert [(one["interruptId"], (one["error"] or {}).get("code")) for one in done] == [
            (names[0], None), (names[1], None), ("int_none", "NOT_FOUND"), (names[0], "CONFLICT")]  # fmt: skip
        assert (await ada.get("/api/v1/me/inbox/count")).json() == {"count": 0}
        past = (await ada.get("/agent/v1/interrupts?status=decided")).json()
        assert (past["total"], {one["interruptId"] for one in past["interrupts"]}) == (2, set(names))
        assert [one["decidedBy"][0]["userId"] for one in past["interrupts"]] == ["bob", "bob"]
        assert {one["decision"] for one in past["interrupts"]} == {"approve"}
        for decisions in ([], [wanted[0]] * 101):
            answer = await bob.post("/agent/v1/interrupts/decide", json={"decisions": decisions})
            assert answer.status_code == 422

    async def test_an_interrupt_of_other_approvers(self, either: World) -> None:
        """403 for each user who sees the run, by use or as approver of another interrupt, and 409 once it is decided.
        For others it is as an id that is unknown.
        """
        ada, bob, eve, zoe = [await either.user(name) for name in ("ada", "bob", "eve", "zoe")]
        asks = [node(name, "humanApproval", approvers={"emails": [f"{name}@x.org"]}) for name in ("bob", "eve")]
        edges = [{"id": one["id"], "source": "start", "target": one["id"]} for one in asks]
        structure = {"nodes": [node("start", "start"), *asks], "edges": edges}
        private = {"visibility": "private", "groupPermissions": {}, "sharedWith": []}
        await start(ada, await deployed(ada, structure, accessConfig=private), "r")
        (item,) = (await bob.get("/agent/v1/interrupts")).json()["interrupts"]

        async def error(client: httpx.AsyncClient, name: str) -> tuple[Any, ...]:
            body = {"decisions": [{"interruptId": name, "decision": "approve"}]}
            (outcome,) = (await client.post("/agent/v1/interrupts/decide", json=body)).json()["outcomes"]
            refused = outcome["error"]
            return refused["code"], refused["message"], refused.get("info")

        for who in (ada, eve):
            code, _, info = await error(who, item["interruptId"])
            assert (code, info["reason"]) == ("FORBIDDEN", "not_an_approver")
        assert await error(zoe, item["interruptId"]) == await error(zoe, "int_none")
        decision = {"decision": "approve", "interruptId": item["interruptId"]}
        await bob.post("/agent/v1/runs/r/resume", json=decision, headers=POLL)
        for who in (ada, bob):
            code, _, info = await error(who, item["interruptId"])
            assert (code, info["reason"]) == ("CONFLICT", "already_resumed")
        assert (await error(zoe, item["interruptId"]))[0] == "NOT_FOUND"


class TestKeys:
    """The run id is the Idempotency-Key, else the body's `runId`."""

    async def test_fifty_identical_starts_at_once_execute_once(self, either: World) -> None:
        """All fifty, half streamed and half polled, return the same run."""
        ada = await either.user()
        name = f"{either.org}fifty"
        number = await deployed(ada, chain(counting(name)))
        streamed, polled = {}, POLL
        answers = await asyncio.gather(*(start(ada, number, "r", **(polled if i % 2 else streamed)) for i in range(50)))
        assert {answer.status_code for answer in answers} <= {200, 202}
        assert len({answer.text for answer in answers[::2]}) == 1
        assert {answer.json()["runId"] for answer in answers[1::2]} == {"r"}
        assert performed[name] == 1
        assert len((await ada.get("/agent/v1/runs")).json()["runs"]) == 1

    async def test_a_key_for_something_else_is_409_on_either_transport(self, either: World) -> None:
        """One `error` event with status 409 on the stream, an envelope when polling; neither shows the run."""
        ada, eve = await either.user("ada"), await either.user("eve")
        number = await deployed(ada, chain(counting(f"{either.org}secret")))
        await start(ada, number, "r")
        other: Json = {"workflowId": number, "input": {"else": True}}
        same: Json = {"workflowId": number, "input": {}}
        for client, body, key in ((ada, other, True), (eve, same, True), (ada, other | {"runId": "r"}, False)):
            headers = keyed("r") if key else {}
            refused = await client.post("/agent/v1/runs", json=body, headers=headers)
            assert refused.status_code == 409
            assert refused.headers["Content-Type"].startswith("text/event-stream")
            [(seq, event)] = frames(refused.text)
            assert event.keys() == {"kind", "runId", "seq", "at", "error"}
            assert (event["kind"], event["runId"], event["seq"], seq) == ("error", "r", 0, 0)
            polled = await client.post("/agent/v1/runs", json=body, headers=headers | POLL)
            error = assert_envelope(polled, *CONFLICT)
            assert event["error"] == error | {"requestId": refused.headers["X-Request-Id"]}
            assert "secret" not in refused.text
        resumed = await ada.post("/agent/v1/runs/r/resume", json={}, headers=keyed("r"))
        assert (resumed.status_code, frames(resumed.text)[0][1]["kind"]) == (409, "error")

    async def test_the_same_resume_joins(self, either: World) -> None:
        """The same key and body join the existing stream, also when the run has continued."""
        ada = await either.user()
        await start(ada, await deployed(ada, chain(APPROVAL)), "r")
        tries = [
            await ada.post("/agent/v1/runs/r/resume", json={"decision": "deny"}, headers=keyed("r2")) for _ in "ab"
        ]
        assert tries[0].status_code == 200
        assert tries[0].text == tries[1].text

    @pytest.mark.parametrize("key", ["a/b", "a//b", "%2F", "a?b#c", "~!$&'()*+,;=:@", "x" * 255, "validate", "%"])
    async def test_an_id_can_have_any_visible_ascii(self, either: World, key: str) -> None:
        """Every valid key can be in a path: percent-encoded as one segment, `%2F` included."""
        ada = await either.user()
        number = await deployed(ada, chain(APPROVAL))
        place = (await start(ada, number, key, **POLL)).headers["Location"]
        assert place.count("/") == 4
        assert (await ada.get(place)).json()["runId"] == key
        assert {data["runId"] for _, data in frames((await ada.get(f"{place}/events")).text)} == {key}
        done = await ada.post(f"{place}/resume", json={"decision": "approve"}, headers=POLL)
        assert done.status_code == 200

    @pytest.mark.parametrize("key", ["", " ", "a b", "x" * 256, "é"])
    async def test_other_keys_are_malformed(self, world: World, key: str) -> None:
        """A key that is not a valid run id starts no run."""
        ada = await world.user()
        number = await deployed(ada, chain(APPROVAL))
        headers: Any = {"Idempotency-Key": key.encode("latin-1")}
        answer = await ada.post("/agent/v1/runs", json={"workflowId": number, "input": {}}, headers=headers)
        assert_envelope(answer, 400, "BAD_REQUEST", "INVALID_ARGUMENT")
        assert (await ada.get("/agent/v1/runs")).json()["runs"] == []


class TestJoining:
    """A broken stream can be joined again with the same events."""

    async def test_every_cut_point_gives_the_same_remaining_frames(self, either: World) -> None:
        """`Last-Event-ID` n returns the frames after n, on `/events`, on a repeated start, and as JSON."""
        ada = await either.user()
        number = await deployed(ada, chain(counting(f"{either.org}cut"), APPROVAL))
        whole = (await start(ada, number, "r")).text
        parts = [part + "\n\n" for part in whole.split("\n\n") if part.startswith("id:")]
        for cut in (*range(len(parts) + 1), len(parts) + 5, 10**30):
            after = {"Last-Event-ID": str(cut)}
            rest = "".join(parts[cut:])
            assert (await ada.get("/agent/v1/runs/r/events", headers=after)).text.strip() == rest.strip()
            assert (await start(ada, number, "r", **after)).text.strip() == rest.strip()
            events = (await ada.get("/agent/v1/runs/r/events", headers=after | POLL)).json()
            assert events == {"events": [data for _, data in frames(rest)]}

    @pytest.mark.parametrize("last", ["-1", "x", "1.5", "", "01", "1 2", "٣"])
    async def test_an_id_that_is_not_a_number_is_malformed(self, world: World, last: str) -> None:
        """A `Last-Event-ID` that is not a canonical non-negative integer is 400, and starts no run."""
        ada = await world.user()
        number = await deployed(ada, chain(APPROVAL))
        headers: Any = {"Last-Event-ID": last.encode()}
        for answer in (
            await ada.get("/agent/v1/runs/r/events", headers=headers),
            await ada.post("/agent/v1/runs", json={"workflowId": number, "input": {}}, headers=headers),
        ):
            assert_envelope(answer, 400, "BAD_REQUEST", "INVALID_ARGUMENT")
        assert (await ada.get("/agent/v1/runs")).json()["runs"] == []

    async def test_a_client_that_joins_later_sees_every_event(self, real_world: World) -> None:
        """Clients that join during the run read the same frames as the first client."""
        ada = await real_world.user()
        name = real_world.org
        number = await deployed(ada, chain(holding(name), APPROVAL))
        first = asyncio.create_task(start(ada, number, "r"))
        await until(ada, "r", "running")
        others = [asyncio.create_task(ada.get("/agent/v1/runs/r/events")) for _ in range(5)]
        await asyncio.sleep(0)
        let_go(name)
        texts = {
            "".join(p for p in (await task).text.split("\n\n") if p.startswith("id:")) for task in (first, *others)
        }
        assert len(texts) == 1

    async def test_a_client_that_disconnects_does_not_stop_the_run(self, real_world: World) -> None:
        """The run continues to its end after its only client has disconnected."""
        ada = await real_world.user()
        name = f"{real_world.org}gone"
        number = await deployed(ada, chain(holding(name)))
        body = {"workflowId": number, "input": {}}
        async with ada.stream("POST", "/agent/v1/runs", json=body, headers=keyed("r")) as answer:
            async for line in answer.aiter_lines():
                if "node_started" in line:
                    break
        let_go(name)
        assert (await until(ada, "r", "done"))["output"] == name
        subscribers = real_world.core.ports.events._subscriptions  # type: ignore[attr-defined]
        assert not subscribers


class TestSteering:
    """Cancel and interrupt: 202, or 409 once it has ended."""

    async def test_a_run_is_cancelled_once(self, either: World) -> None:
        """A cancelled run ends its stream with `cancelled`; cancelling again is a conflict."""
        ada = await either.user()
        number = await deployed(ada, chain(holding(f"{either.org}never")))
        stream = asyncio.create_task(start(ada, number, "r"))
        await until(ada, "r", "running")
        answer = await ada.post("/agent/v1/runs/r/cancel")
        assert (answer.status_code, answer.json()) == (202, {"runId": "r", "status": "cancelled"})
        assert frames((await stream).text)[-1][1]["kind"] == "cancelled"
        assert_envelope(await ada.post("/agent/v1/runs/r/cancel", json={}), *CONFLICT)
        assert_envelope(await ada.post("/agent/v1/runs/r/interrupt"), *CONFLICT)

    async def test_an_interrupted_run_is_resumed_without_a_decision(self, either: World) -> None:
        """`interrupt` parks the run at its next step; a resume without a body continues it."""
        ada = await either.user()
        name = f"{either.org}park"
        number = await deployed(ada, chain(holding(name), counting(name)))
        await start(ada, number, "r", **POLL)
        answer = await ada.post("/agent/v1/runs/r/interrupt")
        assert (answer.status_code, answer.json().keys()) == (202, {"runId", "status"})
        let_go(name)
        await until(ada, "r", "interrupted")
        assert performed[name] == 0
        assert (await ada.get("/agent/v1/interrupts")).json()["interrupts"] == []
        resumed = await ada.post("/agent/v1/runs/r/resume", headers=keyed("r2"))
        assert frames(resumed.text)[-1][1]["output"] == 1


NULLS = dict.fromkeys(
    [
        "message",
        "input",
        "config",
        "attachments",
        "userContext",
        "sessionId",
        "fileThreadId",
        "runId",
        "debug",
        "origin",
        "streamProtocolVersion",
        "experimentalFeatures",
        "version",
        "skillId",
        "assistant",
        "decision",
        "decisions",
        "interruptId",
        "data",
    ]
)


class TestNulls:
    """Null for an optional field is the same as absent."""

    async def test_a_start_with_nulls_is_the_start_without_them(self, world: World) -> None:
        """It joins the run of the same key; nulls in parts of the body are absent too."""
        ada = await world.user()
        number = await deployed(ada, chain(counting(f"{world.org}nulls")))
        bare, parts = {"workflowId": number}, {"config": {"model": None}, "userContext": {"email": None, "name": "Bob"}}
        for body in (NULLS | bare, bare):
            answer = await ada.post("/agent/v1/runs", json=body, headers=keyed("a", **POLL))
            assert answer.status_code in (200, 202), answer.text
        for body in (bare | parts, bare | {"config": {}, "userContext": {"name": "Bob"}}):
            answer = await ada.post("/agent/v1/runs", json=body, headers=keyed("b", **POLL))
            assert answer.status_code in (200, 202), answer.text
        for run in ("a", "b"):
            await until(ada, run, "done")
        assert performed[f"{world.org}nulls"] == 2

    async def test_a_resume_an_action_and_a_chat(self, world: World) -> None:
        """A decision whose `data` is null has none."""
        ada = await world.user()
        await start(ada, await deployed(ada, chain(APPROVAL)), "r", **POLL)
        await until(ada, "r", "interrupted")
        of_a_turn = {name: None for name in NULLS if name not in ("input", "skillId", "assistant")}
        decided = of_a_turn | {"decision": "approve"}
        action = {"toolId": "count", "toolName": None, "runtimeScope": None, "params": {"name": world.org}}
        of_a_chat = dict.fromkeys(["config", "attachments", "userContext", "runId"])
        for path, body in (
            ("/agent/v1/runs/r/resume", decided),
            ("/agent/v1/actions", {"action": action, "sessionId": None, "timezone": None, "previousOutputs": None}),
            ("/agent/v1/assistant/chat", of_a_chat | {"message": "hello"}),
            ("/agent/v1/runs/r/fork", {"before": "ask", "input": None, "version": None}),
        ):
            answer = await ada.post(path, json=body, headers=POLL)
            assert answer.status_code in (200, 202), answer.text

    async def test_what_is_required_is_not_null(self, world: World) -> None:
        ada = await world.user()
        for path, body, field in (
            ("/agent/v1/runs", NULLS | {"workflowId": None}, "workflowId"),
            ("/agent/v1/actions", {"action": {"toolId": None}}, "action.toolId"),
            ("/agent/v1/assistant/chat", {"message": None}, "message"),
        ):
            answer = await ada.post(path, json=body, headers=POLL)
            (fault,) = assert_envelope(answer, 400, "BAD_REQUEST", "INVALID_ARGUMENT")["info"]["errors"]
            assert fault["path"] == field


class TestStarting:
    """Starts that are refused."""

    async def test_what_cannot_run_is_refused_before_the_stream_starts(self, world: World) -> None:
        """Each error is an envelope with its own status, for streams and polling."""
        ada = await world.user()
        schema = {"type": "object", "required": ["order"]}
        structure = {"nodes": [node("start", "start", inputSchema=schema)], "edges": []}
        number = await deployed(ada, structure)
        await ada.post("/api/v1/workflows", json={"name": "draft", "type": "workflow"})
        for body, status in (
            ({}, 400), ({"workflowId": number}, 400), ({"workflowId": "1", "input": {}}, 400),
            ({"workflowId": number, "input": {}}, 422), ({"workflowId": 99, "input": {}}, 404),
            ({"workflowId": 2, "input": {}}, 409), ({"workflowId": number, "input": {"order": 1}, "x": 1}, 422),
            ({"skillId": 1}, 422), ({"workflowId": number, "skillId": 1, "input": {}}, 422),
        ):  # fmt: skip
            for headers in ({}, POLL):
                answer = await ada.post("/agent/v1/runs", json=body, headers=headers)
                assert (answer.status_code, error_of(answer)["code"]) == (status, CODES[status]), (body, answer.text)
        assert (await ada.get("/agent/v1/runs")).json()["runs"] == []


class TestHistory:
    """`GET /agent/v1/runs`, newest first."""

    async def test_the_graph_of_a_run(self, either: World) -> None:
        """Nodes with their visits, edges, and the address of a large value; 404 for a child that is not there."""
        ada = await either.user()
        large = node("big", "action", toolId="core.transform", params={"value": "{{ input.text }}"})
        number = await deployed(ada, chain(large, APPROVAL))
        text = "x" * 20_000
        body = {"workflowId": number, "input": {"text": text}}
        await ada.post("/agent/v1/runs", json=body, headers=keyed("g"))
        found = (await ada.get("/agent/v1/runs/g/graph")).json()
        assert [(one["id"], one["status"]) for one in found["nodes"]] == [
            ("start", "done"), ("big", "done"), ("ask", "waiting")]  # fmt: skip
        assert ([edge["taken"] for edge in found["edges"]], found["path"]) == ([True, True], [])
        whole = await ada.get(found["nodes"][1]["visits"][0]["output"]["url"])
        assert whole.json() == {"value": text}
        for query, status in (("graph?path=big", 404), ("graph/value?nodeId=no", 404), ("graph/value", 400)):
            assert (await ada.get(f"/agent/v1/runs/g/{query}")).status_code == status

    async def test_a_list_without_large_outputs(self, either: World) -> None:
        """With `outputs=cut` a large output is its beginning and the address of its record; a small one is whole."""
        ada = await either.user()
        echo = node("echo", "action", toolId="core.transform", params={"value": "{{ input.text }}"})
        number = await deployed(ada, chain(echo))
        texts = {"large": "x" * 20_000, "longer": "x" * 999, "small": "x" * 998}
        for key, text in texts.items():
            body = {"workflowId": number, "input": {"text": text}}
            await ada.post("/agent/v1/runs", json=body, headers=keyed(key))
        whole, cut = [
            {one["runId"]: one["output"] for one in (await ada.get(f"/agent/v1/runs?{query}")).json()["runs"]}
            for query in ("outputs=whole", "outputs=cut")
        ]
        assert (whole, cut["small"]) == (texts, texts["small"])
        url = cut["large"].pop("url")
        assert cut["large"] == {"truncated": True, "bytes": 20_002, "preview": '"' + "x" * 999}
        assert cut["longer"]["bytes"] == 1_001
        assert (await ada.get(url)).json()["output"] == texts["large"]
        refused = await ada.get("/agent/v1/runs?outputs=none")
        assert_envelope(refused, 400, "BAD_REQUEST", "INVALID_ARGUMENT")

    async def test_the_graph_of_a_child_with_long_ids(self, either: World) -> None:
        """The address of a large value in a child of a child can be read."""
        ada = await either.user()
        number = await deployed(
            ada, chain(node("big", "action", toolId="core.transform", params={"value": "x" * 20_000}))
        )
        for letter in "ab":
            call = node(letter * 200, "action", toolId="core.workflow", params={"workflowId": number})
            number = await deployed(ada, chain(call))
        await ada.post("/agent/v1/runs", json={"workflowId": number, "input": {}}, headers=keyed("long"))
        found = await ada.get("/agent/v1/runs/long/graph", params={"path": f"{'b' * 200},{'a' * 200}"})
        whole = await ada.get(found.json()["nodes"][1]["visits"][0]["output"]["url"])
        assert whole.json() == {"value": "x" * 20_000}
        assert (await ada.get("/agent/v1/runs/long/graph", params={"path": "x" * 5_000})).status_code == 400

    async def test_the_graph_of_a_child_whose_node_has_a_comma(self, either: World) -> None:
        """`%2C` in a path is a comma of an id and `%25` a percent sign; addresses of large values have them too."""
        ada = await either.user()
        large = node("big", "action", toolId="core.transform", params={"value": "{{ input.text }}"})
        child = await deployed(ada, chain(large))
        params = {"workflowId": child, "input": "{{ input }}"}
        odd = node("a, 100%25", "action", toolId="core.workflow", params=params)
        number = await deployed(ada, chain(odd))
        body = {"workflowId": number, "input": {"text": "x" * 20_000}}
        await ada.post("/agent/v1/runs", json=body, headers=keyed("comma"))
        asked = await ada.get("/agent/v1/runs/comma/graph", params={"path": "a%2C 100%2525"})
        found = asked.json()
        assert (asked.status_code, found["path"]) == (200, ["a, 100%25"])
        whole = await ada.get(found["nodes"][1]["visits"][0]["output"]["url"])
        assert whole.json() == {"value": "x" * 20_000}

    async def test_runs_are_filtered_by_how_they_began(self, either: World) -> None:
        """By user, origin, thread, variation and time; the record has these values. The counts are of the same runs."""
        ada, bob = await either.user(), await either.user("bob")
        does = await deployed(ada, chain(counting(f"{either.org}began")))
        for client, key, origin in ((ada, "a", "chatapp"), (bob, "b", "api")):
            body = {"workflowId": does, "input": {}, "origin": origin, "fileThreadId": key}
            assert (await client.post("/agent/v1/runs", json=body, headers=keyed(key, **POLL))).status_code < 300
        record = (await bob.get("/agent/v1/runs/a")).json()
        assert record["startedBy"] == record["executionStartedBy"] == {"userId": "ada", "kind": "person"}
        assert (record["origin"], record["version"], record["forkedFrom"]) == ("chatapp", "published", None)
        variation = record["variationId"]
        for query, expected in (("startedBy=ada", ["a"]), ("origin=chatapp", ["a"]), ("origin=api", ["b"]),
                                ("threadId=b", ["b"]), (f"variationId={variation}", ["b", "a"]),
                                ("assistant=true", []), ("since=2020-01-01T00:00:00Z&startedBy=bob", ["b"]),
                                ("until=2020-01-01T00:00:00Z", [])):  # fmt: skip
            assert [run["runId"] for run in (await ada.get(f"/agent/v1/runs?{query}")).json()["runs"]] == expected
        found = (await ada.get("/agent/v1/runs/stats?since=2020-01-01T00:00:00Z")).json()
        assert (found["total"], [row["workflowId"] for row in found["byWorkflow"]]) == (2, [does])
        assert sum(row["total"] for row in found["byHour"]) == 2
        earliest = "0001-01-01T00:00:00.000Z"
        first = (await ada.get(f"/agent/v1/runs/stats?until={earliest}")).json()
        assert (first["since"], first["until"], first["total"]) == (earliest, earliest, 0)
        backwards = await ada.get("/agent/v1/runs/stats?since=2020-01-02T00:00:00Z&until=2020-01-01T00:00:00Z")
        assert (
            assert_envelope(backwards, 400, "BAD_REQUEST", "INVALID_ARGUMENT")["info"]["errors"][0]["path"] == "since"
        )

    async def test_runs_are_paged_and_filtered(self, either: World) -> None:
        """Pages of every size have every run once, newest first; status and workflow are filters."""
        ada = await either.user()
        waiting = await deployed(ada, chain(APPROVAL))
        does = await deployed(ada, chain(counting(f"{either.org}history")))
        for key in ("a", "b", "c"):
            await start(ada, waiting, key)
        await start(ada, does, "d")
        everything = [run["runId"] for run in (await ada.get("/agent/v1/runs")).json()["runs"]]
        assert sorted(everything) == ["a", "b", "c", "d"]
        for size in (1, 2, 4, 100):
            seen = [run["runId"] for run in await pages(ada, "/agent/v1/runs", "runs", size)]
            assert seen == everything
        for query, expected in ((f"workflowId={does}", ["d"]), ("status=done", ["d"]), ("status=cancelled", []),
                                (f"status=interrupted&workflowId={does}", []), ("workflowId=99", [])):  # fmt: skip
            assert [run["runId"] for run in (await ada.get(f"/agent/v1/runs?{query}")).json()["runs"]] == expected
        both = "workflowId=1&assistant=true"
        for query in ("assistant=x", "origin=x", "variationId=x", "since=x", both, "startedBy="):
            assert_envelope(await ada.get(f"/agent/v1/runs?{query}"), 400, "BAD_REQUEST", "INVALID_ARGUMENT")
        for query in ("status=x", "workflowId=0", "workflowId=01", "workflowId=x", "pageToken=x"):
            assert_envelope(await ada.get(f"/agent/v1/runs?{query}"), 400, "BAD_REQUEST", "INVALID_ARGUMENT")
