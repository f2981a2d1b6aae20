"""Budgets: periods, wire form and consumption."""

from datetime import UTC, datetime
from typing import Any

import pytest

from wfcore.domain.agents.budgets import Budget, budget_key, times_spent


def ms(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp() * 1000)  # type: ignore[misc,arg-type]


def test_periods() -> None:
    """A period is a day or a month of UTC."""
    now = ms(2026, 3, 9, 23, 59, 59)
    assert Budget("user", "day").since(now) == ms(2026, 3, 9)
    assert Budget("user", "month").since(now) == ms(2026, 3, 1)


def test_the_wire_form() -> None:
    """A limit that is not set is left out."""
    assert Budget("organization", "day", tokens=5).to_wire() == {"maxTokens": 5, "of": "organization", "period": "day"}
    assert Budget("user", "month", cost=1.5).to_wire() == {"maxCost": 1.5, "of": "user", "period": "month"}


def test_keys() -> None:
    """Budgets of an agent and of each period have different keys."""
    wires: list[dict[str, Any]] = [{}, {"of": "user", "period": "day"}, {"of": "user", "period": "month"}]
    assert [budget_key(wire) for wire in wires] == ["agent/", "user/day", "user/month"]
    assert [budget_key(wires[1], since) for since in (1, 2)] == ["user/day/1", "user/day/2"]


@pytest.mark.parametrize(
    ("budget", "times"),
    [
        ({}, 0),
        ({"maxTokens": 100}, 0),
        ({"maxTokens": 30}, 1),
        ({"maxTokens": 10}, 3),
        ({"maxCost": 1}, 2),
        ({"maxTokens": 30, "maxCost": 1}, 2),
        ({"maxTokens": 0}, 1),
    ],
)
def test_consumption(budget: dict[str, float], times: int) -> None:
    """The limit that is used up most often counts."""
    spent = {"inputTokens": 20, "outputTokens": 10, "cost": 2.25}
    assert times_spent(budget, spent) == times
    assert times_spent(budget, {}) == (1 if budget == {"maxTokens": 0} else 0)
