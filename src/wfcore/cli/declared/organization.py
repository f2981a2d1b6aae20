"""The workflows and skills of an organization, read and changed through the API."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import attrs

from wfcore.cli.client import Api, Refused
from wfcore.cli.declared.checks import write_faults
from wfcore.cli.declared.documents import BadFiles, Declaration, FileFault
from wfcore.cli.declared.plan import Current, Key, PlanStep, is_pending, patch_of, pending
from wfcore.cli.declared.references import EVERYONE, PENDING, Names, Referred, referred, renamed, resolved
from wfcore.domain.kernel.errors import Conflict, Issue
from wfcore.domain.kernel.json_readers import as_object, as_objects, as_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.resource import Kind

_LISTS: Final[Mapping[Referred, tuple[str, str, str]]] = {
    "connection": ("/api/v1/connections", "connections", "name"),
    "group": ("/api/v1/groups", "groups", "name"),
    "contextItem": ("/api/v1/context-items", "contextItems", "title"),
}
"""By what is referred to: the path of its list, the key of the list, and the field with the name."""


def path_of(kind: Kind) -> str:
    return f"/api/v1/{kind}s"


@attrs.define
class LiveOrganization:
    """The resources of an organization as the caller sees them.

    `rows` are the items of lists by kind and slug; `deleted` are those that can be restored.
    """

    api: Api
    rows: dict[Key, Mapping[str, JSON]] = attrs.field(factory=dict)
    deleted: dict[Key, Mapping[str, JSON]] = attrs.field(factory=dict)
    names: Names = attrs.field(factory=Names)

    async def read(self, kinds: Iterable[Kind]) -> None:
        """Read the lists of all skills and workflows, and of the deleted ones of these kinds."""
        for kind in Kind:
            found = await self.api.pages(path_of(kind), f"{kind}s")
            self.rows |= {(kind, as_text(row["slug"])): row for row in found}
        for kind in kinds:
            found = await self.api.pages(path_of(kind), f"{kind}s", status="deleted")
            self.deleted |= {(kind, as_text(row["slug"])): row for row in found}
        for kind in Kind:
            self.names.add(kind.value, [(str(row["id"]), slug) for (of, slug), row in self.rows.items() if of is kind])

    async def read_names(self, bodies: Iterable[Mapping[str, JSON]]) -> None:
        """Read the names of what these bodies refer to."""
        wanted = {what for body in bodies for what in referred(body)}
        org = self.api.org or as_text(as_object(await self.api.get("/api/v1/me"))["orgUuid"])
        groups = [(org, EVERYONE)]
        for what, (path, key, field) in _LISTS.items():
            rows = [(as_text(row["id"]), as_text(row[field])) for row in await self._list(what in wanted, path, key)]
            if what == "group":
                rows = [*groups, *(row for row in rows if row[1] != EVERYONE)]
            self.names.add(what, rows)

    async def _list(self, wanted: bool, path: str, key: str) -> Sequence[Mapping[str, JSON]]:
        return await self.api.pages(path, key) if wanted else ()

    def expect(self, documents: Iterable[Declaration]) -> None:
        """Give the resources that the documents create, or restore, ids that stand for them."""
        _expect(self.names, [one for one in documents if (one.kind, one.slug) not in self.rows])

    def names_after(self, documents: Iterable[Declaration]) -> Names:
        """The names, with ids that stand for those resources of the documents that are not deployed yet."""
        names = self.names.copy()
        rows = ((one, self.rows.get((one.kind, one.slug))) for one in documents)
        _expect(names, [one for one, row in rows if row is None or row["status"] != "active"])
        return names

    async def current(self, keys: Sequence[Key], advance: Callable[[], None] = lambda: None) -> dict[Key, Current]:
        """The resources with these kinds and slugs. Raises Refused for one that the caller cannot manage."""
        found = {}
        for key in keys:
            row = self.rows.get(key) or self.deleted.get(key)
            if row is not None:
                read = await self.api.read(f"{path_of(key[0])}/{row['id']}", view="draft")
                found[key] = Current(key[0], as_object(read.value), read.etag)
            advance()
        return found

    def manageable(self, kinds: Sequence[Kind]) -> list[Key]:
        """The resources of these kinds that the caller can manage."""
        return sorted(key for key, row in self.rows.items() if key[0] in kinds and row["canManage"])


def _expect(names: Names, documents: Sequence[Declaration]) -> None:
    for kind in Kind:
        expected = [(str(PENDING + index), one.slug) for index, one in enumerate(documents) if one.kind is kind]
        names.add(kind.value, expected)


async def check_documents(
    organization: LiveOrganization,
    documents: Sequence[Declaration],
    faults: Sequence[FileFault],
    *,
    deploy: bool,
    advance: Callable[[], None] = lambda: None,
) -> None:
    """Raises BadFiles with every fault of every file: of its form, of its references, and those the server finds.

    Faults that only prevent a deploy count with `deploy`.
    """
    found, names = list(faults), organization.names_after(documents)
    for document in documents:
        body, unknown = resolved(document.body, names)
        written = write_faults(document.kind, body)
        seen = {(issue.path, issue.rule) for issue in [*written, *unknown]}
        more = [
            issue
            for issue in await _server_issues(organization.api, document.kind, body)
            if (issue.path, issue.rule) not in seen and (deploy or not _is_content(issue))
        ]
        issues = [*written, *unknown, *more]
        found += [document.at(issue) for issue in sorted(issues, key=lambda one: one.path)]
        advance()
    if found:
        raise BadFiles(found)


_DETAILS: Final = ("slug", "name", "type", "description", "accessConfig", "supervisionSubordinate")


def _is_content(issue: Issue) -> bool:
    """Whether an issue of the server is about content, which a draft can have."""
    return not issue.path.startswith(_DETAILS)


async def _server_issues(api: Api, kind: Kind, body: Mapping[str, JSON]) -> list[Issue]:
    """The errors that the server finds, except those about resources that do not exist yet."""
    answer = as_object(await api.post(f"{path_of(kind)}/validate", dict(body)))
    return [
        Issue(as_text(one["path"]), as_text(one["message"]), as_text(one["rule"]))
        for one in as_objects(answer["issues"])
        if one["severity"] == "error" and not _is_about_pending(one, body)
    ]


def _is_about_pending(issue: Mapping[str, JSON], body: Mapping[str, JSON]) -> bool:
    words = f"{issue['path']} {issue['message']} {_value_at(body, as_text(issue['path']))}"
    return any(is_pending(part) for part in "".join(c if c.isdecimal() else " " for c in words).split())


def _value_at(tree: JSON, path: str) -> JSON:
    """The value at a wire path; None where there is none."""
    value = tree
    for part in path.replace("[", ".[").split("."):
        if part.startswith("[") and isinstance(value, list) and part[1:-1].isdecimal():
            place = int(part[1:-1])
            value = value[place] if place < len(value) else None
        else:
            value = value.get(part) if isinstance(value, Mapping) else None
    return value if isinstance(value, (int, str)) else None


@attrs.define
class Applying:
    """The steps of one plan, carried out in order. A later plan continues where one stopped."""

    organization: LiveOrganization
    force: bool = False
    _numbers: dict[Key, int] = attrs.field(factory=dict)
    _etags: dict[Key, str | None] = attrs.field(factory=dict)
    _incomplete: set[Key] = attrs.field(factory=set)

    async def carry_out(self, steps: Sequence[PlanStep], advance: Callable[[], None] = lambda: None) -> None:
        """Raises the error of the first step that failed, which names it."""
        for step in steps:
            try:
                await self._do(step)
            except Refused as error:
                error.message = f"cannot {step.action} {step.kind} `{step.slug}`: {error.message}"
                raise
            advance()
            if step.action == "create" and not self._open(steps):
                await self._complete(steps)

    def _open(self, steps: Sequence[PlanStep]) -> bool:
        """Whether a resource is still to be created."""
        return any(one.action == "create" and (one.kind, one.slug) not in self._numbers for one in steps)

    async def _complete(self, steps: Sequence[PlanStep]) -> None:
        """Give the resources that refer to each other in a cycle their content."""
        for step in steps:
            if (step.kind, step.slug) in self._incomplete and step.document is not None:
                body = resolved(step.document.body, self.organization.names)[0]
                whole = {key: value for key, value in body.items() if key not in ("slug", "type", "accessConfig")}
                await self.organization.api.patch(self._path(step), whole)
                self._incomplete.discard((step.kind, step.slug))

    async def _do(self, step: PlanStep) -> None:
        api, key = self.organization.api, (step.kind, step.slug)
        if step.current is not None and key not in self._numbers:
            self._numbers[key], self._etags[key] = int(step.current.number), step.current.etag
        match step.action:
            case "create":
                await self._create(step)
            case "restore":
                await api.post(f"{self._path(step)}/restore")
                self.organization.names.add(step.kind.value, [(str(self._numbers[key]), step.slug)])
                if step.paths:
                    await api.patch(self._path(step), patch_of(step, self.organization.names))
            case "change":
                await api.patch(self._path(step), patch_of(step, self.organization.names), **self._precondition(key))
            case "deploy":
                await api.post(f"{self._path(step)}/deploy", {"force": True} if self._forces(step) else {})
            case "delete":
                await api.delete(self._path(step), **self._precondition(key))

    def _forces(self, step: PlanStep) -> bool:
        return self.force and step.kind is Kind.SKILL

    def _precondition(self, key: Key) -> dict[str, str]:
        etag = self._etags.get(key)
        return {} if etag is None else {"if_match": etag}

    async def _create(self, step: PlanStep) -> None:
        assert step.document is not None  # noqa: S101  (a create has one)
        names, api = self.organization.names, self.organization.api
        body = resolved(step.document.body, names)[0]
        if is_incomplete := _has_pending(step.document, names):
            body = {key: body[key] for key in ("slug", "name", "type", "accessConfig") if key in body}
        made = as_object(await api.post(path_of(step.kind), body))
        key = (step.kind, step.slug)
        self._numbers[key] = int(str(made["id"]))
        names.add(step.kind.value, [(str(made["id"]), step.slug)])
        if is_incomplete:
            self._incomplete.add(key)

    def _path(self, step: PlanStep) -> str:
        return f"{path_of(step.kind)}/{self._numbers[step.kind, step.slug]}"


def _has_pending(document: Declaration, names: Names) -> bool:
    return bool(pending(document, names)) or _refers_to_itself(document, names)


def _refers_to_itself(document: Declaration, names: Names) -> bool:
    own = names.id_of(document.kind.value, document.slug) or ""
    return is_pending(own) and own in str(resolved(document.body, names)[0])


def check_pruned(documents: Sequence[Declaration], steps: Sequence[PlanStep]) -> None:
    """Raises Conflict for a document that refers to a resource which the plan deletes."""
    deleted = {(step.kind, step.slug) for step in steps if step.action == "delete"}
    for document in documents:
        if lost := _references(document) & deleted:
            kind, slug = min(lost)
            raise Conflict(f"`{document.file}` refers to {kind} `{slug}`, which has no file")


def _references(document: Declaration) -> set[Key]:
    found: set[Key] = set()

    def note(what: Referred, text: str, _: str) -> str:
        if what in ("skill", "workflow"):
            found.add((Kind(what), text))
        return text

    renamed(document.body, note)
    return found
