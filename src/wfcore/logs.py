"""Logs: those of the standard library, with the ids of the request and the run under way on every record.

Loggers are named `wfcore...`; one line per request is of `wfcore.access`, at level INFO. A product that has logging of
its own adds `Correlated()` to its handlers, and `JsonLines()` where it wants JSON.
"""

import logging
from datetime import UTC, datetime
from typing import Any, Final, Literal

import orjson

from wfcore.ports.audit import ORIGIN
from wfcore.ports.telemetry import RUN

Format = Literal["text", "json"]
LevelName = Literal["debug", "info", "warning", "error"]

_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
"""What every record has by itself: whatever else is there was given as `extra`."""


class Correlated(logging.Filter):
    """Gives each record `request_id` and `run_id`, of what is under way where it was made; "" for none."""

    def filter(self, record: logging.LogRecord) -> bool:
        given = vars(record)
        given.setdefault("request_id", ORIGIN.get().request_id or "")
        given.setdefault("run_id", RUN.get())
        return True


class JsonLines(logging.Formatter):
    """Each record as one line of JSON: `at` (UTC), `level`, `logger`, `message`, what was given as `extra` and is not
    empty, and `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "at": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{name: value for name, value in vars(record).items() if name not in _OWN and value not in ("", None)},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


class TextLines(logging.Formatter):
    """Each record for people: time, level, logger, message, and the ids there are."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (the name of the standard library)
        ids = [f"{name}={value}" for name in ("request_id", "run_id") if (value := vars(record).get(name))]
        return " ".join([super().formatMessage(record), *ids])


def configure(format: Format, level: LevelName) -> None:
    """Log to stderr: wfcore from this level on, whatever else there is from WARNING on, since it may show addresses
    and values. Does nothing in a program whose logging is set up already."""
    if logging.root.handlers:
        return
    handler = logging.StreamHandler()
    handler.addFilter(Correlated())
    handler.setFormatter(JsonLines() if format == "json" else TextLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("wfcore").setLevel(level.upper())
