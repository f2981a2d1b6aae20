"""Workflow files, inputs and tools of commands."""

import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cyclopts import CycloptsError
from hypothesis import given
from hypothesis import strategies as st

from wfcore.cli.files import load_tools, read_input, read_workflow
from wfcore.domain.json.codec import dumps
from wfcore.domain.kernel.errors import Malformed
from wfcore.workflow_files import line_at, lines_of, parse_yaml, write_yaml


def written(tmp_path: Path, text: str | bytes, name: str = "refunds.yaml") -> str:
    file = tmp_path / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(file)


def test_name_and_type_are_optional(tmp_path: Path) -> None:
    """A workflow without a name gets that of its file; given values are kept."""
    assert read_workflow(written(tmp_path, "description: x")) == {
        "name": "refunds",
        "type": "workflow",
        "description": "x",
    }
    assert read_workflow(written(tmp_path, "{name: Mine, type: task}")) == {"name": "Mine", "type": "task"}
    assert read_workflow(written(tmp_path, '{"name": "J"}', "x.json"))["name"] == "J"


@pytest.mark.parametrize(
    "word", ["on", "off", "yes", "no", "y", "n", "2024-01-31", "2001-12-14t21:59:43.10-05:00", "1:30"]
)
def test_yaml_1_2_keeps_words_as_strings(word: str, tmp_path: Path) -> None:
    """Words such as `on` are strings, as keys and as values; so are dates, which JSON does not have."""
    assert read_workflow(written(tmp_path, f"data: {{{word}: {word}}}"))["data"] == {word: word}


KEYS = st.text(st.characters(codec="ascii", categories=["L"]), min_size=1, max_size=5)
TEXTS = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]), max_size=8)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(tree=TREES)
def test_json_read_as_yaml_means_the_same(tree: object, tmp_path_factory: pytest.TempPathFactory) -> None:
    """YAML 1.2 contains JSON: a file has the same meaning with either suffix."""
    text = dumps({"name": "n", "data": tree})
    folder = tmp_path_factory.getbasetemp()
    assert read_workflow(written(folder, text, "w.yaml")) == read_workflow(written(folder, text, "w.json"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- a", "must contain an object"),
        ("", "must contain an object"),
        ("a: [", "line 1"),
        ("a: 1\nb:\n  c: 1\n  c: 2", "duplicate key"),
        ("a: .nan", ""),
        ("a: .inf", ""),
        ("1: x", ""),
        ("a: &x [*x]", ""),
        ("[" * 100_000, ""),
        (
            "\n".join(
                f"{chr(97 + n)}: &{chr(97 + n)} [{', '.join([f'*{chr(96 + n)}' if n else 'x'] * 10)}]"
                for n in range(10)
            ),
            "more than 200000 values",
        ),
        ("a: !!python/object:os.system x", "tag"),
        ("a: !!set {x, y}", ""),
        ("--- a\n--- b", "another document"),
        (b"\xff\xfe", ""),
    ],
)
def test_values_outside_json_are_an_issue(text: str | bytes, problem: str, tmp_path: Path) -> None:
    """Exactly one issue, and never another exception, also for values that only YAML has."""
    with pytest.raises(Malformed) as refused:
        read_workflow(written(tmp_path, text))
    (issue,) = refused.value.info["errors"]
    assert problem in issue["message"]
    assert "\n" not in issue["message"]


def test_input_is_an_argument_a_file_or_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON text, `@FILE`, or `-` for stdin."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b'{"n": 3}')))
    assert read_input('{"n": 1}') == {"n": 1}
    assert read_input("@" + written(tmp_path, '{"n": 2}')) == {"n": 2}
    assert read_input("-") == {"n": 3}


@pytest.mark.parametrize("text", ["", "x", "[]", "1", "null", "@missing", "{", '{"a": NaN}', '{"a": 1, "a": 2}'])
def test_other_input_is_wrong_usage(text: str) -> None:
    """Input that is not a JSON object, or cannot be read, is refused before the run."""
    with pytest.raises(CycloptsError):
        read_input(text)


def test_tools_come_from_modules_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is one function or a list; a file can import modules beside it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    written(tmp_path, "BESIDE = 4\n", "neighbour_of_tools.py")
    place = written(
        tmp_path,
        "from neighbour_of_tools import BESIDE\ndef one(n: int) -> int:\n    return n + BESIDE\nBOTH = [one, one]\n",
        "my_tools.py",
    )
    assert [tool(1) for tool in load_tools([f"{place}:one"])] == [5]
    assert len(load_tools([f"{place}:BOTH", f"{place}:one"])) == 3
    assert load_tools(["os.path:join"]) == [__import__("os").path.join]


def test_a_module_that_fails_to_import_is_reported(tmp_path: Path) -> None:
    """Every exception of the user's module is wrong usage, with its type and message."""
    place = written(tmp_path, "raise RuntimeError('no luck')", "bad_tools.py")
    with pytest.raises(CycloptsError, match="RuntimeError: no luck"):
        load_tools([f"{place}:TOOLS"])


TEXT = st.text(st.characters(codec="utf-8", min_codepoint=1), max_size=9) | st.sampled_from(
    ["a\nb", "a \n b\n\n", "yes", "1e3", "\x85\n"]
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@given(JSON_VALUES)
def test_yaml_is_read_as_it_was_written(tree: Any) -> None:
    """For every JSON value; texts with several lines are blocks."""
    assert parse_yaml(write_yaml(tree).encode()) == tree


def test_the_line_of_a_value() -> None:
    """By wire path; a missing value has that of the nearest one around it, a broken file has none."""
    text = write_yaml({"a": [1, {"b": "two\nlines", "c": None}], "d": {"e": 1}})
    lines = lines_of(text.encode())
    assert [line_at(lines, path) for path in ("a", "a[1].b", "a[1].c", "a[1].x.y", "d.e", "f")] == [1, 3, 6, 3, 8, 1]
    assert lines_of(b'{"a":\n1}')["a"] == 1
    assert lines_of(b"a: &x [1]\nb: *x") == {"": 1, "a": 1, "b": 2, "a[0]": 1}
    assert line_at(lines_of(b"a: ["), "a") is None
