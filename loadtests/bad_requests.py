"""What hostile and broken clients send, byte by byte, and what may be answered: never a 5xx.

Each function sends one thing to an address and says what is wrong with the answer, if anything is.
"""

from __future__ import annotations

import contextlib
import json
import random
import socket
import struct
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Address = tuple[str, int]

WAIT_SECONDS = 30.0
TOKENIZER = "bert-base-uncased"
PIECE = b"x" * 64 * 1024


def malformed_json(address: Address) -> str | None:
    return _expect(
        address, _post(b'{"tokenizer": "bert-base-uncased", "text": "'), 400, "malformed_body"
    )


def deep_json(address: Address) -> str | None:
    return _expect(address, _post(b"[" * 100_000), 422, "validation")


def wrong_type(address: Address) -> str | None:
    return _expect(address, _post(_json(text=[1])), 422, "validation")


def bad_unicode(address: Address) -> str | None:
    body = b'{"tokenizer": "bert-base-uncased", "text": "\xff"}'
    return _expect(address, _post(body), 400, "invalid_unicode")


def unknown_tokenizer(address: Address) -> str | None:
    body = _json(tokenizer="nobody-knows-it")
    return _expect(address, _post(body), 404, "unknown_tokenizer")


def no_chat_template(address: Address) -> str | None:
    """No embedded artifact has one. The first that has needs questions of its own."""
    body = {"tokenizer": TOKENIZER, "messages": [{"role": "user", "content": "hi"}]}
    return _expect(address, _post(json.dumps(body).encode()), 422, "chat_template_missing")


def unknown_id(address: Address) -> str | None:
    body = {"tokenizer": TOKENIZER, "ids": [9906, 2**40]}
    return _expect(address, _post(json.dumps(body).encode(), "/decode"), 422, "invalid_token_id")


def oversized_body(address: Address) -> str | None:
    """A body of 64 MiB is announced and its beginning sent."""
    return _expect(address, _head(64 * 1024 * 1024) + PIECE, 413, "payload_too_large")


def large_head(address: Address) -> str | None:
    head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Large: " + PIECE + PIECE
    return _expect(address, head + b"\r\n\r\n", 431, "headers_too_large")


def wrong_method(address: Address) -> str | None:
    request = b"DELETE /count HTTP/1.1\r\nHost: localhost\r\n\r\n"
    return _expect(address, request, 405, "method_not_allowed")


def garbage(address: Address) -> str | None:
    """Bytes that are no HTTP: refused, or just closed."""
    with _connected(address) as connection:
        connection.sendall(random.randbytes(random.randint(1, 500)) + b"\r\n\r\n")
        answer = _status_line(connection)
    return None if not answer or b" 4" in answer[:13] else repr(answer)


def half_body(address: Address) -> str | None:
    """A body whose sender goes away."""
    body = _json()
    with _connected(address) as connection:
        connection.sendall(_head(len(body)) + body[: len(body) // 2])
        time.sleep(0.5)
    return None


def half_head(address: Address) -> str | None:
    with _connected(address) as connection:
        connection.sendall(b"POST /count HTTP/1.1\r\nHost: loc")
        time.sleep(0.5)
    return None


def gone_before_the_answer(address: Address) -> str | None:
    """The connection is reset as soon as the request is sent."""
    with _connected(address) as connection:
        connection.sendall(_post(_json(text="word " * 20_000)))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return None


BAD_REQUESTS: dict[str, Callable[[Address], str | None]] = {
    f"bad: {function.__name__.replace('_', ' ')}": function
    for function in (
        malformed_json,
        deep_json,
        wrong_type,
        bad_unicode,
        unknown_tokenizer,
        no_chat_template,
        unknown_id,
        oversized_body,
        large_head,
        wrong_method,
        garbage,
        half_body,
        half_head,
        gone_before_the_answer,
    )
}


def _json(tokenizer: str = TOKENIZER, text: object = "some text") -> bytes:
    return json.dumps({"tokenizer": tokenizer, "text": text}).encode()


def _head(size: int, path: str = "/count") -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {size}\r\n\r\n"
    ).encode()


def _post(body: bytes, path: str = "/count") -> bytes:
    return _head(len(body), path) + body


def _expect(address: Address, request: bytes, status: int, code: str) -> str | None:
    with _connected(address) as connection:
        # An early answer may meet a client that still sends; what it says can still be read.
        with contextlib.suppress(BrokenPipeError):
            connection.sendall(request)
        answer = _until_closed_or_whole(connection)
    line, _, rest = answer.partition(b"\r\n")
    if f" {status} ".encode() in line and f'"{code}"'.encode() in rest:
        return None
    return f"status {line[9:12].decode(errors='replace')} instead of {status} {code}"


@contextlib.contextmanager
def _connected(address: Address) -> Iterator[socket.socket]:
    with socket.create_connection(address, timeout=WAIT_SECONDS) as connection:
        yield connection


def _status_line(connection: socket.socket) -> bytes:
    try:
        return connection.recv(64)
    except ConnectionResetError:
        return b""


def _until_closed_or_whole(connection: socket.socket) -> bytes:
    """An answer, as far as its own length says."""
    answer = b""
    while part := connection.recv(65536):
        answer += part
        head, found, body = answer.partition(b"\r\n\r\n")
        length = next(
            (line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")),
            None,
        )
        if found and length is not None and len(body) >= int(length.split(b":")[1]):
            break
    return answer
