"""Delivers responses to team chats: each at least once, always with the same `webhook-id`.

A response is due when its turn is at rest. A process claims the posting for a limited time by compare-and-set, posts
the response, and then records the delivery. After a crash in between it is posted again. A response that is not
accepted is retried for about a day with growing intervals.
"""

import asyncio
import logging
from collections import Counter
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
from wfcore.ports.repositories.postings import DuePosting, Posting
from wfcore.runtime.channels.endpoints import find_endpoint
from wfcore.runtime.common.audit import audit
from wfcore.runtime.common.polling import Poller
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.run_views import latest_turn, views
from wfcore.runtime.resources.interfaces import open_secret

log = logging.getLogger("wfcore.posting")

MAX_CONCURRENT: Final = 100
"""The most responses that one process posts at a time."""

MAX_PER_ORGANIZATION: Final = 25
"""The most of them that belong to one organization: its slow addresses do not delay the responses of others."""

CLAIM_DURATION: Final = 60_000
"""Milliseconds for which a process claims a posting: longer than a post can take."""

FIRST_WAIT, LONGEST_WAIT = 5_000, 3_600_000
"""Milliseconds until a response that was not accepted is retried; doubled each time."""

MOST_TRIES: Final = 30

_FIRST_REDIRECT: Final = 300
"""Statuses from here on mean that the address did not accept the message (RFC 9110, 15)."""


@attrs.frozen
class _ClaimedPosting:
    """A posting that this process has claimed, with the data for its response."""

    org: str
    posting: Posting
    row: RunRow
    interface: Interface
    url: str


class Poster:
    """Delivers due postings of every organization, concurrently with other processes."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._poller = Poller(ports.clock, self.poll, "due postings")
        self._under_way: dict[DuePosting, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Start polling for due postings."""
        self._poller.start()

    async def stop(self) -> None:
        """Stop polling and cancel the deliveries in progress, which stay due."""
        await self._poller.stop()
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def poll(self) -> list[asyncio.Task[None]]:
        """Begin the deliveries that are due now, without waiting for them."""
        if len(self._under_way) >= MAX_CONCURRENT:
            return []
        due = await self._ports.storage.due_postings(self._ports.clock.now(), limit=MAX_CONCURRENT)
        active = Counter(one.org for one in self._under_way)
        begun = []
        for one in due:
            if one in self._under_way or active[one.org] >= MAX_PER_ORGANIZATION:
                continue
            if len(self._under_way) >= MAX_CONCURRENT:
                break
            active[one.org] += 1
            begun.append(self._begin(one))
        return begun

    def _begin(self, due: DuePosting) -> asyncio.Task[None]:
        task = self._under_way[due] = asyncio.create_task(self._try(due))
        task.add_done_callback(lambda _: self._under_way.pop(due, None))
        return task

    async def _try(self, due: DuePosting) -> None:
        try:
            claimed = await self._claim(due)
            if claimed is not None:
                await self._record_attempt(claimed, await self._post(claimed))
        except Exception:
            log.exception("a response could not be posted", extra={"organization": due.org, "run": due.id})

    async def _claim(self, due: DuePosting) -> _ClaimedPosting | None:
        """Claim the posting; None when it is not due any more or another process has claimed it."""
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
        address = await self._address(posting)
        if address is None:
            await self._write(due.org, read, attrs.evolve(posting, next_at=None))
            return None
        claimed = attrs.evolve(posting, next_at=now + CLAIM_DURATION, tries=posting.tries + 1)
        return _ClaimedPosting(due.org, claimed, row, *address) if await self._write(due.org, read, claimed) else None

    async def _latest(self, org: str, posting: Posting) -> tuple[Posting, RunRow | None]:
        """The posting for the execution's latest turn: an interrupt that was resolved is not reported any more."""
        row = await latest_turn(self._ports.journal, org, posting.run_id)
        if row is not None and row.id != posting.run_id:
            posting = attrs.evolve(posting, run_id=row.id, reported=None, tries=0)
        return posting, row

    async def _address(self, posting: Posting) -> tuple[Interface, str] | None:
        """The interface and the URL that the response goes to now; None without an address."""
        try:
            endpoint = await find_endpoint(self._ports, InterfaceKind.TEAMCHAT, posting.interface_id)
        except NotFound:
            return None
        url = endpoint.row.config.get("postUrl")
        return None if url is None else (endpoint.row, url)

    async def _post(self, claimed: _ClaimedPosting) -> bool:
        """Post the response. Returns whether it was accepted; False also when this process lacks the secret's key."""
        secret = open_secret(self._ports.sealer, claimed.org, claimed.interface)
        if secret is None:
            return False
        (view,) = await views(self._ports.journal, [claimed.row])
        body = dumps(answer_of(claimed.posting.place, view.to_wire())).encode()
        name, at = answer_id_of(claimed.interface, claimed.row.id, claimed.row.status), self._ports.clock.now() // 1000
        headers = {
            "content-type": "application/json",
            "webhook-id": name,
            "webhook-timestamp": str(at),
            "webhook-signature": sign(secret, name, at, body),
        }
        try:
            status = await self._ports.outbound.post(claimed.url, headers, body)
        except Undelivered:
            return False
        return status < _FIRST_REDIRECT

    async def _record_attempt(self, claimed: _ClaimedPosting, delivered: bool) -> None:
        """Record the outcome: delivered, to be retried, or given up."""
        posting, now = claimed.posting, self._ports.clock.now()
        if not delivered and posting.tries < MOST_TRIES:
            wait = min(FIRST_WAIT * 2 ** (posting.tries - 1), LONGEST_WAIT)
            await self._write(claimed.org, posting, attrs.evolve(posting, next_at=now + wait))
            return
        await self._close(claimed.org, posting, posting, claimed.row, given_up=not delivered)

    async def _close(self, org: str, read: Posting, posting: Posting, row: RunRow, *, given_up: bool) -> None:
        """Record that this status of the turn is reported. An interrupted turn can change, so it stays due."""
        next_at = 0 if row.status is RunStatus.interrupted else None
        reported = attrs.evolve(posting, reported=row.status, tries=0, next_at=next_at)
        await self._write(org, read, reported, given_up=given_up)

    async def _write(self, org: str, read: Posting, new: Posting, *, given_up: bool = False) -> bool:
        """Write the posting, unless another process has changed it since it was read."""
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
