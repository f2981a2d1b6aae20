"""The contract of change feeds for the hub of one process; and its transports between processes."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from postgres_server import new_database

from wfcore.adapters.dispatch import change_file
from wfcore.adapters.dispatch.change_file import ChangeFile
from wfcore.adapters.dispatch.change_hub import ChangeHub
from wfcore.adapters.sql.postgres.hints import PostgresHints
from wfcore.ports.changes import ChangeFeed, FeedChange, MissedChanges
from wfcore.testing.contracts.events import LONG, ORG, OTHER_ORG, SHORT, ChangesContract, changes

pytestmark = pytest.mark.anyio


class TestChangeHub(ChangesContract):
    def open_feed(self) -> ChangeFeed:
        return ChangeHub()


class TestOnAFile(ChangesContract):
    """The hub with the transport of SQLite files."""

    @pytest.fixture(autouse=True)
    def _path(self, tmp_path: Path) -> None:
        self.path = tmp_path / "app.db"

    def open_feed(self) -> ChangeFeed:
        return ChangeHub(ChangeFile(self.path))


@pytest.fixture
def hubs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[ChangeHub]:
    """Hubs of three processes on one SQLite file."""
    monkeypatch.setattr(change_file, "POLL_INTERVAL", 0.001)
    return [ChangeHub(ChangeFile(tmp_path / "app.db")) for _ in range(3)]


@contextmanager
def no_file(hub: ChangeHub) -> Iterator[Path]:
    assert isinstance(hub._transport, ChangeFile)
    yield hub._transport._path


class TestChangeFile:
    async def test_other_processes_receive(self, hubs: list[ChangeHub]) -> None:
        """All others receive each change once, of any organization that they follow."""
        sender, *others = hubs
        following = [other.subscribe(ORG) for other in others]
        own, foreign = sender.subscribe(ORG), others[0].subscribe(OTHER_ORG)
        assert sender.has_followers(OTHER_ORG)
        sender.publish(ORG, changes(2))
        assert [await one.next(LONG) for one in [own, *following]] == [changes(2)] * 3
        assert [await one.next(SHORT) for one in [own, *following, foreign]] == [[]] * 4
        for one in [own, *following, foreign]:
            one.close()

    async def test_nothing_is_written_without_followers(self, hubs: list[ChangeHub]) -> None:
        """The file exists while somebody follows, and then only."""
        with no_file(hubs[0]) as path:
            hubs[0].publish(ORG, changes(1))
            assert not path.exists()
            assert not hubs[0].has_followers(ORG)
            following = hubs[1].subscribe(ORG)
            assert path.exists()
            following.close()
            assert not path.exists()

    async def test_a_removed_file_is_noticed(self, hubs: list[ChangeHub]) -> None:
        """When a follower leaves, the others go on: they may have missed changes, and receive later ones."""
        one, two = hubs[0].subscribe(ORG), hubs[1].subscribe(ORG)
        one.close()
        with pytest.raises(MissedChanges):
            await two.next(LONG)
        hubs[2].publish(ORG, changes(1))
        assert await two.next(LONG) == changes(1)
        two.close()

    async def test_an_emptied_file_is_noticed(self, hubs: list[ChangeHub], monkeypatch: pytest.MonkeyPatch) -> None:
        """A writer empties a file that has become too large; a follower that had read only a part misses changes."""
        monkeypatch.setattr(change_file, "MAX_BYTES", 500)
        following = hubs[0].subscribe(ORG)
        hubs[1].publish(ORG, changes(3))
        assert await following.next(LONG) == changes(3)
        hubs[1].publish(ORG, changes(100))
        with pytest.raises(MissedChanges):
            await following.next(LONG)
        hubs[1].publish(ORG, changes(1))
        assert await following.next(LONG) == changes(1)
        following.close()

    async def test_a_damaged_line_is_a_missed_change(self, hubs: list[ChangeHub]) -> None:
        """What cannot be read is not guessed; a line that is still being written waits for its end."""
        following = hubs[0].subscribe(ORG)
        with no_file(hubs[0]) as path, path.open("ab", buffering=0) as file:
            file.write(b'["x","' + ORG.encode() + b'",[')
            await asyncio.sleep(0.01)
            assert await following.next(SHORT) == []
            file.write(b"nonsense\n")
            with pytest.raises(MissedChanges):
                await following.next(LONG)
        following.close()

    async def test_whoever_opens_the_database_reads_the_file(self, tmp_path: Path) -> None:
        """It has the permissions of the database."""
        database = tmp_path / "app.db"
        database.touch()
        database.chmod(0o600)
        hub = ChangeHub(ChangeFile(database))
        following = hub.subscribe(ORG)
        with no_file(hub) as path:
            assert path.stat().st_mode & 0o777 == 0o600
        following.close()

    async def test_a_directory_that_is_gone_is_only_logged(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Changes of this process still arrive."""
        hub = ChangeHub(ChangeFile(tmp_path / "none" / "app.db"))
        following = hub.subscribe(ORG)
        hub.publish(ORG, changes(1))
        assert await following.next(LONG) == changes(1)
        assert "cannot be read" in caplog.text
        following.close()

    async def test_processes_write_whole_lines(self, hubs: list[ChangeHub]) -> None:
        """Lines of processes that write at the same time do not mix."""
        following = hubs[0].subscribe(ORG)
        with no_file(hubs[0]) as path:
            database = path.with_name("app.db")

        def write(number: int) -> None:
            writer, seen_by = ChangeFile(database), ("u:x" * 50,)
            for one in range(100):
                writer.send_changes(ORG, [FeedChange("run", f"{number}-{one}", "changed", "workflow", 1, seen_by)])

        writers = asyncio.gather(*(asyncio.to_thread(write, number) for number in range(3)))
        received = list[FeedChange]()
        async with asyncio.timeout(LONG):
            while len(received) < 300:
                received += await following.next(LONG)
        await writers
        assert len({one.id for one in received}) == 300
        following.close()


@pytest.fixture
async def servers(anyio_backend: str) -> AsyncIterator[list[ChangeHub]]:
    """Hubs of two processes on one PostgreSQL database."""
    url = new_database()
    hints = [PostgresHints(url) for _ in range(2)]
    for one in hints:
        await one.open(lambda _: None, lambda _, __: None)
    yield [ChangeHub(one) for one in hints]
    for one in hints:
        await one.close()


class TestNotifications:
    async def test_other_processes_receive(self, servers: list[ChangeHub]) -> None:
        """Every field arrives, of ids of any characters."""
        one, other = servers
        following = other.subscribe(ORG)
        sent = [FeedChange("run", "a/b c%-'é\"", "created", "workflow", 7, ("e:ann@x.org", "g:1")), *changes(500)]
        one.publish(ORG, sent)
        received = list[FeedChange]()
        async with asyncio.timeout(LONG):
            while len(received) < len(sent):
                received += await following.next(LONG)
        assert received == sent

    async def test_a_change_that_is_too_long_is_missed(self, servers: list[ChangeHub]) -> None:
        """A notification has a limited size: then the follower reads everything again."""
        one, other = servers
        following = other.subscribe(ORG)
        one.publish(
            ORG, [FeedChange("interrupt", "i", "created", "workflow", 1, tuple(f"e:{n}@x.org" for n in range(999)))]
        )
        with pytest.raises(MissedChanges):
            await following.next(LONG)
