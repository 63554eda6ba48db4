"""A connection without a network, and with a clock that the test moves."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any

from uvicorn.server import ServerState

from service.api.app import create_app
from service.server.process import Server
from service.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.catalog.catalog import Catalog
    from service.server.intake import Intake
    from service.server.protocol import Protocol

FIRST, HEAD, BODY, KEPT = 11.0, 13.0, 17.0, 19.0
SETTINGS = Settings(
    log_requests="off",
    idle_timeout_seconds=FIRST,
    header_timeout_seconds=HEAD,
    body_idle_timeout_seconds=BODY,
    keep_alive_seconds=KEPT,
    max_header_bytes=1000,
)


class Loop:
    """A loop whose clock the test moves."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.now = 1000.0
        self._loop = loop
        self.create_task = loop.create_task
        self.later: list[tuple[float, Callable[[], object]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, call: Callable[[], object]) -> asyncio.TimerHandle:
        self.later.append((self.now + seconds, call))
        return self._loop.call_later(0, lambda: None)


class Transport:
    """Remembers what is done to it."""

    def __init__(self) -> None:
        self.written = b""
        self.unread = 0
        """Bytes that the client did not read yet, which is for the test to say."""
        self.ended = self.closing = self.aborted = self.paused = False

    def write(self, data: bytes) -> None:
        assert not self.ended, "an error in uvloop"
        assert not self.closing
        self.written += data

    def get_write_buffer_size(self) -> int:
        return self.unread

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = self.aborted = True

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def get_extra_info(self, name: str) -> None:
        del name


@dataclasses.dataclass
class Connection:
    """One connection without a network."""

    intake: Intake
    transport: Transport
    loop: Loop
    finish: asyncio.Event
    """Until it is set, `slowly` is not answered."""

    @property
    def protocol(self) -> Protocol:
        return self.intake.protocol

    def send(self, data: bytes) -> None:
        assert not self.transport.paused, "the kernel would keep it"
        while data:
            room = self.intake.get_buffer(-1)
            size = min(len(room), len(data))
            room[:size] = data[:size]
            self.intake.buffer_updated(size)
            data = data[size:]

    async def turn(self) -> None:
        """Let the tasks do what they can."""
        for _ in range(20):
            await asyncio.sleep(0)

    def after(self, seconds: float) -> bool:
        """Whether the connection is closed when so many more seconds have gone by."""
        self.loop.now += seconds
        if self.protocol.deadline < self.loop.now:
            self.protocol.expire()
        return self.transport.aborted

    def lasts(self, seconds: float) -> None:
        """Fail unless it is closed after so long, and not before."""
        assert not self.after(seconds - 0.5)
        assert self.after(1)

    async def answered(self) -> bytes:
        """All that was written once there is something, whoever works for it."""
        for _ in range(10_000):
            if self.transport.written:
                break
            await asyncio.sleep(0.001)
        return self.transport.written

    def lose(self) -> None:
        """The transport says that nothing more can be sent."""
        self.intake.connection_lost(ConnectionAbortedError())

    def answers(self) -> int:
        return self.transport.written.count(b"HTTP/1.1 200 ")


async def connect(catalog: Catalog, settings: Settings = SETTINGS) -> Connection:
    """A connection that was just made. Its application answers /slowly when it is told to."""
    app = create_app(settings, catalog)
    app.lifecycle.ready = True
    app.quick.long_limit = -1  # what comes is taken where no loop runs, whose turns it counts
    finish = asyncio.Event()

    async def waiting(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/slowly":
            await finish.wait()
            scope = {**scope, "path": "/healthz"}
        await app(scope, receive, send)

    loop, transport = Loop(asyncio.get_running_loop()), Transport()
    config = Server(settings, app).config
    new_intake: Callable[..., Intake] = config.http  # type: ignore[assignment]
    intake = new_intake(config=config, server_state=ServerState(), app_state={}, _loop=loop)
    intake.protocol.app = waiting
    intake.connection_made(transport)  # type: ignore[arg-type]
    return Connection(intake, transport, loop, finish)
