"""How two variations of a resource differ: nodes and edges by id, other content by path. Positions are not compared."""

from collections.abc import Iterator, Mapping

import attrs

from wfcore.domain.kernel.json_readers import as_objects, as_text, optional_object
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.content import Content, compared

Element = Mapping[str, JSON]


@attrs.frozen
class Changed:
    """An element that both have, and the paths in it whose values differ."""

    id: str
    paths: tuple[str, ...]


@attrs.frozen
class ListDifference:
    """The differences of two lists of elements, by id, in the order of the lists."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[Changed, ...]

    def to_wire(self) -> dict[str, JSON]:
        changed = [{"id": one.id, "paths": list(one.paths)} for one in self.changed]
        return {"added": list(self.added), "removed": list(self.removed), "changed": changed}


@attrs.frozen
class Difference:
    """The differences of two contents. `fields` are the paths outside of nodes and edges."""

    nodes: ListDifference
    edges: ListDifference
    fields: tuple[str, ...]

    def to_wire(self) -> dict[str, JSON]:
        return {"nodes": self.nodes.to_wire(), "edges": self.edges.to_wire(), "fields": list(self.fields)}


def difference(before: Content, after: Content) -> Difference:
    """What leads from one content to another."""
    old, new = compared(before), compared(after)
    return Difference(
        _lists(_elements(old, "nodes"), _elements(new, "nodes")),
        _lists(_elements(old, "edges"), _elements(new, "edges")),
        tuple(_paths(_without_elements(old), _without_elements(new), "")),
    )


def _structure(content: Mapping[str, JSON]) -> Mapping[str, JSON]:
    return optional_object(content.get("workflowStructure")) or {}


def _elements(content: Mapping[str, JSON], name: str) -> Mapping[str, Element]:
    elements = as_objects(_structure(content).get(name) or ())
    return {as_text(one["id"]): {key: value for key, value in one.items() if key != "position"} for one in elements}


def _without_elements(content: Mapping[str, JSON]) -> dict[str, JSON]:
    others = {name: value for name, value in _structure(content).items() if name not in ("nodes", "edges")}
    rest = {name: value for name, value in content.items() if name != "workflowStructure"}
    return {**rest, **({"workflowStructure": others} if others else {})}


def _lists(old: Mapping[str, Element], new: Mapping[str, Element]) -> ListDifference:
    both = ((name, tuple(_paths(old[name], new[name], ""))) for name in new if name in old)
    return ListDifference(
        tuple(name for name in new if name not in old),
        tuple(name for name in old if name not in new),
        tuple(Changed(name, paths) for name, paths in both if paths),
    )


def _paths(old: JSON, new: JSON, path: str) -> Iterator[str]:
    """The paths of the values that differ, as deep as both have the same structure."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in (*old, *(name for name in new if name not in old)):
            inner = f"{path}.{name}" if path else str(name)
            if name not in old or name not in new:
                yield inner
            else:
                yield from _paths(old[name], new[name], inner)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _paths(before, after, f"{path}[{index}]")
    elif old != new or isinstance(old, bool) != isinstance(new, bool):
        yield path
