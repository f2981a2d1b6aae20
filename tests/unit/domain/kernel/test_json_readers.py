"""Readers return values of their type unchanged and refuse all others."""

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

import pytest

from wfcore.domain.kernel import json_readers as read

VALUES: Final[dict[str, Any]] = {
    "null": None,
    "boolean": True,
    "integer": 7,
    "number": 1.5,
    "text": "text",
    "object": {"key": 1},
    "list": [1],
    "texts": ["a", "b"],
    "objects": [{"key": 1}],
}

ACCEPTED: Final[dict[Callable[[Any], Any], set[str]]] = {
    read.as_object: {"object"},
    read.optional_object: {"object", "null"},
    read.as_list: {"list", "texts", "objects"},
    read.as_objects: {"objects"},
    read.as_texts: {"texts"},
    read.optional_texts: {"texts", "null"},
    read.as_text: {"text"},
    read.optional_text: {"text", "null"},
    read.as_integer: {"integer"},
    read.optional_integer: {"integer", "null"},
    read.as_number: {"integer", "number"},
    read.optional_number: {"integer", "number", "null"},
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("reader", ACCEPTED, ids=lambda reader: reader.__name__)
def test_a_reader_returns_values_of_its_type_and_refuses_all_others(reader: Callable[[Any], Any], name: str) -> None:
    if name in ACCEPTED[reader]:
        assert reader(VALUES[name]) == VALUES[name]
    else:
        with pytest.raises(TypeError, match=r"^expected an? \w+, not a value of type `\w+`$"):
            reader(VALUES[name])


def test_any_mapping_is_an_object_and_any_tuple_an_array() -> None:
    assert read.as_object(MappingProxyType({"key": 1})) == {"key": 1}
    assert read.as_objects(({"key": 1},)) == [{"key": 1}]
    assert read.as_texts(()) == []
