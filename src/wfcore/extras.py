"""Optional dependencies: the extras of the distribution, and the error when one is not installed."""

from collections.abc import Iterator
from contextlib import contextmanager

from wfcore.domain.kernel.errors import Unavailable


class MissingExtra(Unavailable, ImportError):
    """A feature was used whose packages are not installed. `extra` is the extra of `wfcore` that installs them.

    `beside` is a package of the product that the feature needs too, and that no extra installs.

    It is an ImportError for the code that imports the feature, and Unavailable (503) for a request that needs it.
    """

    is_temporary = False

    def __init__(self, extra: str, feature: str, beside: str | None = None) -> None:
        packages = f"`wfcore[{extra}]`" if beside is None else f"`{beside}` and `wfcore[{extra}]`"
        super().__init__(f"{feature} needs packages that are not installed: install {packages}")
        self.extra = extra


@contextmanager
def needs_extra(extra: str, feature: str, beside: str | None = None) -> Iterator[None]:
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
        raise MissingExtra(extra, feature, beside) from error
