"""The routes of evaluations, and the body of a deploy, on a server with a scripted model."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import httpx
import pytest
from clients import CONFLICT, INVALID, MALFORMED, World, assert_envelope, keyed, new_world

import wfcore.bootstrap
from wfcore.adapters.http import app
from wfcore.adapters.models.scripted import ScriptedModel

pytestmark = pytest.mark.anyio

CASE: dict[str, Any] = {
    "id": "tea", "name": "Tea", "required": True, "input": {"message": "what do you drink?"},
    "checks": [{"kind": "contains", "value": "tea"}, {"kind": "notToolCalled", "tool": "pay"}],
}  # fmt: skip


@pytest.fixture
async def served() -> AsyncIterator[World]:
    async with wfcore.bootstrap.open("sqlite://", models={"default": ScriptedModel(["tea", "coffee"])}) as core:
        transport = httpx.ASGITransport(app(core, secret=b"s" * 32))
        client = partial(httpx.AsyncClient, transport=transport, base_url="http://wfcore", trust_env=False)
        async with AsyncExitStack() as closing:
            yield await new_world(core, client, closing)


async def ran(world: World, me: httpx.AsyncClient, skill: int, **headers: Any) -> list[Any]:
    """The results after an evaluation of the draft."""
    begun = await me.post(f"/api/v1/skills/{skill}/evaluations/run", **headers)
    assert (begun.status_code, begun.json().keys()) == (202, {"id"}), begun.text
    name = f"{begun.json()['id']}.tea"
    await me.get(f"/agent/v1/runs/{name}/events", headers={"Accept": "text/event-stream"})
    results: list[Any] = (await me.get(f"/api/v1/skills/{skill}/evaluations/results")).json()["results"]
    assert results[0]["evaluationId"] == begun.json()["id"]
    return results


async def test_a_deploy_requires_a_passed_case(served: World) -> None:
    """409 with the cases until the case has passed on this content; `force` overrides it."""
    ada = await served.user()
    skill = (await ada.post("/api/v1/skills", json={"name": "S", "evaluations": [CASE]})).json()["id"]
    deploy = f"/api/v1/skills/{skill}/deploy"
    refused = assert_envelope(await ada.post(deploy), *CONFLICT)
    never = {"caseId": "tea", "name": "Tea", "state": "never_ran", "runId": None}
    assert refused["info"] == {"reason": "evaluations", "cases": [never]}
    (passed,) = await ran(served, ada, skill)
    assert (passed["passed"], passed["output"]) == (True, "tea")
    assert (await ada.post(deploy, json={})).status_code == 200
    assert (await ada.patch(f"/api/v1/skills/{skill}", json={"model": "default"})).status_code == 200
    (failed, _) = await ran(served, ada, skill)
    assert failed["checks"][0]["message"] == 'the output does not contain `"tea"`'
    refused = assert_envelope(await ada.post(deploy, json={"force": False}), *CONFLICT)
    assert [case["state"] for case in refused["info"]["cases"]] == ["failed"]
    assert (await ada.post(deploy, json={"force": True})).json()["hasUnpublishedChanges"] is False


async def test_results_by_variation(served: World) -> None:
    """Ids are separated by commas; without them the draft and the active variation are compared."""
    ada = await served.user()
    created = (await ada.post("/api/v1/skills", json={"name": "S", "evaluations": [CASE]})).json()
    await ran(served, ada, created["id"], headers=keyed("k"))
    await ran(served, ada, created["id"], headers=keyed("k"))
    path, variation = f"/api/v1/skills/{created['id']}/evaluations/results", created["draftVariationId"]
    named = (await ada.get(path, params={"variationId": f"{variation},{variation}"})).json()
    assert named == (await ada.get(path)).json()
    assert named["comparison"] == [{"caseId": "tea", "name": "Tea", "passed": {variation: True}}]
    assert_envelope(await ada.get(path, params={"variationId": "none"}), *INVALID)
    assert_envelope(await ada.get(path, params={"variation": variation}), *MALFORMED)


async def test_what_is_refused(served: World) -> None:
    """Every fault of a case with its path; a skill without cases; an unknown view; `force` of a workflow."""
    ada = await served.user()
    faulty = {**CASE, "checks": [{"kind": "matches", "pattern": "("}, {"kind": "judge"}]}
    error = assert_envelope(await ada.post("/api/v1/skills", json={"name": "S", "evaluations": [faulty]}), *INVALID)
    assert [one["path"] for one in error["info"]["errors"]] == [
        "evaluations[0].checks[0].pattern", "evaluations[0].checks[1].criteria"
    ]  # fmt: skip
    shapeless = {"name": "S", "evaluations": [{**CASE, "required": 1}]}
    assert_envelope(await ada.post("/api/v1/skills", json=shapeless), *MALFORMED)
    await ada.post("/api/v1/skills", json={"name": "S"})
    run = "/api/v1/skills/1/evaluations/run"
    assert_envelope(await ada.post(run), *INVALID)
    assert_envelope(await ada.post(run, params={"view": "old"}), *MALFORMED)
    assert_envelope(await ada.post(run, params={"view": "active"}), *CONFLICT)
    assert_envelope(await ada.post("/api/v1/workflows/1/deploy", json={"force": True}), *INVALID)
