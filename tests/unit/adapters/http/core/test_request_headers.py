"""The headers of a request are those of Starlette, found in a table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from wfcore.adapters.http.core.request_headers import TabledRequest

NAMES = st.sampled_from(["accept", "authorization", "host", "x-request-id", "\u00e9"])
RAW = st.lists(st.tuples(NAMES, st.text(st.characters(max_codepoint=255), max_size=5)), max_size=6)


@given(RAW, NAMES, st.booleans())
def test_they_are_those_of_starlette(sent: list[tuple[str, str]], name: str, is_upper: bool) -> None:
    """One value, all values, none: of any name in any case, also with bytes that are not ASCII."""
    raw = [(key.encode("latin-1"), value.encode("latin-1")) for key, value in sent]
    expected, found = Headers(raw=list(raw)), TabledRequest({"type": "http", "headers": raw}).headers
    asked = name.upper() if is_upper else name
    assert found.getlist(asked) == expected.getlist(asked)
    assert found.get(asked) == expected.get(asked)
    assert found.get(asked, "none") == expected.get(asked, "none")
    assert (asked in found) == (asked in expected)
    assert list(found.items()) == list(expected.items())
    assert found == expected
    if asked in expected:
        assert found[asked] == expected[asked]
    else:
        with pytest.raises(KeyError):
            found[asked]


def test_the_values_of_one_name_are_a_copy() -> None:
    """Who changes a list that was returned does not change the request."""
    headers = TabledRequest({"type": "http", "headers": [(b"a", b"1")]}).headers
    headers.getlist("a").append("2")
    assert headers.getlist("a") == ["1"]
