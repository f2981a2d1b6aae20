"""The policies of an organization (interface, Policies): members read them, admins and owners change them.

They are checked when a workflow or skill is deployed (`wfcore.runtime.resources.policy_checks`), not when a policy
changes: what is deployed stays deployed.
"""

from typing import ClassVar, Unpack

import attrs

from wfcore.api.organization import CreatePolicy, CreatePolicyFields, PatchPolicy, PatchPolicyFields
from wfcore.domain.json.values import UNSET, given, to_json
from wfcore.domain.kernel.errors import Issue, refuse
from wfcore.domain.kernel.json_readers import as_texts, optional_object
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.rules.policies import MOST_POLICIES, Policy, policy_body_issues
from wfcore.ports.storage import RecordRepository, UnitOfWork
from wfcore.runtime.common.authorization import administer, conflict, needs
from wfcore.runtime.common.bodies import Tree, parsed
from wfcore.runtime.common.idempotency import store_response, stored_response
from wfcore.runtime.common.organization_records import RecordServiceBase
from wfcore.runtime.common.preconditions import check_match


class Policies(RecordServiceBase[Policy]):
    """The policies of the caller's organization."""

    area: ClassVar = "policies"
    kind: ClassVar = "policy"

    @needs("*:write")
    async def create(
        self,
        me: Principal,
        body: CreatePolicy | Tree | None = None,
        *,
        key: str | None = None,
        **fields: Unpack[CreatePolicyFields],
    ) -> Policy:
        """Create a policy. `key` is an Idempotency-Key: the same key and body return the same response.

        Forbidden for members; Conflict `limit` when the organization has 100 policies.
        """
        administer(me)
        new = parsed(CreatePolicy, body, fields, policy_body_issues, key=key)
        request = to_json(new)
        made = Policy(self._ports.ids.uuid(), new.name, to_json(new.when), to_json(new.require))
        made = made if new.severity is UNSET else attrs.evolve(made, severity=new.severity)
        async with self._ports.storage.transaction(me.org_uuid) as work:
            if kept := await stored_response(work, me, self.kind, key, request, Policy):
                return kept
            refuse(await _unknown_groups(work, me, made))
            if len(await work.policies.page(limit=MOST_POLICIES)) == MOST_POLICIES:
                raise conflict(f"an organization can have at most {MOST_POLICIES} policies", "limit")
            await work.policies.add(made)
            await store_response(work, me, self.kind, key, request, made)
            await self._audit(work, me, "create", made)
        return made

    @needs("*:write")
    async def patch(
        self,
        me: Principal,
        id: str,
        body: PatchPolicy | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[PatchPolicyFields],
    ) -> Policy:
        """Change the given fields. Forbidden for members; an outdated ETag `if_match` is a Conflict."""
        administer(me)
        changes = parsed(PatchPolicy, body, fields, policy_body_issues)
        async with self._ports.storage.transaction(me.org_uuid) as work:
            old = await self._found(work, id)
            check_match(if_match, old.to_wire())
            new = attrs.evolve(
                old,
                name=given(changes.name) or old.name,
                when=old.when if changes.when is UNSET else to_json(changes.when),
                require=old.require if changes.require is UNSET else to_json(changes.require),
                severity=given(changes.severity) or old.severity,
            )
            if new.require != old.require:  # a group deleted meanwhile does not stop a change of the rest
                refuse(await _unknown_groups(work, me, new))
            return old if new == old else await self._save(work, me, new, to_json(changes))

    @needs("*:write")
    async def delete(self, me: Principal, id: str, *, if_match: str | None = None) -> Policy:
        """Delete the policy. Forbidden for members; an outdated ETag `if_match` is a Conflict."""
        administer(me)
        return await super().delete(me, id, if_match=if_match)

    # Parts

    def _rows(self, work: UnitOfWork) -> RecordRepository[Policy]:
        return work.policies

    def _details(self, row: Policy) -> dict[str, JSON]:
        return {"name": row.name, "when": dict(row.when), "require": dict(row.require), "severity": row.severity}


async def _unknown_groups(work: UnitOfWork, me: Principal, policy: Policy) -> list[Issue]:
    """Groups that do not exist: no approval could ever be by them."""
    named = as_texts((optional_object(policy.require.get("approval")) or {}).get("groups") or ())
    known = {me.org_uuid} | {group.id for group in await work.directory.groups(set(named))}
    return [
        Issue(f"require.approval.groups[{place}]", f"there is no group `{group[:80]}`", "reference")
        for place, group in enumerate(named)
        if group not in known
    ]
