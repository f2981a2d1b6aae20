"""Webhooks through the library: only managers see the secret, and a message starts one run."""

import asyncio
from pathlib import Path
from typing import Any

import attrs
import pytest
from bench import Bench, act, ask, one, opened, paths, private, shared, start

from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid, Malformed, NotFound, Unavailable
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.triggers.webhooks import TOLERANCE, BadSignature, Webhook, run_id_of, sign
from wfcore.runtime.common.installation import Secrets
from wfcore.runtime.common.run_views import RunView

pytestmark = pytest.mark.anyio

ECHO = one(act("echo", value="{{ input.body.n }}"))
TRIGGER = {"trigger_type": "webhook"}
BODY = b'{"n": 1}'


async def hooked(bench: Bench, structure: Any = ECHO, trigger: Any = TRIGGER, **more: Any) -> tuple[int, Webhook]:
    """A deployed workflow with this trigger, and its webhook."""
    number = await bench.deployed(structure, trigger=trigger, **more)
    return number, await bench.core.workflows.webhook(bench.me, number)


async def send(
    bench: Bench, webhook: Webhook, body: bytes = BODY, *, id: str = "msg_1", age: int = 0, more: Any = None
) -> RunView:
    """Deliver a message that is `age` seconds old."""
    at = bench.clock.now() // 1000 - age
    signed = {"webhook-id": id, "webhook-timestamp": str(at), "webhook-signature": sign(webhook.secret, id, at, body)}

    async def read() -> bytes:
        return body

    return await bench.core.webhooks.receive(webhook.id, {**signed, **(more or {})}.items(), read)


async def unread() -> bytes:
    raise AssertionError("the body was asked for")


async def reason(sending: Any) -> JSON:
    with pytest.raises(Conflict) as error:
        await sending
    return error.value.info["reason"]


class TestSecret:
    """Reading and rotating."""

    async def test_it_is_created_once(self, bench: Bench) -> None:
        """The first read creates it, also for a draft; later reads return the same; each workflow has its own."""
        flows = bench.core.workflows
        number = (await flows.create(bench.me, name="f")).id
        made = await asyncio.gather(*(flows.webhook(bench.me, number) for _ in range(3)))
        assert made == [made[0]] * 3
        assert await flows.webhook(bench.other, number) == made[0]
        assert (await flows.webhook(bench.me, await bench.deployed(ECHO))).id != made[0].id

    async def test_rotating(self, bench: Bench) -> None:
        """The url stays. Messages signed with the old secret are refused, those with the new one accepted."""
        number, old = await hooked(bench)
        await send(bench, old)
        new = await bench.core.workflows.rotate_webhook(bench.me, number)
        assert (new.path, new.secret == old.secret) == (old.path, False)
        assert await bench.core.workflows.webhook(bench.me, number) == new
        for name in ("msg_1", "msg_2"):
            with pytest.raises(BadSignature):
                await send(bench, old, id=name)
            await send(bench, new, id=name)

    async def test_the_audit_records_creation_and_rotation(self, bench: Bench) -> None:
        """Each once, without any part of the secret; a second read writes no row."""
        boss = bench.person("boss", role="owner")
        number, _ = await hooked(bench)
        await bench.core.workflows.webhook(bench.me, number)
        await bench.core.workflows.rotate_webhook(bench.other, number)
        rows = [view.to_wire() for view in await bench.core.audit.page(boss)]
        audited = [(row["userId"], row["action"], row["resource"]["id"], row["details"]) for row in rows[:2]]
        assert audited == [
            ("other", "workflow.rotate_webhook", str(number), {}),
            ("me", "workflow.create_webhook", str(number), {}),
        ]

    async def test_it_requires_manage_and_write(self, bench: Bench) -> None:
        """Use alone is refused, for strangers the workflow does not exist, and a read-only token gets nothing."""
        number, _ = await hooked(bench, accessConfig=private("other@x.org"))
        reader = attrs.evolve(bench.me, scopes=frozenset({"workflows:read", "workflows:invoke"}))
        for cases in (bench.core.workflows.webhook, bench.core.workflows.rotate_webhook):
            for who, error in ((bench.other, Forbidden), (bench.person("eve"), NotFound), (reader, Forbidden)):
                with pytest.raises(error):
                    await cases(who, number)
            with pytest.raises(NotFound):
                await cases(bench.me, 99)

    async def test_a_deleted_workflow(self, bench: Bench) -> None:
        """No webhook is created for it; a manager can still read an existing one."""
        flows, (number, webhook) = bench.core.workflows, await hooked(bench)
        await flows.delete(bench.me, number)
        assert await flows.webhook(bench.me, number) == webhook
        assert await reason(flows.rotate_webhook(bench.me, number)) == "deleted"

    async def test_it_is_sealed_at_rest(self, database: str) -> None:
        """Neither id nor secret is in the file; a former key opens them, a foreign one does not until a rotation."""
        first, second = b"1" * 32, b"2" * 32
        async with opened(database, secrets=first) as bench:
            org, (number, webhook) = bench.org, await hooked(bench)
        path = Path(database.removeprefix("sqlite:///"))
        kept = b"".join(file.read_bytes() for file in path.parent.glob(path.name + "*"))
        assert webhook.id.encode() not in kept
        assert webhook.secret.removeprefix("whsec_").encode() not in kept
        async with opened(database, org=org, secrets=Secrets(second, previous=[first])) as bench:
            assert await bench.core.workflows.webhook(bench.me, number) == webhook
            await send(bench, webhook)
        async with opened(database, org=org, secrets=second) as bench:
            assert await reason(bench.core.workflows.webhook(bench.me, number)) == "secret_unreadable"
            with pytest.raises(Unavailable):
                await send(bench, webhook)
            anew = await bench.core.workflows.rotate_webhook(bench.me, number)
            assert (await send(bench, anew, id="msg_9")).id


class TestMessage:
    """A message with a valid signature starts one run."""

    async def test_a_message_starts_a_run(self, bench: Bench) -> None:
        """As the deployer, with the body and the headers; expressions read the message's id as `run.webhookId`."""
        number, webhook = await hooked(bench, one(act("echo", value="{{ [run.webhookId, input.headers['x-a']] }}")))
        run = await bench.ended(await send(bench, webhook, b'{"n": [1.5, null]}', more={"X-A": "b", "Cookie": "c"}))
        assert (run.status, run.row.user_id, run.row.resource_id) == ("done", "me", number)
        assert run.id == run_id_of(webhook, number, "msg_1")
        assert ("echo", ["msg_1", "b"]) in [call[:2] for call in bench.tools.calls]

    async def test_the_same_message_again(self, bench: Bench) -> None:
        """Sent again later, concurrently, or after a deploy by another member: the same run, performed once."""
        number, webhook = await hooked(bench)
        first, *more = await asyncio.gather(*(send(bench, webhook, more={"x-try": str(n)}) for n in range(5)))
        await bench.ended(first)
        bench.clock.advance(3_600)
        await bench.core.workflows.patch(bench.other, number, structure=one(act("echo", value="new")))
        await bench.core.workflows.deploy(bench.other, number)
        again = await send(bench, webhook, b'{ "n":1}')
        assert {one.id for one in (*more, again)} == {first.id}
        assert again.status == "done"
        assert bench.tools.count("echo") == 1

    async def test_the_same_id_with_another_body(self, bench: Bench) -> None:
        """A conflict, like that of an Idempotency-Key."""
        _, webhook = await hooked(bench)
        await send(bench, webhook)
        assert await reason(send(bench, webhook, b'{"n": 2}')) == "key_reused"

    async def test_ids_are_per_workflow(self, bench: Bench) -> None:
        """One message to two webhooks is two runs; a run with that very id, or a taken one, is another run."""
        _, here = await hooked(bench)
        number, there = await hooked(bench)
        await bench.core.runs.start(bench.other, workflow=number, input={}, key="msg_1")
        assert len({(await send(bench, webhook)).id for webhook in (here, there)} | {"msg_1"}) == 3
        await bench.core.runs.start(
            bench.other, workflow=number, input={"body": {}}, key=run_id_of(there, number, "m2")
        )
        assert await reason(send(bench, there, id="m2")) == "key_reused"

    async def test_invalid_headers_are_refused_before_the_body(self, bench: Bench) -> None:
        """An unknown id is not found, and invalid headers are refused, with the body unread."""
        number, webhook = await hooked(bench)
        for wrong in ("", "x", webhook.id[:-1], webhook.id + "x", "ä" * 43, webhook.digest):
            with pytest.raises(NotFound):
                await bench.core.webhooks.receive(wrong, [], unread)
        with pytest.raises(BadSignature):
            await bench.core.webhooks.receive(webhook.id, [("authorization", "Bearer x")], unread)
        with pytest.raises(BadSignature):
            await send(bench, webhook, age=TOLERANCE + 1)
        with pytest.raises(BadSignature):
            await send(bench, attrs.evolve(webhook, secret=webhook.secret[:-8] + "AAAAAAA="))
        assert await bench.core.workflows.runs(bench.me, number) == []

    @pytest.mark.parametrize("body", [b"", b"{", b"7", b'"x"', b'{"a":1,"a":2}', b'{"a":NaN}', b"[" * 99, b'"\xff"'])
    async def test_a_signed_body_that_is_not_json(self, bench: Bench, body: bytes) -> None:
        """A body that is not a JSON object or array is malformed, and starts nothing."""
        number, webhook = await hooked(bench)
        with pytest.raises(Malformed):
            await send(bench, webhook, body)
        assert await bench.core.workflows.runs(bench.me, number) == []

    async def test_an_input_that_the_workflow_refuses(self, bench: Bench) -> None:
        """The start node's schema checks `body` and `headers`; the errors have their paths, and the id stays free."""
        schema = start(type="object", properties={"body": {"type": "object", "required": ["n"]}})
        structure = {**ECHO, "nodes": [{"id": "s", **schema}, ECHO["nodes"][1]]}
        _, webhook = await hooked(bench, structure)
        with pytest.raises(Invalid) as error:
            await send(bench, webhook, b"{}")
        assert paths(error) == {("input.body.n", "required")}
        assert (await send(bench, webhook)).id


class TestState:
    """Whether the workflow can start a run."""

    async def test_never_deployed(self, bench: Bench) -> None:
        """409 for a valid signature; the sender can try again after a deploy."""
        flows = bench.core.workflows
        number = (await flows.create(bench.me, name="f", structure=ECHO, trigger=TRIGGER)).id
        webhook = await flows.webhook(bench.me, number)
        assert await reason(send(bench, webhook)) == "not_deployed"
        with pytest.raises(BadSignature):
            await send(bench, attrs.evolve(webhook, secret="whsec_QUJD"))
        await flows.deploy(bench.me, number)
        assert (await send(bench, webhook)).id

    @pytest.mark.parametrize("kind", ["api", "manual", "chatapp", None])
    async def test_another_trigger(self, bench: Bench, kind: str | None) -> None:
        """The active variation's trigger decides, not the draft's; a repeated message still returns its run."""
        number = await bench.deployed(ECHO, **({"trigger": {"trigger_type": kind}} if kind else {}))
        webhook = await bench.core.workflows.webhook(bench.me, number)
        await bench.core.workflows.patch(bench.me, number, trigger=TRIGGER)
        assert await reason(send(bench, webhook)) == "not_a_webhook"
        await bench.core.workflows.deploy(bench.me, number)
        first = await send(bench, webhook)
        await bench.core.workflows.patch(bench.me, number, trigger={"trigger_type": "manual"})
        await bench.core.workflows.deploy(bench.me, number)
        assert (await send(bench, webhook)).id == first.id
        assert await reason(send(bench, webhook, id="msg_2")) == "not_a_webhook"

    async def test_deleted_and_restored(self, bench: Bench) -> None:
        """A deleted workflow's url is unknown, also for a valid signature; restored, it works again."""
        number, webhook = await hooked(bench)
        await bench.core.workflows.delete(bench.me, number)
        with pytest.raises(NotFound):
            await send(bench, webhook)
        await bench.core.workflows.restore(bench.me, number)
        assert (await bench.core.workflows.get(bench.me, number)).resource.is_enabled is False
        assert (await send(bench, webhook)).id

    async def test_the_deployer_lost_access(self, bench: Bench) -> None:
        """Removed from the organization, or without use: nothing starts with that member's access."""
        group = (await bench.core.directory.create_group(bench.org, "g")).id
        for name in ("me", "other"):
            await bench.core.directory.add_member(bench.org, name, groups=[group])
        number = (await bench.core.workflows.create(bench.me, name="f", structure=ECHO, trigger=TRIGGER)).id
        await bench.core.workflows.deploy(bench.other, number)
        webhook = await bench.core.workflows.webhook(bench.me, number)
        await bench.core.workflows.patch(bench.me, number, accessConfig=private())
        assert await reason(send(bench, webhook)) == "lost_access"
        both = shared(**{bench.org.replace("-", "_"): (True, True)})
        await bench.core.workflows.patch(bench.me, number, accessConfig=both)
        async with bench.core.ports.storage.transaction(bench.org) as work:
            await work.directory.remove_member("other")
        assert await reason(send(bench, webhook)) == "lost_access"

    async def test_a_message_whose_run_is_interrupted(self, bench: Bench) -> None:
        """The response is the current run: sent again, it shows that the run is interrupted."""
        structure = {
            "nodes": [{"id": "s", "type": "start"}, {"id": "h", **ask()}],
            "edges": [{"id": "e", "source": "s", "target": "h"}],
        }
        _, webhook = await hooked(bench, structure)
        await bench.ended(await send(bench, webhook))
        assert (await send(bench, webhook)).status == "interrupted"


class TestOtherTriggers:
    """`api`, `manual` and `chatapp`: nothing starts by itself."""

    @pytest.mark.parametrize("kind", ["api", "manual", "chatapp", "webhook", "schedule"])
    async def test_the_run_api_accepts_every_kind(self, bench: Bench, kind: str) -> None:
        """`POST /agent/v1/runs` starts a workflow with any trigger; in a year nothing else starts one."""
        daily = {"frequency": "daily", "timezone": "UTC", "time_of_day": "09:30"}
        trigger = {"trigger_type": kind, **({"schedule": daily} if kind == "schedule" else {})}
        number = await bench.deployed(one(act("echo", value=1)), trigger=trigger)
        bench.clock.advance(365 * 86_400)
        await bench.core.scheduler.fire_due()
        run = await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
        assert run.status == "done"
        assert [one.id for one in await bench.core.workflows.runs(bench.me, number)] == [run.id]

    @pytest.mark.parametrize("kind", ["api", "manual", "chatapp", "webhook"])
    async def test_only_a_schedule_can_be_enabled(self, bench: Bench, kind: str) -> None:
        """The toggle belongs to schedules: other kinds have none, and work without."""
        number = await bench.deployed(one(act("echo", value=1)), trigger={"trigger_type": kind})
        with pytest.raises(Invalid):
            await bench.core.workflows.toggle(bench.me, number, is_enabled=True)
