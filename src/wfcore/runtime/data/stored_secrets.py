"""Stored secrets: encrypted anew with the current key, so that the operator can remove an earlier one.

Each secret is encrypted, and each row written, as a whole: a process that ends in between leaves nothing that cannot be
read, and the next call continues. A row is read again in the transaction that writes it, so no change of it is lost.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import attrs

from wfcore.domain.agents.connection_grants import ConnectionGrant
from wfcore.domain.agents.connections import Connection
from wfcore.domain.channels.hooks import Hook
from wfcore.domain.channels.interfaces import Interface
from wfcore.domain.kernel.errors import NotFound
from wfcore.ports.repositories.webhooks import WebhookRow
from wfcore.ports.sealing import (
    CLIENT,
    Unsealable,
    place_in_connection,
    place_of_hook,
    place_of_interface,
    place_of_tokens,
    place_of_webhook,
)
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.common.arguments import checks_arguments
from wfcore.runtime.common.audit import audit
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.data.retention import every_organization
from wfcore.runtime.tools.oauth_tokens import is_leased

PAGE: Final = 100
BATCH: Final = 100
"""The most rows of one transaction."""

POLL: Final = 0.5
"""Seconds between two looks at tokens that a process is replacing."""

OnEncrypted = Callable[[Mapping[str, int]], None]
"""Called after each transaction with how many rows were encrypted anew so far, by kind."""

Anew = Callable[..., str]
"""Takes a sealed text and its place. Returns the text sealed with the current key, "" for ""."""


@attrs.frozen
class Reencrypted:
    """How many rows of each kind were encrypted anew, and a line for each secret that could not be decrypted."""

    counts: Mapping[str, int]
    faults: Sequence[str]


@attrs.frozen
class SecretRows:
    """The rows of one kind that have secrets.

    `page` reads those after a row, or with None the first ones; `read` reads the row again; `anew` is the row of an
    organization with each of its secrets sealed anew.
    """

    kind: str
    page: Callable[[UnitOfWork, Any], Awaitable[Sequence[Any]]]
    read: Callable[[UnitOfWork, Any], Awaitable[Any]]
    save: Callable[[UnitOfWork, Any], Awaitable[None]]
    anew: Callable[[Anew, str, Any, int], Any]

    def name_of(self, row: Any) -> str:
        number = row.workflow_id if isinstance(row, WebhookRow) else row.id
        return f"{self.kind.removesuffix('s').replace('_', ' ')} `{number}`"


def _records(kind: str, anew: Callable[[Anew, str, Any, int], Any]) -> SecretRows:
    """Those of a `RecordRepository`."""
    return SecretRows(
        kind,
        lambda work, last: getattr(work, kind).page(limit=PAGE, after=last.id if last else ""),
        lambda work, row: getattr(work, kind).get(row.id),
        lambda work, row: getattr(work, kind).save(row),
        anew,
    )


def _connection(anew: Anew, org: str, row: Connection, _now: int) -> Connection:
    sealed = {name: anew(text, *place_in_connection(org, row.id, name)) for name, text in row.sealed.items()}
    return attrs.evolve(row, sealed=sealed, client=anew(row.client, *place_in_connection(org, row.id, CLIENT)))


def _grant(anew: Anew, org: str, row: ConnectionGrant, _now: int) -> ConnectionGrant:
    return attrs.evolve(row, sealed=anew(row.sealed, *place_of_tokens(org, row.connection_id, row.user_id)))


def _hook(anew: Anew, org: str, row: Hook, now: int) -> Hook:
    place = place_of_hook(org, row.id)
    return row.sealed_anew(lambda text: anew(text, *place), now)


def _interface(anew: Anew, org: str, row: Interface, _now: int) -> Interface:
    return attrs.evolve(row, sealed=anew(row.sealed, *place_of_interface(org, row.id)))


def _webhook(anew: Anew, org: str, row: WebhookRow, _now: int) -> WebhookRow:
    return attrs.evolve(row, sealed=anew(row.sealed, *place_of_webhook(org, row.workflow_id)))


EVERY: Final[Sequence[SecretRows]] = (
    _records("connections", _connection),
    _records("connection_grants", _grant),
    _records("hooks", _hook),
    SecretRows(
        "interfaces",
        lambda work, last: work.interfaces.signed(limit=PAGE, after=(last.resource_id, last.id) if last else (0, "")),
        lambda work, row: work.interfaces.get(row.resource_id, row.id),
        lambda work, row: work.interfaces.save(row),
        _interface,
    ),
    SecretRows(
        "webhooks",
        lambda work, last: work.webhooks.page(limit=PAGE, after=last.workflow_id if last else 0),
        lambda work, row: work.webhooks.get(row.workflow_id),
        lambda work, row: work.webhooks.put(row),
        _webhook,
    ),
)
"""Every kind, by the name of its table."""


class StoredSecrets:
    """Encrypts stored secrets anew. It acts for the operator, who has no principal."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    @checks_arguments
    async def reencrypt(self, *, dry_run: bool = False, on_progress: OnEncrypted = lambda _: None) -> Reencrypted:
        """Encrypt every stored secret with the current key, or with `dry_run` only count them; in every organization.

        What no key of this installation decrypts stays as it is. Earlier secrets of hooks that do not sign any more are
        deleted. It waits for tokens that a process is replacing, at most some two minutes. An organization's audit says
        how many were encrypted. Unavailable without a key. It can be called again, and while other processes work, if
        all of them have the current key.
        """
        task = _Reencryption(self._ports, on_progress)
        if dry_run:
            async for org in every_organization(self._ports.storage):
                task.counts.update(rows.kind for rows, _ in await task.outdated(org))
            return task.result()
        left = [org async for org in every_organization(self._ports.storage) if not await task.is_done(org)]
        while left:
            await self._ports.clock.sleep(POLL)
            left = [org for org in left if not await task.is_done(org)]
        return task.result()


class _Reencryption:
    """One call: what it has done so far."""

    def __init__(self, ports: Ports, on_progress: OnEncrypted) -> None:
        self._ports = ports
        self._on_progress = on_progress
        self.counts = Counter({rows.kind: 0 for rows in EVERY})
        self._faults = dict[str, None]()

    def result(self) -> Reencrypted:
        return Reencrypted(dict(self.counts), list(self._faults))

    async def is_done(self, org: str) -> bool:
        """Encrypt the secrets of an organization. False: a row has changed or is in use, look again."""
        found = await self.outdated(org)
        changed = 0
        for first in range(0, len(found), BATCH):
            try:
                async with self._ports.storage.transaction(org) as work:
                    batch = found[first : first + BATCH]
                    kinds = [rows.kind for rows, row in batch if await self._save(work, org, rows, row)]
                    if kinds:
                        counts = dict(Counter(kinds))
                        await audit(work, None, self._ports.now(), "organization", "reencrypt", org, counts)
            except NotFound:
                return True  # the organization was deleted meanwhile
            changed += len(kinds)
            self.counts.update(kinds)
            self._on_progress(self.counts)
        return changed == len(found)

    async def outdated(self, org: str) -> list[tuple[SecretRows, Any]]:
        """The rows with a secret that another key than the current one has sealed, and that can be decrypted."""
        try:
            async with self._ports.storage.reading(org) as work:
                return [(rows, row) for rows in EVERY for row in await self._outdated_of(work, org, rows)]
        except NotFound:
            return []

    async def _outdated_of(self, work: UnitOfWork, org: str, rows: SecretRows) -> list[Any]:
        found, last = list[Any](), None
        while page := await rows.page(work, last):
            found += [row for row in page if self._anew(org, rows, row) != row]
            last = page[-1]
        return found

    async def _save(self, work: UnitOfWork, org: str, rows: SecretRows, seen: Any) -> bool:
        """Encrypt the row as it is now. False when nothing is to be done, or not now."""
        row = await rows.read(work, seen)
        if row is None or (isinstance(row, ConnectionGrant) and is_leased(row, self._ports.clock.now())):
            return False
        new = self._anew(org, rows, row)
        if new == row:
            return False
        await rows.save(work, new)
        return True

    def _anew(self, org: str, rows: SecretRows, row: Any) -> Any:
        return rows.anew(partial(self._sealed, org, rows.name_of(row)), org, row, self._ports.clock.now())

    def _sealed(self, org: str, name: str, text: str, *place: str) -> str:
        """The text under the current key. One that cannot be decrypted stays, and is noted."""
        sealer = self._ports.sealer
        if not text or sealer.is_current(text):
            return text
        try:
            return sealer.seal(sealer.open(text, *place), *place)
        except Unsealable as error:
            self._faults[f"a secret of {name} of organization `{org}` {error}"] = None
            return text
