"""What large texts cost at the least: a socket, a reader and the engine, and no HTTP to speak of.

    python floor.py PORT TOKENIZER

One uvloop protocol reads a POST straight into its place, knows of its head where the body begins
and how long it is, asks the service's own engine in the event loop, and reads and writes bodies as
the service does. No service that reads the same bodies on one core can be faster.
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import uvloop

from service.api import id_arrays
from service.api.codec import JSON, MSGPACK
from service.api.plain_bodies import FORMS
from service.catalog.certificates import read_certificates
from service.catalog.loading import load_entry
from service.catalog.lock import read_lock
from service.settings import prepare_libraries

if TYPE_CHECKING:
    from service.core.tokenizer import GivesBuffers

_ARTIFACTS = Path(__file__).resolve().parents[2] / "artifacts"
_LENGTH = re.compile(rb"(?i)content-length: (\d+)")
_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b"
_NOTHING = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
_MOST_BYTES = 4 * 1024 * 1024
_HEAD_BYTES = 64 * 1024
"""At most at once, while it is not known where the body begins."""


class Floor(asyncio.BufferedProtocol):
    """One connection."""

    def __init__(self, tokenizer: GivesBuffers) -> None:
        self._tokenizer = tokenizer
        self._place = memoryview(bytearray(_MOST_BYTES))
        self._size = self._begin = self._end = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return self._place[self._size :] if self._end else self._place[:_HEAD_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        self._size += nbytes
        if not self._end:
            head, _, _ = bytes(self._place[:_HEAD_BYTES]).partition(b"\r\n\r\n")
            length = _LENGTH.search(head)
            if length is None:  # whether it is ready, the benchmark asks
                self._size = 0
                self._transport.write(_NOTHING)
                return
            self._head = head
            self._begin = len(head) + 4
            self._end = self._begin + int(length[1])
        if self._size == self._end:
            self._transport.write(self._answer(self._place[self._begin : self._end]))
            self._size = self._end = 0

    def _answer(self, body: memoryview) -> bytes:
        media_type = MSGPACK if b"msgpack" in self._head else JSON
        form = FORMS[media_type]
        buffer = self._tokenizer.encode_buffer(form.read(body).text) or b""
        count = id_arrays.number_of(buffer)
        if self._head.startswith(b"POST /count"):
            answer = b'{"count":%d}' % count
        elif media_type == JSON:
            answer = b'{"ids":%b,"count":%d}' % (form.ids(buffer), count)
        else:
            answer = form.ids(buffer)
        return _ANSWER % (len(answer), answer)


async def _serve(port: int, tokenizer: GivesBuffers) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Floor(tokenizer), "127.0.0.1", port)
    await server.serve_forever()


def main() -> None:
    prepare_libraries()
    port, name = sys.argv[1:]
    (artifact,) = (each for each in read_lock(_ARTIFACTS) if each.name == name)
    entry = load_entry(_ARTIFACTS, artifact, read_certificates(_ARTIFACTS))
    uvloop.run(_serve(int(port), cast("GivesBuffers", entry.tokenizer)))


if __name__ == "__main__":
    main()
