"""One HTTP request from its first byte to its answer: id, headers, log line and metrics."""

from __future__ import annotations

import itertools
import logging
import os
import re
from time import perf_counter
from typing import TYPE_CHECKING, Any

from service.log import logger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.api.operations import Use
    from service.errors import RequestError
    from service.metrics import Metrics
    from service.settings import Settings

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,128}")

WAITED_SECONDS = "waited_seconds"
"""Key of the scope's state under which the protocol says how long it waited for the body."""

NOT_STORED = (b"cache-control", b"no-store")
"""Answers hold what a caller wrote; no cache on the way is to keep them."""

_FIRST_ERROR_STATUS = 400

_numbers = itertools.count(1)


def _process_name() -> bytes:
    return os.urandom(8).hex().encode()


_process = _process_name()


def _renew() -> None:
    """In a forked worker: ids that the other workers don't give."""
    global _process  # noqa: PLW0603 - one process, one name
    _process = _process_name()


os.register_at_fork(after_in_child=_renew)


def request_id_of(headers: Mapping[bytes, bytes]) -> bytes:
    """The id that the client gave its request, or an id that no other request has.

    The latter is a random name of the process and a running number.
    """
    given = headers.get(b"x-request-id")
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given
    return b"%b-%x" % (_process, next(_numbers))


class Exchange:
    """What is known of one request while it is answered."""

    __slots__ = (
        "_log_requests",
        "_metrics",
        "_started",
        "error",
        "headers",
        "method",
        "request_id",
        "route",
        "uses",
    )

    def __init__(
        self,
        scope: Any,  # noqa: ANN401 - ASGI
        route: str,
        metrics: Metrics,
        settings: Settings,
    ) -> None:
        self._started = perf_counter() - scope.get("state", {}).get(WAITED_SECONDS, 0.0)
        self._metrics = metrics
        self._log_requests = settings.log_requests
        self.route = route
        self.method: str = scope["method"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.uses: list[Use] = []
        self.error: RequestError | None = None
        self.request_id = request_id_of(self.headers)
        metrics.add_in_flight(1)

    def finish(self, status: int) -> None:
        """Note that the answer is sent, or that nobody is there to take it."""
        seconds = perf_counter() - self._started
        metrics = self._metrics
        metrics.add_in_flight(-1)
        metrics.observe_request(self.route, status, seconds)
        if self.error is not None:
            metrics.count_rejected(self.error.code)
        operation = self.route[1:]
        for use in self.uses:
            _record_use(metrics, operation, use)
        failed = status >= _FIRST_ERROR_STATUS
        if self._log_requests == "all" or (failed and self._log_requests == "errors"):
            self._log(status, seconds)

    def _log(self, status: int, seconds: float) -> None:
        fields: dict[str, object] = {
            "method": self.method,
            "route": self.route,
            "status": status,
            "duration_ms": round(seconds * 1000, 3),
            "request_id": self.request_id.decode(),
        }
        if self.uses:
            fields["tokenizer"] = [use.tokenizer for use in self.uses]
            fields["bytes"] = sum(use.text_bytes for use in self.uses)
            fields["count"] = sum(use.tokens for use in self.uses)
        if self.error is not None:
            fields["code"] = self.error.code
        level = logging.WARNING if status >= _FIRST_ERROR_STATUS else logging.INFO
        logger.log(level, "request", extra={"fields": fields})


def _record_use(metrics: Metrics, operation: str, use: Use) -> None:
    tokenizer = use.tokenizer
    metrics.observe_operation(operation, tokenizer, use.engine_seconds)
    metrics.count_text(operation, tokenizer, use.tokens, use.text_bytes)
    for ratio in use.tokens_per_byte:
        metrics.observe_tokens_per_byte(tokenizer, ratio)
    for policy, number in use.special_spellings.items():
        metrics.count_spellings(tokenizer, policy, number)
    if use.unknown_tokens:
        metrics.count_unknown(tokenizer, use.unknown_tokens)
    if use.replacements:
        metrics.count_replacements(tokenizer, use.replacements)
