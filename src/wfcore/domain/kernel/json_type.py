"""The types of JSON values and numbers. `json_readers` has typed reads of values that were validated before."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    JSON: TypeAlias = bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"] | None
    """A JSON value: None, bool, int, float, str, list or dict with str keys."""
    Number: TypeAlias = float
    """A number that stays an int if it is one."""
else:
    JSON = Any  # msgspec and cattrs read annotations, and must keep such a value unchanged
    Number = int | float  # msgspec would read the int 1 as 1.0 where a float is declared
