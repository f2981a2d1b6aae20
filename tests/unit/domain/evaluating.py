"""Evaluation of expressions over one scope."""

import pytest

from wfcore.domain.expressions.expression import ExpressionError, compile_expression

SCOPE = {
    "input": {
        "tier": "gold",
        "count": 3,
        "rate": 1.5,
        "none": None,
        "on": True,
        "tags": ["a", "b"],
        "items": [{"q": 1, "ok": True}, {"q": 2.5, "ok": False}],
        "when": "2024-02-29T12:30:15.25+02:00",
        "a.b": 1,
    },
    "nodes": {"check": {"output": {"amount": 150}}, "a-b": {"output": 7}},
    "run": {"id": "r1"},
}


def value(source: str) -> object:
    return compile_expression(source).evaluate(SCOPE)


def refusal(source: str) -> str:
    with pytest.raises(ExpressionError) as caught:
        value(source)
    return caught.value.message
