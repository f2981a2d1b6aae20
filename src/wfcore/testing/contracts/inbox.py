"""The inbox part of the journal contract: who sees open and closed interrupts. `JournalContract` is the whole."""

from msgspec import structs

from wfcore.domain.resources.access import Principal
from wfcore.domain.run.entries import Decision, Resumed, TimePassed
from wfcore.ports.journal import Append, Journal
from wfcore.testing.contracts.journal_values import ANN, NOW, ORG, OTHER_ORG, READERS, begin, interrupt, reader

LATEST = 2**63 - 1


async def seen(
    journal: Journal, principal: Principal, *, limit: int = 99, before: int = LATEST, decided: bool = False
) -> list[str]:
    """The interrupts that the principal sees."""
    items = await journal.inbox(principal, limit=limit, before=before, decided=decided)
    return [item.interrupt.id for item in items]


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
        (_, first) = await journal.inbox(bob, limit=9, before=LATEST)
        escalated = [structs.replace(one, escalated_at=NOW + 1) for one in (named, plain)]
        await journal.append(ref, Append(1, (TimePassed(NOW + 1),), interrupts=escalated))
        assert (await seen(journal, boss), await seen(journal, bob)) == (["plain", "named"], ["plain", "named"])
        (_, found) = await journal.inbox(boss, limit=9, before=LATEST)
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
        (first,) = await journal.inbox(bob, limit=9, before=LATEST)
        await journal.append(ref, Append(1, (TimePassed(NOW + 1),), interrupts=[named]))
        assert (await seen(journal, boss), await seen(journal, bob)) == (["one"], [])
        (found,) = await journal.inbox(boss, limit=9, before=LATEST)
        assert (found.key, found.interrupt) == (first.key, named)
        await journal.append(ref, Append(2, (TimePassed(NOW + 2),), interrupts=[anybody]))
        assert (await seen(journal, boss), await seen(journal, bob)) == ([], ["one"])

    async def test_an_interrupt_of_other_approvers(self, journal: Journal) -> None:
        """It is found by its id by who can use the target, while it is open and once it is closed, with its run."""
        ref = await begin(journal, interrupts=[interrupt("named"), structs.replace(interrupt("other"), groups=())])
        await begin(journal, "r-3", resource_id=2, interrupts=[interrupt("hidden")])
        await begin(journal, "r-4", resource_id=None, interrupts=[interrupt("own")])
        user, outsider = reader("eve", READERS), reader("eve", READERS, org=OTHER_ORG)
        opened = {name: await journal.find_interrupt(user, name) for name in ("named", "other", "hidden", "own", "no")}
        assert {name: item.run_id for name, item in opened.items() if item} == {"named": "r-1", "other": "r-1"}
        assert [await journal.find_interrupt(one, "named") for one in (outsider, reader("zoe"))] == [None, None]
        assert await seen(journal, reader("zoe", READERS)) == ["own", "hidden", "named"]
        anybody = structs.replace(interrupt("other"), groups=(), emails=())
        turn = Resumed(NOW + 1, "r-2", ANN, (Decision("named", "deny"),))
        await journal.append(ref, Append(1, (turn,), interrupts=[anybody]))
        closed = await journal.find_interrupt(user, "named")
        assert closed
        assert (closed.interrupt.id, closed.decision, closed.decided_at) == ("named", "deny", NOW + 1)
        assert await journal.find_interrupt(user, "other") is None  # it is in the inbox of who can use the target
        assert await seen(journal, user) == ["own", "hidden", "other"]

    async def test_the_inbox_is_paged_and_filtered(self, journal: Journal) -> None:
        """Newest first, by key, with the latest run; `workflow` leaves out others."""
        for number in range(3):
            await begin(journal, f"r-{number}", interrupts=[interrupt(f"i-{number}")])
        bob = reader("bob", READERS)
        first = await journal.inbox(bob, limit=2, before=LATEST)
        assert [(item.interrupt.id, item.run_id) for item in first] == [("i-2", "r-2"), ("i-1", "r-1")]
        assert await seen(journal, bob, limit=2, before=first[-1].key) == ["i-0"]
        for workflow, expected in ((1, 3), (2, 0)):
            assert len(await journal.inbox(bob, limit=9, before=LATEST, workflow=workflow)) == expected

    async def test_closed_interrupts_are_kept(self, journal: Journal) -> None:
        """Decided and expired ones, with the votes, for those who saw them and who decided; withdrawn ones are not."""
        later = structs.replace(interrupt("later"), expires_at=NOW + 10**9)
        ref = await begin(journal, interrupts=[interrupt("decided"), interrupt("expired"), later])
        turn = Resumed(NOW + 1, "r-2", ANN, (Decision("decided", "deny", {"why": "no"}),))
        await journal.append(ref, Append(1, (turn,), interrupts=[interrupt("expired"), later]))
        await journal.append(ref, Append(2, (TimePassed(NOW + 5),), interrupts=[]))
        bob, ann = reader("bob", READERS), reader("ann")
        assert await seen(journal, bob) == []
        items = await journal.inbox(bob, limit=9, before=LATEST, decided=True)
        assert [(item.interrupt.id, item.decision, item.decided_at) for item in items] == [
            ("expired", "expired", NOW + 5), ("decided", "deny", NOW + 1),
        ]  # fmt: skip
        assert items[1].interrupt.answers[-1].data == {"why": "no"}
        assert set(await seen(journal, ann, decided=True)) == {"decided", "expired"}
        assert await seen(journal, reader("zoe"), decided=True) == []
