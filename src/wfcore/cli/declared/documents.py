"""Files that declare workflows and skills: `workflows/SLUG.yaml` and `skills/SLUG.yaml` of one folder."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs
from cyclopts import CycloptsError

from wfcore.api.resources import CreateSkill, CreateWorkflow
from wfcore.domain.json.values import without_nulls
from wfcore.domain.kernel.errors import Invalid, Issue, Malformed
from wfcore.domain.kernel.json_readers import as_object, as_objects, as_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.resource import Kind
from wfcore.workflow_files import line_at, lines_of, read_body, write_yaml

KINDS: Final = (Kind.SKILL, Kind.WORKFLOW)
BODIES: Final[Mapping[Kind, type]] = {Kind.SKILL: CreateSkill, Kind.WORKFLOW: CreateWorkflow}
SUFFIXES: Final = (".yaml", ".yml", ".json")

_FIRST: Final = ("slug", "name", "type", "description", "accessConfig")
"""The keys at the beginning of a file; the content follows."""


@attrs.frozen
class Declaration:
    """One file: a create body with its slug, in which references are slugs and names."""

    kind: Kind
    slug: str
    body: Mapping[str, JSON]
    file: Path

    def at(self, issue: Issue) -> "FileFault":
        """The issue with its line, for which the file is read again."""
        return FileFault(self.file, line_at(lines_of(self.file.read_bytes()), issue.path), issue)


@attrs.frozen
class FileFault:
    """An issue of a file, with its line if that is known."""

    file: Path
    line: int | None
    issue: Issue

    def __str__(self) -> str:
        where = str(self.file) if self.line is None else f"{self.file}:{self.line}"
        path = f"`{self.issue.path}`: " if self.issue.path else ""
        return f"{where}: {path}{self.issue.message}"


class BadFiles(Invalid):
    """Files that cannot be applied. `info.errors` has every issue with its file and line."""

    def __init__(self, faults: Sequence[FileFault]) -> None:
        errors: list[JSON] = [
            {**fault.issue.to_wire(), "file": str(fault.file), "line": fault.line} for fault in faults
        ]
        super().__init__("\n  ".join(map(str, faults)), {"errors": errors})


@contextmanager
def faults_located(file: str) -> Iterator[None]:
    """Raise BadFiles for the body of a file that is refused, instead of Malformed or Invalid."""
    try:
        yield
    except (Malformed, Invalid) as error:
        document = Declaration(Kind.SKILL, "", {}, Path(file))
        found = [_issue(each) for each in as_objects(error.info["errors"])]
        faults = [document.at(issue) if issue.path else FileFault(document.file, None, issue) for issue in found]
        raise BadFiles(faults) from None


def read_documents(folder: Path, kinds: Iterable[Kind] = KINDS) -> tuple[list[Declaration], list[FileFault]]:
    """The documents of a folder in the order of kinds and slugs, and the faults of files that cannot be read.

    Raises CycloptsError for a path that is not a folder, or that has no folder of these kinds.
    """
    folders = {kind: folder / f"{kind}s" for kind in kinds}
    if not any(each.is_dir() for each in folders.values()):
        wanted = " or ".join(f"`{each}`" for each in folders.values())
        raise CycloptsError(msg=f"there is no folder {wanted}")
    documents: dict[tuple[Kind, str], Declaration] = {}
    faults: list[FileFault] = []
    for kind, each in folders.items():
        for file in sorted(each.iterdir()) if each.is_dir() else ():
            if file.suffix not in SUFFIXES or file.name.startswith("."):
                continue
            document, found = _read(kind, file)
            faults += found
            if document is None:
                continue
            first = documents.setdefault((kind, document.slug), document)
            if first is not document:
                message = f"`{first.file}` already has the slug `{document.slug}`"
                faults.append(document.at(Issue("slug", message, "duplicate")))
    return list(documents.values()), faults


def _read(kind: Kind, file: Path) -> tuple[Declaration | None, list[FileFault]]:
    try:
        body = read_body(file)
    except Malformed as error:
        return None, [FileFault(file, None, _issue(each)) for each in as_objects(error.info["errors"])]
    given = without_nulls(BODIES[kind], body)
    body = {"slug": file.stem, **({"type": "workflow"} if kind is Kind.WORKFLOW else {}), **given}
    return Declaration(kind, str(body["slug"]), body, file), []


def _issue(wire: Mapping[str, JSON]) -> Issue:
    return Issue(as_text(wire["path"]), as_text(wire["message"]), as_text(wire["rule"]))


def text_of(body: Mapping[str, JSON]) -> str:
    """The text of a file with this body."""
    return write_yaml({key: body[key] for key in (*_FIRST, *(key for key in body if key not in _FIRST)) if key in body})


def write_documents(
    folder: Path, bodies: Mapping[tuple[Kind, str], Mapping[str, JSON]], kinds: Iterable[Kind], *, prune: bool
) -> list[Path]:
    """Write a file for each kind and slug. Returns the other files of these kinds, which `prune` removes."""
    places = [folder / f"{kind}s" for kind in kinds]
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
    written = {folder / f"{kind}s" / f"{slug}.yaml": body for (kind, slug), body in bodies.items()}
    for file, body in written.items():
        file.write_text(text_of(body), "utf-8", newline="\n")
    found = [file for place in places for file in sorted(place.iterdir())]
    others = [file for file in found if file.suffix in SUFFIXES and file not in written]
    for file in others if prune else ():
        file.unlink()
    return others


def access_of(body: Mapping[str, JSON]) -> dict[str, JSON] | None:
    """The access configuration of a checked body, without what the server sets; None without one."""
    access = body.get("accessConfig")
    if access is None:
        return None
    given = as_object(access)
    shared = [as_object(one)["email"] for one in as_objects(given.get("sharedWith") or [])]
    found: dict[str, JSON] = {"visibility": given["visibility"]}
    if given["visibility"] == "shared":
        found["groupPermissions"] = given.get("groupPermissions") or {}
    if shared:
        found["sharedWith"] = [{"email": as_text(address).lower()} for address in shared]
    if given.get("guardrails"):
        found["guardrails"] = given["guardrails"]
    return found
