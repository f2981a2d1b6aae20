"""The laws of a run's `config` (interface, Resume a run): whatever it says, a run may use no more than was deployed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfcore.domain.agents.narrowing import UNSUPPORTED, Allowance, merged, narrowed, narrowing_issues

NAMES = st.sampled_from("abcd")
SETS = st.frozensets(NAMES)
WINDOWS = st.integers(1, 5)
BUDGETS = st.fixed_dictionaries({}, optional={"maxTokens": WINDOWS, "maxCost": WINDOWS})
ALLOWANCES = st.builds(
    Allowance,
    st.none() | SETS,
    st.none() | WINDOWS,
    st.none() | st.dictionaries(NAMES, st.booleans()),
    st.none() | SETS,
    SETS,
    BUDGETS,
)
TOOLS = st.fixed_dictionaries({"enabled": st.booleans()}, optional={"requiresApproval": st.booleans()})
CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "model": NAMES,
        "modelSettings": st.fixed_dictionaries({}, optional={"contextWindow": WINDOWS}),
        "toolset": st.dictionaries(NAMES, TOOLS),
        "contextSelections": st.lists(NAMES.map(lambda name: {"id": name}), max_size=4),
        "guardrails": st.lists(NAMES, max_size=4),
        "budget": BUDGETS,
        "strategies": st.lists(NAMES, max_size=1),
        "debug": st.booleans(),
    },
)
CONTENT = {
    "model": "a",
    "toolset": {"t": {"enabled": True}, "asks": {"enabled": True, "requiresApproval": True}, "off": {"enabled": False}},
    "contextSelections": [{"id": "c1"}, {"id": "c2"}],
    "budget": {"maxTokens": 100},
}
DEPLOYED = Allowance.of_skill(CONTENT, ["no secrets"], ["a", "b"])


def asked_for(config: Any) -> list[tuple[str, str]]:
    return [(issue.path, issue.rule) for issue in narrowing_issues(config, DEPLOYED)]


@given(ALLOWANCES, CONFIGS)
def test_a_config_never_widens(allowed: Allowance, config: Any) -> None:
    """What is left under a config is within what was allowed, also under one that is refused."""
    assert allowed.contains(narrowed(allowed, config))


@given(ALLOWANCES, CONFIGS)
def test_what_is_accepted_has_its_effect(allowed: Allowance, config: Any) -> None:
    """Of an accepted config nothing is lost: its model, window, tools and context items are what is left."""
    if narrowing_issues(config, allowed):
        return
    left = narrowed(allowed, config)
    if "model" in config:
        assert left.models == frozenset([config["model"]])
    if "contextWindow" in config.get("modelSettings", {}):
        assert left.context_window == config["modelSettings"]["contextWindow"]
    assert {**left.budget, **config.get("budget", {})} == left.budget
    if "contextSelections" in config:
        assert left.context_items == frozenset(one["id"] for one in config["contextSelections"])
    for name, tool in config.get("toolset", {}).items():
        if left.tools is not None:
            assert (name in left.tools) == tool["enabled"]
            assert left.tools.get(name, True) or not tool.get("requiresApproval")


@given(ALLOWANCES, CONFIGS, CONFIGS)
def test_a_later_turn_narrows_further(allowed: Allowance, first: Any, second: Any) -> None:
    """Two configs as one do what they do one after the other, and never give back what the first took."""
    together = narrowed(allowed, merged(first, second))
    assert narrowed(allowed, first).contains(together)
    if not narrowing_issues(second, narrowed(allowed, first)):
        assert together == narrowed(narrowed(allowed, first), second)


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
    """Every key of `config` against a skill that allows some of everything."""
    assert asked_for(config) == found


def test_a_skill_without_a_model_leaves_the_choice() -> None:
    """An empty `model` allows every configured one, and none besides."""
    free = Allowance.of_skill({}, [], ["a", "b"])
    assert not narrowing_issues({"model": "b"}, free)
    assert narrowing_issues({"model": "c"}, free)
    assert narrowing_issues({"toolset": {"t": {"enabled": True}}}, free)


def test_a_window_only_gets_smaller() -> None:
    """A `contextWindow` above the deployed one is refused, one below it is what counts."""
    bounded = Allowance.of_skill({"modelSettings": {"contextWindow": 100}}, [], [])
    assert [issue.path for issue in narrowing_issues({"modelSettings": {"contextWindow": 101}}, bounded)] == [
        "config.modelSettings.contextWindow"
    ]
    assert narrowed(bounded, {"modelSettings": {"contextWindow": 99.0}}).context_window == 99


def test_no_window_widens_the_default() -> None:
    """Where the skill names no window, a run asks for at most the 32,000 tokens that it would have anyway."""
    unnamed = Allowance.of_skill({}, [], [])
    assert not narrowing_issues({"modelSettings": {"contextWindow": 32_000}}, unnamed)
    (issue,) = narrowing_issues({"modelSettings": {"contextWindow": 32_001}}, unnamed)
    assert (issue.path, issue.rule) == ("config.modelSettings.contextWindow", "widening")


@given(st.lists(ALLOWANCES, max_size=4))
def test_several_agents_may_each_use_their_own(parts: list[Allowance]) -> None:
    """A workflow allows a tool that one of its agents may use, without asking only where none of them has to ask."""
    joined = Allowance.joined(parts)
    for part in parts:
        assert (part.tools or {}).keys() <= (joined.tools or {}).keys()
        assert all((joined.tools or {})[name] for name, asks in (part.tools or {}).items() if asks)
        assert joined.context_items is None or (part.context_items or frozenset()) <= joined.context_items
