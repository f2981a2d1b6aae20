"""The glossary and the references of the documentation are those of the code."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
GLOSSARY = ROOT / "docs" / "reference" / "glossary.md"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("src/**/*.md")),
]
TERM = re.compile(r"^\| (?!Term \||-)([^|]+) \| ([^|]+) \| `([\w.]+)` \|$", re.MULTILINE)
TERMS = TERM.findall(GLOSSARY.read_text())
DOTTED = re.compile(r"(?<![\w./-])wfcore(?:\.[A-Za-z_]\w*)+")
PATH = re.compile(r"(?<![\w/.-])(?:src|docs|tests|examples|benchmarks|studio)/[\w./-]*\w")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
ANCHOR = re.compile(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)")
FILES = {"wfcore.db", "wfcore.db.blobs", "wfcore.toml"}
LOGGERS = {"wfcore.access", "wfcore.runs"}
ATTRIBUTES = {"wfcore.run.id"}
"""Names in the documentation that look like modules: files, loggers, attributes of spans."""


def resolve(reference: str) -> object:
    """The module, class or attribute that a dotted name stands for. AttributeError or ModuleNotFoundError if none."""
    parts = reference.split(".")
    found: object = import_module(parts[0])
    for position, part in enumerate(parts[1:], 2):
        name = ".".join(parts[:position])
        found = getattr(found, part) if hasattr(found, part) else import_module(name)
    return found


@pytest.mark.parametrize("reference", sorted({reference for _, _, reference in TERMS}))
def test_a_term_is_in_the_code(reference: str) -> None:
    """The class or module beside each term exists."""
    assert resolve(reference) is not None


def test_each_term_is_defined_once() -> None:
    """Every row of the glossary has a term of its own, and every row is read."""
    terms = [term for term, _, _ in TERMS]
    assert len(terms) > 60
    assert [term for term in terms if terms.count(term) > 1] == []
    rows = [line for line in GLOSSARY.read_text().splitlines() if line.startswith("| ") and "| Meaning |" not in line]
    assert len(rows) == len(terms)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_the_references_of_a_page_exist(page: Path) -> None:
    """Every dotted name of wfcore and every path of the repository that a page mentions is there."""
    text = page.read_text()
    for reference in sorted(set(DOTTED.findall(text)) - FILES - LOGGERS - ATTRIBUTES):
        assert resolve(reference) is not None
    assert [path for path in set(PATH.findall(text)) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_to_a_heading(page: Path) -> None:
    """The part of a link behind `#` is a heading of the page to which the link leads."""
    missing = [
        f"{target}#{anchor}"
        for target, anchor in ANCHOR.findall(page.read_text())
        if anchor not in _anchors(page.parent / target if target else page)
    ]
    assert missing == []


def _anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in HEADING.findall(page.read_text())}


@pytest.mark.parametrize("layer", ["domain", "runtime", "adapters"])
def test_every_package_is_on_the_architecture_page(layer: str) -> None:
    """docs/explanation/architecture.md has a row for each package of a layer."""
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    packages = sorted(file.parent.name for file in (ROOT / "src" / "wfcore" / layer).glob("*/__init__.py"))
    assert packages
    assert [name for name in packages if f"| `wfcore.{layer}.{name}` |" not in page] == []


def test_resolve() -> None:
    """A name that does not exist is an error, in a package and in a module."""
    with pytest.raises(ModuleNotFoundError):
        resolve("wfcore.domain.nothing_such")
    with pytest.raises((AttributeError, ModuleNotFoundError)):
        resolve("wfcore.ports.journal.NothingSuch")
