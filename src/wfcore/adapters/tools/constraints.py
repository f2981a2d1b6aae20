"""Constraints in `Annotated`: those of msgspec, of annotated-types and of pydantic's `Field`, as one set of rules."""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import attrs
import msgspec

from wfcore.domain.kernel.json_type import JSON

_KEYS: Final = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern")
_TEXTS: Final = ("title", "description", "examples", "extra_json_schema")
_COMPARISONS: Final[Mapping[str, tuple[Callable[[Any, Any], bool], str]]] = {
    "gt": (operator.gt, "greater than"),
    "ge": (operator.ge, "at least"),
    "lt": (operator.lt, "less than"),
    "le": (operator.le, "at most"),
}


@attrs.frozen
class Constrained:
    """The rules and texts for one type, by the names of `msgspec.Meta`."""

    rules: Mapping[str, Any]

    @property
    def is_empty(self) -> bool:
        return not self.rules

    def meta(self) -> msgspec.Meta:
        return msgspec.Meta(**self.rules)

    def problem_of(self, value: Any) -> str | None:
        """The rule that a value breaks which msgspec cannot compare, such as a date."""
        for name, (holds, words) in _COMPARISONS.items():
            if name in self.rules and not holds(value, self.rules[name]):
                return f"must be {words} {self.rules[name]}"
        return None

    def documented(self) -> dict[str, JSON]:
        """Texts of the schema of such a type: its bounds in words, as JSON Schema compares only numbers."""
        texts = {name: self.rules[name] for name in _TEXTS[:3] if name in self.rules}
        bounds = [f"{words} {self.rules[name]}" for name, (_, words) in _COMPARISONS.items() if name in self.rules]
        if bounds:
            texts["description"] = "; ".join([*filter(None, [texts.get("description")]), *bounds])
        return texts


def constrained(metadata: Iterable[Any]) -> Constrained:
    """The rules of `Annotated` metadata; other metadata has no meaning here. Raises TypeError for a constraint of
    annotated-types that a JSON Schema cannot express."""
    found: dict[str, Any] = {}
    for entry in _flat(metadata):
        names = (*_KEYS, *_TEXTS) if _has_texts(entry) else _KEYS
        given = {name: value for name in names if (value := getattr(entry, name, None)) is not None}
        if not given and type(entry).__module__.partition(".")[0] == "annotated_types":
            raise TypeError(f"the constraint `{entry!r}` is not supported")
        found |= given
        if isinstance(getattr(entry, "documentation", None), str):  # typing_extensions.Doc
            found["description"] = entry.documentation
    return Constrained(found)


def _has_texts(entry: Any) -> bool:
    return isinstance(entry, msgspec.Meta) or hasattr(entry, "json_schema_extra")


def _flat(metadata: Iterable[Any]) -> Iterator[Any]:
    """The metadata, with the parts of a group (`annotated_types.Interval`) and of a `Field` of pydantic."""
    for entry in metadata:
        if isinstance(entry, (str, bytes, type)):
            continue
        if hasattr(entry, "__is_annotated_types_grouped_metadata__"):
            yield from _flat(entry)
            continue
        yield entry
        if isinstance(inner := getattr(entry, "metadata", None), (list, tuple)):
            yield from _flat(inner)
