"""Faults of the installation are told apart from failures of an effect."""

import logging

import pytest

from wfcore.domain.kernel.errors import Conflict, Unavailable
from wfcore.extras import MissingExtra
from wfcore.ports.faults import InternalFault, Outage, StoreUnavailable, log_failure, own_work
from wfcore.testing.fakes import FakeClock


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


def test_an_outage_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """The store fails every poll until it is back, so only other failures have a traceback."""
    log = logging.getLogger("wfcore.test")
    for error in (Unavailable("the database does not answer"), ValueError("a fault")):
        log_failure(log, "a poll failed", error, organization="acme")
    outage, fault = caplog.records
    assert (outage.getMessage(), outage.exc_info) == ("a poll failed: the database does not answer", None)
    assert (fault.getMessage(), vars(fault)["organization"]) == ("a poll failed: a fault", "acme")
    assert fault.exc_info is not None


def test_a_long_outage_is_few_lines_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Of all work that fails again and again there is a line at the begin, one each minute, and one at the end."""
    log, clock = logging.getLogger("wfcore.test"), FakeClock()
    outage, error = Outage(clock), Unavailable("the database does not answer")
    for _ in range(90):
        outage.failed_again(log, "a round failed", error)
        outage.failed_again(log, "a poll failed", error)
        outage.failed(log, "a delivery failed", error)
        clock.advance(1)
    outage.failed(log, "a poll failed", ValueError("a fault"))
    for what in ("a poll failed", "a round failed", "a round failed"):
        outage.worked(log, what)
    outage.failed_again(log, "a poll failed", error)
    assert [record.getMessage() for record in caplog.records] == [
        "a round failed: the database does not answer",
        "a round failed, for 60 seconds now: the database does not answer",
        "a poll failed: a fault",
        "the store works again, after 90 seconds",
        "a poll failed: the database does not answer",
    ]
