"""The constructs of CEL: one builder each, which makes the closure of the whole from the closures of the parts.

Booleans are compared with `is`: in CEL no other value counts as true or false.
"""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from wfcore.domain.expressions.cel.library import ARITHMETIC, Overloads
from wfcore.domain.expressions.cel.values import (
    NUMBERS,
    EvaluationBudget,
    ExpressionError,
    Value,
    contained,
    describe,
    equal,
    in_int64,
    index,
    is_key,
    ordered,
    shown,
)


class Activation:
    """The variables of an evaluation, and its budget."""

    __slots__ = ("budget", "variables")

    def __init__(self, variables: Mapping[str, Value], budget: EvaluationBudget) -> None:
        self.variables = variables
        self.budget = budget


Code = Callable[[Activation], Value]


def constant(value: Value) -> Code:
    return lambda _: value


def path(root: str, names: Sequence[str]) -> Code:
    """A variable and the fields below it."""

    def read(activation: Activation) -> Value:
        try:
            value = activation.variables[root]
            for name in names:
                value = value[name]
        except (KeyError, TypeError):
            raise _missing_step(activation, root, names) from None
        return value

    return read


def _missing_step(activation: Activation, root: str, names: Sequence[str]) -> ExpressionError:
    """The error for the first step of a path that fails."""
    if root not in activation.variables:
        return ExpressionError(f"the variable `{root}` is not available here")
    value, walked = activation.variables[root], root
    for name in names:
        if type(value) is not dict:
            return ExpressionError(f"`{walked}` is {describe(value)} and has no field `{name}`")
        if name not in value:
            return ExpressionError(f"`{walked}` has no field `{name}`")
        value, walked = value[name], f"{walked}.{name}"
    raise AssertionError(f"the path {walked} exists")


def select(base: Code, name: str) -> Code:
    """`base.name` where the base is not a plain path."""

    def read(activation: Activation) -> Value:
        value = base(activation)
        if type(value) is not dict:
            raise ExpressionError(f"{describe(value)} has no field `{name}`")
        if name not in value:
            raise ExpressionError(f"no such field `{name}`")
        return value[name]

    return read


def item(base: Code, key: Code) -> Code:
    return lambda activation: index(base(activation), key(activation))


def has(selection: Code) -> Code:
    """Whether the selection has a value; false for a missing base too, as in cel-python."""

    def test(activation: Activation) -> bool:
        try:
            selection(activation)
        except ExpressionError:
            return False
        return True

    return test


# Logic


def choose(condition: Code, yes: Code, no: Code) -> Code:
    def chosen(activation: Activation) -> Value:
        decision = condition(activation)
        if decision is True:
            return yes(activation)
        if decision is False:
            return no(activation)
        raise ExpressionError(f"`?` needs a bool, not {describe(decision)}")

    return chosen


def either(left: Code, right: Code) -> Code:
    """`||`: true if one side is true, even if the other fails; else false, or the first error."""
    return _short_circuit(left, right, True, "||")


def both(left: Code, right: Code) -> Code:
    """`&&`: false if one side is false, even if the other fails; else true, or the first error."""
    return _short_circuit(left, right, False, "&&")


def _short_circuit(left: Code, right: Code, decisive: bool, symbol: str) -> Code:
    def decided(activation: Activation) -> Value:
        failure = None
        try:
            first = left(activation)
        except ExpressionError as error:
            first, failure = None, error
        if first is decisive:
            return decisive
        second = right(activation)
        if second is decisive:
            return decisive
        if type(first) is bool and type(second) is bool:
            return not decisive
        raise failure or _not_bool(symbol, second if type(first) is bool else first)

    return decided


def _not_bool(symbol: str, value: Value) -> ExpressionError:
    return ExpressionError(f"`{symbol}` needs bools, not {describe(value)}")


def inverted(operand: Code) -> Code:
    def invert(activation: Activation) -> bool:
        value = operand(activation)
        if type(value) is not bool:
            raise _not_bool("!", value)
        return not value

    return invert


# Relations


def _equality(left: Code, right: Code) -> Code:
    return lambda activation: equal(activation.budget, left(activation), right(activation))


def _inequality(left: Code, right: Code) -> Code:
    return lambda activation: not equal(activation.budget, left(activation), right(activation))


def _membership(left: Code, right: Code) -> Code:
    return lambda activation: contained(activation.budget, left(activation), right(activation))


def _ordering(compare: Callable[[Any, Any], bool]) -> Callable[[Code, Code], Code]:
    def build(left: Code, right: Code) -> Code:
        def compared(activation: Activation) -> bool:
            a, b = left(activation), right(activation)
            if type(a) not in NUMBERS or type(b) not in NUMBERS:
                ordered(activation.budget, a, b)
            return compare(a, b)

        return compared

    return build


RELATIONS: Final[Mapping[str, Callable[[Code, Code], Code]]] = {
    "<": _ordering(operator.lt),
    "<=": _ordering(operator.le),
    ">": _ordering(operator.gt),
    ">=": _ordering(operator.ge),
    "==": _equality,
    "!=": _inequality,
    "in": _membership,
}


# Arithmetic and calls


def arithmetic(symbol: str, left: Code, right: Code) -> Code:
    overloads = ARITHMETIC[symbol]

    def computed(activation: Activation) -> Value:
        a, b = left(activation), right(activation)
        function = overloads.get((type(a), type(b)))
        if function is None:
            raise ExpressionError(f"cannot compute {describe(a)} {symbol} {describe(b)}")
        return function(activation.budget, a, b)

    return computed


def negated(operand: Code) -> Code:
    def negate(activation: Activation) -> Value:
        value = operand(activation)
        if type(value) is int:
            return in_int64(-value)
        if type(value) is float:
            return -value
        raise ExpressionError(f"cannot negate {describe(value)}")

    return negate


def call(name: str, overloads: Overloads, arguments: Sequence[Code]) -> Code:
    """A function, or a method with its target as the first argument."""

    def called(activation: Activation) -> Value:
        values = [argument(activation) for argument in arguments]
        function = overloads.get(tuple(map(type, values)))
        if function is None:
            raise ExpressionError(f"`{name}` does not take ({', '.join(map(describe, values))})")
        return function(activation.budget, *values)

    return called


# Lists and maps


def list_of(items: Sequence[Code]) -> Code:
    return lambda activation: [item(activation) for item in items]


def map_of(entries: Sequence[tuple[Code, Code]]) -> Code:
    def built(activation: Activation) -> dict[Value, Value]:
        result: dict[Value, Value] = {}
        for key_code, value_code in entries:
            key = key_code(activation)
            if type(key) is float or not is_key(key):
                raise ExpressionError(f"{describe(key)} cannot be a key: keys are strings or ints")
            if key in result:
                raise ExpressionError(f"the key {shown(key)} is repeated")
            result[key] = value_code(activation)
        return result

    return built


# Macros


@attrs.frozen
class Comprehension:
    """The range of a macro, its variable, and its body; each iteration costs `cost` steps."""

    items: Code
    variable: str
    body: Code
    cost: int

    def iterations(self, outer: Activation) -> Iterator[tuple[Value, Activation]]:
        """Each item and the activation in which the variable is that item; a map yields its keys."""
        values = self.items(outer)
        if type(values) not in {list, dict}:
            raise ExpressionError(f"a macro needs a list or a map, not {describe(values)}")
        variables = dict(outer.variables)
        inner = Activation(variables, outer.budget)
        for value in values:
            outer.budget.spend(self.cost)
            variables[self.variable] = value
            yield value, inner

    def test(self, activation: Activation) -> bool:
        value = self.body(activation)
        if type(value) is not bool:
            raise ExpressionError(f"the condition for `{self.variable}` must be a bool, not {describe(value)}")
        return value


def _quantified(decisive: bool) -> Callable[[Comprehension], Code]:
    """One true decides `exists`, one false decides `all`, even if other items fail."""

    def build(loop: Comprehension) -> Code:
        def decided(activation: Activation) -> bool:
            failure = None
            for _, inner in loop.iterations(activation):
                try:
                    if loop.test(inner) is decisive:
                        return decisive
                except ExpressionError as error:
                    failure = failure or error
            if failure is not None:
                raise failure
            return not decisive

        return decided

    return build


def _exists_one(loop: Comprehension) -> Code:
    return lambda activation: sum(loop.test(inner) for _, inner in loop.iterations(activation)) == 1


def _filter(loop: Comprehension) -> Code:
    return lambda activation: [value for value, inner in loop.iterations(activation) if loop.test(inner)]


def _map(loop: Comprehension) -> Code:
    return lambda activation: [loop.body(inner) for _, inner in loop.iterations(activation)]


MACROS: Final[Mapping[str, Callable[[Comprehension], Code]]] = {
    "all": _quantified(False),
    "exists": _quantified(True),
    "exists_one": _exists_one,
    "filter": _filter,
    "map": _map,
}
