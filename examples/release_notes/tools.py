"""The tools of this example: plain functions of the embedding program."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wfcore import tool

MOST = 40
"""The number of changes to collect, the newest first."""


@tool(idempotent=True)
def collect_changes(repository: str) -> dict[str, Any]:
    """The changes of a repository: its newest commits, or without a history the lists in its documents."""
    changes = _commits(repository)
    source = f"git history, {len(changes)} commit(s)"
    if not changes:
        changes, source = _points(Path(repository))
    lines = [f"- {change['subject']} ({change['id']}; {change['size']})" for change in changes]
    return {"source": source, "changes": changes, "text": "\n".join([f"Source: {source}", *lines])}


@tool(idempotent=True)
def write_file(path: str, text: str) -> dict[str, Any]:
    """Write a text file. A second call has the same effect as the first, as an idempotent tool requires."""
    Path(path).write_text(text + "\n", "utf-8")
    return {"path": path, "characters": len(text)}


def _commits(repository: str) -> list[dict[str, str]]:
    log = [
        "git",
        "-C",
        repository,
        "log",
        "--no-merges",
        f"--max-count={MOST}",
        "--shortstat",
        "--format=%x1e%h%x1f%s%x1f",
    ]
    try:
        found = subprocess.run(log, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    commits = [record.split("\x1f") for record in found.split("\x1e") if record.strip()]
    return [{"id": short, "subject": subject, "size": _one_line(size)} for short, subject, size in commits]


def _one_line(size: str) -> str:
    return " ".join(size.split()) or "no files changed"


def _points(repository: Path) -> tuple[list[dict[str, str]], str]:
    """The list items of the first existing document, else its headings."""
    for name in ("CHANGELOG.md", "README.md"):
        if (repository / name).exists():
            lines = list(enumerate((repository / name).read_text("utf-8").splitlines(), start=1))
            points = [(n, line[2:]) for n, line in lines if line.startswith("- ")]
            points = points or [(n, line.lstrip("# ")) for n, line in lines if line.startswith("#")]
            changes = [{"id": f"line {n}", "subject": text, "size": name} for n, text in points[:MOST]]
            return changes, f"{name}, since there is no git history"
    return [], "no git history, no CHANGELOG.md and no README.md"


TOOLS: list[Callable[..., Any]] = [collect_changes, write_file]
