"""The projections part of the journal contract: messages, usage and verdicts. `JournalContract` is the whole."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict

import attrs
import pytest

from wfcore.domain.kernel.json_readers import as_object
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.projections.cost import Price
from wfcore.domain.projections.messages import MessageRow, message_rows
from wfcore.domain.projections.usage import UsageRow, usage_rows
from wfcore.domain.projections.verdict_rows import VerdictRow
from wfcore.domain.run.records import MessageRecord, Record, UsageRecord
from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import Append, ExecutionRef, Journal, JournalConflict, NewExecution, NewRun
from wfcore.ports.repositories.conversations import Conversation, Message
from wfcore.ports.repositories.usage import GroupBy, UsageSum
from wfcore.testing.contracts.journal_values import GIVEN, NOW, ORG, OTHER_ORG, READERS, reader, steps

DAY = 86_400_000

CALL: dict[str, JSON] = {"id": "c-1", "name": "look_up", "args": GIVEN}


def human(text: str, at: int = NOW, **more: Any) -> MessageRecord:
    return MessageRecord("human", f"m-{text}", text, at=at, **more)


class Rows(TypedDict):
    """Fields of an append."""

    messages: Sequence[MessageRow]
    usage: Sequence[UsageRow]


def rows_of(
    records: Iterable[Record],
    kind: str = "workflow",
    resource: int | None = 1,
    prices: Mapping[str, Price] | None = None,
) -> Rows:
    """The rows of these records, as the runtime hands them to a journal."""
    records = list(records)
    return {"messages": message_rows(records), "usage": usage_rows(records, kind, resource, prices or {})}


async def recorded(
    journal: Journal,
    records: Sequence[Record],
    *,
    thread: str = "t-1",
    user: str = "ann",
    kind: Literal["workflow", "skill", "assistant", "action"] = "workflow",
    resource: int | None = 1,
    org: str = ORG,
    run: str | None = None,
    prices: Mapping[str, Price] | None = None,
    origin: str = "api",
) -> ExecutionRef:
    """An execution with these records."""
    run_id = run or f"{user}-{thread}-{kind}-{resource}-{len(records)}-{records[0].at if records else 0}"
    new = NewExecution(org, kind, resource, None, user, thread)
    first = Append(0, steps(1), new_run=NewRun(run_id, user, b"f", RunStatus.running, NOW, origin=origin))
    ref = (await journal.begin(new, first)).ref
    await journal.append(ref, Append(1, steps(1, 1), **rows_of(records, kind, resource, prices)))
    return ref


async def texts(journal: Journal, conversations: Sequence[Conversation]) -> list[str]:
    found = await journal.conversations.messages(conversations, after=0, up_to=2**62)
    return [message.content for message in found]


async def own(journal: Journal, user: str = "ann", thread: str = "t-1") -> Conversation:
    found = await journal.conversations.own(ORG, thread, user)
    assert found
    return found


class RecordsContract:
    """Conversations and usage. Inherit `JournalContract`, not this class."""

    # "in the same transaction as its entries"

    async def test_records_are_written_with_the_entries(self, journal: Journal) -> None:
        """A message is read as recorded; the conversation has its time and participants."""
        said = MessageRecord("ai", "m-2", "é\0", (CALL, CALL), skill_id=7, at=NOW + 5)
        answered = MessageRecord("tool", "m-3", "", (), "c-1", 7, at=NOW + 5)
        await recorded(journal, [human("hi"), said, answered], kind="skill", resource=2)
        found = await own(journal)
        assert (found.thread_id, found.user_id, found.created_at, found.updated_at) == ("t-1", "ann", NOW, NOW + 5)
        assert found.skills == (2, 7)
        messages = await journal.conversations.messages([found], after=0, up_to=2**62)
        assert [attrs.evolve(message, seq=0) for message in messages] == [
            Message(0, "human", "m-hi", "hi", (), None, None, NOW),
            Message(0, "ai", "m-2", "é\0", (CALL, CALL), None, 7, NOW + 5),
            Message(0, "tool", "m-3", "", (), "c-1", 7, NOW + 5),
        ]
        assert list(as_object(as_object(messages[1].tool_calls[0])["args"])) == list(GIVEN)

    async def test_attachments_are_kept_with_their_message(self, journal: Journal) -> None:
        """They are read as recorded; the head has their tokens beside the bytes of the text."""
        image = {"mimeType": "image/png", "storageKey": "k", "tokens": 1_600}
        attachments = {"images": [image], "documents": [{"name": "é", "summary": "s", "tokens": 40}]}
        await recorded(journal, [human("hi", attachments=attachments), human("ho")])
        found = [await own(journal)]
        first, second = await journal.conversations.messages(found, after=0, up_to=2**62)
        assert (first.attachments, second.attachments) == (attachments, None)
        assert (first.to_wire()["attachments"], "attachments" in second.to_wire()) == (attachments, False)
        heads = await journal.conversations.message_sizes(found, limit=9)
        assert [(head.length, head.attached) for head in heads] == [(2, 0), (2, 1_640)]

    async def test_an_execution_begins_with_records(self, journal: Journal) -> None:
        """The message of a start is visible as soon as the run is."""
        new = NewExecution(ORG, "assistant", None, None, "ann", "t-1")
        run = NewRun("r-1", "ann", b"f", RunStatus.running, NOW)
        await journal.begin(new, Append(0, steps(1), new_run=run, **rows_of([human("hi")])))
        assert await texts(journal, [await own(journal)]) == ["hi"]

    async def test_a_conflict_leaves_no_record(self, journal: Journal) -> None:
        """Of writers that read the same length, the losing one writes neither message nor usage."""
        ref = await recorded(journal, [human("hi")])
        with pytest.raises(JournalConflict):
            late = rows_of([human("late"), UsageRecord("m", 1, "n", at=NOW)])
            await journal.append(ref, Append(1, steps(1), **late))
        with pytest.raises(JournalConflict):
            await journal.append(ref, Append(2, steps(1), holder=5, **rows_of([human("thief", at=NOW + 9)])))
        assert await texts(journal, [await own(journal)]) == ["hi"]
        assert (await own(journal)).updated_at == NOW
        assert await journal.usage.sums(ORG, "model", since=0, until=2 * NOW) == []

    async def test_without_records_there_is_no_conversation(self, journal: Journal) -> None:
        """A run without messages, and messages within frames, create no conversation."""
        await recorded(journal, [])
        await recorded(journal, [human("inner", path=("sub",), skill_id=7)], thread="t-2")
        await recorded(journal, [human("hi"), human("inner", path=("sub",), skill_id=7)], thread="t-3")
        assert await journal.conversations.own(ORG, "t-1", "ann") is None
        assert await journal.conversations.own(ORG, "t-2", "ann") is None
        found = await own(journal, thread="t-3")
        assert (await texts(journal, [found]), found.skills) == (["hi"], ())

    # "what the runs of one user said in one thread"

    async def test_a_conversation_continues_in_its_thread(self, journal: Journal) -> None:
        """Later runs of the same user in the thread add to the conversation, of whatever workflow or skill."""
        await recorded(journal, [human("one")])
        first = await own(journal)
        await recorded(journal, [human("two", NOW + 7)], kind="skill", resource=4)
        await recorded(journal, [human("three", NOW + 3)], kind="assistant", resource=None)
        found = await own(journal)
        assert found == attrs.evolve(first, updated_at=NOW + 7, skills=(4,))
        assert await texts(journal, [found]) == ["one", "two", "three"]

    async def test_users_of_a_thread_have_separate_conversations(self, journal: Journal) -> None:
        """A user who names another user's thread has a separate conversation there."""
        await recorded(journal, [human("secret")], resource=2)
        await recorded(journal, [human("probe")], resource=1, user="eve")
        assert await texts(journal, [await own(journal, "ann")]) == ["secret"]
        assert await texts(journal, [await own(journal, "eve")]) == ["probe"]

    async def test_a_run_in_a_thread_gives_no_access(self, journal: Journal) -> None:
        """A usable workflow that runs in another user's thread is not a participant of that user's conversation."""
        await recorded(journal, [human("secret")], resource=2)
        await recorded(journal, [human("probe")], resource=1, user="eve")
        for principal in (reader("eve", READERS), reader("bob", READERS)):
            found = await journal.conversations.visible(principal, "t-1")
            assert [one.user_id for one in found] == ["eve"]
            (listed,) = await journal.conversations.page(principal, limit=9)
            assert listed == found

    # "Visible are its own, and those in which a workflow or skill took part whose grants let it use them"

    async def test_who_sees_a_conversation(self, journal: Journal) -> None:
        """The user who started it and users of a participant; no member without a grant, no other organization."""
        await recorded(journal, [human("hi")], resource=1)
        await recorded(journal, [human("ho")], resource=2, thread="t-2")
        for principal, threads in (
            (reader("ann"), {"t-1", "t-2"}),
            (reader("bob", READERS), {"t-1"}),
            (reader("bob"), set()),
            (reader("ann", READERS, org=OTHER_ORG), set()),
        ):
            pages = await journal.conversations.page(principal, limit=9)
            assert {parts[0].thread_id for parts in pages} == threads
            for thread in ("t-1", "t-2", "never"):
                assert bool(await journal.conversations.visible(principal, thread)) == (thread in threads)

    async def test_a_skill_filters(self, journal: Journal) -> None:
        """With `skill_id`, only conversations with that skill as a participant."""
        await recorded(journal, [human("hi")], kind="skill", resource=1)
        await recorded(journal, [human("ho", skill_id=2)], thread="t-2")
        ann = reader("ann")
        for skill, threads in ((1, ["t-1"]), (2, ["t-2"]), (3, []), (None, ["t-2", "t-1"])):
            pages = await journal.conversations.page(ann, limit=9, skill_id=skill)
            assert [parts[0].thread_id for parts in pages] == threads
            for thread in ("t-1", "t-2"):
                assert bool(await journal.conversations.visible(ann, thread, skill_id=skill)) == (thread in threads)

    async def test_a_thread_merges_its_visible_conversations(self, journal: Journal) -> None:
        """Several conversations of one thread are one row of a list, at the position of the latest."""
        for at, (user, resource) in enumerate([("ann", 1), ("bob", 1), ("eve", 2), ("ann", 1)]):
            await recorded(journal, [human(f"{at}", NOW + at)], user=user, resource=resource)
        await recorded(journal, [human("other", NOW + 1)], thread="t-2")
        bob = reader("bob", READERS)
        pages = await journal.conversations.page(bob, limit=9)
        assert [[one.user_id for one in parts] for parts in pages] == [["ann", "bob"], ["ann"]]
        assert pages[0] == await journal.conversations.visible(bob, "t-1")
        assert await texts(journal, pages[0]) == ["0", "1", "3"]

    @pytest.mark.parametrize("skill", [None, 7])
    async def test_pages_of_conversations_are_complete(self, journal: Journal, skill: int | None) -> None:
        """The pages together have every thread once, the latest first, also with equal times."""
        for number in range(7):
            for user in ("ann", "bob")[: 1 + number % 2]:
                record = human(f"{number}{user}", NOW + number // 3, skill_id=7)
                await recorded(journal, [record], thread=f"t-{number}", user=user)
        eyes = reader("bob", READERS)
        whole = await journal.conversations.page(eyes, limit=99, skill_id=skill)
        assert len(whole) == 7
        paged: list[list[Conversation]] = []
        before = None
        while page := await journal.conversations.page(eyes, limit=2, before=before, skill_id=skill):
            paged += page
            before = page[-1][0].updated_at, page[-1][0].key
        assert paged == whole
        places = [(parts[0].updated_at, parts[0].key) for parts in whole]
        assert places == sorted(places, reverse=True)

    # Messages

    async def test_heads_are_read_backwards(self, journal: Journal) -> None:
        """Page by page, newest first, of one conversation and of several; a length covers text and calls,
        in bytes."""
        await recorded(journal, [human("0"), MessageRecord("ai", "a", "1", ({},), at=NOW)])
        await recorded(journal, [human("\u00e9\u00e9\u00e9\u00e92")], user="bob")
        await recorded(journal, [human("3", skill_id=5)], run="again")
        ann, bob = await own(journal, "ann"), await own(journal, "bob")
        both = await journal.conversations.message_sizes([ann, bob], limit=9)
        assert [(head.type, head.length, head.skill_id) for head in both] == [
            ("human", 1, 5), ("human", 9, None), ("ai", 5, None), ("human", 1, None),
        ]  # fmt: skip
        assert await journal.conversations.message_sizes([ann], limit=9) == [both[0], both[2], both[3]]
        assert await journal.conversations.message_sizes([ann, bob], limit=2, before=both[0].seq) == both[1:3]
        assert await journal.conversations.message_sizes([ann], limit=9, before=both[3].seq) == []

    async def test_a_range_is_exact(self, journal: Journal) -> None:
        """`after` is excluded, `up_to` is included; messages of other conversations are not in the range."""
        await recorded(journal, [human(str(number)) for number in range(4)])
        await recorded(journal, [human("other")], user="bob")
        ann = await own(journal)
        heads = await journal.conversations.message_sizes([ann], limit=9)
        found = await journal.conversations.messages([ann], after=heads[3].seq, up_to=heads[1].seq)
        assert [message.content for message in found] == ["1", "2"]
        assert await journal.conversations.messages([ann], after=heads[0].seq, up_to=2**62) == []

    async def test_a_conversation_is_deleted(self, journal: Journal) -> None:
        """With its messages, for all users, once; other conversations of the thread remain, and it can continue."""
        await recorded(journal, [human("hi")])
        await recorded(journal, [human("ho")], user="bob")
        ann, bob = await own(journal, "ann"), await own(journal, "bob")
        assert not await journal.conversations.remove(attrs.evolve(ann, org=OTHER_ORG))
        assert await journal.conversations.remove(ann)
        assert not await journal.conversations.remove(ann)
        assert await journal.conversations.own(ORG, "t-1", "ann") is None
        assert await texts(journal, [ann, bob]) == ["ho"]
        assert await journal.conversations.message_sizes([ann], limit=9) == []
        await recorded(journal, [human("again", NOW + 1)])
        again = await own(journal)
        assert (again.key == ann.key, await texts(journal, [again])) == (False, ["again"])

    async def test_a_conversation_with_a_newer_message_is_kept(self, journal: Journal) -> None:
        """With `newest`, only what the caller has read is deleted."""
        await recorded(journal, [human("hi")])
        ann = await own(journal)
        (read,) = await journal.conversations.message_sizes([ann], limit=9)
        await recorded(journal, [human("and", NOW + 1)])
        assert not await journal.conversations.remove(ann, newest=read.seq)
        assert await texts(journal, [ann]) == ["hi", "and"]
        last = (await journal.conversations.message_sizes([ann], limit=1))[0]
        assert await journal.conversations.remove(ann, newest=last.seq)
        assert await journal.conversations.own(ORG, "t-1", "ann") is None

    async def test_conversations_belong_to_their_organization(self, journal: Journal) -> None:
        """Another organization reads nothing, also with the key of a conversation."""
        await recorded(journal, [human("hi")])
        await recorded(journal, [human("ho")], org=OTHER_ORG)
        foreign = attrs.evolve(await own(journal), org=OTHER_ORG)
        assert await journal.conversations.message_sizes([foreign], limit=9) == []
        assert await texts(journal, [foreign]) == []
        theirs = await journal.conversations.own(OTHER_ORG, "t-1", "ann")
        assert theirs
        assert await texts(journal, [theirs]) == ["ho"]

    # Usage

    @pytest.mark.parametrize(
        ("group_by", "keys"),
        [
            ("model", {None: 1, "big": 4, "small": 4}),
            ("skill", {None: 1, "2": 2, "10": 6}),
            ("workflow", {None: 6, "1": 3}),
            ("user", {"ann": 3, "bob": 6}),
            ("day", {"2026-01-01": 5, "2026-01-02": 4}),
            ("origin", {"api": 3, "mcp": 6}),
        ],
    )
    async def test_usage_is_summed(self, journal: Journal, group_by: GroupBy, keys: dict[str | None, int]) -> None:
        """One sum for each key, in order, of all calls in the period, including those within frames."""
        late = NOW - NOW % DAY + DAY
        small = UsageRecord("small", 2, "n", 5, 7, 1, 11, at=NOW)
        await recorded(journal, [small, attrs.evolve(small, path=("sub",)), UsageRecord(None, None, "n", at=NOW)])
        big = [UsageRecord("big", None, "agent", 100, 50, 2, 30, at=at) for at in (NOW, late)]
        more = attrs.evolve(small, skill_id=10, at=late)
        await recorded(journal, [*big, more, more], user="bob", kind="skill", resource=10, origin="mcp")
        sums = await journal.usage.sums(ORG, group_by, since=NOW, until=late + 1)
        assert [(one.key, one.calls) for one in sums] == list(keys.items())
        total = [sum(getattr(one, name) for one in sums) for name in ("input_tokens", "output_tokens", "duration_ms")]
        assert total == [220, 128, 104]
        assert all(one.cost is None for one in sums)

    async def test_usage_of_a_period_of_a_user_of_an_organization(self, journal: Journal) -> None:
        """`since` is included and `until` is not; the usage of a user is that of the user's own executions."""
        for at, (user, org) in enumerate([("ann", ORG), ("ann", ORG), ("bob", ORG), ("ann", OTHER_ORG)]):
            await recorded(journal, [UsageRecord("m", None, "n", 1, at=NOW + at)], user=user, org=org, run=f"r-{at}")

        async def calls(since: int, until: int, user: str | None = None, org: str = ORG) -> list[int]:
            found = await journal.usage.sums(org, "model", since=NOW + since, until=NOW + until, user_id=user)
            return [one.calls for one in found]

        assert [await calls(*period) for period in ((0, 4), (1, 2), (0, 1), (2, 2))] == [[3], [1], [1], []]
        assert [await calls(0, 4, user) for user in ("ann", "bob", "eve", "")] == [[2], [1], [], []]
        assert await calls(0, 4, org=OTHER_ORG) == [1]
        assert await journal.usage.sums(ORG, "user", since=NOW, until=NOW + 2) == [UsageSum("ann", 2, 2)]

    # Verdicts

    async def test_a_verdict_replaces_that_of_earlier_appends(self, journal: Journal) -> None:
        """It is written with the begin of its execution, and again with its end; every field is returned unchanged."""
        ref = await judged(journal, "r-1", VERDICT)
        assert await journal.verdicts.latest(ORG, 1, "digest") == [VERDICT]
        body: dict[str, JSON] = {"z": None, "output": ["\u2028", 1.5], "checks": [{"passed": False}]}
        ended = attrs.evolve(VERDICT, run_id="r-2", at=NOW + 1, passed=False, body=body)
        await journal.append(ref, Append(1, steps(1, 1), verdict=ended))
        await journal.append(ref, Append(2, steps(1, 2)))
        (found,) = await journal.verdicts.latest(ORG, 1, "digest")
        assert found == ended
        assert list(found.body) == ["z", "output", "checks"]

    async def test_the_newest_verdict_of_each_case(self, journal: Journal) -> None:
        """That of the execution that began last, by case; those on another content, skill or organization do not
        count.
        """
        first = await judged(journal, "r-1", VERDICT)
        await judged(journal, "r-2", attrs.evolve(VERDICT, case_id="A", passed=True))
        newest = attrs.evolve(VERDICT, evaluation_id="e-2", passed=True)
        await judged(journal, "r-3", newest)
        await journal.append(first, Append(1, steps(1, 1), verdict=attrs.evolve(VERDICT, passed=False)))
        await judged(journal, "o-1", attrs.evolve(VERDICT, content="other"))
        await judged(journal, "o-2", attrs.evolve(VERDICT, skill_id=2))
        await judged(journal, "r-1", VERDICT, OTHER_ORG)
        found = await journal.verdicts.latest(ORG, 1, "digest")
        assert [(one.case_id, one.evaluation_id) for one in found] == [("A", "e-1"), ("a", "e-2")]
        assert [len(await journal.verdicts.latest(org, 1, "digest")) for org in (OTHER_ORG, ORG)] == [1, 2]
        assert await journal.verdicts.latest(ORG, 1, "none") == []

    async def test_a_lost_append_leaves_no_verdict(self, journal: Journal) -> None:
        """The verdict is written in the transaction of the append, or not at all."""
        ref = await judged(journal, "r-1", VERDICT)
        with pytest.raises(JournalConflict):
            await journal.append(ref, Append(7, steps(1, 1), verdict=attrs.evolve(VERDICT, passed=True)))
        assert await journal.verdicts.latest(ORG, 1, "digest") == [VERDICT]

    async def test_a_deleted_execution_has_no_verdict(self, journal: Journal) -> None:
        """The verdict before becomes the newest one."""
        await judged(journal, "r-1", VERDICT)
        ref = await judged(journal, "r-2", attrs.evolve(VERDICT, passed=True))
        await journal.delete(ref, 1)
        assert await journal.verdicts.latest(ORG, 1, "digest") == [VERDICT]


VERDICT = VerdictRow(1, "digest", "e-1", "a", "r-1", NOW)


async def judged(journal: Journal, run: str, verdict: VerdictRow, org: str = ORG) -> ExecutionRef:
    """An execution that began with this verdict."""
    new = NewExecution(org, "skill", verdict.skill_id, None, "ann", f"t-{run}", started_by="evaluation")
    begun = NewRun(run, "ann", b"f", RunStatus.running, NOW)
    return (await journal.begin(new, Append(0, steps(1), new_run=begun, verdict=verdict))).ref
