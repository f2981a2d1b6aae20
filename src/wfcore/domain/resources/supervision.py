"""Which skills a skill may supervise: existing ones, without cycles, to a bounded depth (interface, Scope)."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from wfcore.domain.kernel.errors import Issue, join_path
from wfcore.domain.kernel.ids import parse_id
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.content import SkillContent

IDS: Final = "supervisionSubordinateIds"
DESCRIPTIONS: Final = "supervisionSubordinateDescriptions"
LINKS: Final = ("supervision_subordinate_ids", "supervision_subordinate_descriptions")
"""The fields of a skill's content about its subordinates: on the wire `IDS` and `DESCRIPTIONS`."""

MAX_DEPTH: Final = 10
"""The most links in a chain from a skill to its last indirect subordinate."""

MAX_SUBORDINATES: Final = 100

MAX_BELOW: Final = 1_000
"""The most direct and indirect subordinates; it bounds the work of a check."""


def links_of(content: SkillContent) -> dict[str, JSON]:
    """The fields about subordinates on the wire."""
    return {
        IDS: content.supervision_subordinate_ids,
        DESCRIPTIONS: content.supervision_subordinate_descriptions,
    }


def subordinates(content: SkillContent) -> set[int]:
    """The ids of the skills that this content supervises; ids that are not valid are left out."""
    return {number for text in content.supervision_subordinate_ids if (number := parse_id(text)) is not None}


def form_issues(ids: Sequence[str]) -> list[Issue]:
    """The issues of the subordinates' ids, without looking at other skills."""
    if len(ids) > MAX_SUBORDINATES:
        return [Issue(IDS, f"must have at most {MAX_SUBORDINATES} entries", "maxItems")]
    return [issue for index, text in enumerate(ids) for issue in _id_issues(text, f"{IDS}[{index}]", ids[:index])]


def _id_issues(text: str, path: str, before: Collection[str]) -> Iterator[Issue]:
    if parse_id(text) is None:
        yield Issue(path, f"`{text[:80]}` is not a valid skill id", "pattern")
    elif text in before:
        yield Issue(path, f"`{text}` is already in the list", "duplicate")


def description_issues(described: Collection[str], ids: Collection[str]) -> list[Issue]:
    """One issue for each description whose skill is not among `ids`."""
    return [
        Issue(join_path(DESCRIPTIONS, key), f"`{key[:80]}` is not a subordinate", "reference")
        for key in described
        if key not in ids
    ]


def link_issues(
    number: int, ids: Sequence[str], known: Collection[int], links: Mapping[int, Collection[int]]
) -> list[Issue]:
    """The reasons why skill `number` cannot supervise the skills with these ids.

    `known` are the skills that it may supervise. `links` has the subordinates of every skill below them, of its draft
    and of its active variation: so there is no cycle, whichever of the two is in use.
    """
    return [
        Issue(f"{IDS}[{index}]", message, rule)
        for index, text in enumerate(ids)
        for message, rule in _faults(number, parse_id(text) or 0, known, links)
    ]


def _faults(
    number: int, first: int, known: Collection[int], links: Mapping[int, Collection[int]]
) -> Iterator[tuple[str, str]]:
    if first != number and first not in known:
        yield "unknown skill", "reference"
        return
    level = {first}
    for _ in range(MAX_DEPTH):
        if number in level:
            yield f"skill `{first}` leads back to this skill, which would supervise itself", "cycle"
            return
        level = {below for above in level for below in links.get(above, ())}
    if level:
        yield f"the links below skill `{first}` are more than {MAX_DEPTH} levels deep", "depth"
