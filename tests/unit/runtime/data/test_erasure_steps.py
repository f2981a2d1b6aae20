"""An erasure whose process ends is continued by the next one, whichever step was the last."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, opened
from chatting import REACHING
from leaving import PLANTED, SECRET, USER, planted
from postgres_server import new_database
from slices import slice_of

from wfcore.adapters.blobs import LocalBlobs
from wfcore.domain.kernel.errors import Forbidden, NotFound, Unavailable
from wfcore.domain.people.erasure import Erasure
from wfcore.domain.people.people import Member
from wfcore.domain.resources.access import Role
from wfcore.ports.maintenance import Maintenance
from wfcore.runtime.data import erasure, erasure_steps
from wfcore.runtime.data.erasure_steps import ErasureSteps
from wfcore.testing.contracts.dispatcher import eventually

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other process has plans of what is rewritten."""
    monkeypatch.setattr(erasure_steps, "OUTDATED", 0)


STEPS = {
    "memories": ("delete", "replace"),
    "storage": ("transaction",),
    "blobs": ("delete",),
    "maintenance": ("remove_resource", "remove_execution", "rewrite_execution", "forget_user", "rewrite", "scrub"),
}
"""The calls that change something, by port."""


STORED = 3
"""Calls until the request is stored."""

WHOLE = 24
"""Calls of a whole erasure."""


class Killed(BaseException):
    """The process ends."""


class Process:
    """Ends before the call with number `last` that changes something, or within it if it is a transaction."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.calls = 0

    def limit(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        ports = bench.core.ports
        for port, names in STEPS.items():
            inner = ports.storage.maintenance._maintenance  # type: ignore[attr-defined]
            adapter = inner if port == "maintenance" else getattr(ports, port)
            for name in names:
                limited = self._transaction if name == "transaction" else self._call
                monkeypatch.setattr(type(adapter), name, limited(getattr(type(adapter), name)))

    def _count(self) -> None:
        self.calls += 1
        if self.calls > self.last:
            raise Killed

    def _call(self, method: Any) -> Any:
        async def call(*args: Any, **named: Any) -> Any:
            self._count()
            return await method(*args, **named)

        return call

    def _transaction(self, method: Any) -> Any:
        @asynccontextmanager
        async def transaction(*args: Any) -> AsyncIterator[Any]:
            self._count()
            async with method(*args) as work:
                yield work
                self._count()

        return transaction


@asynccontextmanager
async def opened_at(url: str, place: Path, **more: Any) -> AsyncIterator[Bench]:
    settings = {"settings": REACHING, "secrets": SECRET, "blobs": LocalBlobs(place / "blobs")}
    async with opened(url, **settings, **more) as bench:
        yield bench


async def furnish(url: str, place: Path) -> str:
    """The organization of a member who has left traces everywhere."""
    async with opened_at(url, place) as bench:
        await planted(bench)
        return bench.org


async def killed(url: str, place: Path, org: str, last: int, monkeypatch: pytest.MonkeyPatch) -> bool | None:
    """Erase the member in a process that ends before its call `last`. Whether the request is stored; None if it is
    over."""
    async with opened_at(url, place, org=org, worker=False) as bench:
        with monkeypatch.context() as patch:
            Process(last).limit(bench, patch)
            try:
                await bench.core.erasures.erase(bench.person("me", role="owner"), USER)
            except Killed:
                return not await _is_empty(bench.core.ports.storage.maintenance)
        return None


async def check_it_is_over(url: str, place: Path, org: str) -> None:
    """The next process carries out what was requested. No trace is left, and one row is in the audit."""
    async with opened_at(url, place, org=org) as bench:
        maintenance, me = bench.core.ports.storage.maintenance, bench.person("me", role="owner")
        await eventually(lambda: bench.core.erasures._running or _is_empty(maintenance))  # without a request
        while not await _is_empty(maintenance):
            await asyncio.sleep(0.02)  # readers that follow one another keep the file from being rewritten
            await bench.core.erasures.resume()
        texts = [text async for batch in maintenance.texts(org) for text in batch]
        assert [text for text in texts if any(name in text for name in PLANTED)] == []
        assert [one async for one in bench.core.ports.journal.damaged()] == []
        assert len(await bench.core.audit.page(me, action="member.erase")) == 1
        with pytest.raises(NotFound):
            await bench.core.erasures.erase(me, USER)


async def _is_empty(maintenance: Maintenance) -> bool:
    return not await maintenance.erasures()


def traces(place: Path) -> list[str]:
    contents = [file.read_bytes() for file in place.rglob("*") if file.is_file()]
    return [name for name in PLANTED for content in contents if name.encode() in content]


async def test_a_process_ends_before_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On SQLite the files are searched too. Before the request is stored, nothing is changed."""
    (tmp_path / "from").mkdir()
    org = await furnish(f"sqlite:///{tmp_path}/from/a.db", tmp_path / "from")
    for last in sorted({*slice_of(range(WHOLE), 4), STORED - 1, STORED, WHOLE}):
        place = tmp_path / str(last)
        shutil.copytree(tmp_path / "from", place)
        url = f"sqlite:///{place}/a.db"
        is_stored = await killed(url, place, org, last, monkeypatch)
        assert is_stored is (None if last == WHOLE else last >= STORED)
        if is_stored:
            await check_it_is_over(url, place, org)
            assert traces(place) == []


@pytest.mark.service
async def test_processes_end_on_postgres(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, each at a later step than the one before."""
    url = new_database()
    org = await furnish(url, tmp_path)
    for last in (STORED, 8, 6):
        assert await killed(url, tmp_path, org, last, monkeypatch)
    await check_it_is_over(url, tmp_path, org)


async def test_a_request_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It continues the first one, with its id, and needs the same rights."""
    url = f"sqlite:///{tmp_path}/a.db"
    org = await furnish(url, tmp_path)
    assert await killed(url, tmp_path, org, 9, monkeypatch)
    assert await killed(url, tmp_path, org, 3, monkeypatch)
    monkeypatch.setattr(erasure, "PROMPT", 300)
    async with opened_at(url, tmp_path, org=org, worker=False) as bench:
        ((_, pseudonym),) = await bench.core.ports.storage.maintenance.erasures()
        bob = await bench.joined("bob")
        with pytest.raises(Forbidden):
            await bench.core.erasures.start(bob, USER)
        erased = await bench.core.erasures.start(bench.person("me", role="owner"), USER)
        assert (erased.id, erased.status, erased.done) == (pseudonym, "done", erased.total)


async def test_an_erasure_that_fails_is_logged_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The next request continues it, and not that of another member."""
    url = f"sqlite:///{tmp_path}/a.db"
    org = await furnish(url, tmp_path)
    assert await killed(url, tmp_path, org, STORED, monkeypatch)
    async with opened_at(url, tmp_path, org=org, worker=False) as bench:
        erasures, maintenance = bench.core.erasures, bench.core.ports.storage.maintenance
        may_fail = asyncio.Event()
        caplog.clear()

        async def fail(_: ErasureSteps) -> None:
            await may_fail.wait()
            raise Unavailable("away")

        with monkeypatch.context() as patch:
            patch.setattr(ErasureSteps, "_make", fail)
            for _ in range(2):  # the second one joins the first one
                await erasures.resume()
            may_fail.set()
            await eventually(lambda: not erasures._running)
        assert caplog.messages == ["an erasure failed and is tried again: away"]
        assert "Traceback" not in caplog.text
        async with bench.core.ports.storage.transaction(org) as work:
            await work.erasures.add(Erasure("erased-0", "me", Member("zed", None, None, Role.MEMBER, frozenset())))
        assert len(await maintenance.erasures()) == 2
        await erasures.erase(bench.person("me", role="owner"), USER)
        assert await maintenance.erasures() == [(org, "erased-0")]
