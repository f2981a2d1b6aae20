"""The export of a member's data, or of an organization's: a ZIP archive of JSON Lines, each with its JSON Schema.

It is streamed: rows are read in pages while the archive is written. No secret is in it: of tokens and credentials only
what they are for.
"""

import io
import zipfile
from collections.abc import AsyncIterator, Callable, Mapping
from itertools import count
from typing import Any, Final

import attrs
from msgspec import structs

from wfcore.domain.json.codec import component_name, dumps, iso_ms, schemas_of
from wfcore.domain.json.values import to_json
from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.kernel.ids import iso
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.people.people import Organization
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.access import to_wire as access_to_wire
from wfcore.domain.resources.ownership import is_owner
from wfcore.domain.resources.resource import Kind, Resource
from wfcore.domain.run.entries import Resumed, Started
from wfcore.ports.journal import RunFilter
from wfcore.ports.repositories.audit import AuditFilter
from wfcore.ports.storage import RecordRepository, UnitOfWork
from wfcore.runtime.common.arguments import checks_arguments
from wfcore.runtime.common.audit import audit_to_wire
from wfcore.runtime.common.authorization import administer, check_not_limited, needs
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.run_views import RunView, views
from wfcore.runtime.data.export_shapes import SHAPES
from wfcore.runtime.data.retention import EVER, KEY
from wfcore.runtime.organization.directory import principal_of
from wfcore.runtime.organization.members import GroupView, MemberView
from wfcore.runtime.organization.tokens import TokenView
from wfcore.runtime.runs.reading import can_use_target

PAGE: Final = 200

BILLION: Final = 1e9

Lines = AsyncIterator[Mapping[str, JSON]]

OnProgress = Callable[[int, int], None]
"""Called with how many of all rows are done."""


def ignored(_done: int, _total: int) -> None:
    """No progress is shown."""


@attrs.frozen
class _Export:
    """What is exported: the data of a member, or with None of the whole organization.

    `reader` is the caller, without whose use of a run's target its result is left out; None for the operator.
    """

    organization: Organization
    member: Principal | None
    reader: Principal | None
    advance: Callable[[], None]
    """Called after each row of those that are counted."""

    @property
    def org(self) -> str:
        return self.organization.uuid

    @property
    def user_id(self) -> str | None:
        return None if self.member is None else self.member.user_id


class Exports:
    """Exports of members, by admins and by the member, and of organizations, by the operator."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    @needs("members:read")
    async def member(self, me: Principal, user_id: str, on_progress: OnProgress = ignored) -> AsyncIterator[bytes]:
        """The archive with the data of a member, in chunks. NotFound; Forbidden for another member than an admin.

        The member's own: workflows and skills of which it is the owner, runs and conversations that it started,
        decisions, memories, tokens without their secrets, delegations, usage and what the audit says of its actions;
        attachments of its runs. Of a run whose target the caller cannot use now, it has the input, and no output,
        error and interrupts. `on_progress` is called with how many of all rows have been written.
        """
        check_not_limited(me)
        if me.user_id != user_id:
            administer(me)
        async with self._ports.storage.reading(me.org_uuid) as work:
            found = await work.directory.member(user_id)
        if found is None:
            raise NotFound
        return await self._export(me.org_uuid, principal_of(me.org_uuid, found), me, on_progress)

    @checks_arguments
    async def organization(self, org: str, on_progress: OnProgress = ignored) -> AsyncIterator[bytes]:
        """The archive with the data of an organization, for the operator. NotFound for an unknown one."""
        return await self._export(org, None, None, on_progress)

    async def _export(
        self, org: str, member: Principal | None, reader: Principal | None, on_progress: OnProgress
    ) -> AsyncIterator[bytes]:
        """Runs are read twice: for their own rows, and for decisions."""
        organization = await self._organization(org)
        sizes = await self._ports.storage.maintenance.sizes(org, None if member is None else member.user_id)
        total, numbers = 2 * sizes.runs + sizes.messages + sizes.audit, count(1)
        return self._archive(_Export(organization, member, reader, lambda: on_progress(next(numbers), total)))

    async def _organization(self, org: str) -> Organization:
        found = await self._ports.storage.organization(org)
        if found is None:
            raise NotFound
        return found

    async def _archive(self, of: _Export) -> AsyncIterator[bytes]:
        out, blobs = _Chunks(), set[str]()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, lines in self._files().items():
                with archive.open(f"{name}.jsonl", "w") as file:
                    async for line in lines(of):
                        text = dumps(line)
                        if name in ("runs", "messages", "decisions"):
                            blobs.update(KEY.findall(text))
                        file.write(text.encode() + b"\n")
                        if len(out.taken) > CHUNK:
                            yield out.take()
                archive.writestr(f"schemas/{name}.json", dumps(_schema(SHAPES[name])))
            for key in sorted(blobs):
                data = await self._ports.blobs.get(of.org, key)
                if data is not None:
                    archive.writestr(f"attachments/{key}", data)
                    yield out.take()
        yield out.take()

    def _files(self) -> dict[str, Callable[[_Export], Lines]]:
        """The lines of each file, in the order of `SHAPES`."""
        return {
            "organization": self._of_organization,
            "members": self._members,
            "groups": self._groups,
            "tokens": self._tokens,
            "workflows": lambda of: self._resources(of, Kind.WORKFLOW),
            "skills": lambda of: self._resources(of, Kind.SKILL),
            "runs": self._runs,
            "decisions": self._decisions,
            "conversations": self._conversations,
            "messages": self._messages,
            "memories": self._memories,
            "usage": self._usage,
            "delegations": self._delegations,
            "connectionGrants": self._connection_grants,
            "connections": lambda of: self._records(of, lambda work: work.connections),
            "hooks": lambda of: self._records(of, lambda work: work.hooks),
            "policies": lambda of: self._records(of, lambda work: work.policies),
            "contextItems": lambda of: self._records(of, lambda work: work.context_items),
            "audit": self._audit,
        }

    # The lines of each file

    async def _of_organization(self, of: _Export) -> Lines:
        row = of.organization
        yield {"id": row.uuid, "name": row.name, "createdAt": iso(row.created_at)}

    async def _members(self, of: _Export) -> Lines:
        after = ""
        while True:
            async with self._ports.storage.reading(of.org) as work:
                ids = None if of.user_id is None else [of.user_id]
                rows = await work.directory.members(limit=PAGE, after=after, ids=ids)
            for row in rows:
                yield MemberView(row).to_wire()
            if len(rows) < PAGE:
                return
            after = rows[-1].user_id

    async def _groups(self, of: _Export) -> Lines:
        async with self._ports.storage.reading(of.org) as work:
            groups = await work.directory.groups(None if of.member is None else of.member.groups)
        for group in groups:
            yield GroupView(group).to_wire()

    async def _tokens(self, of: _Export) -> Lines:
        async for member in self._members(of):
            after = None
            while True:
                async with self._ports.storage.reading(of.org) as work:
                    rows = await work.directory.tokens(str(member["userId"]), limit=PAGE, after=after)
                for row in rows:
                    yield TokenView(row).to_wire()
                if len(rows) < PAGE:
                    break
                after = rows[-1].position

    async def _resources(self, of: _Export, kind: Kind) -> Lines:
        for number in await self._ports.storage.maintenance.numbers(of.org, kind):
            async with self._ports.storage.reading(of.org) as work:
                resource = await work.resources(kind).get(number)
                if resource is None or (of.member is not None and not is_owner(of.member, resource.access)):
                    continue
                content = await _content(work, resource)
            yield {
                "id": resource.id,
                "slug": resource.slug,
                "name": resource.name,
                "description": resource.description,
                "status": resource.status.value,
                "accessConfig": access_to_wire(resource.access),
                "createdAt": iso(resource.created_at),
                "updatedAt": iso(resource.updated_at),
                "deletedAt": None if resource.deleted_at is None else iso(resource.deleted_at),
                "content": content,
            }

    async def _runs(self, of: _Export) -> Lines:
        before: int | None = None
        journal, where = self._ports.journal, RunFilter(started_by=of.user_id)
        while rows := await journal.list_runs(of.org, limit=PAGE, before=before, where=where):
            before = rows[-1].key
            for view in await views(journal, rows):
                given: dict[str, JSON] = {"input": None, "attachments": None}
                for entry in (await journal.read(view.row.execution))[:1] if view.row.parent_run_id is None else ():
                    if isinstance(entry, Started):
                        given = {"input": entry.input, "attachments": entry.info.get("attachments")}
                yield {**(await self._readable(of, view)).to_wire(), **given}
                of.advance()

    async def _readable(self, of: _Export, view: RunView) -> RunView:
        """The run as the caller can read it: without the use of its target, it has no result and no interrupts."""
        if of.reader is None or await can_use_target(self._ports.storage, of.reader, view.row):
            return view
        return RunView(structs.replace(view.row, result=None))

    async def _decisions(self, of: _Export) -> Lines:
        """Those of the turns that a person began by a resume."""
        before: int | None = None
        journal, where = self._ports.journal, RunFilter(started_by=of.user_id)
        while rows := await journal.list_runs(of.org, limit=PAGE, before=before, where=where):
            before = rows[-1].key
            for row in rows:
                of.advance()
                if row.parent_run_id is None:
                    continue
                for entry in await journal.read(row.execution):
                    if isinstance(entry, Resumed) and entry.run_id == row.id:
                        for line in _decisions_of(entry):
                            yield line

    async def _conversations(self, of: _Export) -> Lines:
        after, maintenance = None, self._ports.storage.maintenance
        while rows := await maintenance.conversations(of.org, of.user_id, limit=PAGE, after=after):
            after = rows[-1]
            for row in rows:
                times = {"createdAt": iso_ms(row.created_at), "updatedAt": iso_ms(row.updated_at)}
                yield {"threadId": row.thread_id, "userId": row.user_id, **times}

    async def _messages(self, of: _Export) -> Lines:
        after, maintenance = None, self._ports.storage.maintenance
        while rows := await maintenance.conversations(of.org, of.user_id, limit=PAGE, after=after):
            after = rows[-1]
            for row in rows:
                head: dict[str, JSON] = {"threadId": row.thread_id, "userId": row.user_id}
                for message in await self._ports.journal.conversations.messages([row], after=0, up_to=EVER):
                    yield {**head, "at": iso_ms(message.at), **message.to_wire()}
                    of.advance()

    async def _memories(self, of: _Export) -> Lines:
        for skill in await self._ports.storage.maintenance.numbers(of.org, Kind.SKILL):
            after: str | None = None
            while rows := await self._ports.memories.list(of.org, skill, limit=PAGE, after=after, user_id=of.user_id):
                after = rows[-1].id
                for row in rows:
                    times = {"createdAt": iso_ms(row.created_at), "updatedAt": iso_ms(row.updated_at)}
                    own: dict[str, JSON] = {"id": row.id, "memory": row.memory, "hash": row.hash}
                    yield {**own, "metadata": dict(row.metadata), **times, "skillId": skill, "userId": row.user_id}

    async def _usage(self, of: _Export) -> Lines:
        for one in await self._ports.journal.usage.sums(of.org, "day", since=0, until=EVER, user_id=of.user_id):
            tokens = {"inputTokens": one.input_tokens, "outputTokens": one.output_tokens}
            cost = None if one.cost is None else one.cost / BILLION
            yield {"day": one.key, "calls": one.calls, **tokens, "cost": cost}

    async def _delegations(self, of: _Export) -> Lines:
        async for row in self._rows(of, lambda work: work.delegations):
            if of.user_id is None or of.user_id in (row["from"], row["to"]):
                yield row

    async def _connection_grants(self, of: _Export) -> Lines:
        async for row in self._rows(of, lambda work: work.connection_grants):
            if of.user_id is None or row["userId"] == of.user_id:
                yield row

    async def _records(self, of: _Export, records: Callable[[UnitOfWork], RecordRepository[Any]]) -> Lines:
        """Rows that belong to the organization as a whole, and not to a member."""
        if of.member is None:
            async for row in self._rows(of, records):
                yield row

    async def _rows(self, of: _Export, records: Callable[[UnitOfWork], RecordRepository[Any]]) -> Lines:
        after = ""
        while True:
            async with self._ports.storage.reading(of.org) as work:
                rows = await records(work).page(limit=PAGE, after=after)
            for row in rows:
                yield row.to_wire()
            if len(rows) < PAGE:
                return
            after = rows[-1].id

    async def _audit(self, of: _Export) -> Lines:
        wanted, place = AuditFilter(of.user_id), None
        while True:
            async with self._ports.storage.reading(of.org) as work:
                rows = await work.audit.page(wanted, limit=PAGE, before=place)
            for row in rows:
                yield audit_to_wire(row)
                of.advance()
            if len(rows) < PAGE:
                return
            place = rows[-1].at, rows[-1].key


CHUNK: Final = 64 * 1024
"""Bytes of the archive that are collected before they are sent."""


class _Chunks(io.RawIOBase):
    """A file that cannot seek, whose content is taken away while it is written."""

    def __init__(self) -> None:
        self.taken = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: object, /) -> int:
        before = len(self.taken)
        self.taken += memoryview(data)  # type: ignore[arg-type]
        return len(self.taken) - before

    def take(self) -> bytes:
        data = bytes(self.taken)
        self.taken.clear()
        return data


async def _content(work: UnitOfWork, resource: Resource) -> JSON:
    variation_id = resource.draft_variation_id or resource.active_variation_id
    found = None if variation_id is None else await work.resources(resource.kind).variation(resource.id, variation_id)
    return None if found is None else to_json(found.content)


def _decisions_of(entry: Resumed) -> list[dict[str, JSON]]:
    user_id = None if entry.by is None else entry.by.user_id
    message = (entry.info or {}).get("message")
    head: dict[str, JSON] = {"runId": entry.run_id, "userId": user_id, "at": iso_ms(entry.at)}
    lines: list[dict[str, JSON]] = [
        {**head, "interruptId": one.interrupt_id, "decision": one.decision, "data": one.data, "message": message,
         "onBehalfOf": entry.on_behalf_of.get(one.interrupt_id)}
        for one in entry.decisions
    ]  # fmt: skip
    bare: dict[str, JSON] = {"interruptId": None, "decision": None, "data": None, "onBehalfOf": None}
    return lines or ([] if message is None else [{**head, **bare, "message": message}])


def _schema(shape: type) -> dict[str, JSON]:
    """The JSON Schema of a line (JSON Schema 2020-12)."""
    definitions = schemas_of([shape], "#/$defs/")
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, "$ref": f"#/$defs/{component_name(shape)}", "$defs": dict(definitions)}
