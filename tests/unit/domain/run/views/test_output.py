"""Tests of what a run leaves outside its state."""

import pytest

from wfcore.domain.run.machine.states.output import reason_of


@pytest.mark.parametrize(
    ("cause", "shown"),
    [
        ("failed", {"reason": "failed"}),
        ("expression", {"reason": "expression"}),
        ("tool", {"reason": "tool"}),
        ("timeout", {"reason": "timeout"}),
        ("expired", {"reason": "timeout", "cause": "expired"}),
        ("budget", {"reason": "bounds", "cause": "budget"}),
        ("connection_cancelled", {"reason": "tool", "cause": "connection_cancelled"}),
        ("model_failed", {"reason": "model"}),
        ("content_filter", {"reason": "model", "cause": "content_filter"}),
        ("unknown_outcome", {"reason": "unknown_outcome"}),
        ("depth", {"reason": "bounds", "cause": "depth"}),
        ("not_found", {"reason": "access", "cause": "not_found"}),
        ("not_deployed", {"reason": "access", "cause": "not_deployed"}),
        ("input", {"reason": "tool", "cause": "input"}),
    ],
)
def test_a_failure_shows_one_of_few_reasons(cause: str, shown: dict[str, object]) -> None:
    """And its cause, where that says more."""
    assert reason_of(cause) == shown
