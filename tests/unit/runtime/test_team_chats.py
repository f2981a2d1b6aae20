"""Messages of team chats, through the library: each starts one run, and nothing is asked but the signature."""

import asyncio
import json
from typing import Any

import attrs
import pytest
from bench import Bench, act, one
from chatting import ECHO, SAID, Door, opened_door

from wfcore.domain.channels.team_chats import run_id_of
from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid, Malformed, NotFound
from wfcore.domain.triggers.webhooks import BadSignature
from wfcore.runtime.common.run_views import RunView

pytestmark = pytest.mark.anyio


class TestMessages:
    """What comes in."""

    async def test_a_message_is_a_run(self, bench: Bench) -> None:
        """It has the text as `message` and input, who wrote it as user context, and `origin` `teamchat`."""
        door = await opened_door(bench)
        run = await door.rested()
        assert run.output == "hello by grace of teamchat"
        assert run.row.user_id == "me"
        assert run.id.startswith(f"teamchat-{door.workflow}-")

    async def test_a_message_starts_one_run(self, bench: Bench) -> None:
        """However often it comes, with other keys beside its own; another one of that name is refused."""
        door = await opened_door(bench)
        runs = await asyncio.gather(*(door.send({**SAID, "edited": n}, age=n) for n in range(5)))
        await bench.ended(runs[0])
        assert {run.id for run in [*runs, await door.send()]} == {runs[0].id}
        assert bench.tools.count("echo") == 1
        with pytest.raises(Conflict) as error:
            await door.send({**SAID, "text": "other"})
        assert error.value.info["reason"] == "key_reused"
        assert (await door.send(id="msg_2")).id != runs[0].id

    async def test_of_two_messages_of_one_name_one_is_taken(self, bench: Bench) -> None:
        """When they come at once too: the run, and the answer that is owed, are those of the one that is accepted."""
        door = await opened_door(bench)
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
        came = await asyncio.gather(*(door.send(one) for one in said), return_exceptions=True)
        taken = {one["text"] for one, run in zip(said, came, strict=True) if isinstance(run, RunView)}
        refused = [run for run in came if isinstance(run, Conflict)]
        assert (len(taken), [one.info["reason"] for one in refused]) == (1, ["key_reused"] * 2)
        (run,) = await bench.core.runs.page(bench.me)
        assert (await bench.ended(run)).output == f"{taken.pop()} by grace of teamchat"
        async with bench.core.ports.storage.reading(bench.org) as work:
            owed = await work.postings.get(run.id)
        assert owed is not None
        assert f"{owed.place['channel']} by grace of teamchat" == (await bench.core.runs.get(bench.me, run.id)).output

    async def test_a_run_that_took_the_name_is_no_answer(self, bench: Bench) -> None:
        """A member's own run under the id that a message's would have is not shown to the team chat as its run."""
        door = await opened_door(bench)
        row = await bench.core.workflows.interfaces.get(bench.me, door.workflow, door.id)
        await bench.core.runs.start(bench.me, workflow=door.workflow, input={}, key=run_id_of(row, "msg_1"))
        with pytest.raises(Conflict) as error:
            await door.send()
        assert error.value.info["reason"] == "key_reused"

    async def test_a_deployment_between_equal_messages(self, bench: Bench) -> None:
        """The later of two that came at once finds the run that the other began, and the answer stays owed."""
        door = await opened_door(bench)
        find, seen = bench.core.ports.journal.find_run, list[str]()

        async def blind(org: str, run_id: str) -> Any:
            seen.append(run_id)
            return None if len(seen) == 1 else await find(org, run_id)

        run = await door.rested()
        await bench.core.workflows.patch(bench.other, door.workflow, structure=one(act("echo", value="new")))
        await bench.core.workflows.deploy(bench.other, door.workflow)
        bench.core.ports.journal.find_run = blind  # type: ignore[method-assign]
        assert (await door.send()).id == run.id
        async with bench.core.ports.storage.reading(bench.org) as work:
            assert await work.postings.get(run.id) is not None

    async def test_a_thread_is_a_conversation(self, bench: Bench) -> None:
        """The same channel and thread lead to the same thread, for whoever deployed; any other to another."""
        door, other = await opened_door(bench), await opened_door(bench)
        places = [("c", "t"), ("c", "t"), ("c", None), ("c", "u"), ("d", "t"), ("c|t", None)]
        said = [{**SAID, "channel": channel, "thread": thread} for channel, thread in places]
        threads = [(await door.send(one, id=f"m{n}")).row.thread_id for n, one in enumerate(said)]
        assert threads[0] == threads[1]
        assert len({*threads, (await other.send()).row.thread_id}) == 6

    async def test_only_what_is_signed_is_read(self, bench: Bench) -> None:
        """Another secret, an old message, and the secret from before a rotation are refused, and nothing is owed."""
        door, other = await opened_door(bench), await opened_door(bench)
        rows = bench.core.workflows.interfaces
        new = await rows.rotate_secret(bench.me, door.workflow, door.id)
        for more in (
            {},
            {"secret": other.secret},
            {"secret": new.secret, "age": 301},
            {"secret": new.secret, "age": -301},
        ):
            with pytest.raises(BadSignature):
                await door.send({**SAID, "text": "forged"}, **more)
        assert (await rows.secret(bench.me, door.workflow, door.id)).secret == new.secret
        assert (await door.send(secret=new.secret)).status.under_way
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
    async def test_what_is_no_message(self, bench: Bench, said: Any, refusal: type[Malformed], path: str) -> None:
        """It is refused with the path of what is wrong, and starts nothing."""
        door = await opened_door(bench)
        with pytest.raises(refusal) as error:
            await door.send(said)
        assert [issue["path"] for issue in error.value.info["errors"]] == [path]
        assert await bench.core.runs.page(bench.me) == []

    async def test_where_there_is_no_door(self, bench: Bench) -> None:
        """An unknown id, another kind, a removed row, a deleted workflow: all the same."""
        door, gone = await opened_door(bench), await opened_door(bench)
        rows = bench.core.workflows.interfaces
        mcp = await rows.create(bench.me, door.workflow, kind="mcp")
        await rows.delete(bench.me, door.workflow, door.id)
        await bench.core.workflows.delete(bench.me, gone.workflow)
        for name in ("none", mcp.id, door.id, gone.id):
            with pytest.raises(NotFound):
                await attrs.evolve(door, id=name).send()

    async def test_a_workflow_that_cannot_run(self, bench: Bench) -> None:
        """Never deployed, and an input that a chat cannot give: refused, and no answer is owed; later it may go."""
        needy = one(act("echo", value="{{ input.n }}"))
        needy["nodes"][0]["data"] = {"inputSchema": {"properties": {"n": {"type": "number"}}, "required": ["n"]}}
        door = await opened_door(bench, needy)
        with pytest.raises(Invalid) as refused:
            await door.send()
        assert [issue["path"] for issue in refused.value.info["errors"]] == ["input.n"]
        row = await bench.core.workflows.interfaces.get(bench.me, door.workflow, door.id)
        async with bench.core.ports.storage.reading(bench.org) as work:
            assert await work.postings.get(run_id_of(row, "msg_1")) is None
        flows = bench.core.workflows
        await flows.patch(bench.me, door.workflow, structure=ECHO)
        await flows.deploy(bench.me, door.workflow)
        assert (await door.rested()).output == "hello by grace of teamchat"
        draft = (await flows.create(bench.me, name="Draft", structure=ECHO)).id
        row = await flows.interfaces.create(bench.me, draft, kind="teamchat")
        secret = (await flows.interfaces.secret(bench.me, draft, row.id)).secret
        with pytest.raises(Conflict) as error:
            await Door(bench, draft, row.id, secret).send()
        assert error.value.info["reason"] == "not_deployed"


class TestSecret:
    """What signs."""

    async def test_it_is_for_managers_who_write(self, bench: Bench) -> None:
        """It stands in no row; reading it takes the management and the scope to write; a chat page has none."""
        door = await opened_door(bench)
        rows = bench.core.workflows.interfaces
        for row in (await rows.get(bench.me, door.workflow, door.id), *await rows.page(bench.me, door.workflow)):
            assert door.secret not in repr(row) + json.dumps(row.to_wire())
        assert door.secret not in repr(await rows.secret(bench.me, door.workflow, door.id))
        reader = bench.person("other", scopes=["workflows:read", "workflows:invoke"])
        for use in (rows.secret, rows.rotate_secret):
            with pytest.raises(Forbidden):
                await use(reader, door.workflow, door.id)
            page = await rows.create(bench.me, door.workflow, kind="chatapp")
            with pytest.raises(Conflict) as error:
                await use(bench.me, door.workflow, page.id)
            assert error.value.info["reason"] == "no_secret"

    async def test_a_create_asked_for_again_keeps_the_secret(self, bench: Bench) -> None:
        """Under the same key it is the same row; changing the `config` leaves the secret as it was."""
        number = await bench.deployed(ECHO)
        rows = bench.core.workflows.interfaces
        first, again = [await rows.create(bench.me, number, kind="teamchat", key="k") for _ in range(2)]
        assert again.to_wire() == first.to_wire()
        secret = (await rows.secret(bench.me, number, first.id)).secret
        await rows.patch(bench.me, number, first.id, config={"postUrl": "https://chat.example.org/hook"})
        assert (await rows.secret(bench.me, number, first.id)).secret == secret

    @pytest.mark.parametrize("url", ["", "chat", "ftp://a.b/", "https://u:p@a.b/", "https://a.b/#c", "https://é.b/"])
    async def test_where_answers_cannot_go(self, bench: Bench, url: str) -> None:
        """A `postUrl` that is no URL is refused at the write, with its path, and nothing is written."""
        number = await bench.deployed(ECHO)
        rows = bench.core.workflows.interfaces
        with pytest.raises(Invalid) as error:
            await rows.create(bench.me, number, kind="teamchat", config={"postUrl": url})
        assert [issue["path"] for issue in error.value.info["errors"]] == ["config.postUrl"]
        assert await rows.page(bench.me, number) == []
