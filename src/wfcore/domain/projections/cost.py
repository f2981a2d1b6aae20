"""The cost of a model call, from its tokens. The operator chooses the unit of money."""

from collections.abc import Mapping
from typing import Final

import attrs

NANOS: Final = 1_000_000_000
"""Costs are stored as whole billionths of the unit: sums are exact, in any order."""


@attrs.frozen
class Price:
    """The price of a million tokens."""

    input: float
    output: float


def cost_of(prices: Mapping[str, Price], model: str | None, input_tokens: int, output_tokens: int) -> int | None:
    """The cost in billionths of the unit of money, rounded to the nearest; None for a model without a price."""
    price = prices.get(model or "")
    if price is None:
        return None
    return round((input_tokens * price.input + output_tokens * price.output) * (NANOS // 1_000_000))


def to_money(nanos: int | None) -> float | None:
    return None if nanos is None else nanos / NANOS
