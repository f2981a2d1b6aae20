"""Documentation is under test: examples run, links lead somewhere, tables are those of the code."""

import re
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from wfcore.domain.access import TOKEN_SCOPES
from wfcore.domain.lifecycle import diagram
from wfcore.domain.run.entries import Limits
from wfcore.runtime.context import Settings

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("src/**/*.md")])
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)\)")
GENERATED = re.compile(r"(<!-- lifecycle: .*? -->\n).*?(<!-- end -->)", re.DOTALL)
CODE = [(page.name, block) for page in PAGES for block in PYTHON.findall(page.read_text())]


@pytest.mark.parametrize(("page", "code"), CODE, ids=[page for page, _ in CODE])
def test_code_blocks_run(page: str, code: str, tmp_path: Path) -> None:
    """Every Python block of the documentation runs as it stands, in an empty directory."""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    if page == "README.md":
        assert "done" in done.stdout


def test_the_readme_has_an_example() -> None:
    """The first page shows the library in use."""
    assert "README.md" in [page for page, _ in CODE]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    """A relative link names a file that is there."""
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert missing == []


def test_the_lifecycle_table_is_that_of_the_code() -> None:
    """The table in docs/concepts.md is the one that `move` looks into. To renew it, paste what this test prints."""
    text = (ROOT / "docs/concepts.md").read_text()
    wanted = GENERATED.sub(lambda found: f"{found[1]}\n{diagram().strip()}\n\n{found[2]}", text)
    assert text == wanted


def test_every_limit_is_documented() -> None:
    """Each bound that an operator can set is named in docs/running.md."""
    page = (ROOT / "docs/running.md").read_text()
    names = {field.name for field in attrs.fields(Limits)} | {"max_request_bytes", "max_concurrent_runs"}
    settable = names - {"max_concurrent_effects"}
    assert [name for name in sorted(settable) if name not in page] == []
    assert {"max_request_bytes", "max_concurrent_runs"} <= {field.name for field in attrs.fields(Settings)}


def test_every_token_scope_is_documented() -> None:
    """docs/http.md names every scope that a token can carry."""
    page = (ROOT / "docs/http.md").read_text()
    assert [scope for scope in TOKEN_SCOPES if scope not in page] == []
