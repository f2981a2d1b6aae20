"""Slack: messages start runs, answers are posted in their thread, and people decide with buttons."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from bench import Bench, act, ask, one, opened, paths, reason
from chatting import looked
from slack_requests import MESSAGE, USER, VERIFICATION, message, press
from slack_workspace import SIGNING, TOKEN, App, Workspace, installed, workspace

from wfcore.domain.kernel.errors import Forbidden, Invalid, NotFound
from wfcore.domain.triggers.webhooks import BadSignature
from wfcore.runtime.common.installation import Settings

pytestmark = pytest.mark.anyio

ECHO = one(act("echo", value="{{ input.message }} from {{ run.userContext.name }}, {{ run.userContext.email }}"))
ASK = one(ask(message="May {{ run.message }}?", approvers={"emails": ["grace@x.org"]}))


@pytest.fixture
async def bench(database: str) -> AsyncIterator[Bench]:
    settings = Settings(http_allow=("127.0.0.1",))
    async with opened(database, settings=settings, secrets=b"k" * 32) as made:
        yield made


@pytest.fixture
async def place() -> AsyncIterator[Workspace]:
    async with workspace() as made:
        yield made


class TestMessages:
    """Events with messages."""

    async def test_an_address_is_verified(self, bench: Bench, place: Workspace) -> None:
        """The challenge comes back, if the request is signed."""
        app = await installed(bench, place, ECHO)
        assert await app.send(VERIFICATION) == {"challenge": VERIFICATION["challenge"]}
        for wrong in ({"secret": "another-secret-of-another-app"}, {"age": 301}):
            with pytest.raises(BadSignature):
                await app.send(VERIFICATION, **wrong)

    async def test_a_message_is_answered_in_its_thread(self, bench: Bench, place: Workspace) -> None:
        """The run starts as its deployer, with the name and the address that the workspace has of who speaks."""
        app = await installed(bench, place, ECHO)
        begun = await app.send()
        run = await bench.ended(begun["runId"])
        assert run.output == "Where is order 7 & 8? from Grace Hopper, grace@x.org"
        assert (run.to_wire()["origin"], run.to_wire()["startedBy"]["userId"]) == ("teamchat", "boss")  # type: ignore[index, call-overload]
        await looked(bench)
        assert place.of("chat.postMessage") == [
            {"channel": "C123ABC456", "thread_ts": "1355517523.000005", "unfurl_links": False,
             "text": "Where is order 7 &amp; 8? from Grace Hopper, grace@x.org"}
        ]  # fmt: skip

    async def test_a_request_that_comes_again(self, bench: Bench, place: Workspace) -> None:
        """Slack's retries, and the mention of the same message, are the same run, also when names change."""
        app = await installed(bench, place, ECHO)
        first = await app.send()
        place.users = {}
        again = [await app.send(), await app.send(message(type="app_mention"))]
        assert {one["runId"] for one in again} == {first["runId"]}
        assert await app.send(message(bot_id="B1")) == {}
        assert len(await bench.core.runs.page(bench.person("boss"))) == 1

    async def test_without_a_name(self, bench: Bench, place: Workspace) -> None:
        """A workspace that does not say who speaks keeps no message from its run."""
        place.users = {}
        app = await installed(bench, place, one(act("echo", value="{{ run.userContext }}")))
        run = await bench.ended((await app.send())["runId"])
        assert run.output == {"userId": "U123ABC456", "name": "U123ABC456"}

    async def test_a_conversation(self, bench: Bench, place: Workspace) -> None:
        """A reply in the thread continues it; another message begins another one."""
        app = await installed(bench, place, ECHO)
        reply = {"ts": "2.1", "thread_ts": MESSAGE["event"]["ts"]}
        ids = [(await app.send(message(**event)))["runId"] for event in ({}, reply, {"ts": "3.1"})]
        threads = [(await bench.core.runs.get(bench.person("boss"), one)).row.thread_id for one in ids]
        assert (threads[0] == threads[1], threads[0] == threads[2]) == (True, False)

    async def test_each_format_has_its_own_address(self, bench: Bench, place: Workspace) -> None:
        """A signed request of the other format finds nothing."""
        app = await installed(bench, place, ECHO)
        row = await bench.core.workflows.interfaces.create(bench.me, app.workflow, kind="teamchat")
        with pytest.raises(NotFound):
            await App(bench, app.workflow, row.id, "").send()
        with pytest.raises(NotFound):
            await bench.core.team_chats.receive(app.id, (), _nothing)


async def _nothing() -> bytes:
    return b"{}"


class TestAnswers:
    """What is posted, and what Slack says to it."""

    async def test_a_refused_token(self, bench: Bench, place: Workspace) -> None:
        """The connection shows it, and the answer is posted when it works again."""
        app = await installed(bench, place, ECHO)
        await bench.ended((await app.send())["runId"])
        place.refusal = "token_revoked"
        await looked(bench)
        boss = bench.person("boss")
        shown = (await bench.core.connections.get(boss, app.connection)).to_wire()
        assert (shown["status"], place.posted) == ("error", [])
        place.refusal = "ratelimited"
        bench.clock.advance(6)
        await looked(bench)
        place.refusal = ""
        bench.clock.advance(20)
        await looked(bench)
        assert len(place.of("chat.postMessage")) == 1
        assert (await bench.core.connections.get(boss, app.connection)).to_wire()["status"] == "active"

    async def test_the_token_goes_to_the_hosts_of_the_connection(self, bench: Bench, place: Workspace) -> None:
        """An address that the connection does not name gets nothing."""
        app = await installed(bench, place, ECHO)
        config = {"apiKey": TOKEN, "hosts": ["slack.com"]}
        await bench.core.connections.patch(bench.person("boss"), app.connection, config=config)
        await bench.ended((await app.send())["runId"])
        await looked(bench)
        assert place.posted == []


class TestDecisions:
    """Approvals in the channel."""

    async def parked(self, bench: Bench, place: Workspace, **config: Any) -> tuple[App, dict[str, Any]]:
        """An app, and the value of the buttons of an open approval."""
        app = await installed(bench, place, ASK, approvals=True, **config)
        await bench.ended((await app.send())["runId"])
        await looked(bench)
        (posted,) = place.of("chat.postMessage")
        return app, json.loads(posted["blocks"][1]["elements"][0]["value"])

    async def test_an_approver_presses_a_button(self, bench: Bench, place: Workspace) -> None:
        """The decision is that of the member with the confirmed address; the end is posted; a press counts once."""
        app, shown = await self.parked(bench, place)
        await bench.joined("grace")
        pressed = press(shown["messageId"], shown["interruptId"])
        assert await app.press(pressed) == {}
        assert await app.press(pressed) == {}
        await looked(bench)
        assert place.of("chat.postEphemeral") == []
        assert '"decidedBy":["grace"]' in place.of("chat.postMessage")[-1]["text"]
        assert await app.press(press(shown["messageId"], shown["interruptId"], at="2.2")) == {}
        (told,) = place.of("chat.postEphemeral")
        assert (told["user"], told["thread_ts"]) == ("U123ABC456", "1355517523.000005")
        assert "is not open: it is approved" in told["text"]

    async def test_a_denial(self, bench: Bench, place: Workspace) -> None:
        app, shown = await self.parked(bench, place)
        await bench.joined("grace")
        await app.press(press(shown["messageId"], shown["interruptId"], "wfcore.deny"))
        await looked(bench)
        assert '"decision":"deny"' in place.of("chat.postMessage")[-1]["text"]

    @pytest.mark.parametrize(
        ("user", "why"),
        [
            ({"profile": {"email": "boss@x.org"}}, "only the named approvers"),
            ({"profile": {"email": "nobody@x.org"}}, "no member"),
            ({"is_email_confirmed": False}, "no member"),
            ({"team_id": "T2"}, "no member"),
            ({"is_bot": True}, "no member"),
        ],
    )
    async def test_others_decide_nothing(self, bench: Bench, place: Workspace, user: dict[str, Any], why: str) -> None:
        """Members without the right, and whom the workspace does not vouch for; only they are told why."""
        app, shown = await self.parked(bench, place)
        await bench.joined("grace")
        place.users = {USER["id"]: {**USER, **user}}
        assert await app.press(press(shown["messageId"], shown["interruptId"])) == {}
        (told,) = place.of("chat.postEphemeral")
        assert why in told["text"]
        assert len((await bench.core.runs.interrupts(bench.person("grace")))[0]) == 1

    async def test_only_approvals_of_the_chat_itself(self, bench: Bench, place: Workspace) -> None:
        """What the chat has not shown, or takes no decisions on, is not decided by it."""
        app, shown = await self.parked(bench, place)
        await bench.joined("grace")
        await app.press(press("T:C:1.1", shown["interruptId"]))
        rows = bench.core.workflows.interfaces
        boss = bench.person("boss", role="owner")
        config = {**(await rows.get(boss, app.workflow, app.id)).config, "approvals": False}
        await rows.patch(boss, app.workflow, app.id, config=config)
        await app.press(press(shown["messageId"], shown["interruptId"], at="2.2"))
        assert len(place.of("chat.postEphemeral")) == 2
        assert len((await bench.core.runs.interrupts(bench.person("grace")))[0]) == 1


class TestSettings:
    """Who configures the app, and with what."""

    async def test_the_signing_secret_is_never_read_back(self, bench: Bench, place: Workspace) -> None:
        """What is read can be written back, and keeps it; it is in no file in clear text."""
        app = await installed(bench, place, ECHO)
        rows, boss = bench.core.workflows.interfaces, bench.person("boss")
        row = await rows.get(boss, app.workflow, app.id)
        assert row.to_wire()["config"]["signingSecret"] == {"set": True}  # type: ignore[index, call-overload]
        assert str(row.to_wire()["url"]).endswith(f"/interfaces/teamchat/{app.id}/slack")
        await rows.patch(boss, app.workflow, app.id, config=row.config)
        assert "challenge" in await app.send(VERIFICATION)
        for read in (rows.secret, rows.rotate_secret):
            assert await reason(read(boss, app.workflow, app.id)) == "no_secret"
        audited = await bench.core.audit.page(bench.person("boss", role="owner"))
        assert SIGNING not in json.dumps([one.to_wire() for one in audited])

    async def test_bad_settings(self, bench: Bench, place: Workspace) -> None:
        """A connection that is not one of the organization with a token, and a secret that nobody has given."""
        app = await installed(bench, place, ECHO)
        rows = bench.core.workflows.interfaces
        good = {"format": "slack", "connectionId": app.connection, "signingSecret": SIGNING}
        boss = bench.person("boss", role="owner")
        mcp = {"name": "M", "provider": "m", "kind": "mcp", "config": {"url": "https://mcp.example.org"}}
        other = (await bench.core.connections.create(boss, mcp)).id
        for change, found in (
            ({"connectionId": "none"}, ("config.connectionId", "reference")),
            ({"connectionId": other}, ("config.connectionId", "unsupported")),
            ({"signingSecret": {"set": True}}, ("config.signingSecret", "required_if")),
        ):
            with pytest.raises(Invalid) as error:
                await rows.create(boss, app.workflow, kind="teamchat", config={**good, **change})
            assert paths(error) == {found}

    async def test_only_admins_let_a_chat_decide(self, bench: Bench, place: Workspace) -> None:
        """The secret is then one that others have not read; they neither read nor change it afterwards."""
        app = await installed(bench, place, ECHO)
        rows, boss = bench.core.workflows.interfaces, bench.person("boss", role="owner")
        with pytest.raises(Forbidden):
            await rows.create(bench.me, app.workflow, kind="teamchat", config={"approvals": True})
        row = await rows.create(bench.me, app.workflow, kind="teamchat")
        before = (await rows.secret(bench.me, app.workflow, row.id)).secret
        await rows.patch(boss, app.workflow, row.id, config={"approvals": True})
        assert (await rows.secret(boss, app.workflow, row.id)).secret != before
        for forbidden in (
            rows.secret(bench.me, app.workflow, row.id), rows.rotate_secret(bench.me, app.workflow, row.id),
            rows.patch(bench.me, app.workflow, row.id, config={}),
        ):  # fmt: skip
            with pytest.raises(Forbidden):
                await forbidden
        config = (await rows.get(boss, app.workflow, app.id)).config
        with pytest.raises(Invalid) as error:
            await rows.patch(boss, app.workflow, app.id, config={**config, "approvals": True})
        assert paths(error) == {("config.signingSecret", "required_if")}
        await rows.delete(bench.me, app.workflow, row.id)
