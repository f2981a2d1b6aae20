"""Slow proofs: the suite runs a slice of their cases, `make proofs` all of them."""

import os
from collections.abc import Iterable
from typing import Final, TypeVar

EVERY_CASE: Final = bool(os.environ.get("EVERY_CASE"))

Case = TypeVar("Case")


def slice_of(cases: Iterable[Case], every: int, first: int = 0) -> list[Case]:
    """Each `every`th case, from the one with index `first` on; with `EVERY_CASE` in the environment, all."""
    return list(cases) if EVERY_CASE else list(cases)[first::every]
