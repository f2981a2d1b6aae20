"""Laws of a run's `config` (interface, Resume a run): a run never may use more than the deployed variation allows."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from wfcore.domain.agents.narrowing import Allowance, merged, narrowed, narrowing_issues

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


def contains(mine: Allowance, other: Allowance) -> bool:
    """Whether everything that `other` allows is in `mine`, where None is no restriction."""

    def within(a: Any, b: Any) -> bool:
        return b is None or (a is not None and a <= b)

    def ways(tools: Mapping[str, bool] | None) -> Any:
        """With an approval each tool can be used; without one, a tool that needs none."""
        return tools if tools is None else {(name, way) for name, needed in tools.items() for way in {True, needed}}

    return (
        within(other.models, mine.models)
        and within(other.context_window, mine.context_window)
        and within(ways(other.tools), ways(mine.tools))
        and within(other.context_items, mine.context_items)
        and mine.guardrails <= other.guardrails
        and all(within(other.budget.get(name), most) for name, most in mine.budget.items())
    )


@given(ALLOWANCES, CONFIGS)
def test_a_config_never_widens(allowed: Allowance, config: Any) -> None:
    """The allowance under a config is within the original, also for a config with issues."""
    assert contains(allowed, narrowed(allowed, config))


@given(ALLOWANCES, CONFIGS)
def test_an_accepted_config_takes_effect(allowed: Allowance, config: Any) -> None:
    """The model, window, tools and context items of an accepted config are those of the result."""
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
    """Merged configs have the effect of one after the other, and the second cannot undo the first."""
    together = narrowed(allowed, merged(first, second))
    assert contains(narrowed(allowed, first), together)
    if not narrowing_issues(second, narrowed(allowed, first)):
        assert together == narrowed(narrowed(allowed, first), second)


@given(st.lists(ALLOWANCES, max_size=4))
def test_a_joined_allowance_contains_its_parts(parts: list[Allowance]) -> None:
    """A workflow allows each tool of its agents, with an approval if one of them needs it."""
    joined = Allowance.joined(parts)
    for part in parts:
        assert (part.tools or {}).keys() <= (joined.tools or {}).keys()
        assert all((joined.tools or {})[name] for name, asks in (part.tools or {}).items() if asks)
        assert joined.context_items is None or (part.context_items or frozenset()) <= joined.context_items
