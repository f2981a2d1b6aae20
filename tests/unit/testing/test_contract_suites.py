"""Contract suites in the hands of somebody who writes an adapter."""

import inspect

import pytest

from wfcore import testing

SUITES = [getattr(testing, name) for name in testing.__all__ if name.endswith("Contract")]


@pytest.mark.parametrize("suite", SUITES, ids=[suite.__name__ for suite in SUITES])
def test_a_forgotten_factory_is_named(suite: type) -> None:
    """A subclass without it cannot be made: its tests would fail on the attributes of None."""
    incomplete = type("TestMine", (suite,), {})
    assert inspect.isabstract(incomplete)
    with pytest.raises(TypeError, match=rf"abstract class TestMine .*{min(suite.__abstractmethods__)}"):
        incomplete()
