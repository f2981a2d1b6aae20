"""The site of the documentation: it builds without a warning, and its generated pages are complete."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote

import msgspec
import pytest
from sphinx_parts import commands, generated, http_api, python_api, settings_tables, stream_events

import wfcore
import wfcore.testing
from wfcore.cli.main import app
from wfcore.core import AREAS, module_of
from wfcore.domain.run.events import EventKind
from wfcore.settings.installation import read_file

ROOT = Path(__file__).parents[3]
MARKS = [found for page in ROOT.glob("docs/**/*.md") for found in generated.MARK.findall(page.read_text())]
COMMANDS = dict(commands.commands())


class Links(HTMLParser):
    """The relative links of a page, and the ids in it."""

    def __init__(self) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if identifier := found.get("id"):
            self.ids.add(identifier)
        if tag == "a" and (link := found.get("href")) and not re.match(r"\w+:", link):
            self.links.add(link)


def read(page: Path) -> Links:
    found = Links()
    found.feed(page.read_text())
    return found


def test_the_site(tmp_path: Path) -> None:
    """It is built without a warning, and has every page of `docs/`, with the changelog, and state diagrams as pictures.
    Its links lead somewhere, and no page loads a script, a style sheet or an image from another server.

    One test: in several, other processes would wait half a minute for the one that builds.
    """
    site = tmp_path / "html"
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "-d", tmp_path / "trees",
         ROOT / "docs", site],
        capture_output=True, text=True, check=False,  # a busy machine builds longer than `HANG`
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    pages = {page.relative_to(ROOT / "docs").with_suffix("") for page in ROOT.glob("docs/**/*.md")}
    assert {page for page in pages if not (site / page).with_suffix(".html").exists()} == set()
    assert "semantic versioning" in (site / "project/changelog.html").read_text()
    assert (site / "explanation/machine.html").read_text().count('<img class="picture"') == 7
    assert broken_links(site) == []
    loads = re.compile(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(?:https?:)?//[^"]+"')
    assert [page.name for page in site.rglob("*.html") if loads.search(page.read_text())] == []


def broken_links(site: Path) -> list[str]:
    """Those that lead to no page or file of the site, or to an id that is not there."""
    pages = {page: read(page) for page in site.rglob("*.html")}
    assert len(pages) > 60
    broken = set[str]()
    for page, found in pages.items():
        for link in found.links:
            path, _, anchor = unquote(link).partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and target in pages and anchor not in pages[target].ids):
                broken.add(f"{page.relative_to(site)}: {link}")
    return sorted(broken)


def test_every_front_name_is_on_a_page() -> None:
    """Each name of `wfcore` and `wfcore.testing`."""
    shown = {name for kind, text in MARKS if kind == "members" for name in text.split()}
    parts = {"Core", "http", "rules", "simulate", "tools", "Flow"}  # on pages of their own
    assert sorted({*wfcore.__all__} - shown - parts) == []
    assert {"wfcore.testing", "wfcore.rules", "wfcore.flows", "wfcore.contrib.django"} <= shown
    text = python_api.members("wfcore.testing")
    assert [name for name in wfcore.testing.__all__ if f" wfcore.testing.{name}" not in text] == []


def test_every_use_case_is_shown() -> None:
    """Those that pages of the documentation call, with their types and scopes."""
    text = python_api.core()
    called = set[str]()
    for page in ROOT.glob("docs/**/*.md"):
        called |= set(re.findall(r"await (core\.\w+\.\w+)\(", page.read_text()))
    assert len(called) > 15
    assert sorted(name for name in called if f"{{py:method}} {name}(" not in text) == []
    assert "core.runs.cancel(me: Principal, run_id: str" in text
    assert "- `workflow`: `int`" in text


def test_every_use_case_has_a_docstring() -> None:
    """One without is not shown."""
    text = python_api.core()
    for area in wfcore.Core.__annotations__:
        owner = getattr(import_module(module_of(area)), AREAS[area][1])
        names = [f"core.{area}.{name}" for name in python_api.methods_of(area, owner)]
        assert [name for name in names if f"{{py:method}} {name}(" not in text] == []
    assert "{py:method} core.workflows.interfaces.get(" in text


def test_every_operation_is_on_a_page() -> None:
    """Each tag of the OpenAPI document, once."""
    shown = [tag for kind, text in MARKS if kind == "operations" for tag in text.split()]
    assert sorted(shown) == sorted(http_api.tags())
    with pytest.raises(ValueError, match="nothing"):
        http_api.markdown("nothing")


def test_examples_of_requests_are_complete() -> None:
    """An operation shows its method, its body and its response."""
    text = http_api.markdown("runs")
    assert "POST /agent/v1/runs HTTP/1.1\nAuthorization: Bearer TOKEN" in text
    assert '"decision": "approve"' in text
    assert text.count("\nResponse 20") == len([one for one in http_api.operations() if one[2]["tags"] == ["runs"]])


@pytest.mark.parametrize("kind", EventKind)
def test_the_example_of_an_event_has_its_shape(kind: EventKind) -> None:
    assert stream_events.example(kind)["kind"] == kind
    assert f"## {kind}\n" in stream_events.markdown()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_of_a_command_is_valid(name: str) -> None:
    """The parser accepts it, and it is that command."""
    line = commands.example(name, COMMANDS[name])
    assert line.startswith(f"wfcore {name}")
    app.parse_args(commands.words(line), exit_on_error=False, print_error=False)


def test_the_settings_are_complete(tmp_path: Path) -> None:
    """Each table has its keys and a sample, and the whole example is valid."""
    text = settings_tables.markdown()
    for table, shape in settings_tables.tables():
        assert all(f"| `{field.encode_name}` |" in text for field in msgspec.structs.fields(shape)
                   if field.encode_name in {"url", "max_nodes", "issuer", "allowed_hosts", "model"})  # fmt: skip
        assert f"[{table}" in text or not table
    (tmp_path / "wfcore.toml").write_text(settings_tables.example().replace("...", "A" * 43))
    read_file(str(tmp_path / "wfcore.toml"))


def test_an_unknown_mark_is_an_error() -> None:
    with pytest.raises(KeyError):
        generated.expanded("<!-- generated: nothing -->")
    assert generated.expanded("text") == "text"


def test_every_generated_page_says_so_to_readers_of_the_file() -> None:
    for page in ROOT.glob("docs/**/*.md"):
        text = page.read_text()
        assert bool(generated.MARK.search(text)) == (generated.NOTE in text), page
