"""Logging with the standard library, with the ids of the current request and run on every record.

Loggers are named `wfcore...`; `wfcore.access` logs one line per request at level INFO. A product with its own logging
adds `Correlated()` to its handlers, and `JsonLines()` for JSON.
"""

import logging
from datetime import UTC, datetime
from typing import Any, Final, Literal

import orjson

from wfcore.ports.repositories.audit import ORIGIN
from wfcore.ports.telemetry import RUN

Format = Literal["text", "json"]
LevelName = Literal["debug", "info", "warning", "error"]

_FIELDS: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
"""The attributes of every record: all others come from `extra`."""


class Correlated(logging.Filter):
    """Adds `request_id` and `run_id` of the current request and run to each record; "" without one."""

    def filter(self, record: logging.LogRecord) -> bool:
        attributes = vars(record)
        attributes.setdefault("request_id", ORIGIN.get().request_id or "")
        attributes.setdefault("run_id", RUN.get())
        return True


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON: `at` (UTC), `level`, `logger`, `message`, the fields of `extra` that are
    not empty, and `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "at": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{name: value for name, value in vars(record).items() if name not in _FIELDS and value not in ("", None)},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


class TextLines(logging.Formatter):
    """Formats a record as text: time, level, logger, message, and the ids that are set."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (named by the standard library)
        ids = [f"{name}={value}" for name in ("request_id", "run_id") if (value := vars(record).get(name))]
        return " ".join([super().formatMessage(record), *ids])


def configure(format: Format, level: LevelName) -> None:
    """Log to stderr: wfcore from this level on, other libraries from WARNING on, since they can log addresses and
    values. Does nothing when the program has configured logging already."""
    if logging.root.handlers:
        return
    handler = logging.StreamHandler()
    handler.addFilter(Correlated())
    handler.setFormatter(JsonLines() if format == "json" else TextLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("wfcore").setLevel(level.upper())
