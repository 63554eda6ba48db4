"""Fixtures of the contract tests."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
from typing import TYPE_CHECKING, Any

import pytest

from service.api.app import create_app
from service.log import LOGGER_NAME, configure_logging
from service.settings import Settings
from tests.asgi import AppClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from service.catalog.catalog import Catalog


@pytest.fixture
def new_client(catalog: Catalog) -> Iterator[Callable[..., AppClient]]:
    """Makes clients of applications of their own: other settings, other artifacts, new metrics."""
    with contextlib.ExitStack() as stack:

        def make(other: Catalog | None = None, **settings: Any) -> AppClient:
            app = create_app(Settings(**settings), other or catalog)
            return stack.enter_context(AppClient(app))

        yield make


class Log:
    """What the service wrote to its log."""

    def __init__(self, stream: io.StringIO) -> None:
        self._stream = stream

    @property
    def text(self) -> str:
        return self._stream.getvalue()

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The lines, each of which has to be a JSON object."""
        return [json.loads(line) for line in self.text.splitlines()]

    def only(self) -> dict[str, Any]:
        """The one line there is."""
        (line,) = self.lines
        return line


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    """The log as the service configures it, caught."""
    loggers = [logging.getLogger(name) for name in (LOGGER_NAME, "uvicorn")]
    before = [(logger.handlers, logger.level, logger.propagate) for logger in loggers]
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    configure_logging()
    try:
        yield Log(stream)
    finally:
        for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)
