"""The inbox part of the journal contract: who sees open and closed interrupts. `JournalContract` is the whole."""

from msgspec import structs

from wfcore.domain.resources.access import Principal
from wfcore.domain.run.entries import Actor, Decision, Resumed, TimePassed
from wfcore.domain.run.state import RunStatus, Vote
from wfcore.ports.journal import Append, InboxFilter, Journal, NewExecution, NewRun, OpenInterrupt
from wfcore.testing.contracts.journal_values import (
    ANN,
    NOW,
    ORG,
    OTHER_ORG,
    READERS,
    begin,
    interrupt,
    reader,
    steps,
)

ANY = InboxFilter()


async def items(
    journal: Journal, principal: Principal, *, limit: int = 99, decided: bool = False, where: InboxFilter = ANY
) -> list[OpenInterrupt]:
    """The interrupts that the principal sees."""
    keys = await journal.inbox(principal, limit=limit, decided=decided, where=where)
    found = await journal.interrupts_at(principal.org_uuid, keys, decided=decided)
    assert [item.key for item in found] == keys
    return found


async def seen(
    journal: Journal, principal: Principal, *, limit: int = 99, decided: bool = False, where: InboxFilter = ANY
) -> list[str]:
    """Their ids."""
    return [item.interrupt.id for item in await items(journal, principal, limit=limit, decided=decided, where=where)]


class InboxContract:
    """`Journal.inbox`."""

    async def test_who_sees_an_interrupt(self, journal: Journal) -> None:
        """Named approvers; else who can use the target, and for a run without a resource its starter."""
        named = structs.replace(interrupt("named"), groups=(), emails=("eve@x.org",))
        anybody = structs.replace(interrupt("any"), groups=(), emails=())
        await begin(journal, "r-1", interrupts=[named, anybody, interrupt("group")])
        await begin(journal, "r-2", resource_id=None, interrupts=[structs.replace(anybody, id="own")])
        await begin(journal, "r-3", resource_id=2, interrupts=[structs.replace(anybody, id="hidden")])
        eve = Principal(ORG, "eve", "eve@x.org", frozenset(), frozenset(), reader("eve").role, email_verified=True)
        for principal, expected in (
            (eve, ["named"]),
            (reader("bob", READERS), ["group", "any"]),
            (reader("ann"), ["own"]),
            (reader("zoe"), []),
            (reader("bob", READERS, org=OTHER_ORG), []),
        ):
            assert await seen(journal, principal) == expected

    async def test_an_escalated_interrupt(self, journal: Journal) -> None:
        """Those to whom it was escalated see it too, under the same key, also once it is decided."""
        named = structs.replace(interrupt("named"), escalate_groups=("boss-group",), escalate_at=NOW + 1)
        plain = structs.replace(named, id="plain", groups=(), emails=())
        ref = await begin(journal, interrupts=[named, plain])
        boss, bob = reader("boss", "boss-group"), reader("bob", READERS)
        assert (await seen(journal, boss), await seen(journal, bob)) == ([], ["plain", "named"])
        (_, first) = await items(journal, bob)
        escalated = [structs.replace(one, escalated_at=NOW + 1) for one in (named, plain)]
        await journal.append(ref, Append(1, (TimePassed(NOW + 1),), interrupts=escalated))
        assert (await seen(journal, boss), await seen(journal, bob)) == (["plain", "named"], ["plain", "named"])
        (_, found) = await items(journal, boss)
        assert (found.key, found.interrupt) == (first.key, escalated[0])
        turn = Resumed(NOW + 2, "r-2", ANN, (Decision("named", "deny"),))
        await journal.append(ref, Append(2, (turn,), interrupts=escalated[1:]))
        assert (await seen(journal, boss), await seen(journal, boss, decided=True)) == (["plain"], ["named"])

    async def test_an_interrupt_with_other_approvers(self, journal: Journal) -> None:
        """Only those see it who are named now, under the same key."""
        anybody = structs.replace(interrupt("one"), groups=(), emails=())
        named = structs.replace(anybody, groups=("boss-group",))
        boss, bob = reader("boss", "boss-group"), reader("bob", READERS)
        ref = await begin(journal, interrupts=[anybody])
        (first,) = await items(journal, bob)
        await journal.append(ref, Append(1, (TimePassed(NOW + 1),), interrupts=[named]))
        assert (await seen(journal, boss), await seen(journal, bob)) == (["one"], [])
        (found,) = await items(journal, boss)
        assert (found.key, found.interrupt) == (first.key, named)
        await journal.append(ref, Append(2, (TimePassed(NOW + 2),), interrupts=[anybody]))
        assert (await seen(journal, boss), await seen(journal, bob)) == ([], ["one"])

    async def test_interrupts_by_their_ids(self, journal: Journal) -> None:
        """Of executions whose target the principal can use, or of which it sees an interrupt: open, else closed."""
        plain = structs.replace(interrupt("plain"), groups=(), emails=())
        boss = structs.replace(plain, id="boss", groups=("boss-group",))
        ref = await begin(journal, "r-1", interrupts=[plain, boss])
        await begin(journal, "r-2", resource_id=2, interrupts=[structs.replace(plain, id="hidden")])
        await begin(journal, "r-3", resource_id=None, interrupts=[structs.replace(plain, id="own")])
        ids = {"plain", "boss", "hidden", "own", "none"}

        async def found(who: Principal) -> dict[str, tuple[str, str | None, bool]]:
            items = await journal.find_interrupts(who, ids)
            assert all(name == item.interrupt.id for name, (item, _) in items.items())
            return {name: (item.run_id, item.decision, can_use) for name, (item, can_use) in items.items()}

        everything = {"plain": ("r-1", None, True), "boss": ("r-1", None, True)}
        assert await found(reader("eve", READERS)) == everything
        assert await found(reader("ann")) == {"own": ("r-3", None, True)}
        without_use = {"plain": ("r-1", None, False), "boss": ("r-1", None, False)}
        assert await found(reader("boss", "boss-group")) == without_use
        assert await found(reader("zoe")) == await found(reader("eve", READERS, org=OTHER_ORG)) == {}
        assert await journal.find_interrupts(reader("eve", READERS), []) == {}
        turn = Resumed(NOW + 1, "r-9", ANN, (Decision("plain", "deny"), Decision("boss", "deny")))
        await journal.append(ref, Append(1, (turn,), interrupts=[]))
        assert await found(reader("eve", READERS)) == dict.fromkeys(everything, ("r-1", "deny", True))
        assert (await found(reader("boss", "boss-group")))["plain"] == ("r-1", "deny", False)
        assert (await found(reader("ann")))["boss"] == ("r-1", "deny", False)  # who has decided it
        again = structs.replace(plain, opened_at=NOW + 2)
        await journal.append(ref, Append(2, (TimePassed(NOW + 2),), interrupts=[again]))
        assert await found(reader("eve", READERS)) == {**everything, "boss": ("r-1", "deny", True)}
        (item, _), *_ = (await journal.find_interrupts(reader("eve", READERS), {"plain"})).values()
        assert item.interrupt == again

    async def test_interrupts_with_one_hash(self, journal: Journal) -> None:
        """Ids that CRC-32 does not distinguish are two interrupts."""
        plain = structs.replace(interrupt("plumless"), groups=(), emails=())
        await begin(journal, interrupts=[plain, structs.replace(plain, id="buckeroo")])
        items = await journal.find_interrupts(reader("eve", READERS), {"buckeroo"})
        assert {name: item.interrupt.id for name, (item, _) in items.items()} == {"buckeroo": "buckeroo"}

    async def test_the_inbox_is_limited_and_filtered(self, journal: Journal) -> None:
        """The newest first, with the latest run; `workflows` leaves out others, open and closed."""
        for number in range(3):
            ref = await begin(journal, f"r-{number}", interrupts=[interrupt(f"i-{number}")])
        anybody = structs.replace(interrupt("any"), groups=(), emails=())
        new = NewExecution(ORG, "skill", 1, "v-1", "ann", "t-9")
        run = NewRun("skill", "ann", b"f", RunStatus.running, NOW)
        await journal.begin(new, Append(0, steps(1), new_run=run, interrupts=[interrupt("of-skill")]))
        await begin(journal, "any", interrupts=[anybody])
        await begin(journal, "own", resource_id=None, interrupts=[interrupt("own")])
        bob, first = reader("bob", READERS), frozenset((1,))
        found = await items(journal, bob, limit=2)
        assert [(item.interrupt.id, item.run_id) for item in found] == [("own", "own"), ("any", "any")]
        expected = ["any", "i-2", "i-1", "i-0"]
        for workflows, names in ((first, expected), (first | {2}, expected), (frozenset((2,)), []), (frozenset(), [])):
            assert await seen(journal, bob, where=InboxFilter(workflows)) == names
        turn = Resumed(NOW + 1, "r-9", ANN, (Decision("i-2", "deny"),))
        await journal.append(ref, Append(1, (turn,), interrupts=[]))
        for workflows, names in ((first, ["i-2"]), (frozenset((2,)), [])):
            assert await seen(journal, bob, decided=True, where=InboxFilter(workflows)) == names

    async def test_the_limit_is_that_of_all(self, journal: Journal) -> None:
        """Of those that the principal sees for several reasons, and of those with several reasons."""
        anybody = structs.replace(interrupt("any-0"), groups=(), emails=())
        both = structs.replace(anybody, escalate_groups=(READERS,), escalated_at=NOW)
        turns = []
        for number in range(4):
            waiting = [structs.replace(both, id=f"any-{number}"), interrupt(f"named-{number}")]
            ref = await begin(journal, f"r-{number}", interrupts=waiting)
            decisions = tuple(Decision(one.id, "deny") for one in waiting)
            turns.append((ref, Append(1, (Resumed(NOW + 1, f"s-{number}", ANN, decisions),), interrupts=[])))
        bob = reader("bob", READERS)
        expected = ["named-3", "any-3", "named-2", "any-2", "named-1"]
        assert await seen(journal, bob, limit=5) == expected
        for ref, append in turns:
            await journal.append(ref, append)
        assert await seen(journal, bob, limit=5, decided=True) == expected
        assert await seen(journal, reader("ann", READERS), limit=5, decided=True) == expected

    async def test_what_cannot_be_decided_is_left_out(self, journal: Journal) -> None:
        """With `undecided_by`: without what one of these users has started or decided, and without what expired."""
        ann, bob = reader("ann", READERS), reader("bob", READERS)
        plain = structs.replace(interrupt("plain"), allow_self=True, answers=(), expires_at=None)
        not_own = structs.replace(plain, id="not-own", allow_self=False)
        voted = structs.replace(plain, id="voted")
        until = structs.replace(plain, id="until", expires_at=NOW + 10)
        ref = await begin(journal, interrupts=[not_own, voted, until])

        async def left(who: Principal, *users: str, now: int = NOW) -> list[str]:
            return await seen(journal, who, where=InboxFilter(None, frozenset(users), now))

        assert await left(bob) == ["until", "voted", "not-own"]
        assert await left(bob, "bob") == ["until", "voted", "not-own"]
        assert await left(ann, "ann") == await left(bob, "bob", "ann") == ["until", "voted"]
        assert await left(bob, "bob", now=NOW + 9) == ["until", "voted", "not-own"]
        assert await left(bob, "bob", now=NOW + 10) == ["voted", "not-own"]
        behalf = structs.replace(voted, answers=(Vote("approve", Actor("bob"), NOW, None, "cy"),))
        await journal.append(ref, Append(1, (TimePassed(NOW + 1),), interrupts=[not_own, behalf, until]))
        for user in ("bob", "cy"):
            assert await left(bob, user) == ["until", "not-own"]
        assert await left(ann, "ann") == ["until", "voted"]
        anybody = structs.replace(not_own, allow_self=True)
        later = structs.replace(until, expires_at=None)
        await journal.append(ref, Append(2, (TimePassed(NOW + 2),), interrupts=[anybody, voted, later]))
        assert await left(ann, "ann", "bob", "cy", now=NOW + 99) == ["until", "voted", "not-own"]
        turn = Resumed(NOW + 3, "r-2", ANN, (Decision("voted", "deny"),))
        await journal.append(ref, Append(3, (turn,), interrupts=[not_own, until]))
        where = InboxFilter(None, frozenset(("ann", "bob")), NOW)
        assert await seen(journal, bob, decided=True, where=where) == ["voted"]

    async def test_deadlines(self, journal: Journal) -> None:
        """Those of open or closed interrupts that have one, in their order, only of the organization."""
        none = structs.replace(interrupt("none"), expires_at=None)
        until = [structs.replace(interrupt(f"i-{at}-{n}"), expires_at=NOW + at) for n in (1, 2) for at in (9, 5)]
        ref = await begin(journal, interrupts=[*until, none])
        bob = reader("bob", READERS)
        keys = {item.interrupt.id: item.key for item in await items(journal, bob)}
        order = [(keys[name], NOW + at) for name, at in (("i-5-2", 5), ("i-5-1", 5), ("i-9-2", 9), ("i-9-1", 9))]
        assert list((await journal.deadlines(ORG, list(keys.values()))).items()) == order
        assert await journal.deadlines(ORG, [keys["none"], keys["i-9-1"], 2**40]) == {keys["i-9-1"]: NOW + 9}
        assert await journal.deadlines(OTHER_ORG, list(keys.values())) == {}
        assert await journal.interrupts_at(OTHER_ORG, list(keys.values())) == []
        turn = Resumed(NOW + 1, "r-2", ANN, tuple(Decision(one.id, "deny") for one in until[:2]))
        await journal.append(ref, Append(1, (turn,), interrupts=[*until[2:], none]))
        closed = {keys["i-5-1"]: NOW + 5, keys["i-9-1"]: NOW + 9}
        assert await journal.deadlines(ORG, list(keys.values()), decided=True) == closed

    async def test_closed_interrupts_are_kept(self, journal: Journal) -> None:
        """Decided and expired ones, with the votes, for those who saw them and who decided; withdrawn ones are not."""
        later = structs.replace(interrupt("later"), expires_at=NOW + 10**9)
        ref = await begin(journal, interrupts=[interrupt("decided"), interrupt("expired"), later])
        turn = Resumed(NOW + 1, "r-2", ANN, (Decision("decided", "deny", {"why": "no"}),))
        await journal.append(ref, Append(1, (turn,), interrupts=[interrupt("expired"), later]))
        await journal.append(ref, Append(2, (TimePassed(NOW + 5),), interrupts=[]))
        bob, ann = reader("bob", READERS), reader("ann")
        assert await seen(journal, bob) == []
        found = await items(journal, bob, decided=True)
        assert [(item.interrupt.id, item.decision, item.decided_at) for item in found] == [
            ("expired", "expired", NOW + 5), ("decided", "deny", NOW + 1),
        ]  # fmt: skip
        assert found[1].interrupt.answers[-1].data == {"why": "no"}
        assert set(await seen(journal, ann, decided=True)) == {"decided", "expired"}
        assert await seen(journal, reader("zoe"), decided=True) == []
