"""One serving process: uvicorn around the application, with a drain before it stops."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from typing import TYPE_CHECKING

import uvicorn

from service.errors import SettingsError
from service.log import logger
from service.server.intake import Intake
from service.server.protocol import Protocol
from service.server.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from types import FrameType

    from service.api.app import Application
    from service.settings import Settings

_BACKLOG = 2048

_NOTICE_SECONDS = 0.25
"""How long requests whose connections were closed have to notice it and to end by themselves."""

EXIT_HANGS = 70
"""Exit status of a process whose engine hangs (EX_SOFTWARE of sysexits.h): start another."""

_WATCH_SECONDS = 0.5
"""How often deadlines are looked at, and so how much later than said a connection may be closed."""

OWN_SIGNALS: Mapping[int, int] = {number: number for number in (signal.SIGTERM, signal.SIGINT)}
"""A process that stands alone takes each signal for what it is."""


def bind(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A listening socket. `shared`: beside others of this service on the port.

    Raises OSError when the port is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def bind_for_workers(settings: Settings) -> list[socket.socket]:
    """One listening socket for each worker, all on one port. Raises OSError.

    One socket shared by all sent 64 of 64 connections to one worker at times; a socket each
    splits them. The first listens alone before it lets others in: a second service on the port
    must fail instead of taking half of the first one's connections, and its own first socket,
    which does not ask to share, is refused from then on.
    """
    host = settings.listen_host
    first = bind(host, settings.listen_port)
    if settings.workers == 1:
        return [first]
    first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    port = first.getsockname()[1]
    return [first, *(bind(host, port, shared=True) for _ in range(1, settings.workers))]


def _headers(settings: Settings) -> list[tuple[str, str]]:
    """What every answer says to browsers: nothing here is a page, or may be taken for one."""
    headers = [
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
    ]
    if settings.tls_certificate_file:
        headers.append(("strict-transport-security", "max-age=31536000"))
    return headers


class Server(uvicorn.Server):
    """uvicorn's server; SIGTERM fails readiness first and stops after the drain."""

    def __init__(
        self,
        settings: Settings,
        app: Application,
        signals: Mapping[int, int] = OWN_SIGNALS,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        """`signals`: those to listen to, each with the one that it stands for.

        `beat` is called every half second while the event loop is alive.
        """
        rules = Rules(settings, app.quick, app.engine.uploads)
        super().__init__(
            uvicorn.Config(
                app,
                loop="uvloop",
                # uvicorn takes any callable that makes a protocol.
                http=lambda **given: Intake(Protocol(rules=rules, **given), rules.place),  # type: ignore[arg-type]
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                headers=_headers(settings),
                ssl_certfile=settings.tls_certificate_file or None,
                ssl_keyfile=settings.tls_key_file or None,
            )
        )
        self._settings = settings
        self._app = app
        self._signals = signals
        self._beat = beat
        self.hangs = False
        """Whether the process has to end because of a call that does not."""
        app.engine.on_hang = self._replace

    def _replace(self) -> None:
        """A call of a library hangs, and only the end of the process ends it."""
        logger.error("a call of a library hangs; this process ends", extra={"fields": {}})
        self.hangs = True
        self._stop()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and watch over the connections."""
        await super().startup(sockets)
        self._watch()

    def _watch(self) -> None:
        """Close the connections that missed their deadline, now and from now on."""
        self._beat()
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in [*self.server_state.connections]:
            if isinstance(connection, Protocol) and connection.deadline < now:
                connection.expire()
        loop.call_later(_WATCH_SECONDS, self._watch)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Listen to the signals while the loop runs. When it has ended, so does the process."""
        for number in self._signals:
            signal.signal(number, self.handle_exit)
        signal.signal(signal.SIGHUP, self._reload)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {*self._signals, signal.SIGHUP})
        try:
            yield
        finally:
            for number in self._signals:
                signal.signal(number, signal.SIG_IGN)

    def _reload(self, *_: object) -> None:
        """SIGHUP: read the API keys anew. Artifacts change with the process alone."""
        if self._app.keys is None:
            return
        try:
            self._app.keys.reload()
        except SettingsError as error:
            logger.error("API keys stay as they were", extra={"fields": {"reason": str(error)}})
        else:
            logger.info("API keys read anew")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's
        """First SIGTERM: drain, then stop. SIGINT or a second signal: stop. A third: at once."""
        drains = self._signals[sig] == signal.SIGTERM and self._settings.drain_seconds > 0
        if self._app.lifecycle.ready and drains:
            self._drain()
        elif not self.should_exit:
            self._stop()
        else:
            self._give_up()

    def _drain(self) -> None:
        """Answer as before, but not ready, and let no client keep its connection."""
        self._app.lifecycle.ready = False
        close = (b"connection", b"close")
        # What uvicorn adds to each answer: now, and when it next makes this list anew.
        self.server_state.default_headers = [*self.server_state.default_headers, close]
        self.config.encoded_headers = [*self.config.encoded_headers, close]
        asyncio.get_running_loop().call_later(self._settings.drain_seconds, self._stop)

    def _stop(self) -> None:
        """Let uvicorn close the listener and the idle connections, and wait for the others."""
        self._app.lifecycle.ready = False
        self.should_exit = True
        loop = asyncio.get_running_loop()
        loop.call_soon(self._refuse_work)  # a signal may come in the middle of anything
        loop.call_later(self._settings.shutdown_seconds, self._give_up)

    def _refuse_work(self) -> None:
        """Begin no more work, once that of which a part is here was begun."""
        for connection in [*self.server_state.connections]:
            if isinstance(connection, Protocol):
                connection.begin()
        loop = asyncio.get_running_loop()
        loop.call_soon(setattr, self._app.lifecycle, "refuses_work", True)

    def _give_up(self) -> None:
        """Close what is still open: a body that does not come, an answer that nobody takes.

        uvicorn's own bound would answer these with a bare 500.
        """
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        asyncio.get_running_loop().call_later(_NOTICE_SECONDS, self._force)

    def _force(self) -> None:
        """Wait no longer for a request that is in the engine's thread."""
        self.force_exit = True


def serve_on(
    listener: socket.socket,
    settings: Settings,
    app: Application,
    signals: Mapping[int, int] = OWN_SIGNALS,
    beat: Callable[[], None] = lambda: None,
) -> int:
    """Serve until told to stop. The exit status: 0 after a stop that was asked for."""
    server = Server(settings, app, signals, beat)
    server.run(sockets=[listener])
    if server.hangs:
        return EXIT_HANGS
    return 0 if server.started else 1
