"""Calls to shards that are away, that are not configured, and whose organizations are being moved."""

import asyncio
from typing import Any

import pytest

from wfcore.adapters.sharding import routing
from wfcore.adapters.sharding.journal import ShardedJournal
from wfcore.adapters.sharding.routing import Shards, org_of
from wfcore.adapters.sharding.storage import ShardedStorage
from wfcore.domain.kernel.errors import NotFound, Unavailable
from wfcore.ports.journal import Append, ExecutionRef, Holder, JournalConflict
from wfcore.ports.repositories.webhooks import FoundWebhook, WebhookRow
from wfcore.ports.shards import MAIN, Moving, Placement, locator_of

pytestmark = pytest.mark.anyio


class Placed:
    """Organizations on the shards of their names."""

    key = "the key of the tests"

    def __init__(self) -> None:
        self.moved: dict[str, str] = {}

    def cached(self, org: str) -> str | None:
        return None

    async def of(self, org: str) -> Placement:
        return Placement(self.moved.get(org, org))

    async def located(self, locator: int) -> list[str]:
        return [name for name in ("b", "c") if locator_of(name) == locator] + [MAIN]

    async def place(self, org: str) -> str:
        return org

    async def close(self) -> None:
        pass


class Part:
    """A part of a shard that returns its name, or raises."""

    def __init__(self, name: str, error: Exception | None = None, *, hangs: bool = False) -> None:
        self.name, self.error, self.hangs = name, error, hangs

    async def answer(self, *_: Any, **__: Any) -> Any:
        if self.hangs:
            await asyncio.Event().wait()
        if self.error:
            raise self.error
        return [self.name]

    def __getattr__(self, _: str) -> Any:
        return self.answer


def shards(**parts: Part) -> Shards[Any]:
    return Shards({MAIN: Part(MAIN), **parts}, Placed())


async def test_a_shard_that_is_away_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether it refuses or hangs; it is logged once until it responds again."""
    monkeypatch.setattr(routing, "ANSWERS_WITHIN", 0.01)
    broken = Part("b", Unavailable("away"))
    found = shards(b=broken, c=Part("c", hangs=True))
    for _ in range(2):
        assert await found.each(lambda part: part.answer()) == {MAIN: [MAIN]}
    assert [record.shard for record in caplog.records] == ["b", "c"]  # type: ignore[attr-defined]
    with pytest.raises(Unavailable, match="shard `b` does not respond"):
        await found.every(lambda part: part.answer())
    broken.error = None
    assert await found.each(lambda part: part.answer()) == {MAIN: [MAIN], "b": ["b"]}
    broken.error = KeyError("a bug")
    with pytest.raises(KeyError):
        await found.each(lambda part: part.answer())


async def test_no_shard_responds() -> None:
    found = Shards({MAIN: Part(MAIN, Unavailable("away"))}, Placed())
    with pytest.raises(Unavailable, match="no shard responds"):
        await found.each(lambda part: part.answer())


async def test_a_write_waits_for_the_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made on the new shard; a move that does not end is reported."""
    monkeypatch.setattr(routing, "RETRY", 0.0)
    found = shards(b=Part("b", Moving("moving")), c=Part("c"))
    placed: Any = found.placements

    async def call(part: Part) -> Any:
        placed.moved["b"] = "c"
        return await part.answer()

    assert await found.write("b", call) == ["c"]
    for late in (JournalConflict(), NotFound()):
        placed.moved.clear()
        found.parts["b"].error = late
        assert await found.write("b", call) == ["c"]
        with pytest.raises(type(late)):
            await found.write("b", lambda part: found.parts["b"].answer())
    placed.moved.clear()
    found.parts["b"].error = Moving("moving")
    placed.moved.clear()
    monkeypatch.setattr(routing, "PATIENCE", 0.0)
    with pytest.raises(Moving):
        await found.write("b", lambda part: part.answer())


async def test_a_shard_that_is_not_configured() -> None:
    with pytest.raises(Unavailable, match=r"shard `east` is not in the settings: add it to `\[shards\]`"):
        await ShardedStorage(shards()).organization("east")


async def test_a_public_id_is_looked_up_on_one_shard() -> None:
    """That of its organization, also while this process has not yet seen its move."""
    asked: list[str] = []

    def part(name: str, *, has: bool) -> Part:
        async def find(id: str) -> FoundWebhook | None:
            asked.append(name)
            return FoundWebhook("b", WebhookRow(1, id, "")) if has else None

        made = Part(name)
        made.find_webhook = find  # type: ignore[method-assign]
        return made

    found = shards(b=part("b", has=True), c=part("c", has=True))
    storage, placed = ShardedStorage(found), found.placements
    public = storage.public_id("b", "secret")
    assert await storage.find_webhook(public) == FoundWebhook("b", WebhookRow(1, public, ""))
    assert asked == ["b"]
    placed.moved["b"] = "c"  # type: ignore[attr-defined]
    assert await storage.find_webhook(public)
    assert asked == ["b", "b", "c"]
    found.parts["b"], found.parts[MAIN] = part("b", has=False), part(MAIN, has=False)  # type: ignore[index]
    assert await storage.find_webhook(public) is None
    assert asked == ["b", "b", "c", "b", MAIN]


async def test_a_webhook_can_be_on_a_shard_that_is_away() -> None:
    """Then it is not reported as unknown."""
    storage = ShardedStorage(shards(b=Part("b", Unavailable("away"))))
    storage._shards.main.answer = nothing
    with pytest.raises(Unavailable, match="shard `b` does not respond"):
        await storage.find_webhook("digest")
    del storage._shards.parts["b"]  # type: ignore[attr-defined]
    assert await storage.find_webhook("digest") is None


async def nothing(*_: Any, **__: Any) -> None:
    return None


async def test_a_worker_on_several_shards_is_one_holder() -> None:
    """Its heartbeats are added up."""
    one, other = Part("b"), Part("c")
    one.answer = held(3)  # type: ignore[method-assign]
    other.answer = held(4)  # type: ignore[method-assign]
    journal = ShardedJournal(shards_of(b=one, c=other))
    assert await journal.holders() == [Holder(7, "host", 1, 7)]


def held(beats: int) -> Any:
    async def answer(*_: Any) -> list[Holder]:
        return [Holder(7, "host", 1, beats)]

    return answer


def shards_of(**parts: Part) -> Shards[Any]:
    return Shards(parts, Placed())


def test_the_organization_of_a_call() -> None:
    ref = ExecutionRef("o", 1)
    assert [org_of(whose) for whose in ("o", ref, [ref], [])] == ["o", "o", "o", ""]
    assert Append(0, ()).is_plain
