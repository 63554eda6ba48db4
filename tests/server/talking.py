"""A server in a thread of this process, and a client that sends whatever bytes a test wants."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import re
import socket
import threading
from typing import TYPE_CHECKING, Any, Self

import pytest

from service.api.app import create_app
from service.server import process
from service.server.process import Server, bind
from tests.server.watching import WAIT_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping

    from service.api.app import Application
    from service.catalog.catalog import Catalog
    from service.settings import Settings

TEXT = {"tokenizer": "bert-base-uncased", "text": "hi"}
COUNT = json.dumps(TEXT).encode()

_CHANGING = re.compile(rb"(?m)^(date: |x-request-id: [0-9a-f]{16}-)[^\r]*")
_LENGTH = re.compile(rb"(?m)^content-length: [0-9]+")
_NUMBERED = re.compile(rb'"request_id":"[0-9a-f]{16}-[0-9a-f]+"')


def head(
    method: str = "POST",
    path: str = "/count",
    headers: Iterable[tuple[str, str]] = (("content-type", "application/json"),),
    version: str = "1.1",
) -> bytes:
    """A request line and headers."""
    lines = [f"{method} {path} HTTP/{version}", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def post(body: bytes = COUNT, path: str = "/count", more: Mapping[str, str] | None = None) -> bytes:
    """A whole POST of JSON; `more` headers, or others in the place of its own."""
    own = {"content-type": "application/json", "content-length": str(len(body))}
    return head(path=path, headers={**own, **(more or {})}.items()) + body


def of_size(size: int, tokenizer: str = TEXT["tokenizer"], start: str = "") -> bytes:
    """A body of so many bytes, with a text that begins so."""
    shell = json.dumps({"tokenizer": tokenizer, "text": start}).encode()[:-2]
    return (shell + b"hi " * size)[: size - 2] + b'"}'


def chunked(body: bytes, size: int, trailers: bytes = b"") -> bytes:
    """A body in chunks of so many bytes."""
    parts = (body[start : start + size] for start in range(0, len(body), size))
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + (
        b"0\r\n" + trailers + b"\r\n"
    )


def post_chunked(
    body: bytes = COUNT, size: int = 7, path: str = "/count", trailers: bytes = b""
) -> bytes:
    """A whole POST whose length no header says."""
    headers = (("content-type", "application/json"), ("transfer-encoding", "chunked"))
    return head(path=path, headers=headers) + chunked(body, size, trailers)


@dataclasses.dataclass(frozen=True)
class Answer:
    """One answer as it came."""

    raw: bytes
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def lasting(self) -> bytes:
        """All of it that does not change from one answer to the next."""
        kept = _CHANGING.sub(b"", self.raw)
        # A number with one more digit makes a body longer.
        return _LENGTH.sub(b"", _NUMBERED.sub(b"", kept)) if _NUMBERED.search(kept) else kept


class Talk:
    """One connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), WAIT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._came = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *parts: bytes) -> Self:
        for part in parts:
            self.socket.sendall(part)
        return self

    def _more(self) -> None:
        part = self.socket.recv(1 << 16)
        assert part, f"closed after {self._came!r}"
        self._came += part

    def answer(self, *, has_body: bool = True) -> Answer:
        """The next answer. Fails when the connection is closed, or reset, before its end."""
        while b"\r\n\r\n" not in self._came:
            self._more()
        start, _, rest = self._came.partition(b"\r\n\r\n")
        first, *lines = start.decode("latin-1").split("\r\n")
        pairs = [line.split(": ", 1) for line in lines]
        headers: dict[str, str] = {name: value for name, value in pairs}  # noqa: C416
        assert len(headers) == len(pairs), "a header twice"
        length = int(headers.get("content-length", "0")) if has_body else 0
        while len(rest) < length:
            self._more()
            rest = self._came[len(start) + 4 :]
        size = len(start) + 4 + length
        raw, self._came = self._came[:size], self._came[size:]
        assert first.startswith("HTTP/1.1 ")
        return Answer(raw, int(first.split(" ")[1]), headers, rest[:length])

    def ends(self) -> bytes:
        """Whatever else comes before the server closes its side, or resets the connection."""
        with contextlib.suppress(ConnectionResetError):
            while part := self.socket.recv(1 << 16):
                self._came += part
        return self._came

    def ends_well(self) -> bytes:
        """Whatever else comes before the server closes its side; a reset fails."""
        while part := self.socket.recv(1 << 16):
            self._came += part
        return self._came

    def flood(self, piece: bytes, size: int) -> int:
        """Send so many bytes, or fewer when the server resets the connection; how many."""
        sent = 0
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            while sent < size:
                self.socket.sendall(piece)
                sent += len(piece)
        return sent


@contextlib.contextmanager
def _no_signals() -> Generator[None, None, None]:
    yield


class Running:
    """A server in a thread."""

    def __init__(self, settings: Settings, catalog: Catalog) -> None:
        self.app: Application = create_app(settings, catalog)
        self.server = Server(settings, self.app)
        self._listener = bind("127.0.0.1", 0)
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run)
        self.loop: asyncio.AbstractEventLoop | None = None
        self.quick_answers = 0
        answer = self.app.quick.answer

        def counting(path: bytes, headers: list[tuple[bytes, bytes]], body: bytes) -> bytes | None:
            answered = answer(path, headers, body)
            self.quick_answers += answered is not None
            return answered

        self.app.quick.answer = counting  # type: ignore[method-assign]

    def _run(self) -> None:
        watch = self.server._watch

        def first() -> None:
            self.loop = asyncio.get_running_loop()
            watch()

        self.server._watch = first  # type: ignore[method-assign]
        # Signals are the main thread's.
        self.server.capture_signals = _no_signals  # type: ignore[method-assign]
        self.server.run(sockets=[self._listener])

    def start(self) -> None:
        self._thread.start()
        wait_until(lambda: self.server.started)

    def stop(self) -> None:
        """Stop; the clients that the test left behind have a while to go."""
        self.server.should_exit = True
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive()

    def on_loop(self, call: Callable[[], object]) -> None:
        """Call it where the server runs, and wait until it is done."""
        done = threading.Event()

        def calling() -> None:
            call()
            done.set()

        assert self.loop is not None
        self.loop.call_soon_threadsafe(calling)
        assert done.wait(WAIT_SECONDS)

    def talk(self) -> Talk:
        return Talk(self.port)

    def ask(self, request: bytes) -> Answer:
        """The answer on a connection of its own."""
        with self.talk() as talk:
            return talk.send(request).answer()

    def works(self) -> None:
        """Fail unless a new connection is answered."""
        assert self.ask(post()).json["count"] == 1

    def numbers(self) -> dict[str, float]:
        """Every number of a scrape, without those of times and of the scrape itself."""
        lines = self.ask(head("GET", "/metrics", ())).body.decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {
            name: float(value)
            for name, value in pairs
            if not re.search(r"_seconds_(bucket|sum)|in_flight|/metrics|start_time", name)
        }


class _Errors(logging.Handler):
    """Remembers what no bad client may cause: an error in the log."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(f"{record.name}: {record.getMessage()} {record.exc_info}")


@contextlib.contextmanager
def running(
    catalog: Catalog, settings: Settings, *, watch_seconds: float = 0.02
) -> Iterator[Running]:
    """A server until the block ends; it may log no error meanwhile."""
    errors = _Errors()
    logging.getLogger().addHandler(errors)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "_WATCH_SECONDS", watch_seconds)
        server = Running(settings, catalog)
        try:
            server.start()
            yield server
        finally:
            server.stop()
            logging.getLogger().removeHandler(errors)
    assert not errors.messages, errors.messages
