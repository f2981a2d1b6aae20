"""Workflows and skills: create, read, edit, deploy, restore (interface, Workflow and Scope; States and transitions).

Every use case takes the caller and a body in wire names, or the same fields as keyword arguments in snake case. It
validates the body, and then either does the whole operation or raises and changes nothing.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar, Unpack

import attrs

from wfcore.api.management import RollbackBody, RollbackFields
from wfcore.api.resources import (
    AccessConfigBody,
    CreateSkill,
    CreateWorkflow,
    PatchSkill,
    PatchWorkflow,
)
from wfcore.domain.json.codec import check, value_issues
from wfcore.domain.json.values import UNSET, changed, given, structure, to_json, without_ignored, without_nulls
from wfcore.domain.kernel.errors import Issue, refuse, usable
from wfcore.domain.kernel.ids import slugify_name
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources import resource as rules
from wfcore.domain.resources.access import Access, Principal, derive
from wfcore.domain.resources.content import Content, content_of, every_field, given_fields
from wfcore.domain.resources.lifecycle import Operation, Status, move
from wfcore.domain.resources.resource import CONTENTS, Change, Resource, Variation
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.common.audit import audit_change
from wfcore.runtime.common.authorization import check_not_limited, needs
from wfcore.runtime.common.bodies import Tree, parsed, shape_issues, tree_of
from wfcore.runtime.common.idempotency import is_used, store_response, stored_response
from wfcore.runtime.common.loop_slice import beside_loop, size_of
from wfcore.runtime.common.requests import key_issues
from wfcore.runtime.resources.base import DeployedVariation, ResourceView
from wfcore.runtime.resources.deployment import look_up_tools
from wfcore.runtime.resources.ownership import OwnershipUseCases
from wfcore.runtime.resources.policy_checks import PolicyCheck, PolicyInputs, check_inputs, read_inputs
from wfcore.runtime.resources.slugs import free_slug
from wfcore.runtime.resources.variations import VariationUseCases
from wfcore.runtime.tools.mcp_tools import ToolLookup

NAMES = {"structure": "workflowStructure", "access": "accessConfig"}
"""Short keyword arguments of the library, in addition to the wire names in snake case."""


T = TypeVar("T")
Creation = TypeVar("Creation", CreateWorkflow, CreateSkill)
Edit = TypeVar("Edit", PatchWorkflow, PatchSkill)
Fields = Mapping[str, object]


STATUSES: Final = [*Status]

Operate = Callable[[Resource, Variation | None, Variation | None], Change]
"""An operation of the lifecycle on a resource, its active variation and its draft."""

DraftCheck = Callable[[UnitOfWork, Variation | None], Awaitable[None]]
"""Raises an error for a draft that must not be deployed."""


@attrs.frozen
class _Created:
    """A new resource with its draft, as a response is stored."""

    resource: Resource
    access: Access
    draft_id: str
    content: Mapping[str, JSON]

    def view(self, me: Principal) -> ResourceView:
        """The response to the principal that created it."""
        content = structure(CONTENTS[self.resource.kind], self.content)
        draft = Variation(self.draft_id, content, self.resource.created_at, me.user_id)
        return ResourceView(self.resource, self.access, draft, with_variation=True)


def field_of(issue: Issue) -> str:
    """The field of a body that an issue is about."""
    return re.split("[.[]", issue.path, maxsplit=1)[0]


class ResourceUseCases(OwnershipUseCases, VariationUseCases):
    """The lifecycle that workflows and skills share. Checks run in the order: scope, body, resource."""

    validate_body: type

    async def _create(
        self, me: Principal, cls: type[Creation], body: Creation | Tree | None, fields: Fields, key: str | None
    ) -> ResourceView:
        """Create it in state `draft`. `key` is an Idempotency-Key: the same key and body return the same response."""
        check_not_limited(me)
        new = await self._parsed(me, cls, body, fields, key=key)
        data = to_json(new)
        async with self._ports.storage.transaction(me.org_uuid) as work:
            repository = work.resources(self.kind)
            if kept := await stored_response(work, me, self.kind.value, key, data, _Created):
                return kept.view(me)
            access = await self._access(work, me, data, None)
            number = await repository.next_id()
            fields_given = self._given(new)
            content = CONTENTS[self.kind](**fields_given)
            slug = await free_slug(work, self.kind, given(new.slug), slugify_name(new.name, self.kind, number))
            change = rules.create(
                self.kind,
                org_uuid=me.org_uuid,
                id=number,
                slug=slug,
                name=new.name,
                description=given(new.description),
                access=access,
                content=content,
                variation_id=self._ports.ids.uuid(),
                by=me.user_id,
                now=self._ports.now(),
            )
            refuse(await self._link_issues(work, me, number, content, CONTENTS[self.kind](), frozenset(fields_given)))
            await repository.add(change.resource)
            if change.saved:
                await repository.add_variation(number, change.saved)
            seen, draft_id = derive(me, change.resource.access), change.resource.draft_variation_id
            made = _Created(change.resource, seen, draft_id or "", to_json(content))
            await store_response(work, me, self.kind.value, key, data, made)
            await audit_change(work, me, self._ports.now(), None, change.resource)
        return made.view(me)

    @needs("*:read")
    async def get(self, me: Principal, id: int, view: str = "active") -> ResourceView:
        """One resource with its variation. View `draft` requires manage; it shows the active one without a draft."""
        if view not in ("active", "draft"):
            refuse([Issue("view", f"unknown view `{view}`: use `active` or `draft`", "query")])
        async with self._ports.storage.reading(me.org_uuid) as work:
            return await self._view(work, me, id, "manage" if view == "draft" else "see", view)

    @needs("*:read")
    async def page(
        self, me: Principal, *, limit: int = 25, after: int = 0, status: str | None = None, query: str | None = None
    ) -> list[ResourceView]:
        """Resources that the principal can use or manage, by id ascending; deleted ones only with that `status`."""
        if status is not None and status not in STATUSES:
            refuse([Issue("status", f"unknown status `{status}`{usable(STATUSES)}", "query")])
        async with self._ports.storage.reading(me.org_uuid) as work:
            found = await self._page(work, me, limit, after, status=status, query=query)
        return [ResourceView(resource, derive(me, resource.access)) for resource in found]

    async def _patch(
        self,
        me: Principal,
        id: int,
        cls: type[Edit],
        body: Edit | Tree | None,
        fields: Fields,
        if_match: str | None,
    ) -> ResourceView:
        """Change fields of the create body; content changes the draft. An outdated ETag `if_match` is a Conflict."""
        changes = await self._parsed(me, cls, body, fields, id=id)
        data = to_json(changes)
        async with self._ports.storage.transaction(me.org_uuid) as work:
            resource = await self._managed(work, me, id, if_match)
            steps: list[Change] = await self._edits(work, me, resource, changes)
            details = rules.edit_details(
                steps[-1].resource if steps else resource,
                name=given(changes.name) or resource.name,
                description=resource.description if changes.description is UNSET else changes.description,
                access=await self._access(work, me, data, resource.access),
                now=self._ports.now(),
            )
            for change in [*steps, details]:
                await self._save(work, me, resource, change)
                resource = change.resource
            return await self._view(work, me, id, "see", "draft")

    async def _deploy(
        self, me: Principal, id: int, if_match: str | None, check_draft: DraftCheck | None = None
    ) -> ResourceView:
        """Publish the draft, if there is one; `check_draft`, which is called with it or None, raises an error first."""
        before = await self._before_deploy(me, id)
        async with self._ports.storage.transaction(me.org_uuid) as work:
            resource = await self._managed(work, me, id, if_match)
            _, draft = await self._variations(work, resource)
            if check_draft is not None:
                await check_draft(work, draft)
            change = rules.deploy(resource, draft, by=me.user_id, now=self._ports.now())
            return await self._deployed(work, me, resource, change, *before)

    @needs("*:write")
    async def rollback(
        self,
        me: Principal,
        id: int,
        body: RollbackBody | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[RollbackFields],
    ) -> ResourceView:
        """Deploy the variation `variationId` again, with the checks of a deploy. A pending draft stays."""
        variation_id = parsed(RollbackBody, body, fields).variation_id
        before = await self._before_deploy(me, id, variation_id)
        async with self._ports.storage.transaction(me.org_uuid) as work:
            resource = await self._managed(work, me, id, if_match)
            move(resource.status, Operation.ROLLBACK)
            target = await work.resources(self.kind).variation(id, variation_id)
            if target is None:
                refuse([Issue("variationId", f"there is no variation `{variation_id[:80]}`", "reference")])
            assert target is not None  # noqa: S101  (refused)
            _, draft = await self._variations(work, resource)
            change = rules.rollback(resource, target, draft, by=me.user_id, now=self._ports.now())
            return await self._deployed(work, me, resource, change, *before)

    @needs("*:read")
    async def variations(
        self, me: Principal, id: int, *, limit: int = 25, before: str | None = None
    ) -> list[DeployedVariation]:
        """The variations that were deployed, latest deployment first, older than the one with id `before`."""
        async with self._ports.storage.reading(me.org_uuid) as work:
            resource = (await self._authorized(work, me, id, "see")).resource
            found = await work.resources(self.kind).variations(id, limit=limit, before=before)
        return [DeployedVariation(one, one.id == resource.active_variation_id) for one in found]

    @needs("*:write")
    async def delete(self, me: Principal, id: int, *, if_match: str | None = None) -> ResourceView:
        """Soft delete. A second call changes nothing."""
        return await self._change(me, id, lambda old, *_: rules.delete(old, now=self._ports.now()), if_match)

    @needs("*:write")
    async def restore(self, me: Principal, id: int, *, if_match: str | None = None) -> ResourceView:
        """Undo a delete; a schedule stays disabled."""
        return await self._change(me, id, lambda old, *_: rules.restore(old, now=self._ports.now()), if_match)

    @needs("*:write")
    async def discard_draft(self, me: Principal, id: int, *, if_match: str | None = None) -> ResourceView:
        """Delete the draft."""
        return await self._change(me, id, lambda old, *_: rules.discard_draft(old, now=self._ports.now()), if_match)

    @needs("*:read")
    async def validate(self, me: Principal, body: Tree) -> list[Issue]:
        """Every issue of an unsaved body, including those that only prevent a deploy. Writes nothing."""
        size = size_of(body)
        if found := await beside_loop(size, value_issues, body):
            return found
        if not isinstance(body, Mapping):
            return shape_issues(self.validate_body, body)
        body, found = await beside_loop(size, self._checked, body)
        if isinstance(access := body.get("accessConfig"), dict):
            async with self._ports.storage.reading(me.org_uuid) as work:
                issues = await self._access_issues(work, me, access, None)
            found += [issue for issue in issues if issue.rule != "readonly"]  # only a saved resource has an owner
        sound, is_true = self._sound_parts(body, found)
        content = self._runnable(content_of(CONTENTS[self.kind], sound))
        return [*found, *filter(is_true, await self._content_issues(me, content))]

    @needs("*:read")
    async def validate_saved(self, me: Principal, id: int, view: str = "draft") -> list[Issue]:
        """Every issue that prevents a deploy of the draft (or of the active variation)."""
        found = await self.get(me, id, view)
        content = found.variation.content if found.variation else CONTENTS[self.kind]()
        return await self._content_issues(me, content, id)

    async def _content_issues(self, me: Principal, content: Content, id: int = 0) -> list[Issue]:
        served = await look_up_tools(self._ports, me, content)
        async with self._ports.storage.reading(me.org_uuid) as work:
            found = await self._deploy_issues(work, content, me, served)
            found += await self._link_issues(work, me, id, content, content, every_field(content))
            inputs = await self._policy_inputs(work, me, content, found)
        return found if inputs is None else [*found, *(await check_inputs(inputs)).issues()]

    # Parts

    async def _change(self, me: Principal, id: int, operation: Operate, if_match: str | None = None) -> ResourceView:
        """Run an operation of the lifecycle."""
        async with self._ports.storage.transaction(me.org_uuid) as work:
            resource = await self._managed(work, me, id, if_match)
            change = operation(resource, *await self._variations(work, resource))
            await self._save(work, me, resource, change)
            return await self._view(work, me, id, "see")

    async def _edits(self, work: UnitOfWork, me: Principal, resource: Resource, body: Edit) -> list[Change]:
        """The edit of the draft from a body; empty for a body without content."""
        changes = self._given(body)
        if not changes:
            return []
        active, draft = await self._variations(work, resource)
        found = draft or active
        base = found.content if found else CONTENTS[self.kind]()
        content = changed(base, **changes)
        refuse(await self._link_issues(work, me, resource.id, content, base, frozenset(changes)))
        new_id, now = self._ports.ids.uuid(), self._ports.now()
        return [rules.edit_content(resource, active, draft, content, new_id=new_id, by=me.user_id, now=now)]

    async def _parsed(
        self,
        me: Principal,
        cls: type[T],
        body: T | Tree | None,
        fields: Fields,
        *,
        key: str | None = None,
        id: int | None = None,
    ) -> T:
        """The body of a create, or of a patch of the resource `id`. Reports the faults of `accessConfig` with all.

        A create whose `key` was used repeats the first one: the groups that it refers to can be gone.
        """
        size = size_of(fields if body is None else body)
        own = 0 if type(body) is dict else size  # an object is used as it is
        tree = await beside_loop(own, tree_of, cls, body, fields, NAMES)
        access = tree.get("accessConfig") if isinstance(tree, Mapping) else None
        found = list[Issue]()
        if isinstance(access, dict) and not value_issues(access):
            found = await self._access_faults(me, without_nulls(AccessConfigBody, access), id, key)
        rules = self._rule_issues, lambda _: found
        return await beside_loop(size, parsed, cls, tree, {}, *rules, key=key)

    async def _access_faults(self, me: Principal, access: Tree, id: int | None, key: str | None) -> list[Issue]:
        """The errors of an access configuration; its owner is only compared with that of a resource of the caller."""
        async with self._ports.storage.reading(me.org_uuid) as work:
            if not key_issues(key) and await is_used(work, me, self.kind.value, key):
                return []
            known = None if id is None else await work.resources(self.kind).get(id)
            current = known.access if known and derive(me, known.access).can_manage else None
            return await self._access_issues(work, me, access, current)

    def _checked(self, body: Tree) -> tuple[Tree, list[Issue]]:
        """The body to validate without what counts as absent, and its faults that need no store."""
        body = without_nulls(self.validate_body, without_ignored(self.validate_body, body))
        return body, [*check(self.validate_body, body), *self._rule_issues(body)]

    def _rule_issues(self, tree: Tree) -> list[Issue]:
        """The faults of a body beyond its shape."""
        return []

    def _sound_parts(self, body: Tree, found: list[Issue]) -> tuple[Tree, Callable[[Issue], bool]]:
        """The parts of a body that are checked further although others have faults, and which issues then are true."""
        faulty = {field_of(issue) for issue in found}
        return {name: body[name] for name in body if name not in faulty}, lambda issue: field_of(issue) not in faulty

    def _given(self, body: Creation | Edit) -> dict[str, Any]:
        """The fields of the content that a body has, by name."""
        return given_fields(CONTENTS[self.kind], body)

    def _runnable(self, content: Content) -> Content:
        """The content as it is stored."""
        return content

    async def _deploy_issues(
        self, work: UnitOfWork, content: Content, me: Principal, served: ToolLookup
    ) -> list[Issue]:
        return []

    async def _link_issues(
        self, work: UnitOfWork, me: Principal, id: int, content: Content, base: Content, given: frozenset[str]
    ) -> list[Issue]:
        """The errors of references among resources of this kind; the content replaces `base` in the fields `given`."""
        return []

    async def _policy_inputs(
        self, work: UnitOfWork, me: Principal, content: Content, found: list[Issue]
    ) -> PolicyInputs | None:
        """What the policies are checked with; None without policies, and for a content that has errors."""
        if any(issue.severity == "error" for issue in found):
            return None
        inputs = await read_inputs(work, me, content)
        return inputs if inputs.policies else None

    async def _before_deploy(
        self, me: Principal, id: int, variation_id: str | None = None
    ) -> tuple[ToolLookup, PolicyCheck | None]:
        """What takes long, before the transaction: the served tools that its draft, or this variation, uses, and the
        verdicts on the policies as they are now.
        """
        served = await self._look_up_tools(me, id, variation_id)
        async with self._ports.storage.reading(me.org_uuid) as work:
            resource = await self._managed(work, me, id)
            wanted = resource.draft_variation_id if variation_id is None else variation_id
            chosen = await work.resources(self.kind).variation(id, wanted or "")
            if chosen is None or not await work.policies.page(limit=1):
                return served, None
            found = await self._deploy_issues(work, chosen.content, me, served)
            inputs = await self._policy_inputs(work, me, chosen.content, found)
        return served, None if inputs is None else await check_inputs(inputs)

    async def _deployed(
        self,
        work: UnitOfWork,
        me: Principal,
        resource: Resource,
        change: Change,
        served: ToolLookup,
        checked: PolicyCheck | None,
    ) -> ResourceView:
        """Save the change that activates a variation, if the variation can run and keeps the policies."""
        if change.saved:
            content = change.saved.content
            found = await self._deploy_issues(work, content, me, served)
            found += await self._link_issues(work, me, resource.id, content, content, every_field(content))
            if (inputs := await self._policy_inputs(work, me, content, found)) is not None:
                found += (await check_inputs(inputs, checked)).issues()
            refuse(found, as_invalid=True)
        await self._save(work, me, resource, change, deployed=True)
        return await self._view(work, me, resource.id, "see")
