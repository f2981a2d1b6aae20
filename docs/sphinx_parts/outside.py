"""Links out of `docs/`: some files of the repository are pages of the site, other links become plain text."""

import os
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
PAGES = {
    "CHANGELOG.md": "project/changelog",
    "CONTRIBUTING.md": "project/contributing",
    "SECURITY.md": "project/security",
    "src/wfcore/domain/run/README.md": "explanation/interpreter",
}
"""Files outside of `docs/` that the site has as pages. On the page stands a link to the file."""
LINK = re.compile(r"\[([^\]]*)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def linked(text: str, file: Path, page: str) -> str:
    """The Markdown of `file`, with its relative links as those of the page of this name."""

    def replaced(found: re.Match[str]) -> str:
        label, target, anchor = found.groups()
        path = Path(os.path.normpath(file.parent / target))
        inside = _page_of(path)
        if inside is not None:
            return f"[{label}]({os.path.relpath(DOCS / inside, (DOCS / page).parent)}{anchor or ''})"
        if path.is_file():
            return f"[{label}]({os.path.relpath(path, (DOCS / page).parent)})"
        return label if label.startswith("`") or "/" not in label else f"`{label}`"

    return LINK.sub(replaced, text)


def _page_of(path: Path) -> str | None:
    """The file of a page, relative to `docs/`, that stands for this path; None if there is none."""
    if path.is_relative_to(DOCS) and path.is_file():
        return path.relative_to(DOCS).as_posix()
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""
    return f"{PAGES[name]}.md" if name in PAGES else None


def read(app: Any, docname: str, source: list[str]) -> None:
    """Take the content of a page from the file that it stands for, and rewrite links."""
    file = next((ROOT / name for name, page in PAGES.items() if page == docname), None)
    if file is None:
        source[0] = linked(source[0], DOCS / f"{docname}.md", docname)
    else:
        app.env.note_dependency(str(file), docname=docname)
        source[0] = linked(file.read_text(), file, docname)


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
