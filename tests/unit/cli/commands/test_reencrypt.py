"""`wfcore db reencrypt`, and what `wfcore db check --deep` says about keys."""

import asyncio
import base64
from pathlib import Path

from managing import Organization

import wfcore
from wfcore.adapters.sealing import decode_key, id_of

NEW = base64.urlsafe_b64encode(b"n" * 32).decode()
FILE = Path("wfcore.db.key")


def furnish(acme: Organization) -> str:
    """Two connections, and a hook with an earlier secret. Returns the id of the hook."""

    async def store() -> str:
        async with wfcore.open("sqlite:///wfcore.db", worker=False) as core:
            me = core.principal(acme.id, user="ada", role="owner")
            for name in ("Mail", "Desk"):
                await core.connections.create(me, name=name, provider="mail", kind="api_key", config={"apiKey": "k"})
            hook = await core.hooks.create(me, url="https://crm.example.org/hook", events=["run.failed"])
            await core.hooks.rotate(me, hook.id)
            return hook.id

    return asyncio.run(store())


def test_the_key_beside_a_file_is_replaced(acme: Organization) -> None:
    """As `docs/operations/data.md` says: a new first line, the command, a check, and without the old line all works."""
    furnish(acme)
    former = FILE.read_text().strip()
    old, new = (id_of(decode_key(key, "key")) for key in (former, NEW))
    assert f"the current key `{old}` encrypts the secrets of 3 rows" in acme.call("db", "check", "--deep").out
    FILE.write_text(f"{NEW}\n{former}\n")
    checked = acme.call("db", "check", "--deep")
    assert checked.status == 0
    assert f"the current key `{new}` encrypts the secrets of 0 rows" in checked.out
    assert f"an earlier key `{old}` encrypts those of 3 rows: `wfcore db reencrypt` replaces it" in checked.out

    wanted = [["connections", "2"], ["connection_grants", "0"], ["hooks", "1"], ["interfaces", "0"], ["webhooks", "0"]]
    tried = acme.call("db", "reencrypt", "--dry-run")
    assert (tried.status, tried.rows, "TO ENCRYPT" in tried.out) == (0, wanted, True)
    done = acme.call("db", "reencrypt")
    assert (done.status, done.rows, done.err) == (0, wanted, "")
    assert {row["count"] for row in acme.call("db", "reencrypt", "--json").json} == {0}

    checked = acme.call("db", "check", "--deep")
    assert f"the current key `{new}` encrypts the secrets of 3 rows" in checked.out
    assert f"an earlier key `{old}` encrypts nothing: it can be removed" in checked.out
    FILE.write_text(f"{NEW}\n")
    checked = acme.call("db", "check", "--deep")
    assert (checked.status, old in checked.out) == (0, False)
    listed = acme.call("connection", "list", "--json").json
    assert {row["status"] for row in listed} == {"active"}


def test_a_lost_key_file(acme: Organization) -> None:
    """A command that only reads makes no other one, with which a server would encrypt what the old one cannot read."""
    furnish(acme)
    former = FILE.read_text()
    FILE.unlink()
    tried = acme.call("db", "reencrypt", "--dry-run", "--json")
    assert (tried.status, tried.err.count("which is missing")) == (1, 3)
    checked = acme.call("db", "check", "--deep")
    assert (checked.status, FILE.exists()) == (1, False)
    FILE.write_text(former)
    assert acme.call("db", "reencrypt", "--dry-run").status == 0


def test_a_key_that_is_missing(acme: Organization) -> None:
    """Each secret that it encrypts is named, all else is encrypted, and the status is 1; so for a dry run."""
    hook = furnish(acme)
    former = FILE.read_text().strip()
    FILE.write_text(f"{NEW}\n")
    asyncio.run(another_connection(acme))
    other = base64.urlsafe_b64encode(b"o" * 32).decode()
    FILE.write_text(f"{other}\n{NEW}\n")
    old = id_of(decode_key(former, "key"))
    line = f"a secret of hook `{hook}` of organization `{acme.id}` was encrypted with the key `{old}`, which is missing"
    tried = acme.call("db", "reencrypt", "--dry-run", "--json")
    assert (tried.status, line in tried.err.splitlines()) == (1, True)
    assert "3 secrets cannot be decrypted\n" in tried.err
    assert tried.json[0] == {"kind": "connections", "count": 1}
    done = acme.call("db", "reencrypt")
    assert (done.status, done.rows[0], done.err.count("which is missing")) == (1, ["connections", "1"], 3)
    assert done.err.endswith("error: 3 secrets cannot be decrypted: all others are encrypted with the current key\n")
    FILE.write_text(f"{other}\n{NEW}\n{former}\n")
    assert acme.call("db", "reencrypt").rows[:3] == [["connections", "2"], ["connection_grants", "0"], ["hooks", "1"]]


async def another_connection(acme: Organization) -> None:
    async with wfcore.open("sqlite:///wfcore.db", worker=False) as core:
        me = core.principal(acme.id, user="ada", role="owner")
        await core.connections.create(me, name="New", provider="crm", kind="api_key", config={"apiKey": "k"})


def test_an_earlier_secret_of_a_hook_needs_its_key(acme: Organization) -> None:
    """While it signs, a check and a backup name its key when it is missing."""
    hook = furnish(acme)
    former = FILE.read_text().strip()
    FILE.write_text(f"{NEW}\n{former}\n")

    async def rotate() -> None:
        async with wfcore.open("sqlite:///wfcore.db", worker=False) as core:
            me = core.principal(acme.id, user="ada", role="owner")
            await core.hooks.rotate(me, hook)

    asyncio.run(rotate())
    FILE.write_text(f"{NEW}\n")
    line = f"a secret of hook `{hook}` of organization `{acme.id}` was encrypted with the key"
    checked = acme.call("db", "check", "--deep")
    assert (checked.status, checked.out.count(line)) == (1, 1)


def test_a_database_in_memory(acme: Organization) -> None:
    """It has nothing to encrypt."""
    done = acme.call("db", "reencrypt", "--json", "--database", "sqlite://")
    assert (done.status, {row["count"] for row in done.json}) == (0, {0})
