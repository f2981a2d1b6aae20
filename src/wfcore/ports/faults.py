"""Faults of the installation itself, as opposed to outcomes of what a run requested."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from logging import Logger

from wfcore.domain.kernel.errors import Unavailable, WfcoreError


class StoreUnavailable(Exception):
    """The installation's own store does not respond. It is never the outcome of an effect: the effect is repeated.

    Raised before a call to the outside was made, so repeating is safe.
    """


class InternalFault(Exception):
    """The installation failed in an unexpected way; its cause may quote the database, and is only for the log."""


class ClaimLost(Exception):
    """Another worker has claimed the execution, or nobody has: the session here must stop."""


def is_failure(error: BaseException) -> bool:
    """Whether an exception that a tool, a model or another function of the product has raised is a failure of that
    function. Every class counts, such as the `PanicException` of a module in Rust, which is no `Exception`.

    False for what ends the caller too: a cancellation of the current task, and KeyboardInterrupt. GeneratorExit counts:
    when a coroutine is closed, each coroutine that awaits it gets a GeneratorExit of its own.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or task.cancelling() == 0
    return not isinstance(error, KeyboardInterrupt)


def log_failure(log: Logger, what: str, error: BaseException, **extra: object) -> None:
    """Log a failure of work that is repeated. An outage is one line, without a traceback: it fails every attempt."""
    log.error("%s: %s", what, error, exc_info=None if isinstance(error, Unavailable) else error, extra=extra)


@contextmanager
def own_work(*expected: type[Exception]) -> Iterator[None]:
    """Run a part of an effect that only touches the installation itself, such as its store.

    Unavailable becomes StoreUnavailable, any failure that is neither `expected` nor wfcore's own becomes
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
    except GeneratorExit:
        raise
    except BaseException as error:
        if not is_failure(error):
            raise
        raise InternalFault from error
