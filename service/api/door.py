"""The one way in for operations: an ASGI application in front of Litestar's router.

It costs about 5 us a request where a Litestar handler costs 20 (docs/decisions/0002), and it
decides for all operations alike what Litestar leaves open: strict decoding, media types, the
body limit, the placement of the work, and errors.
"""

from __future__ import annotations

import functools
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from service.api.body import HELD_BODY, Body
from service.api.body_values import check_values
from service.api.codec import JSON, MSGPACK, OFFERED, BodyReader, declared_length, media_types
from service.api.engine import GONE, LEAST_WEIGHT, AbandonedError, stays
from service.api.exchange import NOT_STORED, Exchange
from service.api.operations import Call, operations
from service.api.pace import LONG_BODY_BYTES, TEXT_SECONDS
from service.api.plain import INLINE_BODY_BYTES, Answered
from service.api.problems import MEDIA_TYPE, STATUS_OF_CODE, problem_body, problem_headers
from service.api.uploads import OVERLOADED
from service.core.faults import is_fault
from service.errors import (
    Draining,
    EngineFailure,
    Internal,
    MethodNotAllowed,
    Overloaded,
    PayloadTooLarge,
    RequestError,
)
from service.log import logger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from service.api.engine import Engine
    from service.api.lifecycle import Lifecycle
    from service.api.operations import Operation
    from service.api.plain import ShortWays
    from service.api.uploads import Uploads
    from service.catalog.catalog import Catalog
    from service.metrics import Metrics
    from service.settings import Settings

METHODS = ("OPTIONS", "POST")


_GLANCE_BYTES = 4096
"""A list of tokenizers stands before a long text or behind it, and looking through 1 MB of text
takes a tenth as long as counting its tokens."""


class _Tokenizers(msgspec.Struct):
    """The part of a body that says how often its texts are worked on."""

    tokenizers: list[str] = []


_TOKENIZERS_READERS = {
    JSON: msgspec.json.Decoder(_Tokenizers).decode,
    MSGPACK: msgspec.msgpack.Decoder(_Tokenizers).decode,
}
_ENCODERS = {JSON: msgspec.json.Encoder().encode, MSGPACK: msgspec.msgpack.Encoder().encode}
_CONTENT_TYPES = {offered: (b"content-type", offered.encode()) for offered in OFFERED}
_ALLOW = (b"allow", ", ".join(METHODS).encode())

_REQUEST = "http.request"


class ClientGoneError(Exception):
    """The client closed the connection before its body was whole."""


class _Work(NamedTuple):
    """One request's work, wherever it is done."""

    operation: Operation
    reader: BodyReader
    short: ShortWays | None
    media: tuple[str, str]
    body: bytes | memoryview
    gone: Callable[[], bool]

    def tokenizers(self) -> int:
        """How many tokenizers are asked for, as far as a glance tells."""
        ends = bytes(self.body[:_GLANCE_BYTES]) + bytes(self.body[-_GLANCE_BYTES:])
        if b"tokenizers" not in ends:
            return 1
        given, _ = self.media
        try:
            return max(1, len(_TOKENIZERS_READERS[given](self.body).tokenizers))
        except (msgspec.DecodeError, RecursionError):
            return 1

    def short_way(self) -> Answered | None:
        """The answer to a plain request; None for one that goes the long way."""
        return None if self.short is None else self.short.answer(self.body, self.media[0])

    def briefly(self) -> Answered | None:
        """The answer to a plain request whose text is quick, in a bounded time."""
        if self.short is None or len(self.body) > LONG_BODY_BYTES:
            return None
        return self.short.answer(self.body, self.media[0], inline=True, within=TEXT_SECONDS)

    def long_way(self, call: Call) -> bytes:
        """The operation itself. Raises what it raises."""
        given, asked = self.media
        body = bytes(self.body)
        check_values(body, given, call.limits)
        return _ENCODERS[asked](self.operation.run(self.reader.read(body, given), call))

    def either_way(self, call: Call) -> bytes | Answered:
        """The short way where the request takes it, else the long one."""
        answered = self.short_way()
        return self.long_way(call) if answered is None else answered


class Door:
    """Answers every request to the path of an operation, whatever its method."""

    def __init__(
        self,
        catalog: Catalog,
        settings: Settings,
        metrics: Metrics,
        lifecycle: Lifecycle,
        engine: Engine,
        *,
        ways: Mapping[str, ShortWays],
    ) -> None:
        """`ways`: by the operation's name."""
        self._catalog = catalog
        self._settings = settings
        self._metrics = metrics
        self._lifecycle = lifecycle
        self._engine = engine
        self._limit = settings.max_body_bytes
        # A line for every request needs what only the long way notes.
        self._takes_short_way = settings.log_requests != "all"
        self._operations = {
            path: (
                operation,
                BodyReader(operation.request),
                ways[operation.name],
            )
            for path, operation in operations().items()
        }

    def leads_to(self, path: str) -> bool:
        """Whether an operation has this path."""
        return path in self._operations

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI
        """Answer one request (ASGI)."""
        operation, reader, short_ways = self._operations[scope["path"]]
        exchange = Exchange(scope, operation.path, self._metrics, self._settings)
        headers, state = exchange.headers, scope.get("state", {})
        try:
            if exchange.method == "OPTIONS":
                await _send(send, exchange, 204, [_ALLOW], b"")
                return
            self._check_admitted(exchange, state)
            given, asked = media_types(
                headers.get(b"content-type", b""),
                headers.get(b"content-encoding", b""),
                headers.get(b"accept", b""),
            )
            declared_length(headers, self._limit)
            body = state.get(HELD_BODY)
            if body is None:
                body = await _read(receive, self._limit, self._engine.uploads)
            short = short_ways if given == asked and self._takes_short_way else None
            work = _Work(operation, reader, short, (given, asked), body, state.get(GONE, stays))
            answered = await self._work(exchange, work)
        except ClientGoneError:
            exchange.finish(499)
        except RequestError as error:
            await send_problem(send, exchange, error)
        else:
            if not isinstance(answered, bytes):
                answered.note()
                answered = answered.body
            await _send(send, exchange, 200, [_CONTENT_TYPES[asked]], answered)

    def _check_admitted(self, exchange: Exchange, state: Mapping[str, object]) -> None:
        """Raise MethodNotAllowed, Draining or Overloaded for a request that is not begun."""
        if exchange.method != "POST":
            raise MethodNotAllowed(METHODS)
        if self._lifecycle.refuses_work:
            raise Draining
        if state.get(OVERLOADED):
            raise Overloaded

    async def _work(self, exchange: Exchange, work: _Work) -> bytes | Answered:
        """Do the work, inline or in the engine thread. Raises RequestError, ClientGoneError."""
        call = Call(self._catalog, self._settings, exchange.uses)
        try:
            do: Callable[[Call], bytes | Answered] = work.either_way
            if len(work.body) <= INLINE_BODY_BYTES:
                answered = work.short_way()
                if answered is not None:
                    self._engine.pace.busy_at = perf_counter()
                    return answered
                do = work.long_way
            weight = len(work.body) * work.tokenizers()
            if weight * work.operation.costs <= INLINE_BODY_BYTES:
                self._engine.pace.busy_at = perf_counter()
                return work.long_way(call)
            return await self._engine.run(
                functools.partial(do, call), max(weight, LEAST_WEIGHT), work.gone, work.briefly
            )
        except AbandonedError:
            raise ClientGoneError from None
        except RequestError as error:
            if isinstance(error, EngineFailure):
                logger.error("engine failure", exc_info=error.__cause__, extra=_fields(exchange))
            raise
        except BaseException as error:
            if not is_fault(error):
                raise
            logger.error("internal error", exc_info=error, extra=_fields(exchange))
            raise Internal from None


def _fields(exchange: Exchange) -> dict[str, dict[str, str]]:
    return {"fields": {"route": exchange.route, "request_id": exchange.request_id.decode()}}


async def _read(receive: Any, limit: int, uploads: Uploads) -> bytes | memoryview:  # noqa: ANN401 - ASGI
    """The whole body.

    Raises PayloadTooLarge as soon as it is known to be, Overloaded and ClientGoneError.
    """
    body = Body()
    try:
        while True:
            message = await receive()
            if message["type"] != _REQUEST:
                raise ClientGoneError
            part: bytes = message.get("body", b"")
            body.add(part)
            if body.size > limit:
                raise PayloadTooLarge(limit)
            if not uploads.grow(len(part), body.size):
                raise Overloaded
            if not message.get("more_body", False):
                return body.whole()
    finally:
        uploads.let_go(body.size)


async def send_problem(send: Any, exchange: Exchange, error: RequestError) -> None:  # noqa: ANN401
    """Answer with an error."""
    headers = [(b"content-type", MEDIA_TYPE.encode()), *problem_headers(error)]
    if isinstance(error, PayloadTooLarge):
        # The rest of the body is still on its way; nothing after it can be read as a request.
        headers.append((b"connection", b"close"))
    body = problem_body(error, exchange.request_id.decode())
    exchange.error = error
    await _send(send, exchange, STATUS_OF_CODE[error.code], headers, body)


async def _send(
    send: Any,  # noqa: ANN401 - ASGI
    exchange: Exchange,
    status: int,
    headers: list[tuple[bytes, bytes]],
    body: bytes,
) -> None:
    headers += (
        (b"content-length", b"%d" % len(body)),
        (b"x-request-id", exchange.request_id),
        NOT_STORED,
    )
    try:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
    finally:
        exchange.finish(status)
