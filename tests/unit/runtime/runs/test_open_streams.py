"""The checks of open streams: what ends one, and what a check costs (interface, Reading)."""

from typing import Any

import attrs
import pytest
from bench import Bench, ask, one, shared

from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.resource import Kind
from wfcore.runtime.runs.open_streams import INTERVAL, OpenStreams, Shown
from wfcore.testing.contracts.dispatcher import eventually

pytestmark = pytest.mark.anyio

LIMIT = 5.0
"""Seconds in which a stream must end (interface, Events)."""


def watched(bench: Bench) -> OpenStreams:
    return OpenStreams(bench.core.ports, bench.core.directory, bench.core.runs)


async def holder(bench: Bench, name: str, *groups: str, expires_in: int | None = None) -> Principal:
    """A member, as its own token says."""
    await bench.core.directory.add_member(bench.org, name, f"{name}@x.org", groups=groups)
    scopes = ["workflows:invoke"]
    text = await bench.core.directory.create_token(bench.org, name, scopes=scopes, expires_in=expires_in)
    return await bench.core.directory.authenticate(text)


async def test_a_token_that_expires_ends_its_stream_in_time(bench: Bench) -> None:
    """The shared timer ends the stream within the limit, and does not run without streams."""
    streams, ended = watched(bench), list[str]()
    eve = await holder(bench, "eve", expires_in=60)
    stream = await streams.add(eve, None, lambda: ended.append("eve"))
    bench.clock.advance(59)
    await eventually(lambda: (bench.clock.next_timer or LIMIT) <= INTERVAL)
    assert not ended
    bench.clock.advance(1)
    bench.clock.advance(INTERVAL)
    await eventually(lambda: ended == ["eve"])
    assert INTERVAL < LIMIT / 2
    streams.remove(stream)
    assert streams._timer is None


async def test_a_check_reads_each_thing_once(bench: Bench) -> None:
    """A thousand streams of one caller and one workflow cost two queries, not two thousand."""
    streams, ended = watched(bench), list[Principal]()
    eve = await holder(bench, "eve")
    number = await bench.deployed(one(ask()))
    for _ in range(1_000):
        await streams.add(eve, Shown(Kind.WORKFLOW, number), lambda: ended.append(eve))
    asked = counted(bench)
    await streams.check()
    assert sorted(asked) == ["credential", "find_resource"]
    assert not ended


async def test_only_streams_of_what_was_lost_end(bench: Bench) -> None:
    """Loss of one workflow ends its streams; those of another, and of runs without a resource, continue."""
    streams, ended = watched(bench), set[str]()
    eve = await holder(bench, "eve")
    numbers = [await bench.deployed(one(ask())) for _ in range(2)]
    for name, shown in {
        "first": Shown(Kind.WORKFLOW, numbers[0]),
        "second": Shown(Kind.WORKFLOW, numbers[1]),
        "assistant": Shown("assistant", None),
        "gone": Shown(Kind.WORKFLOW, 99),
    }.items():
        await streams.add(eve, shown, lambda name=name: ended.add(name))
    await bench.core.workflows.patch(bench.me, numbers[0], accessConfig=shared(**{bench.org: (False, True)}))
    await streams.check()
    assert ended == {"first", "gone"}


async def test_a_deletion_ends_the_streams_of_managers_too(bench: Bench) -> None:
    """The deletion ends what was open. A manager can read a deleted workflow's runs in a stream that begins later."""
    streams, ended = watched(bench), list[str]()
    number = await bench.deployed(one(ask()))
    await streams.add(bench.me, Shown(Kind.WORKFLOW, number), lambda: ended.append("before"))
    await bench.core.workflows.delete(bench.me, number)
    await streams.add(bench.me, Shown(Kind.WORKFLOW, number), lambda: ended.append("after"))
    await streams.check()
    assert ended == ["before"]


async def test_a_deleted_organization_ends_its_streams(bench: Bench, caplog: Any) -> None:
    """Those of tokens, and those of callers whose credential is not wfcore's own."""
    streams, ended = watched(bench), list[str]()
    await streams.add(await holder(bench, "eve"), None, lambda: ended.append("token"))
    await streams.add(await bench.joined("ann"), None, lambda: ended.append("product"))
    await bench.core.retention.delete_organization(bench.org)
    await streams.check()
    assert sorted(ended) == ["product", "token"]
    assert not caplog.text


async def test_an_approvers_outline_ends_with_the_membership_only(bench: Bench) -> None:
    """An approver without use keeps the outline of the turn that its decision began."""
    streams, ended = watched(bench), list[str]()
    eve = await holder(bench, "eve")
    asking = one(ask(approvers={"emails": ["eve@x.org"]}))
    number = await bench.deployed(asking, accessConfig=shared(**{bench.org: (False, True)}) | {})
    await bench.core.workflows.patch(bench.me, number, accessConfig=shared(**{bench.org: (True, True)}))
    run = await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
    await bench.core.workflows.patch(bench.me, number, accessConfig=shared(**{bench.org: (False, True)}))
    await streams.add(eve, Shown(Kind.WORKFLOW, number, run.id), lambda: ended.append("approver"))
    other = await holder(bench, "other")
    await streams.add(other, Shown(Kind.WORKFLOW, number, run.id), lambda: ended.append("other"))
    await streams.check()
    assert ended == ["other"]


async def test_a_store_that_does_not_respond_ends_nothing_but_the_expired(bench: Bench, caplog: Any) -> None:
    """A failed check is logged, and the next one decides. An expiry needs no store."""
    streams, ended = watched(bench), list[str]()
    eve = await holder(bench, "eve")
    await streams.add(eve, None, lambda: ended.append("eve"))
    await streams.add(attrs.evolve(eve, expires_at=bench.core.ports.now()), None, lambda: ended.append("expired"))
    storage = bench.core.ports.storage
    credential = storage.credential

    async def fail(*args: object) -> None:
        raise OSError("the disk is gone")

    storage.credential = fail  # type: ignore[method-assign, assignment]
    await streams.check()
    assert ended == ["expired"]
    assert "checking 1 open streams failed" in caplog.text
    storage.credential = credential  # type: ignore[method-assign]
    await bench.core.members.delete(await bench.joined("boss", "owner"), "eve")
    await streams.check()
    assert ended == ["expired", "expired", "eve"]


def counted(bench: Bench) -> list[str]:
    """The name of each look-up of the store."""
    storage, asked = bench.core.ports.storage, list[str]()

    def counting(name: str) -> None:
        look_up = getattr(storage, name)

        async def call(*args: Any) -> Any:
            asked.append(name)
            return await look_up(*args)

        setattr(storage, name, call)

    for name in ("credential", "find_resource"):
        counting(name)
    return asked
