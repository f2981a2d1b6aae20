"""The use cases of hooks."""

import asyncio
from typing import Any

import attrs
import pytest
from bench import Bench, act, one, paths, private, reason
from hooking import ALL
from scheduling import HOUR

from wfcore.adapters.sealing import Sealing
from wfcore.domain.channels.hooks import MOST_FORMER
from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid, NotFound
from wfcore.runtime.channels.hooks import Hooks, open_secrets
from wfcore.runtime.channels.notifier import Notifier

pytestmark = pytest.mark.anyio

URL = "https://crm.example.org/hook"
ECHO = one(act("echo", value=1))


class TestHooks:
    """Create, read, change, rotate, delete."""

    async def test_a_hook_shows_its_secret_once(self, bench: Bench) -> None:
        """In the result of its creation and of a rotation; a create with the same key repeats the result."""
        hooks = bench.core.hooks
        made = await hooks.create(bench.me, url=URL, events=["run.failed"], key="k-1")
        assert str(made.secret).startswith("whsec_")
        assert made.to_wire() == {
            "id": made.id, "url": URL, "events": ["run.failed"], "filter": {"workflowId": None}, "isEnabled": True,
            "createdBy": "me", "secret": made.secret,
        }  # fmt: skip
        assert await hooks.create(bench.me, url=URL, events=["run.failed"], key="k-1") == made
        assert await reason(hooks.create(bench.me, url=URL, events=["run.finished"], key="k-1")) == "key_reused"
        read = await hooks.get(bench.me, made.id)
        assert read.secret is None
        assert await hooks.page(bench.me) == [read]
        renewed = await hooks.rotate(bench.me, made.id)
        assert renewed.secret not in (None, made.secret)
        assert open_secrets(bench.core.ports, bench.org, await hooks.get(bench.me, made.id)) == [
            renewed.secret, made.secret
        ]  # fmt: skip

    async def test_a_change(self, bench: Bench) -> None:
        """Only the given fields; the caller becomes the maker; an outdated ETag is a Conflict."""
        hooks, number = bench.core.hooks, await bench.deployed(ECHO)
        made = await hooks.create(bench.me, url=URL, events=["run.failed"], filter={"workflowId": number})
        changed = await hooks.patch(bench.other, made.id, url=f"{URL}/2")
        assert (changed.url, changed.events, changed.workflow_id) == (f"{URL}/2", ("run.failed",), number)
        assert changed.user_id == "other"
        changed = await hooks.patch(bench.me, made.id, {"filter": None, "isEnabled": False, "events": ALL})
        assert (changed.workflow_id, changed.is_enabled, changed.events) == (None, False, tuple(ALL))
        for call in (hooks.patch(bench.me, made.id, is_enabled=True, if_match='"x"'),
                     hooks.rotate(bench.me, made.id, if_match='"x"'),
                     hooks.delete(bench.me, made.id, if_match='"x"')):  # fmt: skip
            with pytest.raises(Conflict):
                await call

    async def test_a_deleted_hook(self, bench: Bench) -> None:
        """It is gone with its deliveries, and receives no more."""
        hooks = bench.core.hooks
        made = await hooks.create(bench.me, url=URL, events=ALL)
        await bench.ran(ECHO)
        assert len(await hooks.deliveries(bench.me, made.id)) == 1
        await hooks.delete(bench.me, made.id)
        await bench.ran(ECHO)
        assert await bench.core.ports.storage.due_deliveries(bench.clock.now(), limit=9) == []
        for call in (hooks.get(bench.me, made.id), hooks.deliveries(bench.me, made.id), hooks.rotate(bench.me, made.id),
                     hooks.delete(bench.me, made.id), hooks.patch(bench.me, made.id, url=URL)):  # fmt: skip
            with pytest.raises(NotFound):
                await call

    @pytest.mark.parametrize(
        ("fields", "found"),
        [
            ({"events": []}, ("events", "minItems")),
            ({"events": ["run.begun"]}, ("events[0]", "enum")),
            ({"events": ["run.failed", "run.failed"]}, ("events[1]", "unique")),
            ({"url": "ftp://x"}, ("url", "url")),
            ({"url": "https://me:secret@x"}, ("url", "url")),
            ({"filter": {"workflowId": 99}}, ("filter.workflowId", "reference")),
        ],
    )
    async def test_what_is_refused(self, bench: Bench, fields: Any, found: tuple[str, str]) -> None:
        """Each fault with its path; nothing is written."""
        with pytest.raises(Invalid) as error:
            await bench.core.hooks.create(bench.me, {"url": URL, "events": ["run.failed"], **fields})
        assert paths(error) == {found}
        assert await bench.core.hooks.page(bench.me) == []

    async def test_a_workflow_that_the_caller_cannot_use(self, bench: Bench) -> None:
        """It looks as if it did not exist."""
        number = await bench.deployed(ECHO, access=private())
        with pytest.raises(Invalid) as error:
            await bench.core.hooks.create(bench.other, url=URL, events=ALL, filter={"workflowId": number})
        assert paths(error) == {("filter.workflowId", "reference")}

    async def test_scopes_and_organizations(self, bench: Bench) -> None:
        """Reading and writing need their scopes; a hook of another organization is not found."""
        hooks = bench.core.hooks
        made = await hooks.create(bench.me, url=URL, events=ALL)
        reader = bench.person("reader", scopes=["hooks:read"])
        assert (await hooks.get(reader, made.id)).id == made.id
        with pytest.raises(Forbidden):
            await hooks.rotate(reader, made.id)
        with pytest.raises(Forbidden):
            await hooks.page(bench.person("nobody", scopes=["workflows:write"]))
        other = (await bench.core.directory.create_organization("Other")).uuid
        with pytest.raises(NotFound):
            await hooks.get(bench.core.principal(other, "me"), made.id)

    async def test_changes_are_audited(self, bench: Bench) -> None:
        """Without the secret."""
        hooks = bench.core.hooks
        made = await hooks.create(bench.me, url=URL, events=["run.failed"])
        await hooks.patch(bench.me, made.id, is_enabled=False)
        await hooks.rotate(bench.me, made.id)
        await hooks.delete(bench.me, made.id)
        rows = [view.row for view in await bench.core.audit.page(bench.person("me", role="owner"))]
        found = [row for row in rows if row.kind == "hook"]
        assert {row.action for row in found} == {"hook.create", "hook.update", "hook.rotate", "hook.delete"}
        assert "whsec" not in repr(found)


async def _signing(bench: Bench, hook: str) -> list[str]:
    """The secrets that sign now."""
    return open_secrets(bench.core.ports, bench.org, await bench.core.hooks.get(bench.me, hook))


class TestRedelivery:
    """Delivering again."""

    async def test_what_is_refused(self, bench: Bench) -> None:
        """An unknown delivery, an id in another spelling or too large, that of another hook, and a hook that is off."""
        hooks = bench.core.hooks
        made, other = [await hooks.create(bench.me, url=URL, events=["run.finished"]) for _ in range(2)]
        await bench.ran(ECHO)
        (delivery,) = await hooks.deliveries(bench.me, made.id)
        unknown = ("999", "x", f"0{delivery.id}", "9" * 30)
        for hook, name in (*((made, name) for name in unknown), (other, delivery.id)):
            with pytest.raises(NotFound):
                await hooks.redeliver(bench.me, hook.id, name)
        await hooks.patch(bench.me, made.id, is_enabled=False)
        assert await reason(hooks.redeliver(bench.me, made.id, delivery.id)) == "disabled"

    async def test_the_log_is_paged(self, bench: Bench) -> None:
        """Newest first."""
        hooks = bench.core.hooks
        made = await hooks.create(bench.me, url=URL, events=["run.finished"])
        for _ in range(3):
            await bench.ran(ECHO)
        newest, middle, oldest = await hooks.deliveries(bench.me, made.id)
        assert await hooks.deliveries(bench.me, made.id, limit=1, before=newest.id) == [middle]
        assert await hooks.deliveries(bench.me, made.id, before=middle.id) == [oldest]
        assert oldest.to_wire()["status"] == "pending"


class TestRotation:
    """Each secret signs for 24 hours after the rotation that replaced it."""

    async def test_a_repeated_rotation(self, bench: Bench) -> None:
        """A rotation whose response was lost is repeated: the secret that the receiver has signs as long as before."""
        hooks = bench.core.hooks
        made = await hooks.create(bench.me, url=URL, events=["run.failed"])
        lost, renewed = [await hooks.rotate(bench.me, made.id) for _ in range(2)]
        assert await _signing(bench, made.id) == [renewed.secret, lost.secret, made.secret]

    async def test_the_end_of_each(self, bench: Bench) -> None:
        """An earlier secret ends at its own time, and no more than ten sign beside the current one."""
        hooks, secrets = bench.core.hooks, []
        made = await hooks.create(bench.me, url=URL, events=["run.failed"])
        secrets.append(made.secret)
        for _ in range(2):
            bench.clock.advance(12 * HOUR)
            secrets.append((await hooks.rotate(bench.me, made.id)).secret)
        bench.clock.advance(12 * HOUR - 1)
        assert await _signing(bench, made.id) == secrets[::-1]
        bench.clock.advance(1)
        assert await _signing(bench, made.id) == secrets[:0:-1]
        bench.clock.advance(12 * HOUR)
        assert await _signing(bench, made.id) == secrets[2:]
        secrets += [(await hooks.rotate(bench.me, made.id)).secret for _ in range(12)]
        assert await _signing(bench, made.id) == secrets[: -2 - MOST_FORMER : -1]


class TestMissingKey:
    """An installation that lacks the key of the secrets."""

    async def test_a_rotation_is_enough(self, bench: Bench) -> None:
        """The new secret signs at once, although the one before cannot be read."""
        made = await bench.core.hooks.create(bench.me, url=URL, events=["run.failed"])
        ports = attrs.evolve(bench.core.ports, sealer=Sealing(lambda: [b"x" * 32]))
        assert open_secrets(ports, bench.org, await bench.core.hooks.get(bench.me, made.id)) == []
        renewed = await Hooks(ports).rotate(bench.me, made.id)
        assert open_secrets(ports, bench.org, await bench.core.hooks.get(bench.me, made.id)) == [renewed.secret]

    async def test_a_delivery_is_recorded_as_failed(self, bench: Bench) -> None:
        """Nothing is sent; the log names what to do, and the delivery is tried again later."""
        hook = await bench.core.hooks.create(bench.me, url="https://hooks.example.org", events=["run.finished"])
        await bench.ran(one(act("echo")))
        without = Notifier(attrs.evolve(bench.core.ports, sealer=Sealing(lambda: [b"x" * 32])))
        await without.poll()
        await asyncio.gather(*without._under_way.values())
        (delivery,) = await bench.core.hooks.deliveries(bench.me, hook.id)
        (attempt,) = delivery.to_wire()["attempts"]
        assert "the secret of this hook cannot be read" in attempt["error"]
        await without.stop()
