"""What a deploy means for runs, over HTTP (interface, Impact, Move-runs, Node test)."""

import httpx
import pytest
from clients import (
    APPROVAL,
    CONFLICT,
    INVALID,
    MALFORMED,
    Json,
    World,
    assert_envelope,
    chain,
    counting,
    deployed,
    keyed,
    node,
    performed,
)

pytestmark = pytest.mark.anyio

RUNS, FLOWS = "/agent/v1/runs", "/api/v1/workflows"
POLL = {"Accept": "application/json"}
AFTER = node("after", "action", toolId="core.transform", params={"value": "mended"})


async def waiting(client: httpx.AsyncClient, number: int, key: str) -> Json:
    """The record of a run that waits for an approval."""
    await client.post(RUNS, json={"workflowId": number, "input": {}}, headers=keyed(key))
    record: Json = (await client.get(f"{RUNS}/{key}")).json()
    assert record["status"] == "interrupted"
    return record


async def redeploy(client: httpx.AsyncClient, number: int, structure: Json) -> str:
    await client.patch(f"{FLOWS}/{number}", json={"workflowStructure": structure})
    answer = await client.post(f"{FLOWS}/{number}/deploy")
    assert answer.status_code == 200
    return str(answer.json()["activeVariationId"])


class TestMoveRuns:
    async def test_waiting_runs_move(self, either: World) -> None:
        """Ids stay, the record has the new variation, and an approval leads on to the new graph."""
        ada, name = await either.user(), f"{either.org}/move"
        number = await deployed(ada, chain(counting(name), APPROVAL))
        before = [await waiting(ada, number, f"{either.org}-{count}") for count in range(2)]
        active = await redeploy(ada, number, chain(counting(name), APPROVAL, AFTER))
        one = before[0]["runId"]
        first = await ada.post(f"{FLOWS}/{number}/move-runs", json={"runIds": [one, "unknown"]})
        nothing: Json = {"moved": False, "differences": []}
        assert first.json()["runs"] == [
            {"runId": one, "moved": True, "differences": [], "reason": None},
            {"runId": "unknown", **nothing, "reason": "not_found"},
        ]
        rest = await ada.post(f"{FLOWS}/{number}/move-runs", json={"all": True})
        assert [(row["runId"], row["moved"]) for row in rest.json()["runs"]] == [(before[1]["runId"], True)]
        for record in before:
            now = (await ada.get(f"{RUNS}/{record['runId']}")).json()
            assert (now["variationId"], now["interrupts"]) == (active, record["interrupts"])
        turn = await ada.post(f"{RUNS}/{one}/resume", json={"decision": "approve"}, headers=POLL)
        await ada.get(f"{RUNS}/{turn.json()['runId']}/events")
        done = (await ada.get(f"{RUNS}/{turn.json()['runId']}")).json()
        assert (done["output"], done["variationId"], performed[name]) == ("mended", active, 2)

    async def test_what_does_not_fit(self, either: World) -> None:
        """The row has the differences; a body without a choice is 422."""
        ada = await either.user()
        number = await deployed(ada, chain(counting(f"{either.org}/misfit"), APPROVAL))
        record = await waiting(ada, number, f"{either.org}-r")
        await redeploy(ada, number, chain(APPROVAL))
        (row,) = (await ada.post(f"{FLOWS}/{number}/move-runs", json={"all": True})).json()["runs"]
        assert (row["runId"], row["moved"], row["reason"]) == (record["runId"], False, "incompatible")
        assert [(one["nodeId"], one["what"]) for one in row["differences"]] == [("count", "removed")]
        for body in ({}, {"all": True, "runIds": ["r"]}):
            assert_envelope(await ada.post(f"{FLOWS}/{number}/move-runs", json=body), *INVALID)


class TestImpact:
    async def test_a_deploy_is_bound_to_what_was_seen(self, either: World) -> None:
        """The impact has an ETag, which the deploy takes in `If-Match`; a change since is 409 `stale`."""
        ada, name = await either.user(), f"{either.org}/impact"
        number = await deployed(ada, chain(counting(name), APPROVAL))
        record = await waiting(ada, number, f"{either.org}-r")
        await ada.patch(f"{FLOWS}/{number}", json={"workflowStructure": chain(counting(name), APPROVAL, AFTER)})
        first = await ada.get(f"{FLOWS}/{number}/impact")
        shown = first.json()
        assert shown.keys() == {"diff", "issues", "waiting", "schedule", "policies", "evaluations", "cost"}
        assert shown["diff"]["nodes"]["added"] == ["after"]
        assert shown["waiting"] == [{"variationId": record["variationId"], "count": 1, "fits": True, "differences": []}]
        assert (shown["cost"]["runs"], shown["policies"], shown["issues"]) == (1, [], [])
        etag = {"If-None-Match": first.headers["ETag"]}
        assert (await ada.get(f"{FLOWS}/{number}/impact", headers=etag)).status_code == 304
        await ada.patch(f"{FLOWS}/{number}", json={"workflowStructure": chain(APPROVAL, AFTER)})
        place, seen = f"{FLOWS}/{number}/deploy", {"If-Match": first.headers["ETag"]}
        stale = assert_envelope(await ada.post(place, headers=seen), *CONFLICT)
        second = await ada.get(f"{FLOWS}/{number}/impact")
        assert stale["info"] == {"reason": "stale", "etag": second.headers["ETag"]}
        assert [(row["fits"], row["count"]) for row in second.json()["waiting"]] == [(False, 1)]
        done = await ada.post(place, headers={"If-Match": second.headers["ETag"]})
        assert (done.status_code, done.json()["draftVariationId"]) == (200, None)


class TestNodeTests:
    async def test_one_node_of_the_draft(self, either: World) -> None:
        """Nothing is called unless it is asked for; then once."""
        ada, name = await either.user(), f"{either.org}/node"
        number = await deployed(ada, chain(counting(name), AFTER))
        place = f"{FLOWS}/{number}/nodes/count/test"
        tried = (await ada.post(place, json={"input": {}})).json()
        sent = [{"kind": "tool", "toolId": "count", "params": {"name": name}}]
        assert (tried, performed[name]) == ({"output": None, "error": None, "handle": None, "wouldSend": sent}, 0)
        made = (await ada.post(place, json={"perform": True})).json()
        assert (made["output"], made["wouldSend"], performed[name]) == (1, [], 1)
        computed = (await ada.post(f"{FLOWS}/{number}/nodes/after/test")).json()
        assert computed["output"] == "mended"
        assert (await ada.post(f"{FLOWS}/{number}/nodes/unknown/test")).status_code == 404
        refused = await ada.post(place, json={"outputs": {"unknown": 1}})
        assert_envelope(refused, *INVALID)
        no_object = assert_envelope(await ada.post(place, json={"input": [1]}), *MALFORMED)
        assert [(one["path"], one["rule"]) for one in no_object["info"]["errors"]] == [("input", "type")]
        reader = await either.user("ada", scopes=["workflows:read"])
        assert (await reader.post(place)).status_code == 200
        assert (await reader.post(place, json={"perform": True})).status_code == 403

    async def test_an_error_has_the_id_of_the_request(self, either: World) -> None:
        """Whether the machine or a run of its own has found it."""
        ada = await either.user()
        params = {"message": "no {{ input.who }}"}
        number = await deployed(ada, chain(node("stop", "action", toolId="core.fail", params=params)))
        for body, message in (({"input": {"who": "way"}, "perform": True}, "no way"), ({"input": {}}, "who")):
            answer = await ada.post(f"{FLOWS}/{number}/nodes/stop/test", json=body, headers={"X-Request-Id": "r-1"})
            error = answer.json()["error"]
            assert message in error["message"]
            assert error["requestId"] == answer.headers["X-Request-Id"] == "r-1"
