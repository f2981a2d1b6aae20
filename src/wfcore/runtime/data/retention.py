"""Data retention: what is older than the operator's settings is deleted, in every organization (`Settings.retention`).

A process with a worker does so at its start and every hour; several processes can do it at the same time.
"""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final

import attrs

from wfcore.domain.kernel.errors import NotFound
from wfcore.ports.maintenance import EXPIRING
from wfcore.ports.storage import Storage
from wfcore.runtime.common.arguments import checks_arguments
from wfcore.runtime.common.audit import audit
from wfcore.runtime.common.installation import Retention
from wfcore.runtime.common.polling import Poller
from wfcore.runtime.common.ports import Ports

log = logging.getLogger("wfcore.retention")

BATCH: Final = 1_000
"""The most rows of one transaction."""

DAY: Final = 86_400_000
"""Milliseconds."""

INTERVAL: Final = 3_600.0
"""Seconds between two prunings of a process."""

EVER: Final = 2**45
"""A time after everything, in epoch milliseconds."""

PAGE: Final = 100

KEY: Final = re.compile(r"[0-9a-f]{64}\.[a-z]+", re.ASCII)
"""The keys of attachments in texts."""

OnDeleted = Callable[[Mapping[str, int]], None]
"""Called after each batch with what was deleted so far, by kind."""


class DataRetention:
    """Deletes what is too old. It acts for the operator, who has no principal."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._poller = Poller(ports.clock, ports.outage, self.prune, "old data", INTERVAL)

    def start(self) -> None:
        """Start to prune, if anything is to be deleted at all."""
        if self._ports.settings.retention:
            self._poller.start()

    async def stop(self) -> None:
        await self._poller.stop()

    @checks_arguments
    async def prune(
        self, retention: Retention | None = None, *, dry_run: bool = False, on_progress: OnDeleted = lambda _: None
    ) -> Mapping[str, int]:
        """Delete what is too old, or with `dry_run` only count it. Returns how many of each kind that has a limit.

        `retention` is by default that of the settings. An organization's audit says how many were deleted.
        """
        wanted = self._ports.settings.retention if retention is None else retention
        now = self._ports.clock.now()
        limits = {kind: now - round(days * DAY) for kind, days in attrs.asdict(wanted).items() if days is not None}
        totals = Counter(dict.fromkeys(limits, 0))
        async for org in every_organization(self._ports.storage):
            try:
                await self._prune(org, limits, totals, on_progress, dry_run=dry_run)
            except NotFound:
                continue  # the organization was deleted meanwhile
        return dict(totals)

    async def _prune(
        self, org: str, limits: Mapping[str, int], totals: Counter[str], on_progress: OnDeleted, *, dry_run: bool
    ) -> None:
        deleted = Counter[str]()
        maintenance = self._ports.storage.maintenance
        for kind in EXPIRING:
            if kind not in limits:
                continue
            if dry_run:
                before = {each: limits[each] for each in EXPIRING[: EXPIRING.index(kind)] if each in limits}
                totals[kind] += await maintenance.count(org, kind, limits[kind], before)
                continue
            while count := (await maintenance.prune(org, kind, limits[kind], limit=BATCH)).count:
                deleted[kind] += count
                totals[kind] += count
                on_progress(totals)
                await asyncio.sleep(0)
        if "blobs" in limits:
            unused = await self._unused_blobs(org, limits, dry_run=dry_run)
            totals["blobs"] += len(unused)
            deleted["blobs"] += 0 if dry_run else await self._delete_blobs(org, unused, limits["blobs"])
        if +deleted:
            await self._record(org, +deleted)

    async def _record(self, org: str, deleted: Mapping[str, int]) -> None:
        log.info("deleted old data", extra={"organization": org, **{f"deleted_{k}": n for k, n in deleted.items()}})
        async with self._ports.storage.transaction(org) as work:
            await audit(work, None, self._ports.now(), "organization", "prune", org, dict(deleted))

    async def _unused_blobs(self, org: str, limits: Mapping[str, int], *, dry_run: bool) -> Sequence[str]:
        """The keys of old content to which no row refers. Reads every row, if there is old content.

        In a dry run the rows are still there that would have been deleted before: they do not count.
        """
        unused = set(await self._ports.blobs.stored_before(org, limits["blobs"]))
        if unused:
            without = {kind: limits[kind] for kind in EXPIRING if dry_run and kind in limits}
            async for texts in self._ports.storage.maintenance.texts(org, without):
                for text in texts:
                    unused.difference_update(KEY.findall(text))
                await asyncio.sleep(0)
        return sorted(unused)

    async def _delete_blobs(self, org: str, keys: Sequence[str], before: int) -> int:
        """Delete content that is still old: what a new run refers to was renewed."""
        still = set(await self._ports.blobs.stored_before(org, before))
        return sum([await self._ports.blobs.delete(org, key) for key in keys if key in still])

    @checks_arguments
    async def delete_organization(self, org: str) -> bool:
        """Delete an organization with all of its rows and attachments; False when there is none.

        It cannot be undone. Its runs that are under way end without a further entry.
        """
        found = await self._ports.storage.maintenance.remove_organization(org)
        for key in await self._ports.blobs.stored_before(org, EVER):
            await self._ports.blobs.delete(org, key)
        return found


async def every_organization(storage: Storage) -> AsyncIterator[str]:
    """The UUIDs of all organizations."""
    after = ""
    while rows := await storage.organizations(limit=PAGE, after=after):
        for row in rows:
            yield row.uuid
        after = rows[-1].uuid
