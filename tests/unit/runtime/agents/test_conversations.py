"""Conversations through the library (interface, Conversation): visibility, windows, and deletion."""

from typing import Any

import pytest
from bench import Bench

from wfcore.domain.kernel.errors import Conflict, Forbidden, NotFound
from wfcore.domain.resources.access import Principal
from wfcore.domain.run.records import MessageRecord
from wfcore.runtime.agents import conversations as module
from wfcore.runtime.agents.conversations import Window
from wfcore.runtime.common.preconditions import etag_of
from wfcore.testing.contracts.journal_values import NOW
from wfcore.testing.contracts.run_records import human, recorded

pytestmark = pytest.mark.anyio

PRIVATE: dict[str, Any] = {"visibility": "private", "groupPermissions": {}, "sharedWith": []}


async def skill(bench: Bench, owner: Principal | None = None, **fields: Any) -> int:
    return (await bench.core.skills.create(owner or bench.me, name="Helper", **fields)).id


async def say(bench: Bench, text: str, *, by: str = "me", **more: Any) -> None:
    """A run of `by` in which this was said, at the time of day that `text` has in the test."""
    record = human(text, more.pop("at", NOW), skill_id=more.pop("speaker", None))
    await recorded(bench.core.ports.journal, [record], org=bench.org, user=by, run=f"run-{by}-{text}", **more)


def contents(view: module.ConversationView) -> list[str]:
    return [message.content for message in view.messages]


class TestVisibility:
    """Visible to the starter, and to callers who can use a participating skill or workflow."""

    async def test_users_of_the_skill_read_all_its_conversations(self, bench: Bench) -> None:
        """Conversations of a shared skill are visible to every member, under the skill and under 0."""
        number = await skill(bench)
        await say(bench, "hi", kind="skill", resource=number)
        for person in (bench.me, bench.other):
            for scope in (number, 0):
                view = await bench.core.conversations.get(person, scope, "t-1")
                assert (contents(view), view.to_wire()["skillId"]) == (["hi"], number)
                assert [one.id for one in await bench.core.conversations.page(person, scope)] == ["t-1"]

    async def test_a_hidden_conversation_looks_like_none(self, bench: Bench) -> None:
        """A private skill, an unknown one and an unknown thread give the same error."""
        number = await skill(bench, accessConfig=PRIVATE)
        shared = await skill(bench)
        await say(bench, "secret", kind="skill", resource=number)
        cases = bench.core.conversations
        for scope, thread in ((number, "t-1"), (99, "t-1"), (0, "t-1"), (shared, "t-1"), (0, "never"), (shared, "")):
            for call in (cases.get(bench.other, scope, thread), cases.delete(bench.other, scope, thread)):
                with pytest.raises(NotFound) as caught:
                    await call
                assert (caught.value.message, caught.value.info) == ("not found", {})
        assert await cases.page(bench.other, 0) == []
        with pytest.raises(NotFound):
            await cases.page(bench.other, number)

    async def test_naming_the_thread_of_another_user(self, bench: Bench) -> None:
        """The caller sees its own messages in that thread; the other user's conversation stays hidden."""
        hidden = await skill(bench, accessConfig=PRIVATE)
        own = await skill(bench, bench.other)
        await say(bench, "secret", kind="skill", resource=hidden)
        await say(bench, "probe", by="other", kind="skill", resource=own)
        assert contents(await bench.core.conversations.get(bench.other, 0, "t-1")) == ["probe"]
        assert contents(await bench.core.conversations.get(bench.me, hidden, "t-1")) == ["secret"]
        thread = await bench.core.conversations.get(bench.me, 0, "t-1")
        assert (contents(thread), thread.skill_id) == (["secret", "probe"], hidden)

    async def test_a_hidden_skill_is_not_named(self, bench: Bench) -> None:
        """Across skills a conversation names a skill that the caller can use, otherwise 0."""
        hidden, shared = await skill(bench, accessConfig=PRIVATE), await skill(bench)
        await say(bench, "both", kind="skill", resource=hidden, speaker=shared)
        assert (await bench.core.conversations.get(bench.me, 0, "t-1")).skill_id == hidden
        assert (await bench.core.conversations.get(bench.other, 0, "t-1")).skill_id == shared
        flow = (await bench.core.workflows.create(bench.me, name="Flow")).id
        await say(bench, "flow", kind="workflow", resource=flow, speaker=hidden, thread="t-2")
        assert (await bench.core.conversations.get(bench.other, 0, "t-2")).skill_id == 0

    async def test_access_counts_when_reading(self, bench: Bench) -> None:
        """A caller who loses use of a skill loses the others' messages, and keeps its own."""
        number = await skill(bench)
        await say(bench, "mine", kind="skill", resource=number)
        await say(bench, "theirs", by="other", kind="skill", resource=number, thread="t-2")
        await bench.core.skills.patch(bench.me, number, accessConfig=PRIVATE)
        assert [one.id for one in await bench.core.conversations.page(bench.other, 0)] == ["t-2"]
        assert [one.id for one in await bench.core.conversations.page(bench.me, 0)] == ["t-2", "t-1"]
        await bench.core.skills.delete(bench.me, number)
        assert contents(await bench.core.conversations.get(bench.other, 0, "t-2")) == ["theirs"]

    async def test_managing_is_not_using(self, bench: Bench) -> None:
        """A manager without use gets 403 under the skill, and sees nothing under 0."""
        rights = {bench.org: {"use": False, "manage": True}}
        access = {"visibility": "shared", "groupPermissions": rights, "sharedWith": []}
        number = await skill(bench, accessConfig=access)
        await say(bench, "hi", kind="skill", resource=number)
        for call in (bench.core.conversations.page(bench.other, number),
                     bench.core.conversations.get(bench.other, number, "t-1")):  # fmt: skip
            with pytest.raises(Forbidden) as caught:
                await call
            assert caught.value.info == {"canUse": False}
        assert await bench.core.conversations.page(bench.other, 0) == []

    @pytest.mark.parametrize("scope", ["skills:write", "conversations:read"])
    async def test_scopes_come_first(self, bench: Bench, scope: str) -> None:
        """Reading requires conversations:read and deleting conversations:write, checked before any lookup."""
        me = bench.person("me", scopes=[scope])
        with pytest.raises(Forbidden) as caught:
            await bench.core.conversations.delete(me, 99, "t-1")
        assert caught.value.info == {"missing": ["conversations:write"]}
        if scope == "skills:write":
            with pytest.raises(Forbidden):
                await bench.core.conversations.get(me, 99, "t-1")


class TestWindows:
    """A read shows the newest messages: all of them, unless there are very many."""

    async def test_a_long_thread_is_read_page_by_page(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """`before` leads from page to page to the first message; nothing is repeated or left out."""
        monkeypatch.setattr(module, "READ", Window(4, 9, 1))
        words = ["a" * 30, "b", "cc", "d" * 5, "e" * 4, "f", "g", "h", "i", "j"]
        for number, word in enumerate(words):
            await say(bench, word, at=NOW + number)
        pages, before = [], None
        while not pages or before is not None:
            view = await bench.core.conversations.get(bench.me, 0, "t-1", before=before)
            pages.append(contents(view))
            before = view.older
        assert pages == [words[6:], words[4:6], words[1:4], words[:1]]

    async def test_a_list_shows_the_latest_messages(self, bench: Bench) -> None:
        """At most twenty messages and 8,000 characters of each thread; a longer message is left out whole."""
        for number in range(22):
            await say(bench, str(number), at=NOW + number)
        await say(bench, "x" * 8_001, thread="t-2")
        listed = await bench.core.conversations.page(bench.me)
        assert [contents(one) for one in listed] == [[str(number) for number in range(2, 22)], []]
        assert (len(contents(await bench.core.conversations.get(bench.me, 0, "t-2"))[0])) == 8_001


class TestDeleting:
    """Only the starter of a conversation can delete it."""

    async def test_deleting_ones_own_conversation(self, bench: Bench) -> None:
        """It is returned as it was and is gone for everyone; the others' messages in the thread stay."""
        number = await skill(bench)
        await say(bench, "mine", kind="skill", resource=number)
        await say(bench, "theirs", by="other", kind="skill", resource=number)
        assert contents(await bench.core.conversations.delete(bench.me, number, "t-1")) == ["mine"]
        assert contents(await bench.core.conversations.get(bench.me, number, "t-1")) == ["theirs"]

    async def test_a_message_comes_meanwhile(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """What the caller with a tag has not read stays; without a tag it is deleted, and returned, too."""
        await say(bench, "first")
        cases, repository = bench.core.conversations, bench.core.ports.journal.conversations
        remove, coming = repository.remove, ["second", "third"]

        async def overtaken(*args: Any, **options: Any) -> bool:
            if coming:
                await say(bench, coming.pop(0))
            return await remove(*args, **options)

        monkeypatch.setattr(repository, "remove", overtaken)
        read = await cases.get(bench.me, 0, "t-1")
        with pytest.raises(Conflict) as caught:
            await cases.delete(bench.me, 0, "t-1", if_match=etag_of(read.to_wire()))
        assert caught.value.info["reason"] == "stale"
        assert contents(await cases.get(bench.me, 0, "t-1")) == ["first", "second"]
        assert contents(await cases.delete(bench.me, 0, "t-1")) == ["first", "second", "third"]

    async def test_a_removal_that_never_comes_first_is_a_conflict(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The number of retries is limited."""
        await say(bench, "first")

        async def never(*args: Any, **options: Any) -> bool:
            return False

        monkeypatch.setattr(bench.core.ports.journal.conversations, "remove", never)
        with pytest.raises(Conflict) as caught:
            await bench.core.conversations.delete(bench.me, 0, "t-1")
        assert caught.value.info["reason"] == "stale"

    async def test_the_conversation_of_another_user_cannot_be_deleted(self, bench: Bench) -> None:
        """A caller who sees it without having started it gets 403."""
        number = await skill(bench)
        await say(bench, "mine", kind="skill", resource=number)
        with pytest.raises(Forbidden) as caught:
            await bench.core.conversations.delete(bench.other, 0, "t-1")
        assert caught.value.info == {"reason": "not_owner"}
        assert contents(await bench.core.conversations.get(bench.other, 0, "t-1")) == ["mine"]


async def test_the_shape_of_a_message(bench: Bench) -> None:
    """Interface, Message: `toolCalls` is always a list; only the result of a call has `toolCallId`."""
    call = {"id": "c", "name": "look_up", "args": {"b": 1, "a": 2}}
    said = [MessageRecord("ai", "m1", "", [call], at=NOW), MessageRecord("tool", "m2", "9", tool_call_id="c", at=NOW)]
    await recorded(bench.core.ports.journal, said, org=bench.org, user="me", kind="assistant", resource=None)
    wire = (await bench.core.conversations.get(bench.me, 0, "t-1")).to_wire()
    assert wire["messages"] == [
        {"type": "ai", "content": "", "id": "m1", "toolCalls": [call]},
        {"type": "tool", "content": "9", "id": "m2", "toolCalls": [], "toolCallId": "c"},
    ]
    assert (wire["skillId"], wire["createdAt"], wire["updatedAt"]) == (0, *["2026-01-01T12:00:00.000Z"] * 2)
