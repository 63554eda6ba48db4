"""A load of long requests that leaves none half done.

wrk stops on time, whatever is in flight. With 64 requests of 15 ms that is a second of work that
the server does and nobody counts; and an event loop that is kept busy sends its answers in bursts.
This client begins no request after the time is over and waits for the answers of those begun.
Python is fast enough where each takes the server 100 us.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from typing import TYPE_CHECKING

import uvloop

from benchmarks.measure import CannotRunError
from benchmarks.servers import HOST

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_HEAD_END = b"\r\n\r\n"
_PATIENCE_SECONDS = 60


def flood(
    port: int, path: str, bodies: Sequence[bytes], *, connections: int, seconds: float
) -> tuple[list[float], float]:
    """The latencies, and the time from the first request to the last answer, in seconds.

    Raises CannotRunError for an answer that is not 200, and for one that does not come.
    """
    return uvloop.run(_flood(port, path, bodies, connections, seconds))


async def _flood(
    port: int, path: str, bodies: Sequence[bytes], connections: int, seconds: float
) -> tuple[list[float], float]:
    loop = asyncio.get_running_loop()
    requests = itertools.cycle([_request(path, body) for body in bodies])
    latencies: list[float] = []
    started = time.perf_counter()
    callers = [_Caller(requests, latencies, started + seconds) for _ in range(connections)]
    for caller in callers:
        await loop.create_connection(lambda caller=caller: caller, HOST, port)
    try:
        async with asyncio.timeout(seconds + _PATIENCE_SECONDS):
            await asyncio.gather(*(caller.done for caller in callers))
    except TimeoutError:
        answered = len(latencies)
        raise CannotRunError(f"{answered} answers, and then none for a minute") from None
    return latencies, time.perf_counter() - started


def _request(path: str, body: bytes) -> bytes:
    form = "json" if body.startswith(b"{") else "msgpack"
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\n"
        f"Content-Type: application/{form}\r\nAccept: application/{form}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class _Caller(asyncio.Protocol):
    """One connection: the next request as soon as the last one is answered."""

    def __init__(self, requests: Iterator[bytes], latencies: list[float], until: float) -> None:
        self._requests = requests
        self._latencies = latencies
        self._until = until
        self._begun = 0.0
        self._head = b""
        self._missing = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        if self._missing:
            self._missing -= len(data)
        else:
            self._head += data
            head, end, rest = self._head.partition(_HEAD_END)
            if not end:
                return
            length = _LENGTH.search(head + end)
            if head[9:12] != b"200" or length is None:
                self._fail(head.partition(b"\r\n")[0].decode(errors="replace"))
                return
            self._head = b""
            self._missing = int(length[1]) - len(rest)
        if not self._missing:
            self._latencies.append(time.perf_counter() - self._begun)
            self._send()

    def connection_lost(self, _: Exception | None) -> None:
        self._fail("the connection was closed")

    def _send(self) -> None:
        self._begun = time.perf_counter()
        if self._begun < self._until:
            self._transport.write(next(self._requests))  # type: ignore[attr-defined]
        elif not self.done.done():
            self.done.set_result(None)
            self._transport.close()

    def _fail(self, why: str) -> None:
        if not self.done.done():
            self.done.set_exception(CannotRunError(f"an answer failed: {why}"))
            self._transport.close()
