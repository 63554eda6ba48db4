"""The quickest way: from the parts of an HTTP request to the bytes of its answer, without ASGI.

A coroutine, a task and the messages of ASGI cost more than counting the tokens of a prompt. So the
protocol (service/server/protocol.py) asks here first, as soon as a request is whole, and goes the
way of ASGI with everything that is not answered. What is answered is what the short way of
service/api/plain.py answers, and the answer is the door's to the byte, which a test compares.
"""

from __future__ import annotations

from http import HTTPStatus
from time import perf_counter
from typing import TYPE_CHECKING

from service.api.codec import JSON, MSGPACK, OFFERED, declared_length
from service.api.exchange import NOT_STORED, request_id_of
from service.api.operations import operations
from service.api.pace import LONG_BODY_BYTES, TEXT_SECONDS
from service.api.plain import QUICK_INLINE_BODY_BYTES
from service.api.problems import STATUS_OF_CODE, problem_body
from service.core.faults import is_fault
from service.errors import PayloadTooLarge, Unauthorized

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.api.engine import Engine
    from service.api.keys import ApiKeys
    from service.api.lifecycle import Lifecycle
    from service.api.plain import ShortWays
    from service.errors import RequestError
    from service.metrics import Metrics
    from service.settings import Settings

_MEDIA_TYPES = {
    (JSON.encode(), JSON.encode()): JSON,
    (JSON.encode(), b"*/*"): JSON,
    (MSGPACK.encode(), MSGPACK.encode()): MSGPACK,
}
"""By content-type and accept, in the spellings that nearly every client sends. The door reads all
others, and gives them other answers."""

_END = b"%b: %b\r\n\r\n" % NOT_STORED
_ANSWERS = {
    media_type: b"content-type: %b\r\n" % media_type.encode()
    + b"content-length: %d\r\nx-request-id: %b\r\n"
    + _END
    for media_type in OFFERED
}
_REFUSAL = (
    b"HTTP/1.1 %d %b\r\n%bcontent-type: application/problem+json\r\ncontent-length: %d\r\n"
    b"connection: close\r\nx-request-id: %b\r\n" + _END + b"%b"
)


class Quick:
    """Answers plain requests at once, or says that it does not."""

    def __init__(
        self,
        ways: Mapping[str, ShortWays],
        settings: Settings,
        metrics: Metrics,
        lifecycle: Lifecycle,
        *,
        keys: ApiKeys | None,
        engine: Engine,
    ) -> None:
        """`ways`: by the operation's name."""
        self._keys = keys
        self._lifecycle = lifecycle
        self._metrics = metrics
        # A line for every request needs what only the door notes.
        taken = settings.log_requests != "all"
        most = settings.max_body_bytes
        self.limit = min(QUICK_INLINE_BODY_BYTES, most) if taken else -1
        """Bytes of the longest body that is answered here whenever its text is quick."""
        self.long_limit = min(LONG_BODY_BYTES, most) if taken else -1
        """Bytes of the longest body that is answered here at all."""
        self._engine = engine
        self._max_body_bytes = settings.max_body_bytes
        self._ways = {
            path.encode(): (
                ways[operation.name],
                metrics.request_recorder(path, 200),
            )
            for path, operation in operations().items()
        }

    def takes(self, path: bytes) -> bool:
        """Whether a request to this path is work, and so has a body to wait for."""
        return path in self._ways

    def has_time_for(self, size: int) -> bool:
        """Whether there is time now for a longer body of so many bytes."""
        return size <= self.long_limit and self._engine.has_time()

    def awaited(self, headers: list[tuple[bytes, bytes]]) -> int | None:
        """Bytes of a body whose rest is worth waiting for, 0 where they are not known.

        None for one that is not: the door refuses its request.
        """
        given = dict(headers)
        try:
            length = declared_length(given, self._max_body_bytes)
        except PayloadTooLarge:
            return None
        return length if self._may_call(given) and not self._lifecycle.refuses_work else None

    def _may_call(self, headers: dict[bytes, bytes]) -> bool:
        if self._keys is None:
            return True
        try:
            self._keys.check(headers.get(b"authorization", b""))
        except Unauthorized:
            return False
        return True

    def refusal(self, error: RequestError, headers: list[tuple[bytes, bytes]]) -> bytes:
        """The whole answer to what never became a request, with these headers and its own."""
        self._metrics.count_rejected(error.code)
        request_id = request_id_of({})
        body = problem_body(error, request_id.decode())
        status = HTTPStatus(STATUS_OF_CODE[error.code])
        others = (header for header in headers if header[0] != b"connection")
        lines = b"".join(b"%b: %b\r\n" % header for header in others)
        return _REFUSAL % (status, status.phrase.encode(), lines, len(body), request_id, body)

    def answer(
        self, path: bytes, headers: list[tuple[bytes, bytes]], body: bytes | memoryview
    ) -> tuple[bytes, bytes] | None:
        """The answer to a POST, its own headers and its body; None for one that the door answers.

        What every answer has, the status line and the date, is left to the protocol.
        """
        started = perf_counter()
        ways, record = self._ways[path]
        given = dict(headers)
        asked = given.get(b"content-type", b""), given.get(b"accept", b"*/*")
        media_type = _MEDIA_TYPES.get(asked)
        if (
            media_type is None
            or b"content-encoding" in given
            # A process that drains closes the connection after its answer: not done here.
            or not self._lifecycle.ready
            or not self._may_call(given)
        ):
            return None
        within = None if len(body) <= self.limit else TEXT_SECONDS
        try:
            answered = ways.answer(body, media_type, inline=True, within=within)
        except BaseException as error:
            if not is_fault(error):
                raise
            return None  # the door meets the same defect, and says which
        ended = perf_counter()
        if within is not None:
            self._engine.pace.took(ended - started, in_vain=answered is None)
        elif answered is not None:
            self._engine.pace.busy_at = ended
        if answered is None:
            return None
        answered.note()
        request_id = request_id_of(given)
        record(ended - started)
        return _ANSWERS[media_type] % (len(answered.body), request_id), answered.body
