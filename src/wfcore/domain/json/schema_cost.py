"""The number of paths through a JSON Schema: an upper bound of the cost of a check.

`allOf`, `anyOf`, `$ref` and similar keywords apply further schemas to the same part of the value. Two branches at
each of ten levels are about a thousand paths. A schema may refer back to itself, but only along one path for each
part of the value. With two, the number of paths doubles with every level of the value, which no bound on the
schema limits. `unevaluatedProperties` and `unevaluatedItems` check what is beside them again.

A pattern takes its states for each character, in the worst case: those of all paths are counted too.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import unquote

import attrs

from wfcore.domain.json.patterns import states_of
from wfcore.domain.kernel.json_readers import as_list, as_object
from wfcore.domain.kernel.json_type import JSON

MAX_PATHS: Final = 2_000
MAX_CHAIN: Final = 64
"""The most schemas in a row, each applied by the one before."""
MAX_STATES: Final = 20_000
"""The most states of all patterns in a schema: some megabytes of memory."""
UNEVALUATED: Final = {"unevaluatedItems", "unevaluatedProperties"}
CHECKED_AGAIN: Final = 3
"""How often the schemas beside one of `UNEVALUATED` are applied; 2.7 times by measurement."""

_POSITION: Final = re.compile(r"[0-9]{1,6}")

Path = tuple[str | int, ...]

ONE: Final = frozenset(
    {
        "not",
        "if",
        "then",
        "else",
        "items",
        "contains",
        "propertyNames",
        "additionalItems",
        "additionalProperties",
    }
    | {*UNEVALUATED, "contentSchema"}
)
"""Keywords whose value is one schema."""
LISTED: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
"""Keywords whose value is a list of schemas."""
NAMED: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})
"""Keywords whose value is an object of schemas; schemas in `$defs` apply only by reference."""
REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
DISJOINT: Final = frozenset({"properties", "additionalProperties", "prefixItems", "items", "additionalItems"})
"""Keywords whose schemas never apply to the same part of a value."""


class SchemaTooComplex(Exception):
    """A schema that is too deep, too large or refers outside itself; `path` is where."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path
        self.message = message


@attrs.frozen(eq=False)
class _Place:
    """A subschema, its path in the schema, and whether it and its siblings apply to different parts of a value."""

    schema: JSON
    path: Path
    disjoint: bool = False


@attrs.frozen
class Cost:
    """The most schemas that apply to one part of a value (`paths`), and the longest chain of `cycles`.

    A value of n parts, d levels deep, takes at most paths * n * d**(cycles - 1) checks. `scans` are the most states
    of patterns that apply to one text; `patterns` and `states` are those of the whole schema.
    """

    paths: int
    cycles: int
    scans: int = 0
    patterns: int = 0
    states: int = 0


@attrs.define(eq=False)
class _Visit:
    """The state of a subschema in the depth-first search; `open` while its component is not complete."""

    order: int
    low: int
    paths: int = 1
    cycles: int = 0
    scans: int = 0
    open: bool = True


def cost(schema: JSON) -> Cost:
    """The cost of a schema. Raises SchemaTooComplex."""
    search = _Search(schema)
    visit = search.visit(_Place(schema, ()))
    return Cost(visit.paths, visit.cycles, visit.scans, search.patterns, search.states)


class _Search:
    """Tarjan's search for strongly connected components (SIAM J. Comput. 1, 1972), which counts paths."""

    def __init__(self, root: JSON) -> None:
        self.root = root
        self.visits: dict[int, _Visit] = {}
        self.stack: list[int] = []
        self.chain = 0
        self.patterns = self.states = 0
        own = "id" if isinstance(root, dict) and "draft-04" in str(root.get("$schema")) else "$id"
        self.anchors = dict(anchor for place in _every(_Place(root, ())) for anchor in _anchors(place, own))

    def visit(self, place: _Place) -> _Visit:
        self.chain += 1
        if self.chain > MAX_CHAIN:
            raise SchemaTooComplex(place.path, f"the schema is nested deeper than {MAX_CHAIN} levels")
        visit = _Visit(len(self.visits), len(self.visits))
        self.visits[id(place.schema)] = visit
        self.stack.append(id(place.schema))
        visit.scans = self.count_patterns(place)
        back = self.follow_steps(visit, place)
        if len(back) > 1 and not all(step.disjoint for step in back):
            raise SchemaTooComplex(place.path, "the schema refers back to itself by more than one path at once")
        if visit.paths > MAX_PATHS:
            raise SchemaTooComplex(place.path, f"the schema has more than {MAX_PATHS} paths through it")
        if visit.low == visit.order:
            visit.cycles += bool(back)
            self.close(visit, id(place.schema))
        self.chain -= 1
        return visit

    def count_patterns(self, place: _Place) -> int:
        """The states of the patterns of one subschema."""
        schema = place.schema if isinstance(place.schema, dict) else {}
        named = schema.get("patternProperties")
        patterns = [*(named if isinstance(named, dict) else ()), schema.get("pattern")]
        found = [states_of(pattern) for pattern in patterns if isinstance(pattern, str)]
        self.patterns += len(found)
        self.states += sum(found)
        if self.states > MAX_STATES:
            raise SchemaTooComplex(place.path, f"the patterns of a schema have at most {MAX_STATES:,} states together")
        return sum(found)

    def follow_steps(self, visit: _Visit, place: _Place) -> list[_Place]:
        """Follow every step and add up paths and states; return the steps that lead back to an open subschema."""
        back, disjoint, texts = [], 0, 0
        for step in self.steps(place):
            known = self.visits.get(id(step.schema))
            target = known or self.visit(step)
            paths, scans = (0, 0) if known and known.open else (target.paths, target.scans)
            if step.disjoint:
                disjoint, texts = max(disjoint, paths), max(texts, scans)
            else:
                visit.paths, visit.scans = visit.paths + paths, visit.scans + scans
            visit.cycles = max(visit.cycles, target.cycles)
            if target.open:
                visit.low = min(visit.low, target.low)
                back.append(step)
        again = CHECKED_AGAIN ** len(UNEVALUATED & place.schema.keys()) if isinstance(place.schema, dict) else 1
        visit.paths, visit.scans = (visit.paths + disjoint) * again, (visit.scans + texts) * again
        return back

    def close(self, visit: _Visit, key: int) -> None:
        """Complete a strongly connected component: each member costs as much as the whole."""
        while (member := self.stack.pop()) != key:
            found = self.visits[member]
            found.open, found.paths, found.cycles, found.scans = False, visit.paths, visit.cycles, visit.scans
        visit.open = False

    def steps(self, place: _Place) -> Iterator[_Place]:
        """The subschemas that this one applies."""
        if isinstance(schema := place.schema, dict):
            yield from _parts(schema, place.path)
            for keyword in REFERENCES & schema.keys():
                yield self.resolve(schema[keyword], (*place.path, keyword))

    def resolve(self, reference: JSON, path: Path) -> _Place:
        """The subschema that a reference points to (RFC 6901 pointer, or an anchor)."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise SchemaTooComplex(path, "a reference must stay inside the schema, such as `#/$defs/name`")
        if reference[1:2] not in {"", "/"}:
            if reference[1:] in self.anchors:
                return self.anchors[reference[1:]]
            raise SchemaTooComplex(path, f"unknown anchor `{reference[1:80]}`: the schema does not define it")
        steps = [step.replace("~1", "/").replace("~0", "~") for step in unquote(reference[1:]).split("/")[1:]]
        target = self.root
        for step in steps:
            try:
                target = _child(target, step)
            except LookupError:
                raise SchemaTooComplex(path, f"`{reference[:80]}` is not in the schema") from None
        return _Place(target, tuple(steps))


def _child(value: JSON, step: str) -> JSON:
    """The member or item of a value. Raises LookupError."""
    if isinstance(value, list) and _POSITION.fullmatch(step):
        return as_list(value)[int(step)]
    if isinstance(value, dict):
        return as_object(value)[step]
    raise LookupError(step)


def _parts(schema: Mapping[str, JSON], place: Path) -> Iterator[_Place]:
    """The subschemas inside a schema that apply whenever it applies."""
    for keyword, value in schema.items():
        path, disjoint = (*place, keyword), keyword in DISJOINT
        if keyword in ONE and isinstance(value, dict | bool):
            yield _Place(value, path, disjoint)
        elif keyword in LISTED and isinstance(value, list):
            yield from (_Place(part, (*path, index), disjoint) for index, part in enumerate(value))
        elif keyword in NAMED and isinstance(value, dict):
            yield from (_Place(part, (*path, name), disjoint) for name, part in value.items())


def _every(place: _Place) -> Iterator[_Place]:
    """A schema and all schemas inside it, definitions included."""
    if len(place.path) > 2 * MAX_CHAIN:
        raise SchemaTooComplex(place.path, f"the schema is nested deeper than {MAX_CHAIN} levels")
    if not isinstance(schema := place.schema, dict):
        return
    yield place
    for part in [*_parts(schema, place.path), *_definitions(schema, place.path)]:
        yield from _every(part)


def _definitions(schema: Mapping[str, JSON], place: Path) -> Iterator[_Place]:
    for keyword in ("$defs", "definitions"):
        if isinstance(definitions := schema.get(keyword), dict):
            for name, part in definitions.items():
                yield _Place(part, (*place, keyword, name))


def _anchors(place: _Place, own: str) -> Iterator[tuple[str, _Place]]:
    """The anchors of a subschema. `own` is the keyword that would change what references in it mean."""
    schema = place.schema if isinstance(place.schema, dict) else {}
    for keyword in {own, "$id"} & schema.keys() if place.path else ():
        raise SchemaTooComplex((*place.path, keyword), f"only the root schema may have an `{keyword}`")
    for keyword in ("$anchor", "$dynamicAnchor"):
        if isinstance(name := schema.get(keyword), str):
            yield name, place
