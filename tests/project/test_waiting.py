"""Waits of tests have the limits of `waiting.py`, or of contract suites: another limit fails on a busy machine."""

import ast
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[2]
FILES = [*sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "src/wfcore/testing/contracts").rglob("*.py"))]

LIMITED = {"timeout", "wait_for", "wait", "join", "communicate", "set_default_timeout", "eventually", "until"}
"""Calls whose positional numbers are limits."""

EXPECTED = 1
"""Seconds: a limit of at most that much is one that the test expects to pass, or the time between two attempts."""

HTTP = {name for name in ("Client", "AsyncClient", "get", "post", "request", "stream") if hasattr(httpx, name)}


def limits_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and the text of each call with a limit of its own, or with the 5 seconds that httpx has by default."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        named = {keyword.arg: keyword.value for keyword in call.keywords}
        given = [*(call.args if name in LIMITED else []), named.get("timeout")]
        numbers = [one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, (int, float))]
        made = [call.func, *(call.args[:1] if name == "partial" else [])]
        is_http = any(ast.unparse(one) in {f"httpx.{each}" for each in HTTP} for one in made)
        if max(numbers, default=0) > EXPECTED or (is_http and not {"timeout", "transport"} & named.keys()):
            yield call.lineno, ast.unparse(call)


ALLOWED = {
    "core.wait": "a node of a graph",
    "http://wfcore": "a class of clients that gets its transport later",
    "run_until_idle(core, timeout=5)": "an example of what a user writes",
}
"""What stands in calls whose numbers are not limits of a test, and what they are."""


def test_no_wait_has_a_limit_of_its_own() -> None:
    """A limit ends what hangs; it says nothing about how fast something is."""
    found = [
        f"{file.relative_to(ROOT)}:{line}: {text}"
        for file in FILES
        for line, text in limits_in(ast.parse(file.read_text(encoding="utf-8")))
        if not any(each in text for each in ALLOWED)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("asyncio.timeout(5)", 1),
        ("asyncio.timeout(HANG)", 0),
        ("process.wait(timeout=10)", 1),
        ("model(timeout=0.1)", 0),
        ("page.set_default_timeout(15_000)", 1),
        ("httpx.Client(base_url=url)", 1),
        ("httpx.Client(transport=transport)", 0),
        ("partial(httpx.AsyncClient, base_url=url)", 1),
    ],
)
def test_a_limit_is_found(text: str, count: int) -> None:
    """In seconds or milliseconds, named or not, and the default of httpx."""
    assert len(list(limits_in(ast.parse(text)))) == count
