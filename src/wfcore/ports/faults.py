"""Faults of the installation itself, as opposed to outcomes of what a run requested."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from logging import Logger
from typing import Final

from wfcore.domain.kernel.errors import Unavailable, WfcoreError
from wfcore.ports.system import Clock


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


class Outage:
    """The lines in the log about an outage of the installation's own store, in which all work of a process fails again
    and again: one when it begins, one each minute, and one when it is over.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun_by = ""
        self._begun = self._logged = 0

    def failed(self, log: Logger, what: str, error: BaseException, **extra: object) -> None:
        """Log a failure of work that is repeated. It is left out if it adds nothing to an outage that is in the log."""
        if not (self._begun_by and isinstance(error, Unavailable)):
            log_failure(log, what, error, **extra)
            return
        now = self._clock.monotonic()
        if now - self._logged >= REMIND:
            self._logged = now
            log.error("%s, for %d seconds now: %s", what, (now - self._begun) // 1000, error)

    def failed_again(self, log: Logger, what: str, error: BaseException) -> None:
        """As `failed`, for work that is repeated every second or so, and reports when it has `worked`."""
        self.failed(log, what, error)
        if isinstance(error, Unavailable) and not self._begun_by:
            self._begun_by = what
            self._begun = self._logged = self._clock.monotonic()

    def worked(self, log: Logger, what: str) -> None:
        """The work succeeded. If the outage began with it, the outage is over."""
        if self._begun_by == what:
            log.warning("the store works again, after %d seconds", (self._clock.monotonic() - self._begun) // 1000)
            self._begun_by = ""


REMIND: Final = 60_000
"""Milliseconds between two lines about an outage that lasts."""


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
