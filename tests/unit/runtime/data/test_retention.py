"""Data retention, in every organization."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, act, ask, one, opened

from wfcore.domain.kernel.errors import NotFound
from wfcore.runtime.common.installation import Retention, Settings
from wfcore.runtime.data import retention as module
from wfcore.runtime.data.retention import DAY
from wfcore.testing.contracts.dispatcher import eventually

pytestmark = pytest.mark.anyio

ALL = Retention(runs=1.0, conversations=2.0, audit=3.0, deleted=4.0, blobs=1e-9)


@pytest.fixture(params=["memory", "sqlite"])
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    url = "sqlite://" if request.param == "memory" else f"sqlite:///{tmp_path}/a.db"
    async with opened(url) as bench:
        yield bench


async def test_what_is_old_is_deleted(bench: Bench) -> None:
    """A dry run counts and changes nothing; each kind has its own age; a parked run is never old; the audit says how
    many were deleted."""
    core, me = bench.core, bench.me
    done = await bench.ran(one(act("echo", value=1)))
    parked = await bench.ran(one(ask()))
    gone = await bench.deployed(one(act("echo")))
    await core.workflows.delete(me, gone)
    bench.clock.advance(1.5 * DAY / 1000)
    expected = {"runs": 1, "conversations": 0, "audit": 0, "deleted": 0, "blobs": 0}
    assert await core.retention.prune(ALL, dry_run=True) == expected
    assert (await core.runs.get(me, done.id)).status == "done"
    seen = list[dict[str, int]]()
    assert await core.retention.prune(ALL, on_progress=lambda counts: seen.append(dict(counts))) == expected
    assert seen == [expected]
    with pytest.raises(NotFound):
        await core.runs.get(me, done.id)
    assert (await core.runs.get(me, parked.id)).status == "interrupted"
    owner = bench.person("me", role="owner")
    (row,) = await core.audit.page(owner, action="organization.prune")
    assert (row.row.user_id, row.row.details) == (None, {"runs": 1})

    bench.clock.advance(3 * DAY / 1000)
    counts = await core.retention.prune(ALL)
    assert counts["deleted"] == 1
    assert counts["audit"] > 3
    assert (await bench.ended(await core.runs.resume(me, parked.id, decision="approve"))).status == "done"


async def test_a_pruned_key_starts_a_new_run(bench: Bench) -> None:
    """As long as the run is kept, its key returns it; afterwards the key starts another one."""
    number = await bench.deployed(one(act("echo", value=1)))
    first = await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}, key="k"))
    again = await bench.core.runs.start(bench.me, workflow=number, input={}, key="k")
    assert (again.id, bench.tools.count("echo")) == (first.id, 1)
    bench.clock.advance(2 * DAY / 1000)
    await bench.core.retention.prune(Retention(runs=1))
    await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}, key="k"))
    assert bench.tools.count("echo") == 2


async def test_content_is_collected_when_nothing_refers_to_it(bench: Bench) -> None:
    """Content of a kept run stays, unused content goes, and content that is uploaded meanwhile stays."""
    core, me, blobs = bench.core, bench.me, bench.core.ports.blobs
    used, unused = [(await core.attachments.upload(me, text)).key for text in (b"used", b"unused")]
    number = await bench.deployed(one(act("echo", value=1)))
    attached = {"documents": [{"fileName": "a.txt", "uploadId": used}]}
    await bench.ended(await core.runs.start(me, workflow=number, input={}, attachments=attached))
    bench.clock.advance(10 * 365 * DAY / 1000)  # the content is stored at the time of the system
    assert await core.retention.prune(Retention(blobs=1), dry_run=True) == {"blobs": 1}
    assert await core.retention.prune(Retention(blobs=1)) == {"blobs": 1}
    assert [bool(await blobs.get(bench.org, key)) for key in (used, unused)] == [True, False]
    assert await core.retention.prune(Retention(runs=1, blobs=1)) == {"runs": 1, "blobs": 1}
    assert await blobs.get(bench.org, used) is None


async def test_a_dry_run_counts_what_a_run_then_deletes(bench: Bench) -> None:
    """Attachments too to which only what is deleted in the same run refers: runs, messages, and deleted workflows."""
    core, me, blobs = bench.core, bench.me, bench.core.ports.blobs
    keys = [(await core.attachments.upload(me, text)).key for text in (b"run", b"message", b"deleted", b"kept")]
    attached = [{"documents": [{"fileName": "a.txt", "uploadId": key}]} for key in keys]
    number = await bench.deployed(one(act("echo", value=1)))
    await bench.ended(await core.runs.start(me, workflow=number, input={}, attachments=attached[0]))
    await bench.ended(await core.runs.start(me, assistant=True, message="m", attachments=attached[1]))
    gone = await bench.deployed(one(act("echo", value={"key": keys[2]})))
    await bench.ended(await core.runs.start(me, workflow=gone, input={}))
    await core.workflows.delete(me, gone)
    parked = await bench.deployed(one(ask()))
    await bench.ended(await core.runs.start(me, workflow=parked, input={}, attachments=attached[3]))
    bench.clock.advance(10 * 365 * DAY / 1000)  # the content is stored at the time of the system
    for limits in (
        Retention(blobs=1),
        Retention(blobs=1, deleted=1),
        Retention(blobs=1, audit=1, conversations=1),
        ALL,
    ):
        counted = await core.retention.prune(limits, dry_run=True)
        assert await core.retention.prune(limits) == counted
    left = [await blobs.get(bench.org, key) is not None for key in keys]
    assert left == [False, False, False, True]


@pytest.mark.parametrize("is_caller_deleted", [True, False])
@pytest.mark.parametrize("limits", [Retention(deleted=1), Retention(runs=1, deleted=1), Retention(runs=30, deleted=1)])
async def test_a_dry_run_counts_what_was_called_by_what_goes(
    bench: Bench, limits: Retention, *, is_caller_deleted: bool
) -> None:
    """A deleted workflow goes with the last run that called it, whether that is old or goes with its own workflow."""
    core, me = bench.core, bench.me
    numbers = [await bench.deployed(one(act("echo", value=1)))]
    for _ in range(2):
        numbers.append(await bench.deployed(one(act("core.workflow", workflowId=numbers[-1], input={}))))
        await bench.ended(await core.runs.start(me, workflow=numbers[-1], input={}))
    for number in numbers if is_caller_deleted else numbers[:-1]:
        await core.workflows.delete(me, number)
    bench.clock.advance(2 * DAY / 1000)
    counted = await core.retention.prune(limits, dry_run=True)
    assert await core.retention.prune(limits) == counted
    assert counted["deleted"] == (3 if is_caller_deleted else 2 if limits.runs == 1 else 0)


async def test_a_worker_prunes(monkeypatch: pytest.MonkeyPatch) -> None:
    """At its start and after the interval; not at all without a limit."""
    async with opened("sqlite://", settings=Settings(retention=Retention(runs=1))) as bench:
        done = await bench.ran(one(act("echo", value=1)))
        bench.clock.advance(2 * DAY / 1000)

        async def pruned() -> bool:
            return await bench.core.ports.journal.find_run(bench.org, done.id) is None

        assert await eventually(pruned)
    async with opened("sqlite://") as bench:
        assert bench.core.retention._poller._task is None


async def test_an_organization_that_is_deleted_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are pruned nevertheless, also beyond the first page of organizations."""
    monkeypatch.setattr(module, "PAGE", 1)
    async with opened("sqlite://") as bench:
        done = await bench.ran(one(act("echo", value=1)))
        others = [(await bench.core.directory.create_organization(name)).uuid for name in "ab"]
        prune = bench.core.ports.storage.maintenance.prune
        bench.clock.advance(2 * DAY / 1000)

        async def gone(_: object, org: str, *args: object, **more: object) -> int:
            if org in others:
                raise NotFound
            return await prune(org, *args, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(type(bench.core.ports.storage.maintenance), "prune", gone)
        assert await bench.core.retention.prune(Retention(runs=1)) == {"runs": 1}
        assert await bench.core.ports.journal.find_run(bench.org, done.id) is None


async def test_an_organization_is_deleted(bench: Bench) -> None:
    """With its attachments; nobody can act in it any more; another organization is as it was."""
    core = bench.core
    other = (await core.directory.create_organization("other")).uuid
    there = core.principal(other, "bob", role="owner")
    keys = [(await core.attachments.upload(who, b"text")).key for who in (bench.me, there)]
    await bench.ran(one(ask()))
    assert await core.retention.delete_organization(bench.org)
    assert not await core.retention.delete_organization(bench.org)
    assert await core.ports.storage.organization(bench.org) is None
    with pytest.raises(NotFound):
        await core.workflows.page(bench.me)
    assert [await core.ports.blobs.size(org, key) for org, key in zip((bench.org, other), keys, strict=True)] == [
        None, 4,
    ]  # fmt: skip


def test_no_limit_is_false() -> None:
    assert not Retention()
    assert Retention(blobs=0.5)


@pytest.mark.parametrize("days", [0, -1, float("nan"), float("inf"), "3", timedelta(days=3)])
def test_a_limit_that_is_no_number_of_days(days: Any) -> None:
    """One below 0 was in the future: everything that had ended was deleted."""
    with pytest.raises(ValueError, match=r"^`runs` must be a number of days greater than 0, or None, not `"):
        Retention(runs=days)
