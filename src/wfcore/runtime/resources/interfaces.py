"""The interface rows of workflows: the channels through which each can be reached (interface, workflow interfaces)."""

from typing import Unpack

import attrs

from wfcore.api.management import CreateInterface, CreateInterfaceFields, PatchInterface, PatchInterfaceFields
from wfcore.domain.agents.connections import ConnectionKind, Ownership
from wfcore.domain.channels.interfaces import CONFIGS, Interface, InterfaceKind, config_issues
from wfcore.domain.channels.team_chat_config import SECRET_KEPT, takes_decisions
from wfcore.domain.json.values import UNSET, given, to_json, without_nulls
from wfcore.domain.kernel.errors import Issue, NotFound, refuse
from wfcore.domain.kernel.json_readers import as_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.lifecycle import Operation, move
from wfcore.domain.resources.resource import Kind, Resource
from wfcore.domain.triggers.webhooks import secret_of
from wfcore.ports.sealing import Sealer, Unsealable, place_of_interface
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.common.audit import audit
from wfcore.runtime.common.authorization import administer, conflict, needs
from wfcore.runtime.common.bodies import Tree, parsed
from wfcore.runtime.common.idempotency import store_response, stored_response
from wfcore.runtime.common.preconditions import etag_of, stale, tags_of
from wfcore.runtime.resources.base import ResourceBase
from wfcore.runtime.resources.webhooks import ID_LENGTH


@attrs.frozen
class SignedInterface:
    """An interface whose messages are signed in both directions. `repr` hides the secret."""

    row: Interface
    secret: str = attrs.field(repr=False)


class Interfaces(ResourceBase):
    """All use cases require the grant `manage` on the workflow, whose number follows the principal.

    `if_match` is an ETag of the workflow, or of the row that is changed; an outdated one is a Conflict. Each change
    gives the workflow a new ETag.
    """

    kind, area = Kind.WORKFLOW, "workflows"

    @needs("*:write")
    async def create(
        self,
        me: Principal,
        workflow: int,
        body: CreateInterface | Tree | None = None,
        *,
        key: str | None = None,
        if_match: str | None = None,
        **fields: Unpack[CreateInterfaceFields],
    ) -> Interface:
        """Add a row. `key` is an Idempotency-Key: the same key and body return the same response."""
        new = parsed(CreateInterface, body, fields, _new_config_issues, key=key)
        kind, config = InterfaceKind(new.kind), given(new.config) or {}
        request: JSON = [workflow, to_json(new)]
        async with self._ports.storage.transaction(me.org_uuid) as work:
            await self._managed(work, me, workflow)
            if kept := await stored_response(work, me, "interface", key, request, Interface):
                return kept
            resource = await self._writable(work, me, workflow, if_match)
            new_id = self._ports.storage.public_id(me.org_uuid, self._ports.ids.uuid())
            row = Interface(new_id, workflow, kind, config, self._ports.now())
            row = await self._with_secret(work, me, row)
            await work.interfaces.add(row)
            await store_response(work, me, "interface", key, request, attrs.evolve(row, sealed=None))
            await self._touch(work, me, resource)
            await self._audit(work, me, "create", row)
        return row

    @needs("*:read")
    async def page(self, me: Principal, workflow: int, *, limit: int = 25, after: str = "") -> list[Interface]:
        """By id, ascending, ids greater than `after`."""
        async with self._ports.storage.reading(me.org_uuid) as work:
            await self._managed(work, me, workflow)
            return await work.interfaces.page(workflow, limit=limit, after=after)

    @needs("*:read")
    async def get(self, me: Principal, workflow: int, id: str) -> Interface:
        """One row. NotFound for an unknown id."""
        async with self._ports.storage.reading(me.org_uuid) as work:
            await self._managed(work, me, workflow)
            return await _found(work, workflow, id)

    @needs("*:write")
    async def patch(
        self,
        me: Principal,
        workflow: int,
        id: str,
        body: PatchInterface | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[PatchInterfaceFields],
    ) -> Interface:
        """Replace the `config`; the kind cannot change."""
        changes = parsed(PatchInterface, body, fields)
        async with self._ports.storage.transaction(me.org_uuid) as work:
            resource, old = await self._writable_row(work, me, workflow, id, if_match)
            config = None if changes.config is UNSET else without_nulls(CONFIGS[old.kind], changes.config)
            row = attrs.evolve(old, config=old.config if config is None else config)
            refuse(config_issues(row.kind, row.config))
            row = await self._with_secret(work, me, row, old)
            await work.interfaces.save(row)
            if row != old:
                await self._touch(work, me, resource)
            await self._audit(work, me, "update", row)
        return row

    @needs("*:write")
    async def delete(self, me: Principal, workflow: int, id: str, *, if_match: str | None = None) -> Interface:
        """Delete one row. Returns it as it was."""
        async with self._ports.storage.transaction(me.org_uuid) as work:
            resource, row = await self._writable_row(work, me, workflow, id, if_match)
            await work.interfaces.remove(workflow, id)
            await self._touch(work, me, resource)
            await self._audit(work, me, "delete", row)
        return row

    @needs("*:write")
    async def clear(self, me: Principal, workflow: int, *, if_match: str | None = None) -> int:
        """Delete all rows. Returns their number (interface, Remove every interface from a workflow)."""
        async with self._ports.storage.transaction(me.org_uuid) as work:
            resource = await self._writable(work, me, workflow, if_match)
            deleted = await work.interfaces.clear(workflow)
            if deleted:
                await self._touch(work, me, resource)
                details = {"deleted": deleted}
                await audit(work, me, self._ports.now(), self.kind, "clear_interfaces", str(workflow), details)
        return deleted

    @needs("*:write")
    async def secret(self, me: Principal, workflow: int, id: str) -> SignedInterface:
        """The secret that signs the messages of a team chat and the responses to it.

        It requires the scope to write, because it can start runs, and an admin where it can decide. Conflict
        `no_secret` for a kind without a secret and for Slack, whose secret is never read back; `secret_unreadable` when
        the key that sealed it is missing: rotate it then.
        """
        row = await self.get(me, workflow, id)
        _check_signed(me, row)
        found = open_secret(self._ports.sealer, me.org_uuid, row)
        if found is None:
            message = "the interface's secret cannot be read with the key of this installation: rotate it"
            raise conflict(message, "secret_unreadable")
        return SignedInterface(row, found)

    @needs("*:write")
    async def rotate_secret(
        self, me: Principal, workflow: int, id: str, *, if_match: str | None = None
    ) -> SignedInterface:
        """Replace the secret; messages signed with the old one are refused. Conflict `no_secret` as for `secret`."""
        async with self._ports.storage.transaction(me.org_uuid) as work:
            resource, row = await self._writable_row(work, me, workflow, id, if_match)
            _check_signed(me, row)
            secret, sealed = self._sealed(me, row)
            await work.interfaces.save(attrs.evolve(row, sealed=sealed))
            await self._touch(work, me, resource)
            await self._audit(work, me, "rotate_secret", row)
        return SignedInterface(row, secret)

    # Parts

    def _sealed(self, me: Principal, row: Interface) -> tuple[str, str]:
        """A new secret for this row, and its sealed form."""
        secret = secret_of(self._ports.ids.token(ID_LENGTH))
        return secret, self._ports.sealer.seal(secret, *place_of_interface(me.org_uuid, row.id))

    async def _with_secret(
        self, work: UnitOfWork, me: Principal, row: Interface, old: Interface | None = None
    ) -> Interface:
        """The row of a team chat with its secret: that of the `old` row, or a new one where that is of another format,
        or others than admins can have read it before it could decide. Only admins change what can decide.
        """
        if row.kind is not InterfaceKind.TEAMCHAT:
            return row
        could_decide = old is not None and takes_decisions(old.config)
        if could_decide or takes_decisions(row.config):
            administer(me)
        is_kept = old is not None and old.is_slack is row.is_slack and could_decide >= takes_decisions(row.config)
        if not row.is_slack:
            return row if is_kept else attrs.evolve(row, sealed=self._sealed(me, row)[1])
        await _check_connection(work, row)
        given = row.config["signingSecret"]
        if isinstance(given, str):
            sealed = self._ports.sealer.seal(given, *place_of_interface(me.org_uuid, row.id))
            return attrs.evolve(row, config={**row.config, "signingSecret": SECRET_KEPT}, sealed=sealed)
        if not is_kept:
            refuse([Issue("config.signingSecret", "is required: the secret of the Slack app", "required_if")])
        return row

    async def _writable(self, work: UnitOfWork, me: Principal, workflow: int, if_match: str | None) -> Resource:
        resource = await self._managed(work, me, workflow, if_match)
        move(resource.status, Operation.EDIT)
        return resource

    async def _writable_row(
        self, work: UnitOfWork, me: Principal, workflow: int, id: str, if_match: str | None
    ) -> tuple[Resource, Interface]:
        """The workflow and its row. Conflict `stale`, with the ETag of what `if_match` names, without a current one."""
        view = await self._authorized(work, me, workflow, "manage")
        row = await _found(work, workflow, id)
        etag = etag_of(row.to_wire())
        if if_match is not None and not view.matches(if_match) and etag not in tags_of(if_match):
            raise stale(view.etag if view.is_named_in(if_match) else etag)
        move(view.status, Operation.EDIT)
        return view.resource, row

    async def _audit(self, work: UnitOfWork, me: Principal, verb: str, row: Interface) -> None:
        details = {"workflowId": row.resource_id, "kind": row.kind.value}
        await audit(work, me, self._ports.now(), "interface", verb, row.id, details)


def open_secret(sealer: Sealer, org: str, row: Interface) -> str | None:
    """The secret of a row in clear text; None when it has none, or this installation has no key for it."""
    try:
        return None if row.sealed is None else sealer.open(row.sealed, *place_of_interface(org, row.id))
    except Unsealable:
        return None


def _check_signed(me: Principal, row: Interface) -> None:
    if row.kind is not InterfaceKind.TEAMCHAT or row.is_slack:
        what = "the format `slack`" if row.is_slack else f"kind `{row.kind}`"
        raise conflict(f"an interface of {what} has no secret to read", "no_secret")
    if takes_decisions(row.config):
        administer(me)


async def _check_connection(work: UnitOfWork, row: Interface) -> None:
    """The connection of a Slack app is one of the organization, with a token."""
    found = await work.connections.get(as_text(row.config["connectionId"]))
    path = "config.connectionId"
    if found is None:
        refuse([Issue(path, "there is no such connection", "reference")])
    elif found.kind is ConnectionKind.MCP or found.ownership is Ownership.USER:
        refuse([Issue(path, "must be an `api_key` or `oauth2` connection of the organization", "unsupported")])


async def _found(work: UnitOfWork, workflow: int, id: str) -> Interface:
    row = await work.interfaces.get(workflow, id)
    if row is None:
        raise NotFound
    return row


def _new_config_issues(tree: Tree) -> list[Issue]:
    """The errors of the configuration of a new row of a known kind."""
    kind, config = tree.get("kind"), tree.get("config", {})
    if not isinstance(kind, str) or kind not in set(InterfaceKind) or not isinstance(config, dict):
        return []
    return config_issues(InterfaceKind(kind), config)
