"""Types of parameters and results: their schemas, their conversion, and what is refused before a tool is called."""

import dataclasses
from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NewType, Optional, TypedDict
from uuid import UUID

import annotated_types as at
import attrs
import msgspec
import pydantic
import pytest
import typing_extensions

from wfcore.adapters.tools.catalog import ToolRegistry
from wfcore.domain.json.schema import compile_schema
from wfcore.ports.providers import Tool, ToolCall, ToolFailed

CALL = ToolCall("key-1", 1, "org", "r-1", "u-1")


class Size(Enum):
    small = "S"
    large = "L"


def upper(text: str) -> str:
    return text.upper()


@attrs.frozen
class Money:
    amount: Decimal
    currency: str = attrs.field(converter=upper, default="eur")


class Customer(pydantic.BaseModel):
    name: str = pydantic.Field(min_length=1)
    since: date
    mails: list[str] = []


@dataclasses.dataclass
class Line:
    sku: str
    price: Money
    size: Size = Size.small
    below: Optional["Line"] = None


@attrs.define
class Order:
    customer: Customer
    lines: tuple[Line, ...] = attrs.field(converter=tuple)
    _note: str = ""


def tool_of(function: Any) -> Tool:
    found = ToolRegistry([function]).get(getattr(function, "__name__", ""))
    assert found is not None
    return found


def taking(annotation: Any) -> Any:
    """A tool that returns what it got."""

    def take(value: Any) -> Any:
        return value

    take.__annotations__["value"] = annotation
    return take


def converted(annotation: Any, value: Any) -> Any:
    """What the tool gets for a value, which its schema allows."""
    found = tool_of(taking(annotation))
    assert compile_schema(found.parameters).check({"value": value}, "params") == []
    return found.run({"value": value}, CALL)


def refusal(annotation: Any, value: Any) -> str:
    with pytest.raises(ToolFailed) as failed:
        tool_of(taking(annotation)).run({"value": value}, CALL)
    assert not failed.value.retryable
    return failed.value.message


ORDER = {
    "customer": {"name": "Zed", "since": "2020-02-29", "mails": ["z@example.com"]},
    "lines": [{"sku": "a", "price": {"amount": "7.50"}, "below": {"sku": "b", "price": {"amount": 1.5}, "size": "L"}}],
    "note": "soon",
}


def test_classes_of_every_kind_within_each_other() -> None:
    """A pydantic model and dataclasses in an attrs class: each is made by its own constructor, converters applied."""
    found = converted(Order, ORDER)
    below = Line("b", Money(Decimal("1.5"), "EUR"), Size.large)
    line = Line("a", Money(Decimal("7.50"), "EUR"), Size.small, below)
    assert found == Order(Customer(name="Zed", since=date(2020, 2, 29), mails=["z@example.com"]), (line,), "soon")
    assert found.lines[0].price.currency == "EUR"


def test_the_schema_of_classes() -> None:
    """Each class is one definition, also one that refers to itself; defaults and required fields are there."""
    found = tool_of(taking(Order)).parameters
    definitions: Any = found["$defs"]
    assert set(definitions) == {"Order", "Customer", "Line", "Money", "Size"}
    assert definitions["Line"]["required"] == ["sku", "price"]
    assert definitions["Line"]["properties"]["size"] == {"$ref": "#/$defs/Size", "default": "S"}
    assert definitions["Size"]["enum"] == ["L", "S"]
    assert definitions["Money"]["properties"]["currency"] == {"type": "string", "default": "eur"}
    assert definitions["Order"]["required"] == ["customer", "lines"]
    assert definitions["Customer"]["properties"]["name"]["minLength"] == 1
    wrong = {**ORDER, "lines": [{"sku": 5, "price": {}}]}
    paths = {issue.path for issue in compile_schema(found).check({"value": wrong}, "params")}
    assert paths == {"params.value.lines[0].sku", "params.value.lines[0].price.amount"}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (5, "`params.value`: expected `object`, got `int`"),
        ({"customer": {}, "lines": []}, "`params.value.customer.name`: field required"),
        ({"lines": []}, "`params.value`: object missing required field `customer`"),
        (
            {**ORDER, "lines": [{"sku": "a", "price": {"amount": "x"}}]},
            "`params.value.lines[0].price.amount`: invalid decimal string",
        ),
        (
            {**ORDER, "lines": [{"sku": "a", "price": {"amount": 1, "currency": 5}}]},
            "`params.value.lines[0].price.currency`: expected `str`, got `int`",
        ),
    ],
)
def test_an_invalid_part_is_named_by_its_path(value: Any, message: str) -> None:
    """Through every kind of class."""
    assert refusal(Order, value) == message


def positive(_: Any, field: Any, value: int) -> None:
    if value < 1:
        raise ValueError(f"`{field.name}` must be at least 1")


@attrs.frozen
class Pair:
    count: int = attrs.field(validator=positive)
    ratio: Any = attrs.field(converter=lambda given: 1 / given, default=2)


def test_validators_and_failing_converters() -> None:
    """What a class refuses fails without retry, whatever it raises."""
    assert refusal(Pair, {"count": 0}) == "`params.value`: not a valid Pair: `count` must be at least 1"
    problem = "`params.value`: not a valid Pair: ZeroDivisionError: division by zero"
    assert refusal(Pair, {"count": 1, "ratio": 0}) == problem
    assert converted(Pair, {"count": 1, "ratio": 4}) == Pair(1, 4)


@attrs.frozen
class Coerced:
    number: int = attrs.field(converter=int)
    tags: frozenset[str] = attrs.field(converter=frozenset, factory=frozenset)
    text: str = attrs.field(converter=str.strip, default="")
    made: int = attrs.field(init=False, default=1)


def test_converters_decide_what_is_given() -> None:
    """A class as converter takes any value, a container its elements, a method of the type that type."""
    assert converted(Coerced, {"number": "7", "tags": ["a"], "text": " x "}) == Coerced(7, frozenset("a"), "x")
    properties: Any = tool_of(taking(Coerced)).parameters["$defs"]["Coerced"]["properties"]
    assert properties["number"] == {}
    assert properties["text"] == {"type": "string", "default": ""}
    assert properties["tags"]["items"] == {"type": "string"}
    assert "made" not in properties


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (Annotated[int, at.Ge(1), at.Lt(5)], 4, 5),
        (Annotated[int, at.Interval(ge=1, le=3)], 3, 4),
        (Annotated[str, at.Len(2, 3)], "ab", "a"),
        (Annotated[str, pydantic.Field(pattern="^a", description="Begins with a")], "ab", "b"),
        (Annotated[float, pydantic.Field(gt=0)], 0.5, 0),
        (Annotated[int, at.MultipleOf(3)], 6, 7),
        (Annotated[list[Annotated[int, msgspec.Meta(ge=1)]], at.MinLen(1)], [1], [0]),
        (dict[str, Annotated[int, at.Ge(1)]], {"a": 1}, {"a": 0}),
    ],
)
def test_constraints_are_in_the_schema(annotation: Any, good: Any, bad: Any) -> None:
    """Of msgspec, annotated-types and pydantic, at any depth: agents see them, and calls are checked."""
    schema = compile_schema(tool_of(taking(annotation)).parameters)
    assert schema.check({"value": good}, "p") == []
    assert schema.check({"value": bad}, "p") != []


def test_texts_of_a_parameter() -> None:
    """A description beside a type is in the schema."""
    annotation = Annotated[str, "ignored", pydantic.Field(description="The city")]
    assert tool_of(taking(annotation)).parameters["properties"]["value"] == {
        "type": "string",
        "description": "The city",
    }


@pytest.mark.parametrize(
    ("annotation", "good", "bad", "message"),
    [
        (Annotated[Decimal, at.Ge(1)], "1.5", "0.5", "must be at least 1"),
        (Annotated[date, at.Gt(date(2026, 1, 1))], "2026-01-02", "2026-01-01", "must be greater than 2026-01-01"),
        (Annotated[Decimal, at.Le(2), at.Lt(2)], 1, 2, "must be less than 2"),
    ],
)
def test_bounds_of_decimals_and_dates(annotation: Any, good: Any, bad: Any, message: str) -> None:
    """JSON Schema cannot compare them, so they are in its description, and checked when the value is made."""
    converted(annotation, good)
    assert refusal(annotation, bad) == f"`params.value`: {message}"
    assert message.removeprefix("must be ") in str(tool_of(taking(annotation)).parameters)


UserId = NewType("UserId", Annotated[int, at.Ge(1)])


class Options(TypedDict, total=False):
    customer: Customer
    at: datetime


def test_other_types() -> None:
    """`NewType`, `TypedDict` with a model in it, unions, literals, `object`, decimals from numbers."""
    assert converted(UserId, 7) == 7
    made = converted(Options, {"customer": ORDER["customer"], "at": "2026-01-01T00:00:00Z"})
    assert made["customer"].since == date(2020, 2, 29)
    assert made["at"] == datetime(2026, 1, 1, tzinfo=UTC)
    assert converted(Money | None, None) is None
    assert converted(Money | Literal["free"], {"amount": 2}) == Money(Decimal(2))
    assert converted(Money | Literal["free"], "free") == "free"
    assert converted(Line | Money | None, {"amount": 2}) == Money(Decimal(2))
    assert refusal(Line | Money | None, {"sku": 1, "price": {"amount": 2}}).startswith("`params.value.sku`: ")
    assert converted(object, {"any": 1}) == {"any": 1}
    assert converted(list[Decimal], [1, 0.1, "2.50"]) == [Decimal(1), Decimal("0.1"), Decimal("2.50")]


class Opaque:
    """A class that JSON knows nothing of."""


@dataclasses.dataclass
class Holder:
    thing: Opaque


@attrs.frozen
class Outer:
    inner: list[Holder]


@dataclasses.dataclass
class Needy:
    name: str
    extra: dataclasses.InitVar[int]


class Broken(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    thing: Opaque


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (Outer, "parameter `value.inner.thing` has no JSON Schema: type `Opaque` is not supported"),
        (dict[str, Opaque], "parameter `value` has no JSON Schema: type `Opaque` is not supported"),
        (Needy, "parameter `Needy.extra` has no JSON Schema: the constructor needs what is not a field"),
        (Money | Opaque, "parameter `value` has no JSON Schema: type `Opaque` is not supported"),
        (Annotated[int, at.Predicate(bool)], "parameter `value` has no JSON Schema: the constraint "),
        (Broken, "parameter `value` has no JSON Schema: "),
    ],
)
def test_a_type_without_a_schema_is_refused_with_its_path(annotation: Any, words: str) -> None:
    """When the catalog is made, not when the tool is called."""
    with pytest.raises(TypeError) as refused:
        tool_of(taking(annotation))
    assert words in str(refused.value)


@pytest.mark.parametrize("annotation", [Opaque, Iterable[int], Path, complex])
def test_a_refusal_says_which_types_are_allowed(annotation: Any) -> None:
    with pytest.raises(TypeError, match=r"is not supported: use a JSON type, an enum, .* lists, mappings and unions"):
        tool_of(taking(annotation))


class Number(IntEnum):
    one = 1


@pytest.mark.parametrize(
    ("key", "text", "made"),
    [
        (int, "7", 7),
        (float, "1.5", 1.5),
        (Number, "1", Number.one),
        (Literal[1, 2], "2", 2),
        (date, "2020-02-29", date(2020, 2, 29)),
        (UUID, str(UUID(int=1)), UUID(int=1)),
    ],
)
def test_keys_of_a_mapping_are_converted(key: Any, text: str, made: Any) -> None:
    """A key of JSON is always a text; it becomes the type of the keys, at every depth."""
    assert converted(dict[key, int], {text: 3}) == {made: 3}
    assert converted(list[dict[key, Money]], [{text: {"amount": 1}}])[0][made].amount == 1
    assert converted(Annotated[dict[key, int] | None, "counts"], {text: 3}) == {made: 3}


def test_a_key_that_does_not_fit_is_named() -> None:
    assert refusal(dict[int, int], {"x": 1}) == "`params.value`: expected `int`, got `str` in a key"
    assert refusal(list[dict[int, int]], [{"x": 1}]) == "`params.value[0]`: expected `int`, got `str` in a key"


def test_two_types_of_one_name() -> None:
    """They get different definitions."""
    other = attrs.make_class("Money", {"cents": attrs.field(type=int)})

    def take(one: Money, two: other) -> None: ...  # type: ignore[valid-type]

    definitions: Any = tool_of(take).parameters["$defs"]
    assert set(definitions) == {"Money", "Money_2"}
    assert list(definitions["Money_2"]["properties"]) == ["cents"]


class TestResults:
    """The annotation of the result, which is checked when the catalog is made."""

    @staticmethod
    def returning(annotation: Any) -> Any:
        def make() -> Any: ...

        make.__annotations__["return"] = annotation
        return make

    @pytest.mark.parametrize(
        ("annotation", "words"),
        [
            (Opaque, "its result `return` cannot be stored as JSON: type `Opaque` is not supported"),
            (Outer, "its result `return.inner.thing` cannot be stored as JSON: type `Opaque` is not supported"),
            (Annotated[int, at.Predicate(bool)], "its result `return` cannot be stored as JSON: the constraint "),
        ],
    )
    def test_a_result_that_cannot_be_stored_is_refused(self, annotation: Any, words: str) -> None:
        """Before any call: afterwards the tool would have acted."""
        with pytest.raises(TypeError) as refused:
            tool_of(self.returning(annotation))
        assert words in str(refused.value)

    def test_the_schema_of_a_result(self) -> None:
        """Fields as they are stored: those with a converter have their own type, private ones are not there."""
        found: Any = tool_of(self.returning(list[Order])).output_schema
        assert list(found["$defs"]["Order"]["properties"]) == ["customer", "lines"]
        assert found["$defs"]["Order"]["properties"]["lines"]["items"] == {"$ref": "#/$defs/Line"}
        assert found["$defs"]["Money"]["properties"]["amount"] == {"type": "string", "format": "decimal"}
        assert tool_of(self.returning(Any)).output_schema is None
        assert tool_of(self.returning(object)).output_schema == {}
        assert tool_of(self.returning(None)).output_schema == {"type": "null"}


def test_rarer_annotations() -> None:
    """`Doc` is a description; a type alias is what it stands for; a dataclass can have a default from a factory."""
    alias = typing_extensions.TypeAliasType("alias", list[int])
    assert converted(alias, [1]) == [1]

    @dataclasses.dataclass
    class Basket:
        items: list[str] = dataclasses.field(default_factory=list)
        hidden: int = dataclasses.field(default=1, init=False)

    assert converted(Basket, {}) == Basket([])
    documented = Annotated[int, typing_extensions.Doc("How many"), at.Ge(1)]
    assert tool_of(taking(documented)).parameters["properties"]["value"] == {
        "type": "integer", "minimum": 1, "description": "How many",
    }  # fmt: skip


def anything(*given: Any) -> int:
    return len(given)


@attrs.frozen
class Unread:
    value: int = attrs.field(converter=anything)
    count: int = attrs.field(converter=anything, default=0)


def test_a_converter_that_does_not_say_what_it_takes() -> None:
    """Any value is passed to it."""
    properties: Any = tool_of(taking(Unread)).parameters["$defs"]["Unread"]["properties"]
    assert properties == {"value": {}, "count": {"default": 0}}
    assert converted(Unread, {"value": "x"}) == Unread("x")


def test_two_native_types_of_one_name() -> None:
    """Types that msgspec names by itself cannot share a name with a class."""
    struct = msgspec.defstruct("Money", [("cents", int)])

    def take(one: Money, two: struct) -> None: ...  # type: ignore[valid-type]

    with pytest.raises(TypeError, match="two types are named `Money`"):
        tool_of(take)
