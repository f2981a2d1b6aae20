"""Tests of the documentation: examples run, links are valid, tables are those of the code."""

import re
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from waiting import HANG

import wfcore
from wfcore.adapters.http.route_table import route_table
from wfcore.domain.graph.limits import GraphLimits
from wfcore.domain.resources.access import TOKEN_SCOPES
from wfcore.domain.resources.lifecycle import diagram
from wfcore.domain.run.entries import Limits
from wfcore.domain.run.machine.tables import TABLES, diagrams
from wfcore.runtime.common.audit import ACTIONS
from wfcore.runtime.common.installation import Settings
from wfcore.runtime.execution.session_states import SESSION_TABLES

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.md")])
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)\)")
GENERATED = re.compile(r"(<!-- \w+: generated [^>]*-->\n).*?(<!-- end -->)", re.DOTALL)


CODE = [(page.name, block) for page in PAGES for block in PYTHON.findall(page.read_text())]


@pytest.mark.parametrize(("page", "code"), CODE, ids=[page for page, _ in CODE])
def test_code_blocks_run(page: str, code: str, tmp_path: Path) -> None:
    """Every Python block of the documentation runs as it stands, in an empty directory."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=HANG, check=False
    )
    assert done.returncode == 0, done.stderr
    if page == "README.md":
        assert "done" in done.stdout


def test_the_readme_has_an_example() -> None:
    """The first page shows the library in use."""
    assert "README.md" in [page for page, _ in CODE]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_are_valid(page: Path) -> None:
    """A relative link names an existing file."""
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert missing == []


def _with_generated(page: str, table: str) -> tuple[str, str]:
    """The text of a page, and the same text with this table in its generated part."""
    text = (ROOT / page).read_text()
    return text, GENERATED.sub(lambda found: f"{found[1]}\n{table.strip()}\n\n{found[2]}", text)


def test_the_lifecycle_table_is_that_of_the_code() -> None:
    """The table in docs/explanation/concepts.md is that of `move`. Renew it: `python tests/project/renew.py`."""
    stands, wanted = _with_generated("docs/explanation/concepts.md", diagram())
    assert stands == wanted


def machine_diagrams() -> str:
    """The tables of the run machine and of the session as Mermaid diagrams."""
    return diagrams({**TABLES, **SESSION_TABLES})


def test_the_diagrams_are_those_of_the_tables() -> None:
    """The diagrams in docs/explanation/machine.md are those of the tables: `python tests/project/renew.py`."""
    stands, wanted = _with_generated("docs/explanation/machine.md", machine_diagrams())
    assert stands == wanted


@pytest.mark.anyio
async def test_every_route_is_documented() -> None:
    """The list in docs/reference/http.md is the route table. Renew it: `python tests/project/renew.py`."""
    stands, wanted = _with_generated("docs/reference/http.md", await routes_table())
    assert stands == wanted


async def routes_table() -> str:
    """The route table as Markdown, the deprecated naming left out."""
    async with wfcore.open("sqlite://", worker=False) as core:
        table = [route for route in route_table(core) if route.successor is None]
    rows = [
        f"| `{route.method} {route.path}` | {route.summary} | {', '.join(f'`{s}`' for s in route.scopes or ())} |"
        for route in table
    ]
    return "\n".join(["| Route | | Token scopes |", "| --- | --- | --- |", *rows])


def test_every_limit_is_documented() -> None:
    """docs/operations/running.md names each limit that an operator can set."""
    page = (ROOT / "docs/operations/running.md").read_text()
    names = {*Limits.__struct_fields__, "max_request_bytes", "max_concurrent_runs"}
    names |= {f"max_{field.name}" for field in attrs.fields(GraphLimits)}
    settable = names - {"max_concurrent_effects"}
    assert [name for name in sorted(settable) if name not in page] == []
    assert {"max_request_bytes", "max_concurrent_runs"} <= {field.name for field in attrs.fields(Settings)}


def test_every_token_scope_is_documented() -> None:
    """docs/reference/http.md names every scope that a token can carry."""
    page = (ROOT / "docs/reference/http.md").read_text()
    assert [scope for scope in TOKEN_SCOPES if scope not in page] == []


def test_the_actions_of_the_audit_are_those_of_the_code() -> None:
    """docs/reference/http.md has them all, and no other. `audit` refuses others; the domain writes those of runs."""
    page = (ROOT / "docs/reference/http.md").read_text()
    table = page[page.index("| Kind | Verbs |") :].split("\n\n")[0]
    rows = [re.findall("`(.+?)`", line) for line in table.splitlines()[2:]]
    assert {kind: tuple(verbs) for kind, *verbs in rows} == ACTIONS
    domain = (ROOT / "src/wfcore/domain/projections/audit.py").read_text()
    of_runs = re.findall(r'"run\.(\w+)"', domain + (ROOT / "src/wfcore/runtime/runs/repairs.py").read_text())
    assert {*of_runs, *re.findall(r'\("(\w+)", old', domain)} == {*ACTIONS["run"]}
