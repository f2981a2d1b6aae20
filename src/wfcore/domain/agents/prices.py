"""What a model's answer costs, from its tokens. The unit of money is the operator's."""

from collections.abc import Mapping
from typing import Final

import attrs

NANOS: Final = 1_000_000_000
"""Costs are kept as whole billionths of the unit: sums are exact, in any order."""


@attrs.frozen
class Price:
    """Of a million tokens."""

    input: float
    output: float


def cost_of(prices: Mapping[str, Price], model: str | None, input_tokens: int, output_tokens: int) -> int | None:
    """In billionths of the unit of money, to the nearest; None for a model without a price."""
    price = prices.get(model or "")
    if price is None:
        return None
    return round((input_tokens * price.input + output_tokens * price.output) * (NANOS // 1_000_000))


def to_money(nanos: int | None) -> float | None:
    return None if nanos is None else nanos / NANOS
