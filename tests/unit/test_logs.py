"""Log formats, with the ids of the current request and run."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from wfcore.logs import Correlated, JsonLines, TextLines, configure
from wfcore.ports.repositories.audit import ORIGIN, Origin
from wfcore.ports.telemetry import RUN

logger = logging.getLogger("wfcore.tested")


@pytest.fixture(params=[JsonLines, TextLines])
def lines(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    """The log output in each format."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.addFilter(Correlated())
    handler.setFormatter(request.param())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield text
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


def test_every_record_has_the_request_and_run_ids(lines: io.StringIO) -> None:
    """Lines of every logger have the ids of the current request and run."""
    request, run = ORIGIN.set(Origin("req-1", None)), RUN.set("run-1")
    logger.info("it happened")
    ORIGIN.reset(request)
    RUN.reset(run)
    logger.info("outside")
    first, second = lines.getvalue().splitlines()
    assert "req-1" in first
    assert "run-1" in first
    assert "request_id" not in second
    assert "run_id" not in second


@pytest.fixture
def as_json() -> Iterator[list[dict[str, Any]]]:
    """The parsed lines of JSON."""
    text, found = io.StringIO(), list[dict[str, Any]]()
    handler = logging.StreamHandler(text)
    handler.addFilter(Correlated())
    handler.setFormatter(JsonLines())

    class Reader(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(json.loads(handler.format(record)))
            assert "\n" not in handler.format(record)

    reader = Reader()
    reader.addFilter(Correlated())
    logger.addHandler(reader)
    yield found
    logger.removeHandler(reader)


def test_json_has_the_extra_fields(as_json: list[dict[str, Any]]) -> None:
    """Time in UTC, level, logger, message, and `extra` with its types; other values than JSON become text."""
    logger.warning("a `%s`", "b\nc", extra={"execution": 7, "request_id": "own", "odd": {1}})
    (line,) = as_json
    assert line.pop("at").endswith("Z")
    assert line == {
        "level": "warning", "logger": "wfcore.tested", "message": "a `b\nc`",
        "execution": 7, "request_id": "own", "odd": "{1}",
    }  # fmt: skip


def test_json_has_the_traceback(as_json: list[dict[str, Any]]) -> None:
    """An exception is on the same line, under `exception`."""
    try:
        int("why")
    except ValueError:
        logger.exception("it failed")
    assert as_json[0]["exception"].endswith("invalid literal for int() with base 10: 'why'")


def test_configure_keeps_existing_logging() -> None:
    """A program with log handlers is not changed."""
    kept = list(logging.root.handlers), logging.getLogger("wfcore").level
    assert kept[0], "pytest has some"
    configure("json", "debug")
    assert (logging.root.handlers, logging.getLogger("wfcore").level) == kept


def test_configure_sets_up_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    """wfcore from the given level on, other loggers from WARNING on, in the given format."""
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(logging.root, "level", logging.NOTSET)
    monkeypatch.setattr(logging.getLogger("wfcore"), "level", logging.NOTSET)
    configure("json", "info")
    (handler,) = logging.root.handlers
    assert isinstance(handler.formatter, JsonLines)
    assert logging.getLogger("wfcore.access").isEnabledFor(logging.INFO)
    assert not logging.getLogger("httpx2").isEnabledFor(logging.INFO)
    logging.root.handlers.clear()
    logging.Logger.manager._clear_cache()  # type: ignore[attr-defined]
