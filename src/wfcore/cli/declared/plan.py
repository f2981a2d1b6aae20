"""What `wfcore apply` changes: the difference between the files of a folder and an organization."""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import attrs

from wfcore.cli.declared.documents import Declaration, access_of, text_of
from wfcore.cli.declared.references import PENDING, Names, portable, renamed, resolved
from wfcore.domain.graph.structure import structure_of
from wfcore.domain.json.values import changed, to_json
from wfcore.domain.kernel.json_readers import as_object, as_text, optional_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.content import Content, WorkflowContent, content_of
from wfcore.domain.resources.differences import difference
from wfcore.domain.resources.resource import CONTENTS, Kind, same_content, same_json

Action = Literal["create", "restore", "change", "deploy", "delete"]

Key = tuple[Kind, str]
"""The kind and the slug of a resource."""


@attrs.frozen
class Current:
    """A resource of the organization: what the API shows of its draft, and its ETag."""

    kind: Kind
    view: Mapping[str, JSON]
    etag: str | None = None

    @property
    def key(self) -> Key:
        return self.kind, as_text(self.view["slug"])

    @property
    def number(self) -> str:
        return str(self.view["id"])

    @property
    def is_deleted(self) -> bool:
        return self.view["status"] == "deleted"

    @property
    def has_draft(self) -> bool:
        return self.view["hasUnpublishedChanges"] is True

    def body(self) -> dict[str, JSON]:
        """It as a create body with ids."""
        type_ = {"type": "workflow"} if self.kind is Kind.WORKFLOW else {}
        content = compiled(self.kind, as_object(self.view.get("variation") or {}))
        description = self.view["description"]
        return {
            "slug": self.view["slug"], "name": self.view["name"], **type_,
            **({} if description is None else {"description": description}),
            "accessConfig": access_of(self.view), **without_defaults(content),
        }  # fmt: skip

    def text(self, names: Names) -> str:
        """The text of its file."""
        return text_of(portable(self.body(), names))


@attrs.frozen
class PlanStep:
    """One step of a plan. `paths` are the parts that a change concerns."""

    action: Action
    kind: Kind
    slug: str
    paths: tuple[str, ...] = ()
    document: Declaration | None = None
    current: Current | None = None

    def to_wire(self) -> dict[str, JSON]:
        return {"action": self.action, "kind": self.kind.value, "slug": self.slug, "paths": list(self.paths)}


def compiled(kind: Kind, body: Mapping[str, JSON]) -> Content:
    """The content of a checked body as it is stored: an `agentSelection` is a graph."""
    content = content_of(CONTENTS[kind], {key: value for key, value in body.items() if value is not None})
    if isinstance(content, WorkflowContent) and (content.agent_selection or content.workflow_structure is not None):
        structure = {"nodes": [], "edges": [], **structure_of(content)}
        return changed(content, workflow_structure=structure, agent_selection=None)
    return content


def without_defaults(content: Content) -> dict[str, JSON]:
    """The fields of the content that differ from an empty one."""
    empty = to_json(type(content)())
    return {name: value for name, value in to_json(content).items() if not same_json(value, empty[name])}


def steps_of(
    documents: Sequence[Declaration], current: Mapping[Key, Current], names: Names, *, deploy: bool
) -> list[PlanStep]:
    """The steps for the documents: skills first, and each after what it refers to, as far as there is no cycle.

    `current` has every resource with the kind and slug of a document, deleted ones too.
    """
    found: list[PlanStep] = []
    for document in _ordered(documents, names):
        before = current.get((document.kind, document.slug))
        step = _step(document, before, names)
        if step is not None:
            found.append(step)
        has_draft = before is None or before.has_draft or (step is not None and _edits(step))
        if deploy and has_draft:
            found.append(PlanStep("deploy", document.kind, document.slug, (), document, before))
    return [*(one for one in found if one.action != "deploy"), *(one for one in found if one.action == "deploy")]


def _edits(step: PlanStep) -> bool:
    """Whether a change concerns the content, and not only name, description and access."""
    return not {"name", "description", "accessConfig"}.issuperset(step.paths)


def _step(document: Declaration, before: Current | None, names: Names) -> PlanStep | None:
    if before is None:
        return PlanStep("create", document.kind, document.slug, (), document)
    paths = tuple(differing(document, before, names))
    if before.is_deleted:
        return PlanStep("restore", document.kind, document.slug, paths, document, before)
    return PlanStep("change", document.kind, document.slug, paths, document, before) if paths else None


def differing(document: Declaration, before: Current, names: Names) -> Iterator[str]:
    """The parts in which a document differs from the resource. An absent `accessConfig` stays as it is."""
    body = resolved(document.body, names)[0]
    if body["name"] != before.view["name"]:
        yield "name"
    if optional_text(body.get("description")) != before.view["description"]:
        yield "description"
    if (access := access_of(body)) is not None and not same_json(access, access_of(before.view)):
        yield "accessConfig"
    old, new = portable(before.body(), names), canonical(document.kind, body, names)
    yield from content_paths(content_of(CONTENTS[document.kind], old), content_of(CONTENTS[document.kind], new))


def content_paths(old: Content, new: Content) -> list[str]:
    """The parts in which two contents differ: `+node`, `-node` and `node.path` for nodes, also for edges."""
    if same_content(old, new):
        return []
    found = difference(old, new)
    paths = list(found.fields)
    for word, part in (("node", found.nodes), ("edge", found.edges)):
        paths += [f"+{word} {one}" for one in part.added]
        paths += [f"-{word} {one}" for one in part.removed]
        paths += [f"{word} {one.id}: {', '.join(one.paths)}" for one in part.changed]
    return paths or ["workflowStructure"]


def patch_of(step: PlanStep, names: Names) -> dict[str, JSON]:
    """The body of the PATCH that makes the resource that of the document."""
    assert step.document is not None  # noqa: S101  (a change has one)
    body, paths = resolved(step.document.body, names)[0], set(step.paths)
    found: dict[str, JSON] = {}
    for field in ("name", "description"):
        if field in paths:
            found[field] = body.get(field)
    if "accessConfig" in paths:
        found["accessConfig"] = access_of(body)
    if paths - {"name", "description", "accessConfig"}:
        found |= to_json(compiled(step.kind, body))
    return found


def pending(document: Declaration, names: Names) -> set[Key]:
    """The resources which a document refers to and which do not exist yet."""
    found: set[Key] = set()

    def note(what: str, text: str, _: str) -> str:
        if what in ("skill", "workflow") and is_pending(names.id_of(what, text) or ""):  # type: ignore[arg-type]
            found.add((Kind(what), text))
        return text

    renamed(document.body, note, numbers=False)
    return found - {(document.kind, document.slug)}


def is_pending(id: str) -> bool:
    """Whether this id stands for a resource that does not exist yet."""
    return id.isdecimal() and int(id) >= PENDING


def _ordered(documents: Sequence[Declaration], names: Names) -> Iterator[Declaration]:
    waiting = {(one.kind, one.slug): (one, pending(one, names)) for one in documents}
    while waiting:
        ready = [key for key, (_, after) in waiting.items() if not after & waiting.keys()] or [next(iter(waiting))]
        for key in ready:
            yield waiting.pop(key)[0]


def differences_of(documents: Iterable[Declaration], current: Mapping[Key, Current], names: Names) -> Iterator[str]:
    """The unified diff from the organization to the files, for each one that differs."""
    for document in documents:
        before = current.get((document.kind, document.slug))
        body, _ = resolved(document.body, names)
        wanted = canonical(document.kind, body, names)
        if before is not None and "accessConfig" not in wanted:
            wanted["accessConfig"] = portable(before.body(), names)["accessConfig"]
        live = before is not None and not before.is_deleted
        old = before.text(names) if before is not None and live else ""
        yield from unified(old, text_of(wanted), f"{document.kind}s/{document.slug}", live=live)


def canonical(kind: Kind, body: Mapping[str, JSON], names: Names) -> dict[str, JSON]:
    """A create body with ids in the form of an export."""
    access = access_of(body)
    head = {key: body[key] for key in ("slug", "name", "type", "description") if body.get(key) is not None}
    shared: dict[str, JSON] = {} if access is None else {"accessConfig": access}
    return portable({**head, **shared, **without_defaults(compiled(kind, body))}, names)


def unified(old: str, new: str, name: str, *, live: bool = True) -> Iterator[str]:
    """The lines of a unified diff."""
    before = f"organization/{name}" if live else "/dev/null"
    yield from difflib.unified_diff(old.splitlines(), new.splitlines(), before, f"files/{name}", lineterm="")
