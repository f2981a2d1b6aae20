"""Examples of the documentation: a table has one, and those in JSON and TOML can be sent and read as they stand."""

import json
import re
import tomllib
from pathlib import Path

import pytest

import wfcore
from wfcore.domain.rules.policies import policy_body_issues
from wfcore.domain.triggers.schedule import check_trigger

DOCS = Path(__file__).parents[3] / "docs"
PAGES = sorted(DOCS.glob("**/*.md"))
FENCED = re.compile(r"^```(json|toml)\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXAMPLES = [(page.stem, *found) for page in PAGES for found in FENCED.findall(page.read_text())]
SEPARATOR = re.compile(r"\|[\s:|-]*-[\s:|-]*\|\s*")
FIGURES = re.compile(r"\| (?:Goal|Limit) \|$")
"""The heading of a table of measurements, which is its own example."""
NAMES_ONLY = {"reference/glossary.md", "decisions/README.md", "index.md"}
"""Pages whose tables are lists of terms or of pages."""


def tables_without_example(text: str) -> list[int]:
    """The lines of tables behind which no block of code stands before the next table or heading."""
    found, open_table, fenced, last = list[int](), 0, False, ""
    for number, line in enumerate([*text.splitlines(), "# end"], 1):
        if line.startswith("```"):
            fenced, open_table = not fenced, 0
        elif fenced:
            continue
        elif SEPARATOR.fullmatch(line) or line.startswith("#"):
            found += [open_table] if open_table else []
            open_table = 0 if line.startswith("#") or FIGURES.search(last) else number
        elif line.startswith("    ") and line.strip():
            open_table = 0
        last = line
    return found


def test_tables_without_example() -> None:
    """Code that is fenced or indented counts; a heading or another table ends the search."""
    table = "| a |\n|---|\n| b |\n"
    assert tables_without_example(f"{table}\ntext\n\n    code\n") == []
    assert tables_without_example(f"{table}\n```\ncode\n```\n") == []
    assert tables_without_example(f"{table}\ntext\n\n{table}\n## next\n\n    code\n") == [2, 8]
    assert tables_without_example("| | Time | Goal |\n|---|---|---|\n| a | 1 s | 2 s |\n") == []


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(DOCS)) for page in PAGES])
def test_a_table_has_an_example(page: Path) -> None:
    if page.relative_to(DOCS).as_posix() not in NAMES_ONLY:
        assert tables_without_example(page.read_text()) == []


@pytest.mark.parametrize(("page", "language", "text"), EXAMPLES, ids=[page for page, *_ in EXAMPLES])
def test_an_example_is_valid(page: str, language: str, text: str) -> None:
    """TOML is read; JSON is, and graphs, triggers and policies in it break no rule."""
    if language == "toml":
        tomllib.loads(text)
        return
    found = json.loads(text)
    if "nodes" in found and "edges" in found:
        assert wfcore.simulate(found).paths
    if "trigger" in found:
        assert check_trigger(found["trigger"]) == []
    if "when" in found and "require" in found:
        assert policy_body_issues(found) == []
