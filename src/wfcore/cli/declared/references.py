"""What a workflow or skill refers to: ids on the wire, slugs and names in a file.

A file has the slugs of skills and workflows, and the names of connections, groups and context items. `everyone` is the
implicit group of an organization. What has no name of its own keeps its id.
"""

from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Final, Literal

from wfcore.domain.kernel.errors import Issue, join_path
from wfcore.domain.kernel.ids import is_uuid
from wfcore.domain.kernel.json_readers import optional_object
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.supervision import DESCRIPTIONS, IDS

Referred = Literal["skill", "workflow", "connection", "group", "contextItem"]

EVERYONE: Final = "everyone"

PENDING: Final = 9_000_000_000_000_000
"""Ids from here on stand for resources that do not exist yet."""

_HTTP, _CHILD = "core.http", "core.workflow"
_SERVED = "mcp."


class Names:
    """The slugs and names of what an organization has. Only a name that is unique, and not like an id, counts."""

    def __init__(self) -> None:
        self._names: dict[Referred, dict[str, str]] = {}
        self._ids: dict[Referred, dict[str, str]] = {}

    def add(self, what: Referred, rows: Iterable[tuple[str, str]]) -> None:
        """Add ids with their names."""
        listed = list(rows)
        count: dict[str, int] = {}
        for _, name in listed:
            count[name] = count.get(name, 0) + 1
        usable = [(id_, name) for id_, name in listed if count[name] == 1 and not is_uuid(name)]
        self._names.setdefault(what, {}).update(usable)
        self._ids.setdefault(what, {}).update((name, id_) for id_, name in usable)

    def copy(self) -> "Names":
        """The same names, which can get others."""
        other = Names()
        other._names = {what: dict(found) for what, found in self._names.items()}
        other._ids = {what: dict(found) for what, found in self._ids.items()}
        return other

    def name_of(self, what: Referred, id: str) -> str | None:
        return self._names.get(what, {}).get(id)

    def id_of(self, what: Referred, name: str) -> str | None:
        return self._ids.get(what, {}).get(name)

    def all_of(self, what: Referred) -> list[str]:
        """The names, the longest first."""
        return sorted(self._ids.get(what, ()), key=lambda name: (-len(name), name))


Rename = Callable[[Referred, str, str], str]
"""The new text of a reference: what it refers to, its text, and its path in the body."""


def referred(body: Mapping[str, JSON]) -> set[Referred]:
    """The kinds of references in a body."""
    found: set[Referred] = set()

    def note(what: Referred, text: str, _: str) -> str:
        if (what, text) != ("group", EVERYONE):
            found.add(what)
        return text

    def note_server(text: str, _: str) -> str:
        found.add("connection")
        return text

    renamed(body, note, note_server)
    return found


def portable(body: Mapping[str, JSON], names: Names) -> dict[str, JSON]:
    """The body with names in place of ids, as far as these names lead to the same ids again."""

    def name_of(what: Referred, text: str, _: str) -> str:
        return names.name_of(what, text) or text

    def part(text: str, path: str) -> str:
        connection, dot, rest = text.partition(".")
        named = f"{names.name_of('connection', connection) or connection}{dot}{rest}"
        return named if _served_id(named, names) == text else text

    return renamed(body, name_of, part)


def resolved(body: Mapping[str, JSON], names: Names) -> tuple[dict[str, JSON], list[Issue]]:
    """The body with ids in place of slugs and names, and an issue for each name that is unknown."""
    issues: list[Issue] = []

    def id_of(what: Referred, text: str, path: str) -> str:
        found = names.id_of(what, text)
        if found is not None:
            return found
        if not (text.isdecimal() if what in ("skill", "workflow") else is_uuid(text)):
            issues.append(Issue(path, f"unknown {_SHOWN[what]} `{text[:80]}`", "reference"))
        return text

    def part(text: str, path: str) -> str:
        found = _served_id(text, names)
        if found == text and not is_uuid(text.partition(".")[0]):
            issues.append(Issue(path, f"`{text[:80]}` does not begin with the name of a connection", "reference"))
        return found

    return renamed(body, id_of, part, numbers=False), issues


_SHOWN: Final[Mapping[Referred, str]] = {
    "skill": "skill", "workflow": "workflow", "connection": "connection", "group": "group",
    "contextItem": "context item",
}  # fmt: skip


def _served_id(text: str, names: Names) -> str:
    """`NAME.TOOL` with the id of the connection; the same text for an unknown name."""
    for name in names.all_of("connection"):
        if text.startswith(f"{name}."):
            return f"{names.id_of('connection', name)}{text[len(name) :]}"
    return text


def renamed(
    body: Mapping[str, JSON],
    rename: Rename,
    served: Callable[[str, str], str] = lambda text, _: text,
    *,
    numbers: bool = True,
) -> dict[str, JSON]:
    """The body with other texts for its references.

    `served` renames `CONNECTION.TOOL`, the tool of a server. Without `numbers`, a number stays: it is an id already.
    """
    return _Renaming(rename, served, numbers).body(body)


class _Renaming:
    """One pass over a body, whose other values stay the same."""

    def __init__(self, rename: Rename, served: Callable[[str, str], str], numbers: bool) -> None:
        self._rename = rename
        self._served = served
        self._accepted = (int, str) if numbers else (str,)

    def body(self, body: Mapping[str, JSON]) -> dict[str, JSON]:
        found = dict(body)
        self._change(found, "workflowStructure", self._structure, "")
        self._change(found, "agentSelection", self._selection, "")
        self._change(found, IDS, self._each(lambda one, path: self._text("skill", one, path)), "")
        self._change(found, DESCRIPTIONS, self._keys(lambda key, path: self._rename("skill", key, path)), "")
        self._change(found, "toolset", self._keys(self._tool), "")
        self._change(found, "connectionSet", self._each(self._field("connectionId", "connection")), "")
        self._change(found, "contextSelections", self._each(self._field("id", "contextItem")), "")
        self._change(found, "evaluations", self._each(self._case), "")
        self._change(found, "accessConfig", self._access, "")
        return found

    def _change(self, tree: dict[str, JSON], key: str, change: Callable[[JSON, str], JSON], path: str) -> None:
        if key in tree:
            tree[key] = change(tree[key], join_path(path, key))

    def _inside(self, tree: JSON, path: str, **changes: Callable[[JSON, str], JSON]) -> JSON:
        """The object with some keys changed; another value stays the same."""
        if not isinstance(tree, Mapping):
            return tree
        found = dict(tree)
        for key, change in changes.items():
            self._change(found, key, change, path)
        return found

    def _each(self, change: Callable[[JSON, str], JSON]) -> Callable[[JSON, str], JSON]:
        def all_of(items: JSON, path: str) -> JSON:
            if not isinstance(items, list):
                return items
            return [change(item, f"{path}[{index}]") for index, item in enumerate(items)]

        return all_of

    def _keys(self, change: Callable[[str, str], str]) -> Callable[[JSON, str], JSON]:
        def all_of(tree: JSON, path: str) -> JSON:
            if not isinstance(tree, Mapping):
                return tree
            # Sorted: organizations with the same keys in another order write the same file.
            return dict(
                sorted(((change(key, join_path(path, key)), value) for key, value in tree.items()), key=itemgetter(0))
            )

        return all_of

    def _text(self, what: Referred, value: JSON, path: str) -> JSON:
        return self._rename(what, value, path) if isinstance(value, str) else value

    def _number(self, what: Referred) -> Callable[[JSON, str], JSON]:
        """A reference that is a number on the wire, and a slug in a file."""

        def change(value: JSON, path: str) -> JSON:  # a bool is an int too
            if isinstance(value, bool) or not isinstance(value, self._accepted) or "{{" in str(value):
                return value
            text = self._rename(what, str(value), path)
            return int(text) if text.isdecimal() else text

        return change

    def _field(self, key: str, what: Referred) -> Callable[[JSON, str], JSON]:
        return lambda tree, path: self._inside(tree, path, **{key: lambda one, at: self._text(what, one, at)})

    def _tool(self, tool_id: str, path: str) -> str:
        if tool_id.startswith(_SERVED):
            return _SERVED + self._served(tool_id.removeprefix(_SERVED), path)
        kind, colon, rest = tool_id.partition(":")
        if colon and kind == "skill":
            return f"skill:{self._rename('skill', rest, path)}"
        if colon and kind == "workflow":
            return f"workflow:{self._rename('workflow', rest, path)}"
        return tool_id

    def _named_tool(self, value: JSON, path: str) -> JSON:
        return self._tool(value, path) if isinstance(value, str) else value

    def _structure(self, tree: JSON, path: str) -> JSON:
        return self._inside(tree, path, nodes=self._each(self._node))

    def _node(self, node: JSON, path: str) -> JSON:
        return self._inside(node, path, data=self._data)

    def _data(self, data: JSON, path: str) -> JSON:
        tool = (optional_object(data) or {}).get("toolId") if isinstance(data, Mapping) else None
        params: dict[str, Callable[[JSON, str], JSON]] = {}
        if tool == _CHILD:
            params["workflowId"] = self._number("workflow")
        elif tool == _HTTP:
            params["connection"] = self._connection
        return self._inside(
            data,
            path,
            agent_id=self._number("skill"),
            toolId=self._named_tool,
            tool_restrictions=self._each(self._named_tool),
            params=lambda tree, at: self._inside(tree, at, **params),
            approvers=self._approvers,
            escalateTo=self._approvers,
        )

    def _connection(self, value: JSON, path: str) -> JSON:
        return value if "{{" in str(value) else self._text("connection", value, path)

    def _approvers(self, tree: JSON, path: str) -> JSON:
        return self._inside(tree, path, groups=self._each(lambda one, at: self._text("group", one, at)))

    def _selection(self, tree: JSON, path: str) -> JSON:
        def agent(one: JSON, at: str) -> JSON:
            return self._inside(one, at, agent_id=self._number("skill"))

        return self._inside(tree, path, agents=self._each(agent))

    def _case(self, case: JSON, path: str) -> JSON:
        def check(one: JSON, at: str) -> JSON:
            return self._inside(one, at, tool=self._named_tool)

        return self._inside(case, path, tools=self._keys(self._tool), checks=self._each(check))

    def _access(self, tree: JSON, path: str) -> JSON:
        return self._inside(tree, path, groupPermissions=self._keys(lambda key, at: self._rename("group", key, at)))
