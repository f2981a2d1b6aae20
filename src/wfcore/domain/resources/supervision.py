"""Which skills a skill may supervise: existing ones, without cycles, to a bounded depth (interface, Scope)."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from wfcore.domain.kernel.errors import Issue, join_path
from wfcore.domain.kernel.ids import parse_id
from wfcore.domain.kernel.json_type import JSON

IDS: Final = "supervisionSubordinateIds"
DESCRIPTIONS: Final = "supervisionSubordinateDescriptions"

MAX_DEPTH: Final = 10
"""Links from a skill down to the last subordinate of its subordinates."""

MAX_SUBORDINATES: Final = 100

MAX_BELOW: Final = 1_000
"""Skills below one; bounds the work of a check."""


def links_of(content: Mapping[str, JSON]) -> dict[str, JSON]:
    """The two fields of a skill's content that say whom it supervises."""
    return {IDS: content[IDS], DESCRIPTIONS: content[DESCRIPTIONS]}


def subordinates(content: Mapping[str, JSON]) -> set[int]:
    """The numbers of the skills that this content supervises."""
    return {number for text in content.get(IDS, ()) if (number := parse_id(text)) is not None}


def form_issues(content: Mapping[str, JSON]) -> list[Issue]:
    """What is wrong with the links of a body of good shape, other skills not looked at."""
    ids = content.get(IDS, [])
    if len(ids) > MAX_SUBORDINATES:
        return [Issue(IDS, f"must have at most {MAX_SUBORDINATES} entries", "maxItems")]
    return [issue for index, text in enumerate(ids) for issue in _id_issues(text, f"{IDS}[{index}]", ids[:index])]


def _id_issues(text: str, path: str, before: Collection[str]) -> Iterator[Issue]:
    if parse_id(text) is None:
        yield Issue(path, f"`{text[:80]}` is no id of a skill", "pattern")
    elif text in before:
        yield Issue(path, f"`{text}` stands in the list already", "duplicate")


def description_issues(described: Collection[str], ids: Collection[str]) -> list[Issue]:
    """A description must be that of a subordinate."""
    return [
        Issue(join_path(DESCRIPTIONS, key), f"`{key[:80]}` is no subordinate", "reference")
        for key in described
        if key not in ids
    ]


def link_issues(
    number: int, content: Mapping[str, JSON], known: Collection[int], links: Mapping[int, Collection[int]]
) -> list[Issue]:
    """What hinders skill `number` from supervising those whom `content` names.

    `known` are the skills that may be named; `links` tells of every skill below them whom it supervises, by its
    draft or by what is deployed: whichever of the two is in force, no cycle can come about.
    """
    return [
        Issue(f"{IDS}[{index}]", message, rule)
        for index, text in enumerate(content.get(IDS, ()))
        for message, rule in _faults(number, parse_id(text) or 0, known, links)
    ]


def _faults(
    number: int, first: int, known: Collection[int], links: Mapping[int, Collection[int]]
) -> Iterator[tuple[str, str]]:
    if first != number and first not in known:
        yield "there is no such skill", "reference"
        return
    level = {first}
    for _ in range(MAX_DEPTH):
        if number in level:
            yield f"skill `{first}` would supervise itself in the end: it leads back here", "cycle"
            return
        level = {below for above in level for below in links.get(above, ())}
    if level:
        yield f"below `{first}` the links go deeper than {MAX_DEPTH}", "depth"
