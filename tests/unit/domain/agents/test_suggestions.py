"""Suggestions: a deterministic choice."""

from hypothesis import given
from hypothesis import strategies as st

from wfcore.domain.agents.suggestions import MAX_SUGGESTIONS, MAX_TEXT, Candidate, OpenDecision, Thread, short, suggest

TEXT = st.text(max_size=400)
OFFERS = st.lists(st.builds(Candidate, st.integers(1, 9), TEXT, st.none() | TEXT), max_size=6)
FACTS = (
    st.lists(st.builds(OpenDecision, st.just("r"), st.just("i"), TEXT), max_size=3),
    st.lists(st.builds(Thread, TEXT, st.integers(0, 9), TEXT), max_size=3),
    OFFERS, OFFERS, st.sets(st.integers(1, 9)),
)  # fmt: skip


@given(*FACTS)
def test_suggestions_are_few_and_short(
    decisions: list[OpenDecision],
    threads: list[Thread],
    skills: list[Candidate],
    workflows: list[Candidate],
    tried: set[int],
) -> None:
    """There are at most four, on one line each, and as many as there are facts; the choice is deterministic."""
    found = suggest(decisions, threads, skills, workflows, tried)
    offered = [skill for skill in skills if skill.id not in tried or skill.description]
    assert len(found) == min(MAX_SUGGESTIONS, len(decisions) + len(threads) + len(offered) + len(workflows))
    assert found == suggest(decisions, threads, skills, workflows, tried)
    for one in found:
        assert all(0 < len(text) <= MAX_TEXT + 60 and len(text.splitlines()) == 1 for text in (one.prompt, one.reason))
    given_sorts = {"interrupt": decisions, "conversation": threads, "skill": offered, "workflow": workflows}
    sorts = [str(one.target["type"]) for one in found]
    assert all(given_sorts[sort] for sort in sorts)
    if len(decisions) and len(threads) and len(workflows):
        assert sorts[:2] == ["interrupt", "conversation"]
        assert "workflow" in sorts


def test_new_skills_come_before_tried_ones() -> None:
    """Skills that were tried come last, and only if they have a description."""
    skills = [Candidate(1, "Known", "letters"), Candidate(2, "Silent", None), Candidate(3, "New", None)]
    found = suggest([], [], skills, [Candidate(1, "Flow", "Pays.")], {1, 2})
    assert [(one.prompt, one.reason) for one in found] == [
        ("What can you do for me?", "you have not talked to `New` lately"),
        ("Run `Flow`", "Pays."),
        ("Help me with this: letters", "you talk to `Known`"),
    ]


@given(TEXT)
def test_a_text_is_cut_to_one_line(text: str) -> None:
    """The text is on one line and within the bound; a short text keeps its words."""
    line = short(text)
    assert len(line) <= MAX_TEXT
    assert len(line.splitlines()) <= 1
    assert line.endswith("…") or line.split() == text.split()


def test_a_blank_description_is_not_a_reason() -> None:
    """A workflow whose description is blank gets the default reason."""
    [one] = suggest([], [], [], [Candidate(1, "Flow", " \n")], set())
    assert one.reason == "it is deployed, and you can start it"


def test_the_wire_form() -> None:
    """Each sort has its target; an interrupt without a message has a short prompt."""
    found = suggest([OpenDecision("r", "i", "")], [Thread("t", 7, "Refund?")], [], [], set())
    assert [one.to_wire() for one in found] == [
        {
            "prompt": "What is waiting for my decision",
            "reason": "a run waits for your decision",
            "target": {"type": "interrupt", "runId": "r", "interruptId": "i"},
        },
        {
            "prompt": "Let us go on with this: Refund?",
            "reason": "you talked about this lately",
            "target": {"type": "conversation", "threadId": "t", "skillId": 7},
        },
    ]
