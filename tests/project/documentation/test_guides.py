"""The guides and how-tos: excerpts stand in the examples, and the files of a page work together."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import HANG

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("docs/embedding/*.md"), *ROOT.glob("docs/howto/*.md")])
EXCERPT = re.compile(r"^<!-- from: (\S+) -->\n\n```py\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"Write\s+`(\w+\.py)`:\n\n```py\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```py\n", re.MULTILINE)

EXCERPTS = [(page.stem, *found) for page in PAGES for found in EXCERPT.findall(page.read_text())]
WRITTEN = {page.stem: dict(FILE.findall(page.read_text())) for page in PAGES if FILE.search(page.read_text())}


@pytest.mark.parametrize(
    ("page", "name", "text"), EXCERPTS, ids=[f"{page}-{n}" for n, (page, *_) in enumerate(EXCERPTS)]
)
def test_an_excerpt_stands_in_its_file(page: str, name: str, text: str) -> None:
    """An excerpt has the lines of the example, with their indentation."""
    assert text in (ROOT / name).read_text()


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_every_block_is_checked(page: Path) -> None:
    """A block that does not run by itself is an excerpt or a file."""
    text = page.read_text()
    assert len(BLOCK.findall(text)) == len(EXCERPT.findall(text)) + len(FILE.findall(text))


@pytest.mark.parametrize("page", WRITTEN)
def test_the_files_of_a_page_work(page: str, tmp_path: Path) -> None:
    """The files of a page stand in one directory, and its tests pass there."""
    for name, text in WRITTEN[page].items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, timeout=HANG, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
