"""What `wfcore db check --deep` says about keys."""

import asyncio
import base64
from pathlib import Path

from managing import Organization

import wfcore

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
