"""Delivers responses to team chats: each at least once, always with the same `webhook-id`.

A response is due when its turn is at rest, and is posted by the delivery loop; a claim is a compare-and-set. A response
that is not accepted is retried for about a day with growing intervals.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from wfcore.domain.channels.interfaces import Interface, InterfaceKind
from wfcore.domain.channels.slack import post_of
from wfcore.domain.channels.team_chat_config import takes_decisions
from wfcore.domain.channels.team_chats import answer_id_of, answer_of
from wfcore.domain.json.codec import dumps
from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.kernel.json_readers import as_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import RunRow
from wfcore.ports.providers import ToolFailed
from wfcore.ports.repositories.postings import DuePosting, Posting
from wfcore.runtime.channels.delivery_loop import CLAIM_DURATION, DeliveryLoop, log, post_signed
from wfcore.runtime.channels.endpoints import find_endpoint
from wfcore.runtime.channels.slack import Slack
from wfcore.runtime.common.audit import audit
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.run_views import latest_turn, views
from wfcore.runtime.resources.interfaces import open_secret

FIRST_WAIT, LONGEST_WAIT = 5_000, 3_600_000
"""Milliseconds until a response that was not accepted is retried; doubled each time."""

MOST_TRIES: Final = 30


@attrs.frozen
class _ClaimedPosting:
    """A posting that this process has claimed, with the data for its response."""

    org: str
    posting: Posting
    row: RunRow
    interface: Interface


class Poster(DeliveryLoop[DuePosting]):
    """Delivers due postings of every organization, concurrently with other processes."""

    def __init__(self, ports: Ports) -> None:
        super().__init__(ports, "postings")
        self._slack = Slack(ports)

    async def _due(self, now: int, limit: int) -> Sequence[DuePosting]:
        return await self._ports.storage.due_postings(now, limit=limit)

    async def _deliver(self, due: DuePosting) -> None:
        claimed = await self._claim(due)
        if claimed is None:
            return
        try:
            delivered = await self._post(claimed)
        except Exception:
            await self._record_attempt(claimed, delivered=False)
            raise
        await self._record_attempt(claimed, delivered=delivered)

    async def _claim(self, due: DuePosting) -> _ClaimedPosting | None:
        """Claim the posting; None when it is not due any more or another process has claimed it."""
        now = self._ports.clock.now()
        async with self._ports.storage.reading(due.org) as work:
            read = await work.postings.get(due.id)
        if read is None or read.next_at is None or read.next_at > now or not self._is_free(due, read):
            return None
        posting, row = await self._latest(due.org, attrs.evolve(read, tries=abs(read.tries)))
        if row is None or row.status.under_way or posting.reported is row.status:
            await self._write(due.org, read, posting)
            return None
        if posting.tries >= MOST_TRIES:
            await self._close(due.org, read, posting, row, given_up=True)
            return None
        interface = await self._interface(posting)
        if interface is None:
            await self._write(due.org, read, attrs.evolve(posting, next_at=None))
            return None
        claimed = attrs.evolve(posting, next_at=now + CLAIM_DURATION, tries=-posting.tries - 1)
        return _ClaimedPosting(due.org, claimed, row, interface) if await self._write(due.org, read, claimed) else None

    async def _correct(self, due: DuePosting, now: int) -> None:
        async with self._ports.storage.reading(due.org) as work:
            read = await work.postings.get(due.id)
        if read is None or read.next_at is None:
            return
        wait = CLAIM_DURATION if read.is_claimed else _wait_after(read.tries)
        if read.next_at > now + wait:
            await self._write(due.org, read, attrs.evolve(read, next_at=now + wait))

    async def _latest(self, org: str, posting: Posting) -> tuple[Posting, RunRow | None]:
        """The posting for the execution's latest turn: an interrupt that was resolved is not reported any more."""
        row = await latest_turn(self._ports.journal, org, posting.run_id)
        if row is not None and row.id != posting.run_id:
            posting = attrs.evolve(posting, run_id=row.id, reported=None, tries=0)
        return posting, row

    async def _interface(self, posting: Posting) -> Interface | None:
        """The interface as it is now; None when it is gone, or has no address for responses."""
        try:
            endpoint = await find_endpoint(self._ports, InterfaceKind.TEAMCHAT, posting.interface_id)
        except NotFound:
            return None
        return endpoint.row if endpoint.row.is_slack or "postUrl" in endpoint.row.config else None

    async def _post(self, claimed: _ClaimedPosting) -> bool:
        """Post the response. Returns whether it was accepted; False also when this process lacks the secret's key."""
        (view,) = await views(self._ports.journal, [claimed.row])
        answer, config = answer_of(claimed.posting.place, view.to_wire()), claimed.interface.config
        if claimed.interface.is_slack:
            return await self._post_to_slack(claimed, post_of(answer, with_buttons=takes_decisions(config)))
        secret = open_secret(self._ports.sealer, claimed.org, claimed.interface)
        if secret is None:
            return False
        name = answer_id_of(claimed.interface, claimed.row.id, claimed.row.status)
        url, body = as_text(config["postUrl"]), dumps(answer).encode()
        return (await post_signed(self._ports, url, [secret], name, body)).is_accepted

    async def _post_to_slack(self, claimed: _ClaimedPosting, body: Mapping[str, JSON]) -> bool:
        try:
            await self._slack.post(claimed.org, claimed.interface.config, "chat.postMessage", body)
        except ToolFailed as error:
            log.warning("Slack did not accept a response", extra={"why": error.message})
            return False
        return True

    async def _record_attempt(self, claimed: _ClaimedPosting, *, delivered: bool) -> None:
        """Record the outcome: delivered, to be retried, or given up."""
        posting, now = claimed.posting, self._ports.clock.now()
        ended = attrs.evolve(posting, tries=-posting.tries)
        if not delivered and ended.tries < MOST_TRIES:
            await self._write(claimed.org, posting, attrs.evolve(ended, next_at=now + _wait_after(ended.tries)))
            return
        await self._close(claimed.org, posting, ended, claimed.row, given_up=not delivered)

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
                details: dict[str, JSON] = {"runId": new.run_id, "tries": abs(read.tries)}
                await audit(work, None, self._ports.now(), "interface", "give_up", new.interface_id, details)
        return True


def _wait_after(tries: int) -> int:
    """Milliseconds until a response that was not accepted so many times is retried."""
    return min(FIRST_WAIT * 2 ** (tries - 1), LONGEST_WAIT) if tries else 0
