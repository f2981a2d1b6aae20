"""Skills: what they have in addition to the lifecycle (interface, Scope)."""

from functools import partial
from typing import Any, Unpack

import attrs

from wfcore.api.resources import (
    CreateSkill,
    CreateSkillFields,
    DeploySkill,
    DeploySkillFields,
    PatchSkill,
    PatchSkillFields,
    Supervision,
    SupervisionFields,
    ValidateSkill,
)
from wfcore.domain.channels.interfaces import Interface, InterfaceKind, entry_issues
from wfcore.domain.evaluations.cases import case_issues
from wfcore.domain.json.codec import check, fingerprint
from wfcore.domain.json.values import given, to_json
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.json_readers import as_objects, as_text, as_texts
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.projections.verdicts import unmet
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.content import Content, SkillContent, as_skill
from wfcore.domain.resources.resource import Change, Kind, Resource, Variation
from wfcore.domain.resources.supervision import DESCRIPTIONS, IDS, form_issues, links_of
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.common.audit import audit
from wfcore.runtime.common.authorization import conflict, needs
from wfcore.runtime.common.bodies import Tree, parsed
from wfcore.runtime.resources.base import ResourceView
from wfcore.runtime.resources.deployment import skill_faults
from wfcore.runtime.resources.policy_checks import PolicyCheck
from wfcore.runtime.resources.resources import ResourceUseCases
from wfcore.runtime.resources.supervision import link_faults
from wfcore.runtime.tools.mcp_tools import ToolLookup


class Skills(ResourceUseCases):
    """Skills, the interface's scopes (`/api/v1/skills`). Their content is in the same body as name and access."""

    kind, area = Kind.SKILL, "skills"
    create_body, patch_body, validate_body = CreateSkill, PatchSkill, ValidateSkill

    @needs("*:write")
    async def create(
        self,
        me: Principal,
        body: CreateSkill | Tree | None = None,
        *,
        key: str | None = None,
        **fields: Unpack[CreateSkillFields],
    ) -> ResourceView:
        """Create a skill in state `draft`, as `Workflows.create` creates a workflow."""
        return await self._create(me, CreateSkill, body, fields, key)

    @needs("*:write")
    async def patch(
        self,
        me: Principal,
        id: int,
        body: PatchSkill | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[PatchSkillFields],
    ) -> ResourceView:
        """Change fields of the create body; content changes the draft. An outdated ETag `if_match` is a Conflict."""
        return await self._patch(me, id, PatchSkill, body, fields, if_match)

    @needs("*:write")
    async def deploy(
        self,
        me: Principal,
        id: int,
        body: DeploySkill | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[DeploySkillFields],
    ) -> ResourceView:
        """Publish the draft, if there is one. `Invalid`, with every issue, when it cannot run.

        Conflict with `info.reason` `evaluations`, and the `cases`, when a required case of its evaluations has failed
        or never ran for this content. `force` deploys nevertheless, which is audited.
        """
        force = bool(given(parsed(DeploySkill, body, fields).force))
        return await self._deploy(me, id, if_match, partial(self._check_evaluations, me, id, force))

    async def _check_evaluations(
        self, me: Principal, id: int, force: bool, work: UnitOfWork, draft: Variation | None
    ) -> None:
        """Conflict for required cases without a passed verdict on the draft's content, unless it is forced."""
        if draft is None or not draft.skill.evaluations:
            return
        content = fingerprint(to_json(draft.content))
        cases = unmet(draft.skill, await self._ports.journal.verdicts.latest(me.org_uuid, id, content))
        if cases and not force:
            count = f"{len(cases)} required evaluation{'s have' if len(cases) > 1 else ' has'} not passed"
            raise conflict(f"{count}: run them, or deploy with `force`", "evaluations", cases=[*cases])
        if cases:
            details: dict[str, JSON] = {"variationId": draft.id, "cases": [*cases]}
            await audit(work, me, self._ports.now(), self.kind, "force_deploy", str(id), details)

    @needs("*:write")
    async def supervise(
        self,
        me: Principal,
        id: int,
        body: Supervision | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[SupervisionFields],
    ) -> ResourceView:
        """Replace the supervision links in the draft; an absent field becomes empty. Both are content of a skill."""
        links = to_json(parsed(Supervision, body, fields))
        return await self.patch(me, id, {**links_of(SkillContent()), **links}, if_match=if_match)

    def _rule_issues(self, data: Tree) -> list[Issue]:
        links = {name: data[name] for name in (IDS, DESCRIPTIONS) if name in data}
        found = [] if check(Supervision, links) else form_issues(as_texts(links.get(IDS, ())))
        entries = {"interfaces": data["interfaces"]} if "interfaces" in data else {}
        valid = bool(entries) and not check(PatchSkill, entries)
        served = entry_issues(as_objects(data["interfaces"])) if valid else []
        return [*found, *case_issues(data.get("evaluations")), *served]

    def _given(self, body: Any) -> dict[str, Any]:
        """The fields without the URLs of interfaces, which GET shows and the server makes."""
        fields = super()._given(body)
        if "interfaces" in fields:
            fields["interfaces"] = [{k: v for k, v in entry.items() if k != "url"} for entry in fields["interfaces"]]
        return fields

    async def _deployed(
        self,
        work: UnitOfWork,
        me: Principal,
        resource: Resource,
        change: Change,
        served: ToolLookup,
        checked: PolicyCheck | None,
    ) -> ResourceView:
        """As in the base; a kind of interface that is deployed for the first time gets its URL."""
        ports = self._ports
        if change.saved:
            known = {row.kind for row in await work.interfaces.of_skill(resource.id)}
            for entry in change.saved.skill.interfaces:
                if (kind := InterfaceKind(as_text(entry["kind"]))) not in known:
                    new_id, now = ports.storage.public_id(me.org_uuid, ports.ids.uuid()), ports.now()
                    await work.interfaces.add(Interface(new_id, resource.id, kind, {}, now, target=Kind.SKILL))
        return await super()._deployed(work, me, resource, change, served, checked)

    async def _view(self, work: UnitOfWork, me: Principal, id: int, grant: str, view: str = "active") -> ResourceView:
        found = await super()._view(work, me, id, grant, view)
        if found.variation is None or found.variation.id != found.active_variation_id:
            return found
        rows = await work.interfaces.of_skill(id) if found.variation.skill.interfaces else ()
        return attrs.evolve(found, paths={row.kind.value: row.path for row in rows})

    async def _deploy_issues(
        self, work: UnitOfWork, content: Content, me: Principal, served: ToolLookup
    ) -> list[Issue]:
        return await skill_faults(self._ports, served, work, as_skill(content))

    async def _link_issues(
        self, work: UnitOfWork, me: Principal, id: int, content: Content, base: Content, given: frozenset[str]
    ) -> list[Issue]:
        return await link_faults(work, me, id, as_skill(content), as_skill(base), given)
