"""The `config` of a run: what it may narrow, and the result (interface, Resume a run: `config`)."""

from typing import Any

import attrs
import pytest

from wfcore.domain.agents.narrowing import (
    UNSUPPORTED,
    WINDOW,
    Allowance,
    added_guardrails,
    guardrails_under,
    merged,
    narrowed,
    narrowing_issues,
)
from wfcore.domain.json.values import structure
from wfcore.domain.resources.content import SkillContent

CONTENT: dict[str, Any] = {
    "model": "a",
    "toolset": {"t": {"enabled": True}, "asks": {"enabled": True, "requiresApproval": True}, "off": {"enabled": False}},
    "contextSelections": [{"id": "c1"}, {"id": "c2"}],
    "budget": {"maxTokens": 100},
}
DEPLOYED = Allowance.of_skill(structure(SkillContent, CONTENT), ["no secrets"], ["a", "b"])


def issues_of(config: Any) -> list[tuple[str, str]]:
    return [(issue.path, issue.rule) for issue in narrowing_issues(config, DEPLOYED)]


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({"model": "b"}, [("config.model", "widening")]),
        ({"model": "a", "modelSettings": {"contextWindow": 32_000}}, []),
        ({"toolset": {"off": {"enabled": True}}}, [("config.toolset.off.enabled", "widening")]),
        ({"toolset": {"new.one": {"enabled": True}}}, [("config.toolset.new.one.enabled", "widening")]),
        ({"toolset": {"t": {"enabled": False}, "unknown": {"enabled": False}}}, []),
        ({"toolset": {"t": {"enabled": True, "requiresApproval": True}}}, []),
        (
            {"toolset": {"asks": {"enabled": True, "requiresApproval": False}}},
            [("config.toolset.asks.requiresApproval", "widening")],
        ),
        ({"contextSelections": [{"id": "c1"}]}, []),
        ({"contextSelections": [{"id": "c1"}, {"id": "c3"}]}, [("config.contextSelections[1].id", "widening")]),
        ({"contextSelections": [{"name": "c1"}]}, [("config.contextSelections[0].id", "id")]),
        ({"guardrails": ["no secrets"]}, []),
        ({"guardrails": []}, [("config.guardrails", "widening")]),
        ({"budget": {"maxTokens": 100, "maxCost": 10**9}}, []),
        ({"budget": {"maxTokens": 101}}, [("config.budget.maxTokens", "widening")]),
        ({"guardrails": ["no secrets", "x"]}, []),
        ({name: ["x"] for name in UNSUPPORTED}, [(f"config.{name}", "unsupported") for name in UNSUPPORTED]),
        ({name: [] for name in UNSUPPORTED} | {"debug": True, "composerFileOffload": True}, []),
    ],
)
def test_each_key_narrows_or_is_refused(config: Any, found: list[tuple[str, str]]) -> None:
    """Every key of `config`, under a skill with restrictions of each kind."""
    assert issues_of(config) == found


def test_a_skill_without_a_model() -> None:
    """An empty `model` allows every configured model and no other."""
    free = Allowance.of_skill(SkillContent(), [], ["a", "b"])
    assert not narrowing_issues({"model": "b"}, free)
    assert narrowing_issues({"model": "c"}, free)
    assert narrowing_issues({"toolset": {"t": {"enabled": True}}}, free)


def test_a_window_cannot_grow() -> None:
    """A `contextWindow` above the deployed one is refused, a smaller one takes effect."""
    bounded = attrs.evolve(Allowance.of_skill(SkillContent(), [], []), context_window=100)
    assert [issue.path for issue in narrowing_issues({"modelSettings": {"contextWindow": 101}}, bounded)] == [
        "config.modelSettings.contextWindow"
    ]
    assert narrowed(bounded, {"modelSettings": {"contextWindow": 99.0}}).context_window == 99


def test_a_config_cannot_widen_the_default_window() -> None:
    """If the skill sets no window, a run has at most the default of 32,000 tokens."""
    unnamed = Allowance.of_skill(SkillContent(), [], [])
    assert not narrowing_issues({"modelSettings": {"contextWindow": 32_000}}, unnamed)
    (issue,) = narrowing_issues({"modelSettings": {"contextWindow": 32_001}}, unnamed)
    assert (issue.path, issue.rule) == ("config.modelSettings.contextWindow", "widening")


def test_an_unrestricted_allowance() -> None:
    """Without restrictions a config sets them."""
    assert narrowing_issues({"model": "x", "toolset": {"t": {"enabled": True}}}, Allowance()) == []
    config = {"model": "x", "contextSelections": [{"id": "c"}], "toolset": {"t": {"enabled": False}}}
    left = narrowed(Allowance(), config)
    assert (left.models, left.tools, left.context_items) == (frozenset("x"), None, frozenset("c"))
    assert left.context_window is None


def test_the_allowance_of_a_skill() -> None:
    """Only enabled tools count; without selections every context item is allowed; guardrails are names or objects."""
    allowed = Allowance.of_skill(SkillContent(), ["a", {"name": "b", "x": 1}, {"x": 1}, 7], ["m"])
    assert allowed == Allowance(frozenset("m"), None, {}, None, frozenset("ab"), {})
    assert DEPLOYED.tools == {"t": False, "asks": True}
    assert DEPLOYED.context_items == {"c1", "c2"}


def test_the_subordinates_of_a_skill() -> None:
    """They are allowed without an entry in the toolset, which can disable them or require an approval."""
    toolset = {"skill:2": {"enabled": False}, "skill:3": {"enabled": True, "requiresApproval": True}}
    content = {"supervisionSubordinateIds": ["1", "2", "3"], "toolset": toolset}
    allowed = Allowance.of_skill(structure(SkillContent, content), [], [])
    assert allowed.tools == {"skill:1": False, "skill:3": True}
    waive, on = {"enabled": True, "requiresApproval": False}, {"enabled": True, "requiresApproval": True}
    config = {"toolset": {"skill:1": on, "skill:2": on, "skill:3": waive}}
    assert [(issue.path, issue.rule) for issue in narrowing_issues(config, allowed)] == [
        ("config.toolset.skill:2.enabled", "widening"),
        ("config.toolset.skill:3.requiresApproval", "widening"),
    ]
    assert narrowed(allowed, {"toolset": {"skill:1": on}}).tools == {"skill:1": True, "skill:3": True}


def test_a_config_narrows_everything() -> None:
    """Each restriction is the stricter one of the two."""
    config = {
        "model": "a",
        "modelSettings": {"contextWindow": 5},
        "toolset": {"t": {"enabled": True, "requiresApproval": True}, "asks": {"enabled": False}},
        "contextSelections": [{"id": "c2"}],
        "guardrails": ["new"],
        "budget": {"maxTokens": 7, "maxCost": 1},
    }
    assert narrowed(DEPLOYED, config) == Allowance(
        frozenset("a"),
        5,
        {"t": True},
        frozenset(["c2"]),
        frozenset(["no secrets", "new"]),
        {"maxTokens": 7, "maxCost": 1},
    )


def test_the_config_of_a_later_turn() -> None:
    """Each restriction of both configs stays; keys without an effect are overwritten."""
    first = {
        "model": "a",
        "contextSelections": [{"id": "c1"}, {"id": "c2"}],
        "guardrails": ["x"],
        "toolset": {"t": {"enabled": True}, "u": {"enabled": True, "requiresApproval": True}},
        "modelSettings": {"contextWindow": 5},
        "budget": {"maxTokens": 5},
        "debug": True,
    }
    second = {
        "model": "b",
        "contextSelections": [{"id": "c2"}],
        "guardrails": ["y", "x"],
        "toolset": {"t": {"enabled": False}, "u": {"enabled": True, "requiresApproval": False}},
        "modelSettings": {"contextWindow": 9},
        "budget": {"maxTokens": 9, "maxCost": 1},
        "debug": False,
    }
    assert merged(first, second) == {
        "model": "a",
        "contextSelections": [{"id": "c2"}],
        "guardrails": ["x", "y"],
        "toolset": {"t": {"enabled": False}, "u": {"enabled": True, "requiresApproval": True}},
        "modelSettings": {"contextWindow": 5},
        "budget": {"maxTokens": 5, "maxCost": 1},
        "debug": False,
    }
    assert merged({}, {}) == {}
    assert merged({}, second) == second
    assert merged(first, {}) == first


def test_several_agents() -> None:
    """A tool of several agents needs an approval if one agent needs it; one unrestricted agent lifts the selection."""
    one, other = Allowance(tools={"t": False}, context_items=frozenset("a")), Allowance(tools={"t": True, "u": False})
    joined = Allowance.joined([one, other], ["g"])
    assert (joined.tools, joined.context_items, joined.guardrails) == ({"t": True, "u": False}, None, frozenset("g"))
    assert Allowance.joined([one]).context_items == frozenset("a")


def test_guardrails() -> None:
    """A config adds guardrails after those of the agent, each once."""
    own = ["a", {"name": "b", "x": 1}]
    assert guardrails_under(own, {"guardrails": ["b", "c", "c"]}) == [*own, "c"]
    assert guardrails_under(own, {}) == own
    assert added_guardrails({"guardrails": ["b", "c", "c"]}, {"b"}) == {1: "c"}


def test_the_default_window() -> None:
    """The bound of a run without a window is the default."""
    [issue] = narrowing_issues({"modelSettings": {"contextWindow": WINDOW + 1}}, Allowance())
    assert issue.message == f"must be at most {WINDOW}"
