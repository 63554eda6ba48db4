"""Logging: one JSON object a line on standard error, and never any text of a request."""

from __future__ import annotations

import logging
import sys
import traceback
from datetime import UTC, datetime

import msgspec

LOGGER_NAME = "tokenizer_service"

logger = logging.getLogger(LOGGER_NAME)


class _JsonFormatter(logging.Formatter):
    """Writes a record's message and its `fields`.

    Of an exception it writes the type and the places in the code, not the message: a library's
    message can quote the text it was given.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__name__
            line["at"] = [
                f"{frame.filename}:{frame.lineno} {frame.name}"
                for frame in traceback.extract_tb(record.exc_info[2])
            ]
        return msgspec.json.encode(line).decode()


def configure_logging() -> None:
    """Send the service's and the server's records to standard error as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter())
    for name, level in ((LOGGER_NAME, logging.INFO), ("uvicorn", logging.WARNING)):
        target = logging.getLogger(name)
        target.handlers = [handler]
        target.setLevel(level)
        target.propagate = False
