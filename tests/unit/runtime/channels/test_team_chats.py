"""Messages of team chats, through the library: each starts one run, and the signature is the only authentication."""

import asyncio
import json
from typing import Any

import attrs
import pytest
from bench import Bench, act, ask, one, reason
from chatting import ECHO, SAID, Channel, opened_channel

from wfcore.domain.channels.team_chats import run_id_of
from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid, Malformed, NotFound
from wfcore.domain.triggers.webhooks import BadSignature
from wfcore.runtime.common.run_views import RunView

pytestmark = pytest.mark.anyio


class TestMessages:
    """Received messages."""

    async def test_a_message_starts_a_run(self, bench: Bench) -> None:
        """It has the text as `message` and input, the author as user context, and `origin` `teamchat`."""
        channel = await opened_channel(bench)
        run = await channel.rested()
        assert run.output == "hello by grace of teamchat"
        assert run.row.user_id == "me"
        assert run.id.startswith(f"teamchat-{channel.workflow}-")

    async def test_a_repeated_message(self, bench: Bench) -> None:
        """However often it is sent, with other headers too; another message with that id is refused."""
        channel = await opened_channel(bench)
        runs = await asyncio.gather(*(channel.send({**SAID, "edited": n}, age=n) for n in range(5)))
        await bench.ended(runs[0])
        assert {run.id for run in [*runs, await channel.send()]} == {runs[0].id}
        assert bench.tools.count("echo") == 1
        with pytest.raises(Conflict) as error:
            await channel.send({**SAID, "text": "other"})
        assert error.value.info["reason"] == "key_reused"
        assert (await channel.send(id="msg_2")).id != runs[0].id

    async def test_two_messages_with_one_id(self, bench: Bench) -> None:
        """Also when sent concurrently: the run and the pending response are those of the accepted one."""
        channel = await opened_channel(bench)
        said = [{**SAID, "channel": channel, "text": channel} for channel in "abab"]
        journal, together, seen = bench.core.ports.journal, asyncio.Barrier(len(said)), list[str]()
        find = journal.find_run

        async def at_once(org: str, run_id: str) -> Any:
            found = await find(org, run_id)
            seen.append(run_id)
            if len(seen) <= len(said):
                await together.wait()
            return found

        journal.find_run = at_once  # type: ignore[method-assign]
        came = await asyncio.gather(*(channel.send(one) for one in said), return_exceptions=True)
        taken = {one["text"] for one, run in zip(said, came, strict=True) if isinstance(run, RunView)}
        refused = [run for run in came if isinstance(run, Conflict)]
        assert (len(taken), [one.info["reason"] for one in refused]) == (1, ["key_reused"] * 2)
        (run,) = await bench.core.runs.page(bench.me)
        assert (await bench.ended(run)).output == f"{taken.pop()} by grace of teamchat"
        async with bench.core.ports.storage.reading(bench.org) as work:
            owed = await work.postings.get(run.id)
        assert owed is not None
        assert f"{owed.place['channel']} by grace of teamchat" == (await bench.core.runs.get(bench.me, run.id)).output

    async def test_a_members_run_with_the_id_of_a_message(self, bench: Bench) -> None:
        """It is not shown to the team chat as its run."""
        channel = await opened_channel(bench)
        row = await bench.core.workflows.interfaces.get(bench.me, channel.workflow, channel.id)
        await bench.core.runs.start(bench.me, workflow=channel.workflow, input={}, key=run_id_of(row, "msg_1"))
        with pytest.raises(Conflict) as error:
            await channel.send()
        assert error.value.info["reason"] == "key_reused"

    async def test_a_deployment_between_equal_messages(self, bench: Bench) -> None:
        """The later of two concurrent messages finds the run of the other, and the response stays pending."""
        channel = await opened_channel(bench)
        find, seen = bench.core.ports.journal.find_run, list[str]()

        async def blind(org: str, run_id: str) -> Any:
            seen.append(run_id)
            return None if len(seen) == 1 else await find(org, run_id)

        run = await channel.rested()
        await bench.core.workflows.patch(bench.other, channel.workflow, structure=one(act("echo", value="new")))
        await bench.core.workflows.deploy(bench.other, channel.workflow)
        bench.core.ports.journal.find_run = blind  # type: ignore[method-assign]
        assert (await channel.send()).id == run.id
        async with bench.core.ports.storage.reading(bench.org) as work:
            assert await work.postings.get(run.id) is not None

    async def test_a_thread_is_a_conversation(self, bench: Bench) -> None:
        """The same channel and thread lead to the same thread, for any deployer; any other to another."""
        channel, other = await opened_channel(bench), await opened_channel(bench)
        places = [("c", "t"), ("c", "t"), ("c", None), ("c", "u"), ("d", "t"), ("c|t", None)]
        said = [{**SAID, "channel": channel, "thread": thread} for channel, thread in places]
        threads = [(await channel.send(one, id=f"m{n}")).row.thread_id for n, one in enumerate(said)]
        assert threads[0] == threads[1]
        assert len({*threads, (await other.send()).row.thread_id}) == 6

    async def test_invalid_signatures(self, bench: Bench) -> None:
        """Another secret, an old message, and the secret before a rotation are refused, and nothing is pending."""
        channel, other = await opened_channel(bench), await opened_channel(bench)
        rows = bench.core.workflows.interfaces
        new = await rows.rotate_secret(bench.me, channel.workflow, channel.id)
        for more in (
            {},
            {"secret": other.secret},
            {"secret": new.secret, "age": 301},
            {"secret": new.secret, "age": -301},
        ):
            with pytest.raises(BadSignature):
                await channel.send({**SAID, "text": "forged"}, **more)
        assert (await rows.secret(bench.me, channel.workflow, channel.id)).secret == new.secret
        assert (await channel.send(secret=new.secret)).status.under_way
        assert len(await bench.core.runs.page(bench.me)) == 1

    @pytest.mark.parametrize(
        ("said", "refusal", "path"),
        [
            ([], Malformed, ""),
            ({**SAID, "text": None}, Malformed, "text"),
            ({**SAID, "channel": 1}, Malformed, "channel"),
            ({**SAID, "type": "reaction"}, Invalid, "type"),
            ({**SAID, "text": ""}, Invalid, "text"),
            ({**SAID, "thread": "x" * 256}, Invalid, "thread"),
        ],
    )
    async def test_invalid_messages(self, bench: Bench, said: Any, refusal: type[Malformed], path: str) -> None:
        """Refused with the path of the error; nothing starts."""
        channel = await opened_channel(bench)
        with pytest.raises(refusal) as error:
            await channel.send(said)
        assert [issue["path"] for issue in error.value.info["errors"]] == [path]
        assert await bench.core.runs.page(bench.me) == []

    async def test_an_unknown_endpoint(self, bench: Bench) -> None:
        """An unknown id, another kind, a deleted row, a deleted workflow: the same error."""
        channel, gone = await opened_channel(bench), await opened_channel(bench)
        rows = bench.core.workflows.interfaces
        mcp = await rows.create(bench.me, channel.workflow, kind="mcp")
        await rows.delete(bench.me, channel.workflow, channel.id)
        await bench.core.workflows.delete(bench.me, gone.workflow)
        for name in ("none", mcp.id, channel.id, gone.id):
            with pytest.raises(NotFound):
                await attrs.evolve(channel, id=name).send()

    async def test_a_workflow_that_cannot_run(self, bench: Bench) -> None:
        """Never deployed, or with an input that a chat cannot provide: refused, and no response is pending; it can
        succeed later.
        """
        needy = one(act("echo", value="{{ input.n }}"))
        needy["nodes"][0]["data"] = {"inputSchema": {"properties": {"n": {"type": "number"}}, "required": ["n"]}}
        channel = await opened_channel(bench, needy)
        with pytest.raises(Invalid) as refused:
            await channel.send()
        assert [issue["path"] for issue in refused.value.info["errors"]] == ["input.n"]
        row = await bench.core.workflows.interfaces.get(bench.me, channel.workflow, channel.id)
        async with bench.core.ports.storage.reading(bench.org) as work:
            assert await work.postings.get(run_id_of(row, "msg_1")) is None
        flows = bench.core.workflows
        await flows.patch(bench.me, channel.workflow, structure=ECHO)
        await flows.deploy(bench.me, channel.workflow)
        assert (await channel.rested()).output == "hello by grace of teamchat"
        draft = (await flows.create(bench.me, name="Draft", structure=ECHO)).id
        row = await flows.interfaces.create(bench.me, draft, kind="teamchat")
        secret = (await flows.interfaces.secret(bench.me, draft, row.id)).secret
        with pytest.raises(Conflict) as error:
            await Channel(bench, draft, row.id, secret).send()
        assert error.value.info["reason"] == "not_deployed"


class TestDecisions:
    """Approvals that a person answers in the chat."""

    @pytest.fixture
    async def parked(self, bench: Bench) -> Channel:
        """A chat that takes decisions, whose first message waits for an approval with a form."""
        form = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        boss, *_ = [await bench.joined(*who) for who in (("boss", "owner"), ("me",), ("grace",), ("kim",))]
        number = await bench.deployed(one(ask(approvers={"emails": ["grace@x.org", "kim@x.org"]}, formSchema=form)))
        rows = bench.core.workflows.interfaces
        row = await rows.create(boss, number, kind="teamchat", config={"approvals": True})
        channel = Channel(bench, number, row.id, (await rows.secret(boss, number, row.id)).secret)
        assert (await channel.rested()).status == "interrupted"
        return channel

    async def decision(self, bench: Bench, **more: Any) -> dict[str, Any]:
        (item, *_), _ = await bench.core.runs.interrupts(bench.person("grace"))
        known = {"messageId": "msg_1", "interruptId": item.found.interrupt.id, "email": "grace@x.org"}
        return {"type": "decision", "decision": "approve", "data": {"n": 1}, **known, **more}

    async def test_an_approver_decides(self, bench: Bench, parked: Channel) -> None:
        """As the member with the address, in any case of letters, and with the data of the form; once."""
        said = await self.decision(bench, email="Grace@x.org")
        turns = [await parked.rested(said, id="msg_2") for _ in range(2)]
        assert turns[0].id == turns[1].id
        assert (turns[0].status, turns[0].output["decidedBy"], turns[0].output["data"]) == ("done", ["grace"], {"n": 1})
        assert turns[0].to_wire()["origin"] == "teamchat"
        audited = [one.to_wire() for one in await bench.core.audit.page(bench.person("boss", role="owner"))]
        assert [one["userId"] for one in audited if "approve" in str(one)] == ["grace"], audited

    async def test_another_decision_with_the_same_id(self, bench: Bench, parked: Channel) -> None:
        """It is refused: nobody learns that a denial was accepted when the approval before it stands."""
        said = await self.decision(bench)
        await parked.rested(said, id="msg_2")
        for more in ({"decision": "deny"}, {"data": {"n": 2}}, {"email": "kim@x.org"}, {"interruptId": "int_none"}):
            assert await reason(parked.send({**said, **more}, id="msg_2")) == "key_reused"

    async def test_others_decide_nothing(self, bench: Bench, parked: Channel) -> None:
        """No member, an address like that of one, no approver, an invalid form, another message: each has its reason,
        and the run waits.
        """
        for number, (more, refusal, why) in enumerate((
            ({"email": "nobody@x.org"}, Forbidden, "unknown_person"),
            ({"email": "\u212aim@x.org"}, Forbidden, "unknown_person"),
            ({"email": "boss@x.org"}, Forbidden, None),
            ({"data": {}}, Invalid, None),
            ({"messageId": "msg_9"}, NotFound, None),
            ({"interruptId": "int_none"}, Invalid, None),
            ({"decision": "connected"}, Invalid, None),
        )):  # fmt: skip
            with pytest.raises(refusal) as error:
                await parked.send(await self.decision(bench, **more), id=f"msg_2{number}")
            assert why is None or error.value.info["reason"] == why
        assert len((await bench.core.runs.interrupts(bench.person("grace")))[0]) == 1

    async def test_a_chat_that_takes_no_decisions(self, bench: Bench, parked: Channel) -> None:
        """Unless an admin has let it, a chat says nothing about who decides."""
        channel = await opened_channel(bench, one(ask()))
        await channel.rested()
        assert await reason(channel.send(await self.decision(bench), id="msg_2")) == "approvals_off"


class TestSecret:
    """The secret that signs."""

    async def test_the_secret_requires_manage_and_write(self, bench: Bench) -> None:
        """No row shows it; reading it requires manage and the scope to write; a chat page has none."""
        channel = await opened_channel(bench)
        rows = bench.core.workflows.interfaces
        for row in (
            await rows.get(bench.me, channel.workflow, channel.id),
            *await rows.page(bench.me, channel.workflow),
        ):
            assert channel.secret not in repr(row) + json.dumps(row.to_wire())
        assert channel.secret not in repr(await rows.secret(bench.me, channel.workflow, channel.id))
        reader = bench.person("other", scopes=["workflows:read", "workflows:invoke"])
        for use in (rows.secret, rows.rotate_secret):
            with pytest.raises(Forbidden):
                await use(reader, channel.workflow, channel.id)
            page = await rows.create(bench.me, channel.workflow, kind="chatapp")
            with pytest.raises(Conflict) as error:
                await use(bench.me, channel.workflow, page.id)
            assert error.value.info["reason"] == "no_secret"

    async def test_a_repeated_create_keeps_the_secret(self, bench: Bench) -> None:
        """The same key returns the same row; changing the `config` keeps the secret."""
        number = await bench.deployed(ECHO)
        rows = bench.core.workflows.interfaces
        first, again = [await rows.create(bench.me, number, kind="teamchat", key="k") for _ in range(2)]
        assert again.to_wire() == first.to_wire()
        secret = (await rows.secret(bench.me, number, first.id)).secret
        await rows.patch(bench.me, number, first.id, config={"postUrl": "https://chat.example.org/hook"})
        assert (await rows.secret(bench.me, number, first.id)).secret == secret

    @pytest.mark.parametrize("url", ["", "chat", "ftp://a.b/", "https://u:p@a.b/", "https://a.b/#c", "https://é.b/"])
    async def test_an_invalid_post_url(self, bench: Bench, url: str) -> None:
        """A `postUrl` that is not a URL is refused with its path, and nothing is written."""
        number = await bench.deployed(ECHO)
        rows = bench.core.workflows.interfaces
        with pytest.raises(Invalid) as error:
            await rows.create(bench.me, number, kind="teamchat", config={"postUrl": url})
        assert [issue["path"] for issue in error.value.info["errors"]] == ["config.postUrl"]
        assert await rows.page(bench.me, number) == []
