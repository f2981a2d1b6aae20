"""Typed reads of JSON values that were validated before: each raises TypeError for a value of another type.

They state the type of a value to readers and to the type checker. They do not validate user input: a TypeError here is
a fault of the program. The readers named `optional_...` return None for null and for a missing value.
"""

from collections.abc import Mapping, Sequence

from wfcore.domain.kernel.json_type import JSON


def as_object(value: JSON) -> Mapping[str, JSON]:
    """The value, which is an object."""
    if type(value) is dict or isinstance(value, Mapping):
        return value
    raise _unexpected("an object", value)


def optional_object(value: JSON) -> Mapping[str, JSON] | None:
    """The value, which is an object or null."""
    return None if value is None else as_object(value)


def as_list(value: JSON) -> Sequence[JSON]:
    """The value, which is an array: a list or tuple."""
    if isinstance(value, list | tuple):
        return value
    raise _unexpected("an array", value)


def as_objects(value: JSON) -> Sequence[Mapping[str, JSON]]:
    """The value, which is an array of objects."""
    return [as_object(item) for item in as_list(value)]


def as_texts(value: JSON) -> Sequence[str]:
    """The value, which is an array of strings."""
    return [as_text(item) for item in as_list(value)]


def optional_texts(value: JSON) -> Sequence[str] | None:
    """The value, which is an array of strings or null."""
    return None if value is None else as_texts(value)


def as_text(value: JSON) -> str:
    """The value, which is a string."""
    if isinstance(value, str):
        return value
    raise _unexpected("a string", value)


def optional_text(value: JSON) -> str | None:
    """The value, which is a string or null."""
    return None if value is None else as_text(value)


def as_integer(value: JSON) -> int:
    """The value, which is an integer: of type int, not bool."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise _unexpected("an integer", value)


def optional_integer(value: JSON) -> int | None:
    """The value, which is an integer or null."""
    return None if value is None else as_integer(value)


def as_number(value: JSON) -> float:
    """The value, which is a number: of type int or float, not bool."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise _unexpected("a number", value)


def optional_number(value: JSON) -> float | None:
    """The value, which is a number or null."""
    return None if value is None else as_number(value)


def _unexpected(expected: str, value: JSON) -> TypeError:
    return TypeError(f"expected {expected}, not a value of type `{type(value).__name__}`")
