"""Checks the supervision links of a skill against the skills below it."""

from collections.abc import Collection

from wfcore.domain.kernel.errors import Issue
from wfcore.domain.resources.access import Principal, derive
from wfcore.domain.resources.content import SkillContent
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.resource import Resource
from wfcore.domain.resources.supervision import (
    IDS,
    LINKS,
    MAX_BELOW,
    MAX_DEPTH,
    description_issues,
    link_issues,
    subordinates,
)
from wfcore.ports.storage import UnitOfWork


async def link_faults(
    work: UnitOfWork, me: Principal, number: int, content: SkillContent, base: SkillContent, given: frozenset[str]
) -> list[Issue]:
    """The errors of the links in the `content` of skill `number`, which replaces `base` in the fields `given`.

    The writer must see the skills that it adds; those in `base` can be written back.
    """
    if given.isdisjoint(LINKS):
        return []
    described = content.supervision_subordinate_descriptions if LINKS[1] in given else {}
    named = subordinates(content)
    links = await _links_below(work, named - {number})
    if len(links) > MAX_BELOW:
        return [Issue(IDS, f"at most {MAX_BELOW} skills can be below a skill", "limit")]
    known = await _known(work, me, named, subordinates(base))
    return [
        *link_issues(number, content.supervision_subordinate_ids, known, links),
        *description_issues(described, content.supervision_subordinate_ids),
    ]


async def _known(work: UnitOfWork, me: Principal, named: Collection[int], kept: Collection[int]) -> set[int]:
    found = {number: await work.skills.get(number) for number in named}
    return {
        number
        for number, skill in found.items()
        if skill and skill.status is not Status.DELETED and (number in kept or derive(me, skill.access).visible)
    }


async def _links_below(work: UnitOfWork, level: set[int]) -> dict[int, set[int]]:
    """The subordinates of every skill from this level down to MAX_DEPTH levels."""
    links = dict[int, set[int]]()
    for _ in range(MAX_DEPTH):
        for number in sorted(level - links.keys()):
            skill = await work.skills.get(number)
            links[number] = await _links_of(work, skill) if skill else set()
            if len(links) > MAX_BELOW:
                return links
        level = {below for above in level for below in links[above]}
    return links


async def _links_of(work: UnitOfWork, skill: Resource) -> set[int]:
    """The subordinates in its draft or its active variation."""
    names = [name for name in (skill.active_variation_id, skill.draft_variation_id) if name]
    found = [await work.skills.variation(skill.id, name) for name in names]
    return {number for variation in found if variation for number in subordinates(variation.skill)}
