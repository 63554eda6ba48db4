"""The log: one JSON object a line, and nothing in it that a request brought."""

from __future__ import annotations

import io
import json
import logging
import sys
from typing import TYPE_CHECKING, Any

import pytest

from service.log import LOGGER_NAME, configure_logging, logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QUOTED = "the text of a request"

NAMES = (LOGGER_NAME, "uvicorn")


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Gives what was written to standard error, each line read as JSON."""
    loggers = [logging.getLogger(name) for name in NAMES]
    before = [(each.handlers, each.level, each.propagate) for each in loggers]
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    configure_logging()
    configure_logging()  # a second call adds nothing
    yield lambda: [json.loads(line) for line in stream.getvalue().split("\n")[:-1]]
    for each, (handlers, level, propagate) in zip(loggers, before, strict=True):
        each.handlers, each.propagate = handlers, propagate
        each.setLevel(level)


def fail(message: str) -> None:
    raise ValueError(message)


def test_a_line_is_a_json_object(lines: Callable[[], list[dict[str, Any]]]) -> None:
    fields = {"status": 200, "tokenizer": ["a", "b"], "duration_ms": 0.5}
    logger.info("request", extra={"fields": fields})
    (line,) = lines()
    assert line.pop("time").endswith("+00:00")
    assert line == {"level": "info", "message": "request", **fields}


def test_a_line_stays_one_line(lines: Callable[[], list[dict[str, Any]]]) -> None:
    breaks = 'a\nb\r\nc\u2028d\x85e"f\\g\x00'
    logger.warning("first\nsecond", extra={"fields": {"value": breaks}})
    logger.warning("another")
    first, second = lines()
    assert (first["message"], first["value"]) == ("first\nsecond", breaks)
    assert second["message"] == "another"


def test_arguments_are_put_into_the_message(lines: Callable[[], list[dict[str, Any]]]) -> None:
    logging.getLogger("uvicorn.error").error("Cancel %s running task(s)", 2)
    (line,) = lines()
    assert (line["level"], line["message"]) == ("error", "Cancel 2 running task(s)")


def test_an_exception_is_its_type_and_its_places(
    lines: Callable[[], list[dict[str, Any]]],
) -> None:
    """A library's message can quote what it was given."""
    try:
        fail(QUOTED)
    except ValueError as error:
        logger.error("internal error", exc_info=error)
        logger.exception("the same")
    for line in lines():
        assert line["exception"] == "ValueError"
        assert [place.split()[-1] for place in line["at"]] == [
            "test_an_exception_is_its_type_and_its_places",
            "fail",
        ]
        assert QUOTED not in json.dumps(line)
    assert len(lines()) == 2


def test_nor_is_the_message_of_a_cause_or_of_a_group(
    lines: Callable[[], list[dict[str, Any]]],
) -> None:
    try:
        try:
            fail(QUOTED)
        except ValueError as cause:
            cause.add_note(QUOTED)
            raise ExceptionGroup(QUOTED, [cause, TypeError(QUOTED)]) from cause
    except ExceptionGroup as error:
        logger.error("internal error", exc_info=error, stack_info=True)
    (line,) = lines()
    assert line["exception"] == "ExceptionGroup"
    assert QUOTED not in json.dumps(line)


def test_outside_of_an_exception_there_is_none(
    lines: Callable[[], list[dict[str, Any]]],
) -> None:
    logger.error("no exception", exc_info=True)
    (line,) = lines()
    assert set(line) == {"time", "level", "message"}


def test_what_is_too_small_to_be_written(lines: Callable[[], list[dict[str, Any]]]) -> None:
    logger.debug("not of ours")
    logging.getLogger("uvicorn.error").info("nor of the server")
    logging.getLogger("uvicorn.error").warning("but this")
    logger.info("and this")
    assert [line["message"] for line in lines()] == ["but this", "and this"]


def test_lines_are_not_written_twice(lines: Callable[[], list[dict[str, Any]]]) -> None:
    """Not by a second handler, and not by one that somebody gave to the root."""
    other = logging.StreamHandler(elsewhere := io.StringIO())
    logging.getLogger().addHandler(other)
    try:
        logger.info("once")
    finally:
        logging.getLogger().removeHandler(other)
    assert [line["message"] for line in lines()] == ["once"]
    assert elsewhere.getvalue() == ""
