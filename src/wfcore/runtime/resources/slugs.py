"""The slugs of new workflows and skills, which are unique in their organization."""

from itertools import islice
from typing import Final

from wfcore.domain.kernel.ids import slug_candidates
from wfcore.domain.resources.resource import Kind
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.common.authorization import conflict

MOST_SLUGS: Final = 512
"""The most candidates for a slug that are looked up at once."""


async def free_slug(work: UnitOfWork, kind: Kind, wanted: str | None, base: str) -> str:
    """The wanted slug, else a free one from `base`. Raises Conflict when the wanted slug is taken."""
    resources = work.resources(kind)
    if wanted is not None:
        if await resources.slugs_taken([wanted]):
            raise conflict(f"the slug `{wanted}` is taken: use another one", "slug_taken", slug=wanted)
        return wanted
    candidates, size = slug_candidates(base), 1
    while True:
        some = list(islice(candidates, size))
        taken = await resources.slugs_taken(some)
        for slug in some:
            if slug not in taken:
                return slug
        size = min(size * 8, MOST_SLUGS)
