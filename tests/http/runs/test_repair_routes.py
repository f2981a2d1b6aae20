"""Repairs of runs over HTTP (interface, Retry, Fork and Delete)."""

import httpx
import pytest
from clients import (
    APPROVAL,
    CONFLICT,
    INVALID,
    POLL,
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

BROKEN = node("broken", "action", toolId="core.fail", params={"message": "no"})
MENDED = node("broken", "action", toolId="core.transform", params={"value": "mended"})
RUNS = "/agent/v1/runs"


async def failed(client: httpx.AsyncClient, number: int) -> str:
    """The id of a run that has failed."""
    answer = await client.post(RUNS, json={"workflowId": number, "input": {}})
    assert '"kind":"error"' in answer.text.replace(" ", "")
    return answer.headers["Location"].rsplit("/", 1)[-1]


async def ended(client: httpx.AsyncClient, run: str) -> Json:
    """The record of the run when its stream has ended."""
    await client.get(f"{RUNS}/{run}/events")
    record: Json = (await client.get(f"{RUNS}/{run}")).json()
    return record


async def mend(client: httpx.AsyncClient, number: int, structure: Json) -> None:
    await client.patch(f"/api/v1/workflows/{number}", json={"workflowStructure": structure})
    assert (await client.post(f"/api/v1/workflows/{number}/deploy")).status_code == 200


async def test_a_run_is_retried_on_the_mended_workflow(either: World) -> None:
    """202 with the record of the new turn; the first step is not called again; the key joins the turn."""
    ada, name = await either.user(), f"{either.org}/retry"
    number = await deployed(ada, chain(counting(name), BROKEN))
    run = await failed(ada, number)
    await mend(ada, number, chain(counting(name), MENDED))
    for _ in range(2):
        answer = await ada.post(f"{RUNS}/{run}/retry", json={"version": "published"}, headers=keyed("again"))
        assert (answer.status_code, answer.headers["Location"]) == (202, f"{RUNS}/again")
        record = answer.json()
        assert (record["runId"], record["parentRunId"]) == ("again", run)
    done = await ended(ada, "again")
    assert (done["status"], done["output"], performed[name]) == ("done", "mended", 1)
    assert (await ada.get(f"{RUNS}/{run}")).json()["retriedBy"] == "again"
    assert done["variationId"] != (await ada.get(f"{RUNS}/{run}")).json()["variationId"]
    error = assert_envelope(await ada.post(f"{RUNS}/{run}/retry"), *CONFLICT)
    assert error["info"]["reason"] == "already_retried"


async def test_what_does_not_fit(either: World) -> None:
    """409 with every difference; an unknown node is 422 with its path."""
    ada = await either.user()
    number = await deployed(ada, chain(counting(f"{either.org}/fit"), BROKEN))
    run = await failed(ada, number)
    await mend(ada, number, chain(MENDED))
    answer = await ada.post(f"{RUNS}/{run}/retry", json={"version": "published"})
    info = assert_envelope(answer, *CONFLICT)["info"]
    assert (info["reason"], [one["nodeId"] for one in info["differences"]]) == ("incompatible", ["count"])
    unknown = await ada.post(f"{RUNS}/{run}/retry", json={"from": ["x"], "skip": ["y"]})
    paths = [one["path"] for one in assert_envelope(unknown, *INVALID)["info"]["errors"]]
    assert paths == ["from[0]", "skip[0]"]


@pytest.mark.parametrize(("version", "operation"), [("published", "run"), ("draft", "run_draft")])
async def test_a_run_of_a_deleted_workflow_is_not_retried(either: World, version: str, operation: str) -> None:
    """409 `deleted` that names what cannot be done: only a run of the draft runs its draft."""
    ada = await either.user()
    number = await deployed(ada, chain(BROKEN))
    answer = await ada.post(RUNS, json={"workflowId": number, "input": {}, "version": version})
    assert (await ada.delete(f"/api/v1/workflows/{number}")).status_code == 200
    info = assert_envelope(await ada.post(f"{answer.headers['Location']}/retry"), *CONFLICT)["info"]
    assert (info["reason"], info["operation"]) == ("deleted", operation)


async def test_runs_are_retried_in_bulk(either: World) -> None:
    """A preview first; then each run that the filter selects has its row."""
    ada = await either.user()
    number = await deployed(ada, chain(BROKEN))
    runs = [await failed(ada, number) for _ in range(2)]
    await mend(ada, number, chain(MENDED))
    body = {"filter": {"workflowId": number, "status": "error"}, "version": "published", "preview": True}
    seen = (await ada.post(f"{RUNS}/retry", json=body)).json()["runs"]
    row = {"moved": True, "differences": [], "reason": None, "retriedBy": None}
    assert seen == [{"runId": run, **row} for run in reversed(runs)]
    made = (await ada.post(f"{RUNS}/retry", json={**body, "preview": False})).json()["runs"]
    assert [(await ended(ada, one["retriedBy"]))["output"] for one in made] == ["mended", "mended"]
    assert (await ada.post(f"{RUNS}/retry", json=body)).json() == {"runs": []}


async def test_a_run_is_forked(either: World) -> None:
    """202 with the record of a new execution, which has the results so far."""
    ada, name = await either.user(), f"{either.org}/fork"
    number = await deployed(ada, chain(counting(name), MENDED))
    source = (await ada.post(RUNS, json={"workflowId": number, "input": {}})).headers["Location"].rsplit("/", 1)[-1]
    answer = await ada.post(f"{RUNS}/{source}/fork", json={"before": "broken"})
    assert (answer.status_code, answer.json()["forkedFrom"]) == (202, source)
    done = await ended(ada, answer.json()["runId"])
    assert (done["status"], done["output"], performed[name]) == ("done", "mended", 1)
    assert_envelope(await ada.post(f"{RUNS}/{source}/fork", json={"before": "x"}), *INVALID)


async def test_an_ended_execution_is_deleted(either: World) -> None:
    """409 with another ETag than that of its record; 200 with the record, then 404; its key is 409 `deleted`."""
    ada = await either.user()
    number = await deployed(ada, chain(MENDED))
    body = {"workflowId": number, "input": {}}
    await ada.post(RUNS, json=body, headers=keyed("once"))
    etag = (await ada.get(f"{RUNS}/once")).headers["ETag"]
    stale = await ada.delete(f"{RUNS}/once", headers={"If-Match": '"x"'})
    assert assert_envelope(stale, *CONFLICT)["info"] == {"reason": "stale", "etag": etag}
    answer = await ada.delete(f"{RUNS}/once", headers={"If-Match": etag})
    assert (answer.status_code, answer.json()["runId"]) == (200, "once")
    assert (await ada.get(f"{RUNS}/once")).status_code == 404
    again = await ada.post(RUNS, json=body, headers=keyed("once", **POLL))
    assert assert_envelope(again, *CONFLICT)["info"]["reason"] == "deleted"


async def test_runs_with_the_names_of_routes(either: World) -> None:
    """What is below their ids is theirs; `runs/retry` and `runs/stats` are not their records."""
    ada = await either.user()
    number = await deployed(ada, chain(APPROVAL))
    for name in ("retry", "stats"):
        await ada.post(RUNS, json={"workflowId": number, "input": {}}, headers=keyed(name, **POLL))
        assert (await ada.get(f"{RUNS}/{name}/graph")).status_code == 200
        cancelled = await ada.post(f"{RUNS}/{name}/cancel")
        assert (cancelled.status_code, cancelled.json()["runId"]) == (202, name)
    assert (await ada.get(f"{RUNS}/stats")).json()["total"] == 2
    assert_envelope(await ada.get(f"{RUNS}/retry"), 405, "BAD_REQUEST", "INVALID_ARGUMENT")
    assert (await ada.get(f"{RUNS}/stats/other")).status_code == 404
