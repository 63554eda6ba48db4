"""The one way in for operations: an ASGI application in front of Litestar's router.

It costs about 5 us a request where a Litestar handler costs 20 (docs/decisions/0002), and it
decides for all operations alike what Litestar leaves open: strict decoding, media types, the
body limit, the placement of the work, and errors.
"""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from service.api.codec import JSON, MSGPACK, OFFERED, BodyReader, media_types
from service.api.exchange import Exchange
from service.api.operations import Call, operations
from service.api.plain import ShortWays
from service.api.problems import MEDIA_TYPE, STATUS_OF_CODE, problem_body, problem_headers
from service.core.faults import is_fault
from service.errors import (
    Draining,
    EngineFailure,
    Internal,
    MethodNotAllowed,
    PayloadTooLarge,
    RequestError,
)
from service.log import logger

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from service.api.lifecycle import Lifecycle
    from service.api.operations import Operation
    from service.catalog.catalog import Catalog
    from service.metrics import Metrics
    from service.settings import Settings

INLINE_BODY_BYTES = 16 * 1024
"""Larger bodies are worked on in the engine thread. A hop to it costs 15 to 50 us: half of the
work at 200 bytes, under a tenth from 16 KiB on, where inline work would hold the loop for 1 ms."""

METHODS = ("OPTIONS", "POST")

_ENCODERS = {JSON: msgspec.json.Encoder().encode, MSGPACK: msgspec.msgpack.Encoder().encode}
_CONTENT_TYPES = {offered: (b"content-type", offered.encode()) for offered in OFFERED}
_ALLOW = (b"allow", ", ".join(METHODS).encode())


Worked = TypeVar("Worked")


class ClientGoneError(Exception):
    """The client closed the connection before its body was whole."""


class Door:
    """Answers every request to the path of an operation, whatever its method."""

    def __init__(
        self,
        catalog: Catalog,
        settings: Settings,
        metrics: Metrics,
        lifecycle: Lifecycle,
        engine: Executor,
    ) -> None:
        self._catalog = catalog
        self._settings = settings
        self._metrics = metrics
        self._lifecycle = lifecycle
        self._engine = engine
        # A line for every request needs what only the long way notes.
        self._takes_short_way = settings.log_requests != "all"
        self._operations = {
            path: (
                operation,
                BodyReader(operation.request),
                ShortWays(operation.name, catalog, settings, metrics),
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
        headers = exchange.headers
        try:
            if exchange.method != "POST":
                if exchange.method != "OPTIONS":
                    raise MethodNotAllowed(METHODS)
                await _send(send, exchange, 204, [_ALLOW], b"")
                return
            if self._lifecycle.refuses_work:
                raise Draining
            given, asked = media_types(
                headers.get(b"content-type", b""),
                headers.get(b"content-encoding", b""),
                headers.get(b"accept", b""),
            )
            body = await _read_body(receive, exchange, self._settings.max_body_bytes)
            answered = None
            if self._takes_short_way and given is asked is JSON:
                if len(body) <= INLINE_BODY_BYTES:
                    answered = short_ways.answer(body)
                else:
                    work = functools.partial(short_ways.answer, body)
                    answered = await self._in_engine_thread(work, len(body))
            if answered is None:
                answer = await self._answer(exchange, operation, reader, (given, asked), body)
            else:
                answer = answered.body
                answered.note()
        except ClientGoneError:
            exchange.finish(499)
        except RequestError as error:
            await send_problem(send, exchange, error)
        else:
            await _send(send, exchange, 200, [_CONTENT_TYPES[asked]], answer)

    async def _answer(
        self,
        exchange: Exchange,
        operation: Operation,
        reader: BodyReader,
        media: tuple[str, str],
        body: bytes,
    ) -> bytes:
        """The answer's bytes, by the operation itself. Raises RequestError alone."""
        given, asked = media
        call = Call(self._catalog, self._settings, exchange.uses)

        def work() -> bytes:
            answer = operation.run(reader.read(body, given), call)
            return _ENCODERS[asked](answer)

        try:
            if len(body) <= INLINE_BODY_BYTES:
                return work()
            return await self._in_engine_thread(work, len(body))
        except RequestError as error:
            if isinstance(error, EngineFailure):
                logger.error("engine failure", exc_info=error.__cause__, extra=_fields(exchange))
            raise
        except BaseException as error:
            if not is_fault(error):
                raise
            logger.error("internal error", exc_info=error, extra=_fields(exchange))
            raise Internal from None

    async def _in_engine_thread(self, work: Callable[[], Worked], waiting_bytes: int) -> Worked:
        self._metrics.add_pending(waiting_bytes)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._engine, work)
        finally:
            self._metrics.add_pending(-waiting_bytes)


def _fields(exchange: Exchange) -> dict[str, dict[str, str]]:
    return {"fields": {"route": exchange.route, "request_id": exchange.request_id.decode()}}


async def _read_body(receive: Any, exchange: Exchange, limit: int) -> bytes:  # noqa: ANN401 - ASGI
    """The whole body. Raises PayloadTooLarge as soon as it is known to be, and ClientGoneError."""
    declared = exchange.headers.get(b"content-length", b"")
    if len(declared) >= len(str(limit)) and declared.isdigit():
        # Compared by length first: int() refuses more digits than anybody needs.
        digits = declared.lstrip(b"0")
        if len(digits) > len(str(limit)) or int(digits or b"0") > limit:
            raise PayloadTooLarge(limit)
    message = await receive()
    body: bytes = message.get("body", b"")
    if message["type"] == "http.request" and not message.get("more_body", False):
        if len(body) > limit:
            raise PayloadTooLarge(limit)
        return body
    parts, size = [body], len(body)
    while message.get("more_body", False) and message["type"] == "http.request":
        message = await receive()
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise PayloadTooLarge(limit)
        parts.append(part)
    if message["type"] != "http.request":
        raise ClientGoneError
    return b"".join(parts)


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
    headers.append((b"content-length", str(len(body)).encode()))
    headers.append((b"x-request-id", exchange.request_id))
    try:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
    finally:
        exchange.finish(status)
