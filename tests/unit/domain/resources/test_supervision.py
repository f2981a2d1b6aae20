"""Supervision links: form, cycles and depth."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfcore.domain.resources.content import SkillContent
from wfcore.domain.resources.supervision import (
    DESCRIPTIONS,
    IDS,
    MAX_DEPTH,
    MAX_SUBORDINATES,
    description_issues,
    form_issues,
    link_issues,
    links_of,
    subordinates,
)


def ids(*numbers: int) -> list[str]:
    return [str(number) for number in numbers]


def rules(number: int, named: tuple[int, ...], links: dict[int, set[int]]) -> list[tuple[str, str]]:
    known = {*links, *(below for one in links.values() for below in one)}
    return [(issue.path, issue.rule) for issue in link_issues(number, ids(*named), known, links)]


@pytest.mark.parametrize("text", ["", "0", "01", "+1", "1.0", "x", "1\n", "\u0663", "9" * 17, "-1"])
def test_ids_are_canonical_numbers(text: str) -> None:
    """A subordinate is given by its canonical id; any other text is an issue at its path."""
    issues = form_issues(["7", text])
    assert [(issue.path, issue.rule) for issue in issues] == [(f"{IDS}[1]", "pattern")]
    assert subordinates(SkillContent(supervision_subordinate_ids=["7", text])) == {7}


def test_ids_are_unique_and_bounded() -> None:
    """A repeated id and a list that is too long are issues; an empty list has none."""
    assert [(i.path, i.rule) for i in form_issues(["7", "8", "7"])] == [(f"{IDS}[2]", "duplicate")]
    most = [str(number) for number in range(1, MAX_SUBORDINATES + 1)]
    assert form_issues(most) == []
    assert [i.rule for i in form_issues([*most, "1000"])] == ["maxItems"]
    assert form_issues([]) == []


def test_only_subordinates_are_described() -> None:
    """A description of any other skill is an issue at its key."""
    assert description_issues({"7": "x"}, ["7"]) == []
    assert [(i.path, i.rule) for i in description_issues({"8": "x"}, ["7"])] == [(f"{DESCRIPTIONS}.8", "reference")]


def test_the_links_of_a_content() -> None:
    """They are the two fields about supervision."""
    content = SkillContent(supervision_subordinate_ids=["1"], model="m")
    assert links_of(content) == {IDS: ["1"], DESCRIPTIONS: {}}


def test_unknown_skills_are_issues() -> None:
    """A skill that does not exist is an issue at its path; the others are checked too."""
    issues = link_issues(1, ids(2, 3, 1), {2}, {})
    assert [(i.path, i.rule) for i in issues] == [(f"{IDS}[1]", "reference"), (f"{IDS}[2]", "cycle")]


def test_a_cycle_of_any_length_is_found() -> None:
    """A skill cannot supervise itself, directly or through others."""
    assert rules(1, (1,), {}) == [(f"{IDS}[0]", "cycle")]
    for length in range(1, MAX_DEPTH):
        chain = {number: {number + 1} for number in range(2, 2 + length)} | {2 + length: {1}}
        assert rules(1, (2,), chain)[0][1] in ("cycle", "depth")
        assert rules(1, (2,), chain | {2 + length: set()}) == []


def test_links_go_to_a_bounded_depth() -> None:
    """Ten levels of links are allowed, eleven are not; the longest chain counts."""
    for length, fault in ((MAX_DEPTH, []), (MAX_DEPTH + 1, [(f"{IDS}[0]", "depth")])):
        chain = {number: {number + 1} for number in range(1, length)} | {1: {2, length}, length: set()}
        assert rules(99, (1,), chain) == fault


@given(st.dictionaries(st.integers(1, 5), st.sets(st.integers(1, 5), max_size=3)), st.sets(st.integers(1, 5)))
def test_accepted_links_have_no_cycle(links: dict[int, set[int]], named: set[int]) -> None:
    """For any links of the others: without an issue, no subordinate leads back to the skill."""
    others = {number: below for number, below in links.items() if number != 1}
    if link_issues(1, ids(*sorted(named)), set(range(1, 6)), others):
        return
    below, reached = set(named), set[int]()
    while below:
        reached |= below
        below = {n for one in below for n in others.get(one, ())} - reached
    assert 1 not in reached
