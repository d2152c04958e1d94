"""Logs: one JSON object a line. Who asked what route and how it ended; no question, no answer, no record."""

from __future__ import annotations

import datetime
import functools
import json
import logging
import logging.config
import traceback
from pathlib import Path
from typing import Any

_log = logging.getLogger("sottovoce.faces.server")
_ROOT = Path(__file__).parents[2]
_WRITTEN = json.JSONEncoder().encode


class JsonLines(logging.Formatter):
    """A record as one line of JSON; of an exception its kind and where it came from, never what it says.

    What an exception says may quote a value; a traceback may show a line of code, and never a variable.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "at": f"{_second(int(record.created))}.{int(record.msecs):03}+00:00",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= getattr(record, "facts", {})
        if record.exc_info and record.exc_info[1] is not None:
            line |= _failure(record.exc_info[1])
        return _WRITTEN(line)


@functools.lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _failure(error: BaseException) -> dict[str, object]:
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{_short(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames[-8:]]
    return {"error": type(error).__name__, "where": places}


def _short(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(_ROOT.parent)) if path.is_relative_to(_ROOT.parent) else "/".join(path.parts[-2:])


def log_request(**facts: object) -> None:
    """Write that a request ended."""
    if _log.isEnabledFor(logging.INFO):  # straight to the handlers: to look for the line that calls takes longest
        record = logging.LogRecord(_log.name, logging.INFO, __file__, 0, "request", (), None)
        record.facts = facts
        _log.handle(record)


def log_failure(error: BaseException, **facts: str) -> None:
    """Write that something failed: its kind and its place, and facts that depend on no record."""
    _log.error("failure", extra={"facts": facts | _failure(error)})


def log_late(dataset: str, steps: float) -> None:
    """Write that an answer missed the first tick of the grid, and at which it left, which whoever asked saw too."""
    _log.warning("late answer", extra={"facts": {"dataset": dataset, "ticks": steps}})


LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "sottovoce.faces.server.logs.JsonLines"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stderr"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        "sottovoce": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
        "uvicorn": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
        "uvicorn.access": {"handlers": [], "level": "CRITICAL", "propagate": False},
    },
}
"""For `logging.config.dictConfig`. Uvicorn's own access log is off: it would write addresses with their queries."""
