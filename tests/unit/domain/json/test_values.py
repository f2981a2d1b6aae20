"""Typed values: what a class declares is what is checked, shown, structured and given back."""

from typing import Annotated, Any, Literal, NotRequired, Required, TypedDict

import attrs
import hypothesis
import pytest
from hypothesis import strategies as st
from msgspec import UNSET, Meta, UnsetType

from wfcore.domain.json.codec import check, schemas_of
from wfcore.domain.json.values import (
    Holds,
    changed,
    creation,
    given,
    is_open,
    is_value,
    open_creation,
    shape_of,
    structure,
    to_json,
    value,
    wire,
    wire_name,
    without_nulls,
)


@value
class Setting:
    """How a tool may be used."""

    enabled: bool
    requires_approval: bool | UnsetType = UNSET


@value
class Named:
    name: Annotated[str, Meta(min_length=1)]


@value
class Order(Named):
    """An order."""

    number: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    share: float | UnsetType = UNSET
    note: str | UnsetType | None = UNSET
    kind: Literal["new", "used"] | UnsetType = UNSET
    tools: dict[str, Setting] | UnsetType = UNSET
    settings: list[Setting] | UnsetType | None = UNSET
    first: Setting | UnsetType = UNSET
    free: dict[str, Any] | UnsetType = UNSET
    data: Any = UNSET
    trigger_type: str | UnsetType = attrs.field(default=UNSET, metadata=wire("trigger_type"))


FULL = {
    "name": "a",
    "number": 7,
    "share": 0.5,
    "note": None,
    "kind": "new",
    "tools": {"t": {"enabled": True}},
    "settings": [{"enabled": False, "requiresApproval": True}],
    "first": {"enabled": True},
    "free": {"b": [1, None]},
    "data": None,
    "trigger_type": "webhook",
}


class TestStructure:
    def test_every_field_has_its_type(self) -> None:
        """Nested objects are values, an absent field is UNSET and a null is None."""
        order = structure(Order, FULL)
        assert order.tools == {"t": Setting(enabled=True)}
        assert order.settings == [Setting(enabled=False, requires_approval=True)]
        assert order.note is None
        assert structure(Order, {"name": "a"}).note is UNSET

    def test_a_whole_number_is_an_int_however_it_is_written(self) -> None:
        """7.0 passes the check of an integer; the value is 7."""
        number = structure(Order, {"name": "a", "number": 7.0}).number
        assert (number, type(number)) == (7, int)

    def test_booleans_stay_booleans(self) -> None:
        """A boolean is not a number."""
        assert structure(Order, {"name": "a", "first": {"enabled": True}}).first == Setting(enabled=True)

    def test_an_unknown_key_is_an_error(self) -> None:
        """Even of a tree that nobody checked."""
        with pytest.raises(Exception, match="more"):
            structure(Order, {"name": "a", "more": 1})

    @hypothesis.given(st.fixed_dictionaries({"name": st.text(min_size=1)}, optional={
        "number": st.integers(1, 2**53), "note": st.none() | st.text(), "data": st.none() | st.booleans() | st.text(),
        "free": st.dictionaries(st.text(), st.integers()),
        "tools": st.dictionaries(st.text(), st.fixed_dictionaries({"enabled": st.booleans()})),
    }))  # fmt: skip
    def test_what_was_parsed_is_given_back(self, tree: dict[str, Any]) -> None:
        """`to_json` is the inverse of `structure`."""
        assert check(Order, tree) == []
        assert to_json(structure(Order, tree)) == tree


class TestShape:
    def test_the_check_is_that_of_the_class(self) -> None:
        """Every fault has its path on the wire."""
        issues = check(Order, {"number": 0, "tools": {"t": {}}, "settings": [{"enabled": 1}], "more": 1})
        assert {(issue.path, issue.rule) for issue in issues} == {
            ("name", "required"),
            ("number", "minimum"),
            ("tools.t.enabled", "required"),
            ("settings[0].enabled", "type"),
            ("more", "unknown"),
        }

    def test_the_schema_is_that_of_the_class(self) -> None:
        """Names on the wire, constraints and docstrings are shown; what may be absent is not required."""
        schemas = schemas_of([Order])
        assert schemas["Order"]["required"] == ["name"]
        assert schemas["Order"]["description"] == "An order."
        assert schemas["Order"]["properties"]["number"] == {"type": "integer", "minimum": 1}
        assert schemas["Setting"]["properties"].keys() == {"enabled", "requiresApproval"}

    def test_names(self) -> None:
        """Camel case, unless the field says otherwise."""
        names = [wire_name(field) for field in attrs.fields(Order)]
        assert "trigger_type" in names
        assert wire_name(attrs.fields(Setting).requires_approval) == "requiresApproval"

    def test_a_class_has_one_shape(self) -> None:
        """References to it are to one schema."""
        assert shape_of(Order) is shape_of(Order)

    def test_what_a_value_is(self) -> None:
        """A class that `value` decorates, and nothing else."""
        assert is_value(Order)
        assert not any(map(is_value, (dict, str, 7, Order(name="a"), list[Order])))


@creation
class CreateOrder(Named):
    """A new order."""

    note: str | UnsetType = UNSET


@creation
class Part:
    """A part of what is created. Null is a value of `data`."""

    name: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET
    data: Any = UNSET
    more: Any | UnsetType = UNSET


@open_creation
class OpenPart:
    """A part with other keys. Null is a value of `until`."""

    note: str | UnsetType = UNSET
    until: str | None = None


@creation
class Holder:
    """What holds a part as a tree, whose kind says what it is."""

    kind: str
    tree: Annotated[dict[str, Any], Holds(lambda tree, around: OpenPart if around["kind"] == "open" else None)] = (
        attrs.field(factory=dict)
    )
    listed: list[Annotated[dict[str, Any], Holds(lambda tree, around: OpenPart)]] | UnsetType = UNSET


@value
class Composed:
    """A change with parts that are created."""

    note: str | UnsetType | None = UNSET
    part: Part | UnsetType = UNSET
    parts: list[Part] | UnsetType = UNSET
    named: Annotated[dict[str, Part], Meta(description="By name")] | UnsetType = UNSET


class Page(TypedDict, total=False):
    """A page of orders."""

    orders: Required[list[Order]]
    token: NotRequired[str]


class TestCreation:
    """Values that create something."""

    def test_null_means_absent(self) -> None:
        """A null of an optional field is dropped and accepted; a null of a required field is not."""
        assert without_nulls(CreateOrder, {"name": None, "note": None}) == {"name": None}
        assert check(CreateOrder, {"name": "a", "note": None}) == []
        assert [issue.path for issue in check(CreateOrder, {"name": None})] == ["name"]

    def test_null_in_a_part_means_absent(self) -> None:
        """Wherever a part is, and whatever else holds it; a null that is a value stays."""
        null, bare = {"name": None, "data": None, "more": None}, {"data": None}
        tree = {"note": None, "part": null, "parts": [null, 1], "named": {"a": null}}
        dropped = {"note": None, "part": bare, "parts": [bare, 1], "named": {"a": bare}}
        assert without_nulls(Composed, tree) == dropped
        assert check(Composed, {"part": null, "named": {"a": null}}) == []

    @pytest.mark.parametrize("tree", [{"part": 1, "parts": {}, "named": []}, {"part": None, "parts": None}])
    def test_a_part_of_another_shape_stays(self, tree: Any) -> None:
        """The check reports it."""
        assert without_nulls(Composed, tree) == tree
        assert {issue.path for issue in check(Composed, tree)} == tree.keys()

    def test_null_in_a_tree_means_absent(self) -> None:
        """If its declared class, which the object around it can choose, has the field; other keys stay."""
        null, bare = {"note": None, "until": None, "x": None}, {"until": None, "x": None}
        body = {"kind": "open", "tree": null, "listed": [null, 1]}
        assert without_nulls(Holder, body) == {"kind": "open", "tree": bare, "listed": [bare, 1]}
        assert without_nulls(Holder, {"kind": "opaque", "tree": null}) == {"kind": "opaque", "tree": null}
        assert check(OpenPart, {"note": None, "until": None}) == []
        assert is_open(OpenPart)

    def test_other_values_keep_nulls(self) -> None:
        """Only a class that `creation` decorates drops nulls."""
        tree = {"name": "a", "note": None}
        assert without_nulls(Order, tree) is tree


class TestFields:
    """Fields of values."""

    def test_changed(self) -> None:
        """The other fields stay."""
        assert changed(Order(name="a", number=1), number=2) == Order(name="a", number=2)

    def test_given(self) -> None:
        """An absent field is None; null and other values stay."""
        assert (given(UNSET), given(None), given(0)) == (None, None, 0)


def test_shapes_of_other_classes() -> None:
    """In a TypedDict the values are replaced by their shapes; any other class is returned unchanged."""
    assert shape_of(int) is int
    assert schemas_of([Page])["Page"]["required"] == ["orders"]
    assert check(Page, {"orders": [{}]})[0].path == "orders[0].name"
