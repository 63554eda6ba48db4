"""Several serving processes: loaded once, forked, and each replaced when it dies."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from service.api.app import create_app, metrics_for
from service.log import logger
from service.server.process import bind_for_workers, serve_on

if TYPE_CHECKING:
    import socket

    from service.catalog.catalog import Catalog
    from service.metrics import Metrics
    from service.settings import Settings

_WATCHED = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}

_PR_SET_PDEATHSIG = 1
"""prctl(2): the signal that a process gets when its parent dies."""

_MAX_DEATHS, _DEATHS_WITHIN_SECONDS = 10, 10.0
"""More deaths than this in this time: replacing workers does not help, so the process fails."""

_MARGIN_SECONDS = 2.0
"""How much longer than its own bounds a worker may take to stop before it is killed."""


def serve(settings: Settings, catalog: Catalog) -> int:
    """Serve with as many processes as the settings say. Returns the exit status.

    Raises OSError when the port is taken.
    """
    listeners = bind_for_workers(settings)
    metrics = metrics_for(catalog, slabs=settings.workers)
    # What is loaded is shared with the workers until one writes to it, and the collector writes
    # to every object that it visits: so it is told to leave these alone.
    gc.collect()
    gc.freeze()
    host, port = listeners[0].getsockname()[:2]
    logger.info(
        "listening", extra={"fields": {"host": host, "port": port, "workers": settings.workers}}
    )
    if settings.workers == 1:
        return serve_on(listeners[0], settings, create_app(settings, catalog, metrics))
    return _Supervisor(settings, catalog, metrics, listeners).run()


class _Supervisor:
    """The parent of the workers. It holds their sockets, so none is lost when a worker dies."""

    def __init__(
        self,
        settings: Settings,
        catalog: Catalog,
        metrics: Metrics,
        listeners: list[socket.socket],
    ) -> None:
        self._settings = settings
        self._catalog = catalog
        self._metrics = metrics
        self._listeners = listeners
        self._number_of: dict[int, int] = {}
        """Worker's pid to its number, which is that of its socket and of its slab of metrics."""
        self._deaths: list[float] = []
        self._status = 0
        self._stopping = False

    def run(self) -> int:
        """Start the workers and replace those that die, until told to stop."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
        for number in range(self._settings.workers):
            self._start(number)
        deadline: float | None = None
        while self._number_of:
            left = None if deadline is None else max(deadline - time.monotonic(), 0)
            received = self._wait(left)
            if received is None:
                self._signal_all(signal.SIGKILL)
                deadline = None
            elif received == signal.SIGCHLD:
                self._reap()
            else:
                self._stop(received)
            if self._stopping and deadline is None and received is not None:
                bounds = self._settings.drain_seconds + self._settings.shutdown_seconds
                deadline = time.monotonic() + bounds + _MARGIN_SECONDS
        return self._status

    @staticmethod
    def _wait(seconds: float | None) -> int | None:
        """The next signal, or None when there is none in time."""
        if seconds is None:
            return signal.sigwait(_WATCHED)
        received = signal.sigtimedwait(_WATCHED, seconds)
        return None if received is None else received.si_signo

    def _start(self, number: int) -> None:
        pid = os.fork()
        if pid:
            self._number_of[pid] = number
            return
        status = 1
        try:
            status = self._work(number)
        finally:
            # Never back into the parent's code: its finalizers are not this process's.
            sys.stderr.flush()
            os._exit(status)

    def _work(self, number: int) -> int:
        """In the child: serve on the socket of this number."""
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        for other, listener in enumerate(self._listeners):
            if other != number:
                listener.close()
        self._metrics.bind(number)
        app = create_app(self._settings, self._catalog, self._metrics)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
        return serve_on(self._listeners[number], self._settings, app)

    def _reap(self) -> None:
        """Replace the workers that died, unless all are to stop."""
        while self._number_of:
            pid, wait_status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            number = self._number_of.pop(pid)
            self._metrics.clear_gauges(number)
            if self._stopping:
                continue
            exit_code = os.waitstatus_to_exitcode(wait_status)
            logger.error("worker died", extra={"fields": {"pid": pid, "exit_code": exit_code}})
            now = time.monotonic()
            self._deaths = [*self._deaths, now]
            self._deaths = [died for died in self._deaths if now - died < _DEATHS_WITHIN_SECONDS]
            # A worker that ends by itself could not start: the next one could not, either.
            if exit_code >= 0 or len(self._deaths) > _MAX_DEATHS:
                logger.error("workers can't be kept running; stopping")
                self._status = 1
                self._stop(signal.SIGTERM)
            else:
                self._start(number)

    def _stop(self, received: int) -> None:
        self._stopping = True
        self._signal_all(received)
        # Workers hold their own copies; one left here would take connections nobody accepts.
        for listener in self._listeners:
            listener.close()

    def _signal_all(self, number: int) -> None:
        for pid in self._number_of:
            os.kill(pid, number)
