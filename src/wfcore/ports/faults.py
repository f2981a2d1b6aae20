"""Faults of the installation itself, as opposed to outcomes of what a run requested."""

from collections.abc import Iterator
from contextlib import contextmanager

from wfcore.domain.kernel.errors import Unavailable, WfcoreError


class StoreUnavailable(Exception):
    """The installation's own store does not respond. It is never the outcome of an effect: the effect is repeated.

    Raised before a call to the outside was made, so repeating is safe.
    """


class InternalFault(Exception):
    """The installation failed in an unexpected way; its cause may quote the database, and is only for the log."""


class ClaimLost(Exception):
    """Another worker has claimed the execution, or nobody has: the session here must stop."""


@contextmanager
def own_work(*expected: type[Exception]) -> Iterator[None]:
    """Run a part of an effect that only touches the installation itself, such as its store.

    Unavailable becomes StoreUnavailable, any exception that is neither `expected` nor wfcore's own becomes
    InternalFault. A missing extra passes: it does not come back by waiting.
    """
    try:
        yield
    except expected:
        raise
    except Unavailable as error:
        if isinstance(error, ImportError):
            raise
        raise StoreUnavailable from error
    except (WfcoreError, StoreUnavailable, InternalFault):
        raise
    except Exception as error:
        raise InternalFault from error
