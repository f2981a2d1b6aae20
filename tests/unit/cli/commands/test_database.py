"""`wfcore db copy`, `backup`, `restore` and `upgrade --dry-run`."""

import asyncio
import base64
import json
import sqlite3
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from managing import ASK, ECHO, Organization

import wfcore
from wfcore.adapters.blobs import LocalBlobs
from wfcore.domain.agents.attachments import key_of

TEXT = b"a text that is attached"
KEY = key_of(TEXT, "text/plain")
OTHER = base64.urlsafe_b64encode(b"o" * 32).decode()


def attach(acme: Organization) -> None:
    """Store an attachment and a sealed secret."""

    async def store() -> None:
        async with wfcore.open("sqlite:///wfcore.db", worker=False) as core:
            me = core.principal(acme.id, user="ada", role="owner")
            assert (await core.attachments.upload(me, TEXT)).key == KEY
            await core.connections.create(me, name="Mail", provider="mail", kind="api_key", config={"apiKey": "k"})

    asyncio.run(store())


def attached(place: str, org: str) -> bytes | None:
    return asyncio.run(LocalBlobs(Path(place)).get(org, KEY))


def test_a_backup_is_restored(acme: Organization) -> None:
    """A backup has database, attachments and key, can be served as it is, and a restore continues parked runs."""
    acme.deployed(("Refund", ASK))
    attach(acme)
    assert acme.call("run", "start", "refund", "--input", '{"order": 9}', "--key", "r", "--follow").status == 4
    made = acme.call("db", "backup", "saved")
    assert (made.status, "1 attachments, with a secret key" in made.out) == (0, True), made.err
    assert [file.name for file in sorted(Path("saved").iterdir())] == ["wfcore.db", "wfcore.db.blobs", "wfcore.db.key"]
    assert {file.stat().st_mode & 0o077 for file in Path("saved").iterdir()} == {0}
    again = acme.call("db", "backup", "saved")
    assert (again.status, "exists: name a new folder" in again.err) == (1, True)
    served = acme.call("connection", "list", "--json", "--database", "sqlite:///saved/wfcore.db")
    assert [row["status"] for row in served.json] == ["active"]

    to = ("--database", "sqlite:///new.db")
    restored = acme.call("db", "restore", "saved", *to)
    assert (restored.status, "1 attachments" in restored.out) == (0, True), restored.err
    assert attached("new.db.blobs", acme.id) == TEXT
    assert Path("new.db.key").read_bytes() == Path("wfcore.db.key").read_bytes()
    answered = acme.call("answer", "r", "approve", "--follow", *to)
    assert (answered.status, answered.out.splitlines()[1]) == (0, "9")
    assert [row["status"] for row in acme.call("connection", "list", "--json", *to).json] == ["active"]
    twice = acme.call("db", "restore", "saved", *to)
    assert (twice.status, "the target has rows" in twice.err) == (1, True)


def test_a_restore_that_is_refused(acme: Organization, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without a backup, and another secret key."""
    attach(acme)
    assert acme.call("db", "backup", "saved").status == 0
    to = ("--database", "sqlite:///new.db")
    Path("empty").mkdir()
    refused = acme.call("db", "restore", "empty", *to)
    assert (refused.status, "is not a backup" in refused.err) == (1, True)
    with monkeypatch.context() as patch:
        patch.setenv("WFCORE_SECRET_KEY", OTHER)
        other = acme.call("db", "restore", "saved", "--database", "sqlite:///fourth.db")
    assert (other.status, "encrypted with keys that the target lacks: add line 1 of" in other.err) == (1, True)
    assert not Path("fourth.db").exists()


def test_a_backup_after_the_rotation_of_the_key(acme: Organization, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the earlier keys too: what they encrypted is readable in the backup and where it is restored."""
    attach(acme)
    former = Path("wfcore.db.key").read_text().strip()
    with monkeypatch.context() as rotated:
        rotated.setenv("WFCORE_SECRET_KEY", OTHER)
        rotated.setenv("WFCORE_PREVIOUS_SECRET_KEYS", former)
        made = acme.call("db", "backup", "saved")
        assert (made.status, "with 2 secret keys" in made.out) == (0, True), made.err
        configured = acme.call("db", "restore", "saved", "--database", "sqlite:///configured.db")
        assert (configured.status, Path("configured.db.key").exists()) == (0, False), configured.err
    assert Path("saved/wfcore.db.key").read_text().split() == [OTHER, former]
    assert acme.call("db", "restore", "saved", "--database", "sqlite:///new.db").status == 0
    for database in ("saved/wfcore.db", "new.db"):
        listed = acme.call("connection", "list", "--json", "--database", f"sqlite:///{database}").json
        assert [row["status"] for row in listed] == ["active"]


def test_a_restore_after_the_rotation_of_the_key(acme: Organization, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backup that is older than the current key is restored where its key is an earlier one."""
    attach(acme)
    assert acme.call("db", "backup", "saved").status == 0
    monkeypatch.setenv("WFCORE_SECRET_KEY", OTHER)
    monkeypatch.setenv("WFCORE_PREVIOUS_SECRET_KEYS", Path("wfcore.db.key").read_text().strip())
    to = ("--database", "sqlite:///new.db")
    restored = acme.call("db", "restore", "saved", *to)
    assert restored.status == 0, restored.err
    assert [row["status"] for row in acme.call("connection", "list", "--json", *to).json] == ["active"]


def test_a_backup_without_a_key_that_is_needed(acme: Organization, monkeypatch: pytest.MonkeyPatch) -> None:
    """The backup is there, but it names what cannot be read, and the command fails; a restore does so again."""
    attach(acme)
    monkeypatch.setenv("WFCORE_SECRET_KEY", OTHER)
    made = acme.call("db", "backup", "saved")
    assert (made.status, Path("saved/wfcore.db").exists()) == (1, True)
    (line,) = made.out.splitlines()[1:]
    assert line.startswith("a secret of connection `")
    assert f"of organization `{acme.id}` was encrypted with the key `" in line
    restored = acme.call("db", "restore", "saved", "--database", "sqlite:///new.db")
    assert (restored.status, restored.out.splitlines()[1:]) == (1, [line])
    monkeypatch.setenv("WFCORE_PREVIOUS_SECRET_KEYS", Path("wfcore.db.key").read_text().strip())
    assert acme.call("db", "restore", "saved", "--database", "sqlite:///readable.db").status == 0


def test_a_restore_that_did_not_end_is_repeated(acme: Organization, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows come last: without all attachments there are none, and the same command does the rest."""
    attach(acme)
    assert acme.call("db", "backup", "saved").status == 0
    Path("files").write_text("this is not a directory")
    monkeypatch.setenv("WFCORE_BLOBS", "files")
    to = ("--database", "sqlite:///new.db")
    failed = acme.call("db", "restore", "saved", *to)
    assert (failed.status, "the directory of attachments" in failed.err) == (1, True)
    Path("files").unlink()
    repeated = acme.call("db", "restore", "saved", *to)
    assert (repeated.status, attached("files", acme.id)) == (0, TEXT), repeated.err


def test_a_refused_restore_writes_nothing(acme: Organization) -> None:
    """Neither attachments nor keys into the installation that has rows."""
    attach(acme)
    assert acme.call("db", "backup", "saved").status == 0
    before = Path("wfcore.db.key").read_bytes()
    (file,) = Path("wfcore.db.blobs").glob("*/*/*")
    file.unlink()
    refused = acme.call("db", "restore", "saved")
    assert (refused.status, "the target has rows" in refused.err) == (1, True)
    assert (file.exists(), Path("wfcore.db.key").read_bytes()) == (False, before)


def use_the_attachment(acme: Organization) -> None:
    """Start a run with it, which waits, and whose journal has it."""
    acme.deployed(("Refund", ASK))

    async def start() -> None:
        async with wfcore.open("sqlite:///wfcore.db", worker=False) as core:
            me = core.principal(acme.id, user="ada", role="owner")
            files = {"images": [], "documents": [{"uploadId": KEY}]}
            await core.runs.start(me, {"workflowId": 1, "input": {"order": 9}, "attachments": files})

    asyncio.run(start())


@pytest.mark.parametrize("fault", ["missing", "damaged"])
def test_an_attachment_that_a_run_needs(acme: Organization, fault: str) -> None:
    """Without it a check, a backup and a restore name it and fail; all else is copied."""
    attach(acme)
    use_the_attachment(acme)
    assert acme.call("db", "check", "--deep").status == 0
    assert acme.call("db", "backup", "whole").status == 0
    for place in ("wfcore.db.blobs", "whole/wfcore.db.blobs"):
        (file,) = Path(place).glob("*/*/*")
        file.unlink()
        if fault == "damaged":
            file.write_bytes(b"another text")
    line = f"attachment `{KEY}` of organization `{acme.id}` is {fault}"
    for command in (
        ("check", "--deep"),
        ("backup", "saved"),
        ("restore", "whole", "--database", "sqlite:///whole.db"),
    ):
        done = acme.call("db", *command)
        assert (done.status, line in done.out.splitlines()) == (1, True), command
    for database in ("saved/wfcore.db", "whole.db"):
        checked = acme.call("db", "check", "--deep", "--database", f"sqlite:///{database}")
        assert (checked.status, line.replace(fault, "missing") in checked.out.splitlines()) == (1, True)
        assert "all journals are intact" in checked.out
    copied = acme.call("db", "copy", "sqlite:///wfcore.db", "sqlite:///c.db", "--blobs", "wfcore.db.blobs", "c.blobs")
    assert copied.status == (1 if fault == "damaged" else 0)


def damage_a_page(database: str, table: str) -> None:
    """Overwrite the first page of a table in the file."""
    with sqlite3.connect(database) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = file.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        (size,) = file.execute("PRAGMA page_size").fetchone()
    file.close()
    with Path(database).open("r+b") as raw:
        raw.seek((page - 1) * size)
        raw.write(bytes(range(256)) * (size // 256))


@pytest.mark.parametrize("table", ["audit", "executions", "journal", "organizations"])
def test_a_check_reads_every_table(acme: Organization, table: str) -> None:
    """It names each one that cannot be read, and reads the others."""
    acme.deployed(("Refund", ASK))
    assert acme.call("run", "start", "refund", "--input", '{"order": 9}', "--follow").status == 4
    damage_a_page("wfcore.db", f"wfcore_{table}")
    checked = acme.call("db", "check", "--deep")
    assert checked.status == 1
    named = [line for line in checked.out.splitlines() if line.startswith("table `")]
    assert [line.partition(" cannot be read")[0] for line in named] == [f"table `{table}`"]


def test_a_check_names_a_value_that_is_not_text(acme: Organization) -> None:
    """Bytes that are not UTF-8 are no defect of the file, but no process can read the row."""
    with sqlite3.connect("wfcore.db") as file:
        file.execute("UPDATE wfcore_members SET name = CAST(x'ff' AS TEXT)")
    file.close()
    checked = acme.call("db", "check", "--deep")
    assert (checked.status, "table `members` cannot be read" in checked.out) == (1, True)


def test_a_failed_backup_leaves_nothing(acme: Organization) -> None:
    """A backup of a database that does not exist."""
    failed = acme.call("db", "backup", "saved", "--database", "sqlite:///no.db")
    assert (failed.status, "does not exist" in failed.err) == (1, True)
    assert not [file for file in Path().iterdir() if "saved" in file.name]


def test_a_directory_is_not_a_database_file(acme: Organization) -> None:
    """SQLite does not say why it cannot open a file; the error does, in one line."""
    Path("folder").mkdir()
    url = "sqlite:///folder"
    for command in (
        ("backup", "saved", "--database", url),
        ("copy", url, "sqlite:///b.db"),
        ("copy", "sqlite:///wfcore.db", url),
        ("upgrade", "--dry-run", "--database", url),
    ):
        failed = acme.call("db", *command)
        assert (failed.status, failed.out) == (1, ""), command
        (line,) = failed.err.splitlines()
        assert line.endswith("folder` cannot be opened: it is a directory"), command
    assert not Path("saved").exists()


def test_a_copy_with_its_attachments(acme: Organization) -> None:
    """The configured directories are given; a directory that does not exist, and a URL that is not one, are usage."""
    attach(acme)
    both = acme.call("db", "copy", "sqlite:///wfcore.db", "sqlite:///b.db", "--blobs", "wfcore.db.blobs", "b.db.blobs")
    assert (both.status, "copied and verified 1 attachments" in both.out) == (0, True), both.err
    assert attached("b.db.blobs", acme.id) == TEXT
    wrong = acme.call("db", "copy", "sqlite:///wfcore.db", "sqlite:///c.db", "--blobs", "no", "c")
    assert (wrong.status, "`no` is not a directory" in wrong.err) == (2, True)
    usage = acme.call("db", "copy", "sqlite:///wfcore.db", "mysql://x")
    assert (usage.status, "use a database that is stored" in usage.err) == (2, True)
    for url in ("postgresql://u:secret@h:x/n", "postgresql://u:my@secret@h/n"):
        for command in (("db", "copy", "sqlite:///wfcore.db", url), ("db", "backup", "d.backup", "--database", url)):
            invalid = acme.call(*command)
            assert (invalid.status, "the database URL is not valid" in invalid.err) == (2, True)
            assert "secret" not in invalid.err + invalid.out
    refused = acme.call("db", "copy", "sqlite:///wfcore.db", "sqlite:///b.db")
    assert (refused.status, "the target has rows" in refused.err) == (1, True)


def test_the_plan_of_an_upgrade(acme: Organization) -> None:
    new = acme.call("db", "upgrade", "--dry-run", "--database", "sqlite:///new.db")
    assert new.status == 0
    assert new.out.startswith("CREATE TABLE")
    assert "nothing was changed" in new.err
    assert not Path("new.db").exists()
    current = acme.call("db", "upgrade", "--dry-run")
    assert (current.status, current.out) == (0, "")


def test_old_data_is_pruned(acme: Organization) -> None:
    """A dry run only counts; without `[retention]` everything is kept; an age of 0 is refused."""
    acme.deployed(("Echo", ECHO))
    assert acme.call("run", "start", "echo", "--input", '{"order": 7}', "--key", "r", "--follow").status == 0
    kept = acme.call("db", "prune")
    assert (kept.status, kept.rows, "everything is kept" in kept.err) == (0, [], True)
    Path("wfcore.toml").write_text("[retention]\nruns_days = 1e-9\naudit_days = 100\n")
    config = ("--config", "wfcore.toml")
    assert acme.call("db", "prune", "--dry-run", *config).rows == [["runs", "1"], ["audit", "0"]]
    assert acme.call("run", "show", "r").status == 0
    pruned = acme.call("db", "prune", "--json", *config).json
    assert pruned == [{"kind": "runs", "count": 1}, {"kind": "audit", "count": 0}]
    assert acme.call("run", "show", "r").status == 1
    Path("wfcore.toml").write_text("[retention]\nruns_days = 0\n")
    refused = acme.call("db", "prune", *config)
    assert (refused.status, "`retention.runs_days`" in refused.err) == (2, True)


def test_an_organization_is_deleted(acme: Organization) -> None:
    """After a confirmation; an unknown one is an error."""
    acme.deployed(("Refund", ASK))
    asked = acme.call("org", "delete", acme.id)
    assert (asked.status, "confirm with --yes" in asked.err) == (2, True)
    assert acme.call("org", "delete", acme.id, "--yes").status == 0
    assert acme.call("org", "list", "--json").json == []
    again = acme.call("org", "delete", acme.id, "--yes")
    assert (again.status, "unknown organization" in again.err) == (1, True)


def test_a_member_is_exported_and_erased(acme: Organization) -> None:
    """Also the last words: the file is new and private, a missing member is an error, an erased one is gone."""
    acme.deployed(("Echo", ECHO))
    exported = acme.call("member", "export", "bob", "--to", "bob.zip")
    assert (exported.status, "wrote" in exported.err) == (0, True), exported.err
    assert (Path("bob.zip").read_bytes()[:2], Path("bob.zip").stat().st_mode & 0o777) == (b"PK", 0o600)
    assert acme.call("member", "export", "bob", "--to", "bob.zip").status == 1
    missing = acme.call("member", "export", "nobody", "--to", "nobody.zip")
    assert (missing.status, Path("nobody.zip").exists()) == (1, False)
    asked = acme.call("member", "erase", "bob")
    assert (asked.status, "confirm with --yes" in asked.err) == (2, True)
    erased = acme.call("member", "erase", "bob", "--transfer-to", "ada", "--yes")
    assert (erased.status, erased.out.startswith("erased-")) == (0, True), erased.err
    assert [row["userId"] for row in acme.call("member", "list", "--json").json] == ["ada"]
    last = acme.call("member", "erase", "ada", "--yes")
    assert (last.status, "last owner" in last.err) == (1, True)


def test_an_organization_is_shown(acme: Organization) -> None:
    shown = acme.call("org", "show", acme.id).json
    assert {**shown, "createdAt": "", "audit": 0} == {
        "id": acme.id, "name": "Acme", "createdAt": "", "maxConcurrentRuns": None, "workflowLimits": {},
        "runs": 0, "messages": 0, "audit": 0,
    }  # fmt: skip
    assert shown["audit"] > 0
    assert acme.call("org", "limit", acme.id, "5").status == 0
    assert acme.call("org", "show", acme.id).json["maxConcurrentRuns"] == 5
    assert acme.call("org", "limit", acme.id, "none").status == 0
    assert acme.call("org", "show", acme.id).json["maxConcurrentRuns"] is None
    refused = acme.call("org", "limit", acme.id, "5", "--workflow", "7")
    assert (refused.status, "unknown workflow `7`" in refused.err) == (1, True)
    assert [acme.call("org", "limit", acme.id, most).status for most in ("0", "many")] == [2, 2]
    assert acme.call("org", "limit", "00000000-0000-4000-8000-00000000ffff", "1").status == 1
    unknown = acme.call("org", "show", "00000000-0000-4000-8000-00000000ffff")
    assert (unknown.status, "unknown organization" in unknown.err) == (1, True)


def test_an_organization_is_exported(acme: Organization) -> None:
    assert acme.call("org", "export", acme.id, "--to", "acme.zip").status == 0
    with zipfile.ZipFile("acme.zip") as archive:
        rows = [json.loads(line)["userId"] for line in archive.read("members.jsonl").splitlines()]
    assert rows == ["ada", "bob"]
    unknown = acme.call("org", "export", "00000000-0000-4000-8000-00000000ffff", "--to", "b.zip")
    assert (unknown.status, "unknown organization" in unknown.err) == (1, True)
    again = acme.call("org", "export", acme.id, "--to", "acme.zip")
    assert (again.status, again.err) == (1, "error: `acme.zip` exists: name a new file\n")


@pytest.mark.parametrize("command", [
    ("member", "export", "ada", "--to", "ada.zip"), ("org", "export", "ORG", "--to", "acme.zip"),
    ("db", "check", "--deep"), ("member", "erase", "bob", "--yes"),
])  # fmt: skip
def test_long_commands_show_their_progress(
    acme: Organization, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """Up to the last of all steps, and never more. Of a check, the bar of the runs."""
    shown: list[tuple[int, int]] = []

    @contextmanager
    def bar(_: str) -> Iterator[Callable[[int, int], None]]:
        shown.clear()
        yield lambda done, total: shown.append((done, total))

    acme.deployed(("Echo", ECHO))
    for _ in range(3):
        assert acme.call("run", "start", "echo", "--input", '{"order": 1}', "--follow").status == 0
    monkeypatch.setattr("wfcore.cli.bars.bar", bar)
    monkeypatch.setattr("wfcore.runtime.data.erasure.PROMPT", 0)
    done = acme.call(*(acme.id if word == "ORG" else word for word in command))
    assert done.status == 0, done.err
    assert shown == sorted(shown)
    if "erase" in command:
        shown = [one for one in shown if one != (0, 1)]  # the executions are not counted yet
    ((total, number),) = Counter(total for _, total in shown).items()
    assert shown[0][0] <= shown[-1][0] <= total
    if "erase" not in command:
        assert [done for done, _ in shown] == list(range(1, total + 1))
        assert number == total > 2
