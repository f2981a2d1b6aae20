"""How many ways lead through a JSON Schema: what a value may cost to check.

`allOf`, `anyOf`, `$ref` and their like lead on without consuming anything of the value. Two of them in a row,
ten rows deep, are a thousand ways. A schema may refer back to itself, but along one way for each part of the
value; else the ways double with every level of the value, which no bound on the schema can catch.
"""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

import attrs

from wfcore.domain.kernel.json_type import JSON

MAX_WAYS: Final = 2_000
MAX_CHAIN: Final = 64

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
    | {"unevaluatedItems", "unevaluatedProperties", "contentSchema"}
)
"""Keywords whose value is one schema."""
LISTED: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
"""Keywords whose value is a list of schemas."""
NAMED: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})
"""Keywords whose value is an object of schemas; `$defs` apply only where something refers to them."""
REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
DISJOINT: Final = frozenset({"properties", "additionalProperties", "prefixItems", "items", "additionalItems"})
"""Keywords whose schemas never meet the same part of a value."""


class SchemaTooComplex(Exception):
    """A schema that is deeper, larger or further away than can be checked; `path` leads to the place."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path
        self.message = message


@attrs.frozen(eq=False)
class _Place:
    """A subschema, where it stands, and whether it and its siblings apply to different parts of a value."""

    schema: JSON
    path: Path
    disjoint: bool = False


@attrs.frozen
class Cost:
    """What checking may take: schemas that meet one part of a value, and circles that lead on to circles.

    A value of n parts, d levels deep, takes at most ways * n * d**(circles - 1) checks.
    """

    ways: int
    circles: int


@attrs.define(eq=False)
class _Visit:
    """What the depth-first search knows of a subschema; `open` while its circle, if any, is not complete."""

    order: int
    low: int
    ways: int = 1
    circles: int = 0
    open: bool = True


def cost(schema: JSON) -> Cost:
    """How much a schema may ask for. Raises SchemaTooComplex."""
    visit = _Search(schema).visit(_Place(schema, ()))
    return Cost(visit.ways, visit.circles)


class _Search:
    """Tarjan's search for strongly connected components (SIAM J. Comput. 1, 1972), counting ways."""

    def __init__(self, root: JSON) -> None:
        self.root = root
        self.visits: dict[int, _Visit] = {}
        self.stack: list[int] = []
        self.chain = 0
        self.anchors = dict(anchor for place in _every(_Place(root, ())) for anchor in _anchors(place))

    def visit(self, place: _Place) -> _Visit:
        self.chain += 1
        if self.chain > MAX_CHAIN:
            raise SchemaTooComplex(place.path, f"the schema is nested deeper than {MAX_CHAIN} levels")
        visit = _Visit(len(self.visits), len(self.visits))
        self.visits[id(place.schema)] = visit
        self.stack.append(id(place.schema))
        back = self.go_on(visit, place)
        if len(back) > 1 and not all(step.disjoint for step in back):
            raise SchemaTooComplex(place.path, "the schema refers back to itself in more than one way at once")
        if visit.ways > MAX_WAYS:
            raise SchemaTooComplex(place.path, f"there are more than {MAX_WAYS} ways through the schema")
        if visit.low == visit.order:
            visit.circles += bool(back)
            self.close(visit, id(place.schema))
        self.chain -= 1
        return visit

    def go_on(self, visit: _Visit, place: _Place) -> list[_Place]:
        """Follow every step and add its ways up; gives the steps that lead back to this subschema."""
        back, apart = [], 0
        for step in self.steps(place):
            known = self.visits.get(id(step.schema))
            target = known or self.visit(step)
            ways = 0 if known and known.open else target.ways
            apart, visit.ways = (max(apart, ways), visit.ways) if step.disjoint else (apart, visit.ways + ways)
            visit.circles = max(visit.circles, target.circles)
            if target.open:
                visit.low = min(visit.low, target.low)
                back.append(step)
        visit.ways += apart
        return back

    def close(self, visit: _Visit, key: int) -> None:
        """The circle of a subschema is complete: each of its members costs as much as the whole."""
        while (member := self.stack.pop()) != key:
            self.visits[member].open = False
            self.visits[member].ways, self.visits[member].circles = visit.ways, visit.circles
        visit.open = False

    def steps(self, place: _Place) -> Iterator[_Place]:
        """The subschemas a value meets next."""
        if type(place.schema) is dict:
            yield from _parts(place)
            for keyword in REFERENCES & place.schema.keys():
                yield self.resolve(place.schema[keyword], (*place.path, keyword))

    def resolve(self, reference: JSON, path: Path) -> _Place:
        """The subschema a reference inside this schema names (RFC 6901 pointer, or an anchor)."""
        if type(reference) is not str or not reference.startswith("#"):
            raise SchemaTooComplex(path, "only references inside the schema, such as `#/$defs/name`, are followed")
        if reference[1:] in self.anchors:
            return self.anchors[reference[1:]]
        if reference[1:2] not in {"", "/"}:
            raise SchemaTooComplex(path, f"there is no anchor `{reference[1:80]}` in the schema")
        steps = [step.replace("~1", "/").replace("~0", "~") for step in unquote(reference[1:]).split("/")[1:]]
        target = self.root
        for step in steps:
            key = int(step) if type(target) is list and _POSITION.fullmatch(step) else step
            try:
                target = target[key]
            except (LookupError, TypeError):
                raise SchemaTooComplex(path, f"`{reference[:80]}` is not in the schema") from None
        return _Place(target, tuple(steps))


def _parts(place: _Place) -> Iterator[_Place]:
    """The subschemas that stand inside a schema and apply when it does."""
    for keyword, value in place.schema.items():
        path, disjoint = (*place.path, keyword), keyword in DISJOINT
        if keyword in ONE and type(value) in {dict, bool}:
            yield _Place(value, path, disjoint)
        elif keyword in LISTED and type(value) is list:
            yield from (_Place(part, (*path, index), disjoint) for index, part in enumerate(value))
        elif keyword in NAMED and type(value) is dict:
            yield from (_Place(part, (*path, name), disjoint) for name, part in value.items())


def _every(place: _Place) -> Iterator[_Place]:
    """A schema and all schemas written inside it, definitions included."""
    if len(place.path) > 2 * MAX_CHAIN:
        raise SchemaTooComplex(place.path, f"the schema is nested deeper than {MAX_CHAIN} levels")
    if type(place.schema) is not dict:
        return
    yield place
    for part in [*_parts(place), *_definitions(place)]:
        yield from _every(part)


def _definitions(place: _Place) -> Iterator[_Place]:
    for keyword in ("$defs", "definitions"):
        if type(place.schema.get(keyword)) is dict:
            for name, part in place.schema[keyword].items():
                yield _Place(part, (*place.path, keyword, name))


def _anchors(place: _Place) -> Iterator[tuple[str, _Place]]:
    if place.path and "$id" in place.schema:
        raise SchemaTooComplex((*place.path, "$id"), "only the whole schema may have an id")
    for keyword in ("$anchor", "$dynamicAnchor"):
        if type(name := place.schema.get(keyword)) is str:
            yield name, place
