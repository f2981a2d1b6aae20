"""The exports of a member and of an organization."""

import io
import json
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, act, ask, one, opened, private
from chatting import REACHING
from jsonschema import Draft202012Validator
from leaving import NAME, SECRET, TEXT, USER, planted

from wfcore.adapters.blobs import LocalBlobs
from wfcore.domain.kernel.errors import Forbidden, NotFound
from wfcore.runtime.data import exports
from wfcore.runtime.data.export_shapes import SHAPES

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "sqlite"])
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    url = "sqlite://" if request.param == "memory" else f"sqlite:///{tmp_path}/a.db"
    async with opened(url, settings=REACHING, secrets=SECRET, blobs=LocalBlobs(tmp_path / "blobs")) as bench:
        yield bench


async def unpacked(chunks: AsyncIterator[bytes]) -> dict[str, bytes]:
    data = b"".join([chunk async for chunk in chunks])
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def lines(files: dict[str, bytes], name: str) -> list[Any]:
    """The lines of a file, each of which must match the schema beside it."""
    schema = json.loads(files[f"schemas/{name}.json"])
    found = [json.loads(line) for line in files[f"{name}.jsonl"].splitlines()]
    validator = Draft202012Validator(schema)
    for line in found:
        assert [error.message for error in validator.iter_errors(line)] == [], name
    return found


async def test_what_a_member_has(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of the member's own, in every page, valid by its schema, and nothing of others; no secret."""
    monkeypatch.setattr(exports, "PAGE", 2)
    monkeypatch.setattr(exports, "CHUNK", 100)
    zeb, named = await planted(bench)
    files = await unpacked(await bench.core.exports.member(zeb, USER))
    found = {name: lines(files, name) for name in SHAPES}
    assert [row["userId"] for row in found["members"]] == [USER]
    assert [row["name"] for row in found["tokens"]] == [NAME]
    runs = {row["runId"]: row for row in found["runs"]}
    assert {named["own"], named["parked"], named["decided"], named["chat"]} <= set(runs)
    assert runs[named["own"]]["input"]["text"] == TEXT
    assert {row["startedBy"]["userId"] for row in runs.values()} == {USER}
    (decision,) = found["decisions"]
    assert (decision["decision"], decision["data"]) == ("approve", {"reason": TEXT, "amount": 5})
    assert {row["userId"] for row in found["conversations"]} == {USER}
    assert TEXT in [row["content"] for row in found["messages"]]
    assert [row["memory"] for row in found["memories"]] == [TEXT]
    assert [row["name"] for row in found["workflows"]] == [f"Of {NAME}"]
    assert found["workflows"][0]["content"]["workflowStructure"]["nodes"]
    assert [row["from"] for row in found["delegations"]] == [USER]
    assert {row["userId"] for row in found["audit"]} == {USER}
    assert [found[name] for name in ("hooks", "policies", "connections", "contextItems", "groups")] == [[]] * 5
    assert [data for name, data in files.items() if name.startswith("attachments/")] == [TEXT.encode()]
    assert len(found["usage"]) == 1


async def test_results_that_the_caller_cannot_read(bench: Bench) -> None:
    """A run keeps its input. Output, error and interrupts need the use of its target when they are exported.

    That holds for the member itself and for an admin, who reads no run of the assistant or of an action of others.
    """
    core, ann, boss = bench.core, await bench.joined("ann"), await bench.joined("boss", "admin")
    structures = one(act("echo", value="{{ input.n }}")), one(act("core.fail", message="no")), one(ask())
    lost, kept = [[await bench.deployed(structure) for structure in structures] for _ in range(2)]
    runs = [await bench.ended(await core.runs.start(ann, workflow=n, input={"n": n})) for n in lost + kept]
    action = {"toolId": "echo", "params": {"value": "acted"}}
    acted = await core.runs.act(ann, action=action)
    assert await core.runs.result(acted) == "acted"
    for number in lost:
        await core.workflows.patch(bench.me, number, access=private())
    for who, own in ((ann, "acted"), (boss, None)):
        rows = lines(await unpacked(await core.exports.member(who, "ann")), "runs")
        found = {row["runId"]: row for row in rows}
        assert [found[run.id]["input"] for run in runs] == [{"n": number} for number in lost + kept]
        assert [shown(found[run.id]) for run in runs] == [(None, False, 0)] * 3 + [
            (kept[0], False, 0), (None, True, 0), (None, False, 1)
        ]  # fmt: skip
        assert found[acted.id]["output"] == own
    whole = lines(await unpacked(await core.exports.organization(bench.org)), "runs")
    assert {row["runId"]: row["output"] for row in whole}[runs[0].id] == lost[0]


def shown(row: Any) -> tuple[Any, bool, int]:
    """The output, whether there is an error, and the number of interrupts."""
    return row["output"], row["error"] is not None, len(row["interrupts"])


async def test_what_an_organization_has(bench: Bench) -> None:
    """The data of all of its members, and of it as a whole; not its secrets."""
    _, named = await planted(bench)
    group = await bench.core.groups.create(bench.person("me", role="owner"), name="Readers")
    files = await unpacked(await bench.core.exports.organization(bench.org))
    found = {name: lines(files, name) for name in SHAPES}
    assert [row["id"] for row in found["organization"]] == [bench.org]
    assert {row["userId"] for row in found["members"]} == {"me", USER}
    assert {named["own"], named["waiting"], named["about"]} <= {row["runId"] for row in found["runs"]}
    assert [row["id"] for row in found["groups"]] == [group.id]
    assert len(found["memories"]) == 2
    assert len(found["hooks"]) == 1
    secrets = (await bench.core.hooks.page(bench.person("me", role="owner")))[0]
    assert "whsec_" not in repr(files)
    assert secrets.id == found["hooks"][0]["id"]


async def test_who_may_export(bench: Bench) -> None:
    """Admins any member, each member itself; unknown members and organizations do not exist."""
    core, me = bench.core, await bench.joined("me", "owner")
    bob = await bench.joined("bob")
    assert await unpacked(await core.exports.member(bob, "bob"))
    assert await unpacked(await core.exports.member(me, "bob"))
    with pytest.raises(Forbidden):
        await core.exports.member(bob, "me")
    with pytest.raises(NotFound):
        await core.exports.member(me, "nobody")
    with pytest.raises(NotFound):
        await core.exports.organization("00000000-0000-4000-8000-00000000ffff")
