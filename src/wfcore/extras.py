"""Optional dependencies: the extras of the distribution, and the error when one is not installed."""

from collections.abc import Iterator
from contextlib import contextmanager

from wfcore.domain.kernel.errors import Unavailable


class MissingExtra(Unavailable, ImportError):
    """A feature was used whose packages are not installed. `extra` is the extra of `wfcore` that installs them.

    It is an ImportError for the code that imports the feature, and Unavailable (503) for a request that needs it.
    """

    is_temporary = False

    def __init__(self, extra: str, feature: str) -> None:
        super().__init__(f"{feature} needs packages that are not installed: install `wfcore[{extra}]`")
        self.extra = extra


@contextmanager
def needs_extra(extra: str, feature: str) -> Iterator[None]:
    """Run imports of optional packages. Raises MissingExtra when one of them is not installed.

    A module of wfcore that cannot be imported is a fault of wfcore: its ImportError passes through.
    """
    try:
        yield
    except MissingExtra:
        raise
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "wfcore":
            raise
        raise MissingExtra(extra, feature) from error
