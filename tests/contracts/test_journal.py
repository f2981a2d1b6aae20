"""The journal's contract on every adapter, and what only several processes can show."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from wfcore.adapters.memory.journal import MemoryJournal
from wfcore.adapters.sql.database import Database
from wfcore.adapters.sql.journal import SqlJournal
from wfcore.adapters.sql.tables import metadata
from wfcore.domain.access import Principal
from wfcore.ports.journal import Journal
from wfcore.testing.journal_contract import JournalContract
from wfcore.testing.journal_values import ORG, OTHER_ORG, READERS

STORE = f"""
INSERT INTO organizations (key, uuid, name, created_at)
VALUES (1, '{ORG}', 'one', 0), (2, '{OTHER_ORG}', 'two', 0);
INSERT INTO resources
    (key, org, kind, id, slug, name, status, access, is_enabled, created_at, updated_at, revision)
VALUES (1, 1, 'workflow', 1, 'one', 'one', 'active', '', 0, 0, 0, 1);
INSERT INTO grants (resource, subject, use, manage) VALUES (1, 'g:{READERS}', 1, 0);
"""


@asynccontextmanager
async def sql_journal(path: Path) -> AsyncIterator[SqlJournal]:
    """A new file as the contract wants it, or one that was made before."""
    database = Database(f"sqlite:///{path}", synchronous="NORMAL")
    await database.open()
    try:
        if not database.hot.execute("SELECT 1 FROM sqlite_master").fetchone():
            async with database.writing() as connection:
                await connection.run_sync(metadata.create_all)
            database.hot.executescript(STORE)
        yield SqlJournal(database)
    finally:
        await database.close()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class TestMemoryJournal(JournalContract):
    @asynccontextmanager
    async def open_journal(self, place: Path) -> AsyncIterator[Journal]:
        def usable(org: str, principal: Principal, kind: str, number: int) -> bool:
            return (org, kind, number) == (ORG, "workflow", 1) and READERS in principal.groups

        yield MemoryJournal(knows=lambda org: org in (ORG, OTHER_ORG), usable=usable)


class TestSqlJournal(JournalContract):
    @asynccontextmanager
    async def open_journal(self, place: Path) -> AsyncIterator[Journal]:
        async with sql_journal(place / "journal.db") as journal:
            yield journal


# What only several processes can show. Each is this very module, run as a program.


def process(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", __file__, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)


async def claim_all(path: Path) -> None:
    """Claim in small bites until nothing is due, and print what was claimed."""
    async with sql_journal(path) as journal:
        worker = await journal.register("host", 1, NOW)
        print("ready", flush=True)
        sys.stdin.readline()
        while claimed := await journal.claim_due(worker, NOW, 3):
            print(*(ref.id for ref in claimed), sep="\n", flush=True)


async def append_for_ever(path: Path) -> None:
    """Append three entries at a time to several executions, and print each length once it is acknowledged."""
    async with sql_journal(path) as journal:

        async def writer(number: int) -> None:
            ref = await begin(journal, f"r-{number}", entries=steps(3))
            length = 3
            while True:
                await journal.append(ref, Append(length, steps(3, length)))
                length += 3
                print(ref.id, length, flush=True)

        await asyncio.gather(*map(writer, range(5)))


@pytest.mark.anyio
async def test_two_processes_claim_each_execution_once(tmp_path: Path) -> None:
    """Two real processes that claim the same 200 executions get each exactly once, and both get some."""
    path = tmp_path / "journal.db"
    async with sql_journal(path) as journal:
        refs = [await due(journal, f"r-{number}", NOW) for number in range(200)]
    workers = [process("claim_all", path) for _ in range(2)]
    assert [worker.stdout.readline() for worker in workers if worker.stdout] == ["ready\n"] * 2
    for worker in workers:
        assert worker.stdin
        worker.stdin.write("go\n")
        worker.stdin.flush()
    claims = [[int(line) for line in worker.communicate()[0].split()] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0]
    assert all(claims)
    assert sorted(claims[0] + claims[1]) == [ref.id for ref in refs]


@pytest.mark.anyio
async def test_nothing_acknowledged_is_lost_by_a_kill(tmp_path: Path) -> None:
    """After kill -9 in the middle of appending, every acknowledged append is there, and none is there by half."""
    path = tmp_path / "journal.db"
    writer = process("append_for_ever", path)
    assert writer.stdout
    seen = [writer.stdout.readline() for _ in range(300)]
    writer.send_signal(signal.SIGKILL)
    seen += writer.communicate()[0].splitlines(keepends=True)
    acknowledged: dict[int, int] = {}
    for number, length in (map(int, line.split()) for line in seen if line.endswith("\n")):
        acknowledged[number] = length
    async with sql_journal(path) as journal:
        for number, length in acknowledged.items():
            entries = await journal.read(ExecutionRef(ORG, number))
            assert len(entries) in (length, length + 3)
            assert entries == list(steps(len(entries)))


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](Path(sys.argv[2])))
