"""Text, canonical form and instants of JSON values."""

import hashlib
import math
from datetime import UTC, datetime
from typing import Any

import pytest

from wfcore.domain.json.codec import canonical, dumps, fingerprint, iso_ms, parse_iso


class TestText:
    def test_text_is_compact_and_keeps_order(self) -> None:
        """Keys keep their order, characters are not escaped, and there are no spaces."""
        assert dumps({"b": [1, 2.5, None, True], "a": "é\n"}) == '{"b":[1,2.5,null,true],"a":"é\\n"}'

    @pytest.mark.parametrize(
        "value",
        [
            math.nan,
            [math.inf],
            {"a": (None, -math.inf)},
            {1: 2},
            {"a": object()},
            "\ud800",
            2**70,
            datetime(2026, 1, 1, tzinfo=UTC),
        ],
    )
    def test_a_value_outside_json_is_an_error(self, value: Any) -> None:
        """No value is changed silently: NaN to null, a number to a key, an object to its text."""
        with pytest.raises(ValueError, match="not a JSON value"):
            dumps(value)
        with pytest.raises(ValueError, match="not a JSON value"):
            canonical(value)

    def test_null_is_accepted(self) -> None:
        """Null and strings with `null` pass the search for numbers that are not finite."""
        assert dumps({"null": [None, "null", 1.5]}) == '{"null":[null,"null",1.5]}'


class TestCanonicalForm:
    def test_keys_are_sorted_and_spaces_left_out(self) -> None:
        """Objects that differ in the order of keys have one canonical form."""
        assert canonical({"b": {"d": 1, "c": 2}, "a": []}) == b'{"a":[],"b":{"c":2,"d":1}}'

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (1.0, b"1"),
            (-0.0, b"0"),
            (1e3, b"1000"),
            (1e16, b"10000000000000000"),
            (float(2**53), b"9007199254740992"),
            (2**53 + 1, b"9007199254740993"),
            (0.1, b"0.1"),
            (1.5, b"1.5"),
            ("1.0", b'"1.0"'),
        ],
    )
    def test_numbers_have_one_text(self, value: Any, text: bytes) -> None:
        """A whole float is written as the equal integer; integers keep all digits."""
        assert canonical({"a": [value]}) == b'{"a":[' + text + b"]}"

    @pytest.mark.parametrize(
        ("a", "b"),
        [
            (True, 1),
            (False, 0),
            (None, 0),
            ("1", 1),
            ([], {}),
            ({"a": None}, {}),
            ([1, 2], [2, 1]),
            (2**53, 2**53 + 1),
        ],
    )
    def test_different_values_stay_different(self, a: Any, b: Any) -> None:
        """True is not 1, null is not absence, arrays have an order, integers above 2**53 differ."""
        assert canonical({"v": a}) != canonical({"v": b})
        assert fingerprint({"v": a}) != fingerprint({"v": b})

    def test_equal_values_are_equal(self) -> None:
        """The order of keys and the notation of a number make no difference."""
        assert canonical({"a": 1, "b": [2.0]}) == canonical({"b": [2], "a": 1.0})

    def test_the_fingerprint_is_sha_256_of_the_canonical_form(self) -> None:
        """Clients can compute the digest that they get."""
        assert fingerprint({"b": 1, "a": 2.0}) == hashlib.sha256(b'{"a":2,"b":1}').hexdigest()


class TestInstants:
    @pytest.mark.parametrize(
        ("ms", "text"),
        [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_767_323_045_678, "2026-01-02T03:04:05.678Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ],
    )
    def test_instants_are_written_with_milliseconds_and_z(self, ms: int, text: str) -> None:
        """Text and number denote the same instant, from the year 1 to the year 9999."""
        assert iso_ms(ms) == text
        assert parse_iso(text) == ms

    @pytest.mark.parametrize(
        ("text", "same"),
        [
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000Z"),
            ("2026-01-02T03:04:05.6789999Z", "2026-01-02T03:04:05.678Z"),
            ("2026-01-02T05:34:05.1+02:30", "2026-01-02T03:04:05.100Z"),
            ("2026-01-01T19:04:05-08:00", "2026-01-02T03:04:05.000Z"),
            ("1969-12-31T23:59:59.9999Z", "1969-12-31T23:59:59.999Z"),
        ],
    )
    def test_offsets_and_fractions_are_read(self, text: str, same: str) -> None:
        """Any RFC 3339 offset is parsed; finer fractions are rounded down to the millisecond."""
        assert iso_ms(parse_iso(text)) == same

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "2026-01-02",
            "2026-01-02T03:04:05",
            "2026-01-02 03:04:05Z",
            "2026-01-02T03:04Z",
            "2026-01-02T03:04:05Z\n",
            "2026-01-02T03:04:05,5Z",
            "2026-13-02T03:04:05Z",
            "2026-02-30T03:04:05Z",
            "2026-01-02T24:00:00Z",
            "2026-01-02T03:04:60Z",
            "2026-01-02T03:04:05+24:00",
            "2026-01-02T03:04:05+01:00:30",
            "2026-W01-2T03:04:05Z",
            "0000-01-01T00:00:00Z",
            "\uff12026-01-02T03:04:05Z",
        ],
    )
    def test_other_notations_are_errors(self, text: str) -> None:
        """Only a complete RFC 3339 instant in ASCII is accepted."""
        with pytest.raises(ValueError):
            parse_iso(text)
