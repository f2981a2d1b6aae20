"""Requests whose journal has grown meanwhile, or whose run another request has begun: they are tried again, and end."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from bench import Bench, act, ask, graph, one, opened, reason

from wfcore.domain.kernel.errors import Forbidden, Invalid
from wfcore.ports.journal import JournalConflict, RunExists
from wfcore.runtime.common.preconditions import etag_of
from wfcore.runtime.runs import runs as module

pytestmark = pytest.mark.anyio

FAIL = one(act("core.fail", message="no"))


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened("sqlite://") as made:
        yield made


class Failing:
    """A method of the journal whose first calls raise; the others are those of the journal itself."""

    def __init__(self, inner: Callable[..., Awaitable[Any]], error: type[Exception], times: int) -> None:
        self._inner, self._error, self.left = inner, error, times

    async def __call__(self, *args: Any, **more: Any) -> Any:
        if self.left:
            self.left -= 1
            raise self._error
        return await self._inner(*args, **more)


def failing(bench: Bench, name: str, error: type[Exception], times: int, patch: pytest.MonkeyPatch) -> Failing:
    """Let the next calls of this method of the journal raise."""
    journal = bench.core.runs._ports.journal
    made = Failing(getattr(journal, name), error, times)
    patch.setattr(journal, name, made, raising=False)
    return made


async def requests(bench: Bench) -> dict[str, tuple[str, Callable[[], Any]]]:
    """Each request that appends to a journal or deletes it, by name, with the method of the journal."""
    runs, me = bench.core.runs, bench.me
    asks = graph("s>w w:approved>a", w=ask(), a=act("echo"))
    parked, waiting = [await bench.ran(asks) for _ in range(2)]
    failed, done = await bench.ran(FAIL), await bench.ran(one(act("echo")))
    return {
        "resume": ("append", lambda: runs.resume(me, parked.id, decision="approve")),
        "cancel": ("append", lambda: runs.cancel(me, waiting.id)),
        "retry": ("append", lambda: runs.retry(me, failed.id)),
        "delete": ("delete", lambda: runs.delete(me, done.id)),
    }


@pytest.mark.parametrize("name", ["resume", "cancel", "retry", "delete"])
async def test_a_conflict_is_tried_again(bench: Bench, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as `TRIES` allows; then the request is a conflict, and has changed nothing."""
    method, request = (await requests(bench))[name]
    made = failing(bench, method, JournalConflict, module.TRIES, monkeypatch)
    assert await reason(request()) == "busy"
    assert made.left == 0
    made.left = module.TRIES - 1
    assert (await request()).id


def late(bench: Bench, key: str, patch: pytest.MonkeyPatch) -> list[str]:
    """Let the first look for this run find nothing, as before another request has written it. Returns the misses."""
    journal, missed = bench.core.runs._ports.journal, list[str]()
    find = journal.find_run

    async def find_run(org: str, run_id: str) -> Any:
        if run_id == key and not missed:
            missed.append(run_id)
            return None
        return await find(org, run_id)

    patch.setattr(journal, "find_run", find_run, raising=False)
    return missed


async def test_a_fork_that_another_request_has_begun(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same request with the same key joins it, although it did not find it before."""
    source = await bench.ran(one(act("echo")))
    first = await bench.core.runs.fork(bench.me, source.id, before="a", key="k")
    missed = late(bench, "k", monkeypatch)
    assert (await bench.core.runs.fork(bench.me, source.id, before="a", key="k")).id == first.id
    assert missed == ["k"]
    missed.clear()
    assert await reason(bench.core.runs.fork(bench.me, source.id, before="s", key="k")) == "key_reused"


@pytest.mark.parametrize("tagged", [False, True])
@pytest.mark.parametrize("name", ["resume", "retry"])
async def test_a_turn_that_an_equal_request_has_begun(
    bench: Bench, name: str, tagged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that sends its request again joins the turn, although its first request had not written it yet; what
    the turn has changed in the run is no conflict. Another body with the key is one.
    """
    runs = bench.core.runs
    run = await bench.ran(one(ask()) if name == "resume" else FAIL)
    tag: dict[str, Any] = {"if_match": etag_of(run.to_wire())} if tagged else {}
    change = runs.resume if name == "resume" else runs.retry
    same, other = ({"decision": "approve"}, {"decision": "deny"}) if name == "resume" else ({}, {"from": ["a"]})
    first = await change(bench.me, run.id, same, key="k", **tag)
    missed = late(bench, "k", monkeypatch)
    assert (await change(bench.me, run.id, same, key="k", **tag)).id == first.id == "k"
    assert missed == ["k"]
    missed.clear()
    assert await reason(change(bench.me, run.id, other, key="k", **tag)) == "key_reused"


async def test_a_resume_and_a_retry_that_another_request_has_begun(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are refused if its run is not that of the same request."""
    parked, failed = await bench.ran(one(ask())), await bench.ran(FAIL)
    failing(bench, "append", RunExists, 2, monkeypatch)
    for request in (
        bench.core.runs.resume(bench.me, parked.id, decision="approve", key="k"),
        bench.core.runs.retry(bench.me, failed.id, key="k"),
    ):
        assert await reason(request) == "key_reused"


async def test_an_approver_without_use(bench: Bench) -> None:
    """The outline of a run that waits for them is visible; a retry and a fork are not theirs."""
    asks = one(ask(approvers={"emails": ["other@x.org"]}))
    number = await bench.deployed(asks, access={"visibility": "private"})
    run = await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
    for request in (
        bench.core.runs.retry(bench.other, run.id),
        bench.core.runs.fork(bench.other, run.id, before="a"),
        bench.core.runs.cancel(bench.other, run.id),
    ):
        with pytest.raises(Forbidden) as refused:
            await request
        assert refused.value.info["canUse"] is False


async def test_a_fork_on_a_graph_that_does_not_fit(bench: Bench) -> None:
    """Every difference is reported, and there is no new run."""
    source = await bench.ran(graph("s>a a>b", a=act("echo"), b=act("echo")))
    number = source.row.resource_id or 0
    await bench.core.workflows.patch(bench.me, number, structure=graph("s>b", b=act("echo")))
    with pytest.raises(Exception, match="does not fit") as refused:
        await bench.core.runs.fork(bench.me, source.id, before="b", version="draft")
    assert [(one["nodeId"], one["what"]) for one in refused.value.info["differences"]] == [("a", "removed")]  # type: ignore[attr-defined]
    assert len(await bench.core.runs.page(bench.me)) == 1


async def test_a_turn_has_the_stream_version_of_its_own_client(bench: Bench) -> None:
    """A retry and a fork do not take it over from the turn before."""
    number = await bench.deployed(FAIL)
    body = {"workflowId": number, "input": {}, "streamProtocolVersion": 2}
    failed = await bench.ended(await bench.core.runs.start(bench.me, body))
    fork = await bench.ended(await bench.core.runs.fork(bench.me, failed.id, before="a"))
    retry = await bench.ended(await bench.core.runs.retry(bench.me, failed.id))
    journal = bench.core.runs._ports.journal
    for view in (fork, retry):
        found = await journal.find_turn(bench.org, view.id)
        assert found is not None
        entries = await journal.read(found[1].ref)
        assert entries[0].info["streamProtocolVersion"] == 2  # type: ignore[union-attr]
        (last,) = [entry for entry in entries if getattr(entry, "run_id", "") == view.id]
        assert last.info["streamProtocolVersion"] is None  # type: ignore[union-attr]


async def test_forks_of_nothing_known(bench: Bench) -> None:
    """The node must be one of the graph on which the fork goes on."""
    source = await bench.ran(one(act("echo")))
    with pytest.raises(Invalid):
        await bench.core.runs.fork(bench.me, source.id, before="zz")
