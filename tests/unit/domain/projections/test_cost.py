"""The cost of model calls."""

from hypothesis import given
from hypothesis import strategies as st

from wfcore.domain.projections.cost import Price, cost_of, to_money


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**6), st.integers(0, 10**6))
def test_costs_are_whole_billionths(input_: int, output: int, input_price: int, output_price: int) -> None:
    """A price in thousandths for a million tokens is a whole number of billionths for a token."""
    prices = {"m": Price(input_price / 1000, output_price / 1000)}
    assert cost_of(prices, "m", input_, output) == input_ * input_price + output * output_price


def test_a_model_without_a_price() -> None:
    """Without a price the cost is unknown, not zero."""
    prices = {"m": Price(1, 2)}
    assert cost_of(prices, "n", 1, 1) is None
    assert cost_of(prices, None, 1, 1) is None


def test_money() -> None:
    """Billionths become the unit of money; an unknown cost stays unknown."""
    assert to_money(2_500_000_000) == 2.5
    assert to_money(None) is None
