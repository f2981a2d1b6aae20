"""Suggestions are a pure choice."""

from hypothesis import given
from hypothesis import strategies as st

from wfcore.domain.agents.prices import Price, cost_of, to_money
from wfcore.domain.agents.suggestions import LONGEST, MOST, Candidate, Thread, Waiting, short, suggest

TEXT = st.text(max_size=400)
OFFERS = st.lists(st.builds(Candidate, st.integers(1, 9), TEXT, st.none() | TEXT), max_size=6)
FACTS = (
    st.lists(st.builds(Waiting, st.just("r"), st.just("i"), TEXT), max_size=3),
    st.lists(st.builds(Thread, TEXT, st.integers(0, 9), TEXT), max_size=3),
    OFFERS, OFFERS, st.sets(st.integers(1, 9)),
)  # fmt: skip


@given(*FACTS)
def test_suggestions_are_few_and_short(
    waiting: list[Waiting], threads: list[Thread], skills: list[Candidate], workflows: list[Candidate], tried: set[int]
) -> None:
    """At most four, one line each, of what was given, as many as there is something to suggest; twice the same."""
    found = suggest(waiting, threads, skills, workflows, tried)
    offered = [skill for skill in skills if skill.id not in tried or skill.description]
    assert len(found) == min(MOST, len(waiting) + len(threads) + len(offered) + len(workflows))
    assert found == suggest(waiting, threads, skills, workflows, tried)
    for one in found:
        assert all(0 < len(text) <= LONGEST + 60 and len(text.splitlines()) == 1 for text in (one.prompt, one.reason))
    given_sorts = {"interrupt": waiting, "conversation": threads, "skill": offered, "workflow": workflows}
    sorts = [str(one.target["type"]) for one in found]
    assert all(given_sorts[sort] for sort in sorts)
    if len(waiting) and len(threads) and len(workflows):
        assert sorts[:2] == ["interrupt", "conversation"]
        assert "workflow" in sorts


def test_what_is_new_comes_before_what_is_known() -> None:
    """Skills that were tried are suggested last, and only with something to say."""
    skills = [Candidate(1, "Known", "letters"), Candidate(2, "Silent", None), Candidate(3, "New", None)]
    found = suggest([], [], skills, [Candidate(1, "Flow", "Pays.")], {1, 2})
    assert [(one.prompt, one.reason) for one in found] == [
        ("What can you do for me?", "you have not talked to `New` lately"),
        ("Run `Flow`", "Pays."),
        ("Help me with this: letters", "you talk to `Known`"),
    ]


@given(TEXT)
def test_a_text_is_cut_to_one_line(text: str) -> None:
    """Never longer, on one line, and what is short enough keeps its words."""
    line = short(text)
    assert len(line) <= LONGEST
    assert len(line.splitlines()) <= 1
    assert line.endswith("…") or line.split() == text.split()


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**6), st.integers(0, 10**6))
def test_costs_are_sums_of_whole_billionths(given_: int, told: int, input_price: int, output_price: int) -> None:
    """A price in thousandths per million tokens costs exactly so many billionths per token; no price, no cost."""
    prices = {"m": Price(input_price / 1000, output_price / 1000)}
    assert cost_of(prices, "m", given_, told) == given_ * input_price + told * output_price
    assert cost_of(prices, "n", given_, told) is None
    assert cost_of(prices, None, given_, told) is None
    assert to_money(2_500_000_000) == 2.5
    assert to_money(None) is None
