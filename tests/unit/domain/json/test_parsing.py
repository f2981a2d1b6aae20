"""Request parsing: accepted and refused bodies, and its cost."""

import gc
import json
import re
import time
from collections.abc import Callable

import pytest

from wfcore.domain.json.parsing import MAX_INTEGER, MAX_ISSUES, JsonLimits, parse_json, wire_path
from wfcore.domain.kernel.errors import Malformed


def faults(body: bytes, limits: JsonLimits | None = None) -> list[tuple[str, str]]:
    with pytest.raises(Malformed) as refused:
        parse_json(body, limits or JsonLimits())
    errors = refused.value.info["errors"]
    assert {error["rule"] for error in errors} == {"json"}
    return [(error["path"], error["message"]) for error in errors]


class TestSyntax:
    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b" \r\n\t",
            b"{} {}",
            b"{}x",
            b"1\x00",
            b'{"a":1,}',
            b"[1,]",
            b"{'a':1}",
            b"{a:1}",
            b"/**/{}",
            b"tru",
            b"01",
            b"1.",
            b".5",
            b"+1",
            b"-",
            b"\x0b1",
            b"\xc2\xa01",
            b'"\\x41"',
            b'"tab\there"',
            b'"\x00"',
            b'"open',
        ],
    )
    def test_what_is_not_json_is_malformed(self, body: bytes) -> None:
        """A body that RFC 8259 does not allow is refused, with the parser's position."""
        [(path, message)] = faults(body)
        assert path == ""
        assert message.startswith("not JSON: ")

    @pytest.mark.parametrize(
        "body",
        [
            b'"\xff"',
            b'"\xc0\x80"',
            b'"\xed\xa0\x80"',
            b'"\xf4\x90\x80\x80"',
            b"\xef\xbb\xbf{}",
            "{}".encode("utf-16"),
            "{}".encode("utf-16-le"),
            "{}".encode("utf-32"),
        ],
    )
    def test_only_utf_8_without_a_mark_is_read(self, body: bytes) -> None:
        """Other encodings, a byte order mark, overlong forms and encoded surrogates are refused."""
        assert faults(body)[0][0] == ""

    @pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-1E400", "9" * 5_000])
    def test_numbers_that_are_not_finite_are_refused(self, number: str) -> None:
        """NaN, the infinities and numbers that overflow to them are refused, at the root and inside."""
        assert faults(number.encode())
        assert faults(f'{{"a":[{number}]}}'.encode())

    @pytest.mark.parametrize("text", [r"\ud800", r"\udc00", r"\udc00\ud800", r"\ud800x", r"a\uDBFF"])
    def test_lone_surrogates_are_refused(self, text: str) -> None:
        """Half a surrogate pair, as an escape, is refused as a value and as a key."""
        assert faults(f'"{text}"'.encode())
        assert faults(f'{{"{text}":1}}'.encode())

    def test_a_whole_pair_is_a_character(self) -> None:
        """An escaped surrogate pair is one character."""
        assert parse_json(rb'"\ud83d\ude00"') == "\N{GRINNING FACE}"


class TestRepeatedKeys:
    def test_every_repeated_key_is_named_by_its_path(self) -> None:
        """All repeated keys are found, at any depth, each once."""
        body = b'{"a":[{"x":1,"y":2,"x":3,"x":4}],"b":1,"b":{"c":{},"c":[]}}'
        assert dict(faults(body)) == {
            "b": "repeated key `b`",
            "a[0].x": "repeated key `x`",
            "b.c": "repeated key `c`",
        }

    @pytest.mark.parametrize(
        "body",
        [
            rb'{"a:b":1,"a\u003ab":2}',
            rb'{"a":"\u003A","a":1}',
            rb'{"a":1,"\u0061":2}',
            b'{"a":{"x":":"},"a":{"x":"::"}}',
            b'{"":1,"":1}',
            rb'{"a":{"a":1,"a":1},"b":"\u003a"}',
        ],
    )
    def test_escapes_and_colons_do_not_hide_a_repetition(self, body: bytes) -> None:
        """Keys are compared as characters, and colons in strings do not balance the count of members."""
        assert "repeated key" in faults(body)[0][1]

    @pytest.mark.parametrize("body", [rb'{"\u003a":1,"b":"\u003A"}', b'{":":"::","::":[":"]}', rb'["\\u003a"]'])
    def test_colons_in_strings_are_accepted(self, body: bytes) -> None:
        """Colons in strings, escaped or not, do not count as repeated keys."""
        assert parse_json(body) == json.loads(body)

    def test_equal_keys_in_different_objects_are_accepted(self) -> None:
        """Only the keys of one object must differ."""
        assert parse_json(b'[{"a":{"a":1}},{"a":2}]') == [{"a": {"a": 1}}, {"a": 2}]


class TestValues:
    @pytest.mark.parametrize("number", [MAX_INTEGER, -MAX_INTEGER, 0, 10**18])
    def test_integers_of_64_bits_pass_exactly(self, number: int) -> None:
        """The bound itself passes and keeps every digit."""
        assert parse_json(f'{{"a":{number}}}'.encode()) == {"a": number}

    @pytest.mark.parametrize("number", [2**63, -(2**63), 2**64, -(2**64), 10**30])
    def test_larger_integers_are_refused_at_their_path(self, number: int) -> None:
        """A larger integer is refused, not rounded or wrapped."""
        assert [path for path, _ in faults(f'{{"a":[0,{number}]}}'.encode())] == ["a[1]"]

    def test_many_digits_elsewhere_are_accepted(self) -> None:
        """Long runs of digits in strings, fractions and floats are not integers."""
        body = b'["12345678901234567890123", 0.12345678901234567890123, 12345678901234567890123.5, 1e25]'
        assert parse_json(body) == json.loads(body)

    def test_nul_is_refused_in_strings_and_keys(self) -> None:
        """Databases refuse NUL in text; the path of a faulty key is that of its object."""
        assert faults(rb'{"a":["x\u0000y"]}') == [("a[0]", "NUL in a string")]
        assert faults(rb'{"a":{"x\u0000":1}}') == [("a", "NUL in a key")]

    def test_an_escaped_backslash_before_u0000_is_accepted(self) -> None:
        """A backslash followed by `u0000` is six plain characters."""
        assert parse_json(rb'"\\u0000"') == r"\u0000"

    def test_the_order_of_keys_is_kept(self) -> None:
        """The keys of a parsed object have the order of the body."""
        assert list(parse_json(b'{"b":1,"a":2,"c":3}')) == ["b", "a", "c"]


class TestBounds:
    @pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
    def test_depth_is_bounded_exactly(self, opening: str, closing: str) -> None:
        """64 levels are accepted, 65 are refused; arrays and objects count."""
        assert parse_json((opening * 63 + "[]" + closing * 63).encode())
        for outer in (64, 200, 1_000):
            body = opening * outer + "[]" + closing * outer
            assert faults(body.encode()) == [("", "nested deeper than 64 levels")]

    def test_the_bound_of_depth_can_be_set(self) -> None:
        """A scalar has depth 0 and an empty array depth 1."""
        assert parse_json(b"1", JsonLimits(max_depth=0)) == 1
        assert faults(b"[]", JsonLimits(max_depth=0))
        assert parse_json(b"[[1]]", JsonLimits(max_depth=2)) == [[1]]

    @pytest.mark.parametrize(
        ("body", "values"),
        [
            (b"[1]", 2),
            (b"[[]]", 2),
            (b"[ [ ] ]", 2),
            (b'{"":{\n}}', 2),
            (b"[[],{}]", 3),
            (b'{"a":[1,2],"b":","}', 5),
            (b'["[{,\\",[","\\\\",[" "]]', 5),
        ],
    )
    def test_values_are_counted_exactly(self, body: bytes, values: int) -> None:
        """The bound counts values; commas in strings do not count, and an empty container counts once."""
        assert parse_json(body, JsonLimits(max_values=values)) == json.loads(body)
        assert faults(body, JsonLimits(max_values=values - 1)) == [("", f"more than {values - 1} values")]

    def test_findings_are_bounded(self) -> None:
        """A hostile body does not cause a large response: long keys are cut, and the list is truncated."""
        body = b'{"' + b"k" * 100_000 + b'":[' + b",".join([rb'"\u0000"'] * 5_000) + b"]}"
        found = faults(body)
        assert len(found) == MAX_ISSUES + 1
        assert found[-1] == ("", "more than 1000 faults; the others are not listed")
        assert max(len(path) for path, _ in found) < 120


HOSTILE: dict[str, Callable[[], bytes]] = {
    "brackets": lambda: b"[" * 3_000_000,
    "spaced brackets": lambda: b"[ " * 1_500_000,
    "nested objects": lambda: b'{"a":' * 600_000,
    "a million keys": lambda: b"{" + b",".join(b'"k%d":1' % i for i in range(1_000_000)) + b"}",
    "one key again and again": lambda: b"{" + b",".join([b'"k":1'] * 190_000) + b"}",
    "empty arrays": lambda: b"[" + b",".join([b"[]"] * 1_000_000) + b"]",
    "long integer": lambda: b"9" * 3_000_000,
    "long integers": lambda: b"[" + b",".join([b"9" * 300] * 10_000) + b"]",
    "escaped quotes": lambda: b'"' + b'\\"' * 1_500_000,
    "backslashes": lambda: b'"' + b"\\" * 3_000_001,
    "empty strings after commas": lambda: b'"' + b"," * 200_001 + b'"' + b'""' * 1_400_000,
    "spaces": lambda: b"[" + b" " * 3_000_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bodies_cost_linear_time(name: str) -> None:
    """No body causes recursion, backtracking or quadratic work: megabytes are refused in the CPU time of some
    megabytes of plain JSON. The garbage collector does not run meanwhile, since it visits what other tests left.
    """
    body = HOSTILE[name]()
    gc.disable()
    try:
        started = time.process_time()
        json.loads(b"[" + b",".join([b'{"k":1}'] * 400_000) + b"]")
        plain = time.process_time()
        assert faults(body)
        assert time.process_time() - plain < 10 * (plain - started)
    finally:
        gc.enable()


def test_wire_paths() -> None:
    """Steps are joined as wire paths: members by dots, entries by brackets."""
    assert wire_path(["workflowStructure", "nodes", 3, "type"]) == "workflowStructure.nodes[3].type"
    assert wire_path([]) == ""
    assert wire_path([0, "a"]) == "[0].a"
    assert re.fullmatch("k{100}…", wire_path(["k" * 101]))
