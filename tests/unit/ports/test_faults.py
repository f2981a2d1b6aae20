"""Faults of the installation are told apart from failures of an effect."""

import pytest

from wfcore.domain.kernel.errors import Conflict, Unavailable
from wfcore.extras import MissingExtra
from wfcore.ports.faults import InternalFault, StoreUnavailable, own_work


@pytest.mark.parametrize(
    ("raised", "seen"),
    [
        (Unavailable("the store does not respond"), StoreUnavailable),
        (MissingExtra("http", "a request"), MissingExtra),
        (KeyError("expected"), KeyError),
        (ValueError("a fault"), InternalFault),
        (Conflict("of the user"), Conflict),
        (StoreUnavailable(), StoreUnavailable),
        (BaseException("a panic"), InternalFault),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (GeneratorExit(), GeneratorExit),
    ],
)
def test_what_leaves_a_part_of_the_installation(raised: BaseException, seen: type[BaseException]) -> None:
    """Only what is expected, or is wfcore's own error, passes as it is."""
    with pytest.raises(seen) as found, own_work(KeyError):
        raise raised
    assert type(found.value) is seen
