"""One serving process: uvicorn around the application, with a drain before it stops."""

from __future__ import annotations

import asyncio
import signal
import socket
from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    from types import FrameType

    from service.api.app import Application
    from service.settings import Settings

_BACKLOG = 2048


def bind(host: str, port: int, *, shared: bool) -> socket.socket:
    """A listening socket. `shared`: several of this service's processes listen on the port.

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
    splits them. The first bind is not a shared one: a second service on the port must fail
    instead of taking half of the first one's connections.
    """
    host, port = settings.listen_host, settings.listen_port
    if settings.workers == 1:
        return [bind(host, port, shared=False)]
    with bind(host, port, shared=False) as claim:
        port = claim.getsockname()[1]
    return [bind(host, port, shared=True) for _ in range(settings.workers)]


class Server(uvicorn.Server):
    """uvicorn's server; SIGTERM fails readiness first and stops after the drain."""

    def __init__(self, settings: Settings, app: Application) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                loop="uvloop",
                http="httptools",
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=round(settings.keep_alive_seconds),
                timeout_graceful_shutdown=round(settings.shutdown_seconds),
            )
        )
        self._settings = settings
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's
        """First SIGTERM: drain, then stop. SIGINT or a second signal: stop. A third: at once."""
        lifecycle = self._app.lifecycle
        draining_first = sig == signal.SIGTERM and self._settings.drain_seconds > 0
        if lifecycle.ready and draining_first:
            lifecycle.ready = False
            asyncio.get_running_loop().call_later(self._settings.drain_seconds, self._stop)
        elif not self.should_exit:
            self._stop()
        else:
            self.force_exit = True

    def _stop(self) -> None:
        self._app.lifecycle.ready = False
        self._app.lifecycle.refuses_work = True
        self.should_exit = True


def serve_on(listener: socket.socket, settings: Settings, app: Application) -> int:
    """Serve until told to stop. The exit status: 0 after a clean stop."""
    server = Server(settings, app)
    server.run(sockets=[listener])
    return 0 if server.started else 1
