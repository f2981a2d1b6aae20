"""Answers to team chats are posted: at least once each, under one name, whoever tries and however often.

An answer is due when the turn it tells of is at rest; the store knows both. It is taken for a while by comparison with
what was read, posted, and then written down as told: after a crash in between it is posted again, with the same
`webhook-id`. What is not taken is tried again for about a day, ever more rarely.
"""

import asyncio
import logging
from typing import Final

import attrs

from wfcore.domain.channels.interfaces import Interface, InterfaceKind
from wfcore.domain.channels.team_chats import answer_id_of, answer_of
from wfcore.domain.json.codec import dumps
from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.run.state import RunStatus
from wfcore.domain.triggers.webhooks import sign
from wfcore.ports.journal import RunRow
from wfcore.ports.outbound import Undelivered
from wfcore.ports.postings import DuePosting, Posting
from wfcore.runtime.channels.endpoints import find_surface
from wfcore.runtime.common.audit import audit
from wfcore.runtime.common.polling import Poller
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.run_views import latest_turn, views
from wfcore.runtime.resources.interfaces import opened_secret

log = logging.getLogger("wfcore.posting")

AT_ONCE: Final = 100
"""Answers that one process posts at a time."""

TAKEN_FOR: Final = 60_000
"""Milliseconds for which nobody else tries an answer that somebody took: longer than a post may take."""

FIRST_WAIT, LONGEST_WAIT = 5_000, 3_600_000
"""Milliseconds until an answer that was not taken is tried again; twice as many each time."""

MOST_TRIES: Final = 30

_END: Final = 300
"""From here on an address does not take a message (RFC 9110, 15)."""


@attrs.frozen
class _Taken:
    """An answer that is this process's to post for now."""

    org: str
    posting: Posting
    row: RunRow
    interface: Interface
    url: str


class Poster:
    """Posts what organizations owe, beside others that do the same."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._beat = Poller(ports.clock, self.look, "due answers")
        self._under_way: dict[DuePosting, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Look for answers that are due from now on."""
        self._beat.start()

    async def stop(self) -> None:
        """What is under way will be found due again."""
        await self._beat.stop()
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def look(self) -> list[asyncio.Task[None]]:
        """Begin with the answers that are due now, and wait for none of them."""
        room = AT_ONCE - len(self._under_way)
        due = await self._ports.storage.due_postings(self._ports.clock.now(), limit=AT_ONCE) if room else []
        return [self._begin(one) for one in [one for one in due if one not in self._under_way][:room]]

    def _begin(self, due: DuePosting) -> asyncio.Task[None]:
        task = self._under_way[due] = asyncio.create_task(self._try(due))
        task.add_done_callback(lambda _: self._under_way.pop(due, None))
        return task

    async def _try(self, due: DuePosting) -> None:
        try:
            taken = await self._take(due)
            if taken is not None:
                await self._told(taken, await self._post(taken))
        except Exception:
            log.exception("an answer could not be posted", extra={"organization": due.org, "run": due.id})

    async def _take(self, due: DuePosting) -> _Taken | None:
        """The answer, if it is due and nobody else has it."""
        now = self._ports.clock.now()
        async with self._ports.storage.reading(due.org) as work:
            read = await work.postings.get(due.id)
        if read is None or read.next_at is None or read.next_at > now:
            return None
        posting, row = await self._latest(due.org, read)
        if row is None or row.status.under_way or posting.reported is row.status:
            await self._write(due.org, read, posting)
            return None
        if posting.tries >= MOST_TRIES:
            await self._close(due.org, read, posting, row, given_up=True)
            return None
        addressed = await self._addressed(posting)
        if addressed is None:
            await self._write(due.org, read, attrs.evolve(posting, next_at=None))
            return None
        taken = attrs.evolve(posting, next_at=now + TAKEN_FOR, tries=posting.tries + 1)
        return _Taken(due.org, taken, row, *addressed) if await self._write(due.org, read, taken) else None

    async def _latest(self, org: str, posting: Posting) -> tuple[Posting, RunRow | None]:
        """The posting of the turn that the execution has come to: a wait that was answered needs no telling."""
        row = await latest_turn(self._ports.journal, org, posting.run_id)
        if row is not None and row.id != posting.run_id:
            posting = attrs.evolve(posting, run_id=row.id, reported=None, tries=0)
        return posting, row

    async def _addressed(self, posting: Posting) -> tuple[Interface, str] | None:
        """Where the answer goes, as things are now; None when it goes nowhere."""
        try:
            surface = await find_surface(self._ports, InterfaceKind.TEAMCHAT, posting.interface_id)
        except NotFound:
            return None
        url = surface.row.config.get("postUrl")
        return None if url is None else (surface.row, url)

    async def _post(self, taken: _Taken) -> bool:
        """Whether it was taken. One whose secret cannot be read here waits for a process that has the key."""
        secret = opened_secret(self._ports.sealer, taken.org, taken.interface)
        if secret is None:
            return False
        (view,) = await views(self._ports.journal, [taken.row])
        body = dumps(answer_of(taken.posting.place, view.to_wire())).encode()
        name, at = answer_id_of(taken.interface, taken.row.id, taken.row.status), self._ports.clock.now() // 1000
        headers = {
            "content-type": "application/json",
            "webhook-id": name,
            "webhook-timestamp": str(at),
            "webhook-signature": sign(secret, name, at, body),
        }
        try:
            status = await self._ports.outbound.post(taken.url, headers, body)
        except Undelivered:
            return False
        return status < _END

    async def _told(self, taken: _Taken, delivered: bool) -> None:
        """Write down how it went: told, to be tried again, or given up."""
        posting, now = taken.posting, self._ports.clock.now()
        if not delivered and posting.tries < MOST_TRIES:
            wait = min(FIRST_WAIT * 2 ** (posting.tries - 1), LONGEST_WAIT)
            await self._write(taken.org, posting, attrs.evolve(posting, next_at=now + wait))
            return
        await self._close(taken.org, posting, posting, taken.row, given_up=not delivered)

    async def _close(self, org: str, read: Posting, posting: Posting, row: RunRow, *, given_up: bool) -> None:
        """Nothing more is said of the turn as it is. One that waits may come to something else."""
        next_at = self._ports.clock.now() if row.status is RunStatus.interrupted else None
        told = attrs.evolve(posting, reported=row.status, tries=0, next_at=next_at)
        await self._write(org, read, told, given_up=given_up)

    async def _write(self, org: str, read: Posting, new: Posting, *, given_up: bool = False) -> bool:
        """Write the posting, unless somebody else did since it was read."""
        if read == new:
            return True
        async with self._ports.storage.transaction(org) as work:
            if await work.postings.get(read.id) != read:
                return False
            await work.postings.put(new)
            if given_up:
                details = {"runId": new.run_id, "tries": read.tries}
                await audit(work, None, self._ports.now(), "interface", "give_up", new.interface_id, details)
        return True
