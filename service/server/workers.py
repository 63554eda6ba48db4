"""Several serving processes: loaded once, forked, and each replaced when it dies."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, NoReturn

# uvicorn imports these when it begins to serve, and each worker would have its own copy.
import uvicorn.lifespan.on
import uvicorn.loops.uvloop  # noqa: F401 - said above

from service.api.app import create_app, metrics_for
from service.log import logger
from service.server.heartbeat import Heartbeats
from service.server.process import EXIT_HANGS, bind_for_workers, serve_on

if TYPE_CHECKING:
    import socket

    from service.api.app import Application
    from service.catalog.catalog import Catalog
    from service.metrics import Metrics
    from service.settings import Settings

_WATCHED = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP}

_TO_WORKERS: dict[int, int] = {signal.SIGTERM: signal.SIGUSR1, signal.SIGINT: signal.SIGUSR2}
"""What workers are sent for what the supervisor got.

A terminal's Ctrl-C and a systemd unit's stop go to every process of the service. A worker that
listened to them would get each twice, and would take the second for a wish to skip the drain.
"""

_LOOK_SECONDS = 1.0
"""How often the supervisor looks whether the workers' loops are alive."""

_PR_SET_PDEATHSIG = 1
"""prctl(2): the signal that a process gets when its parent dies."""

_MAX_DEATHS, _DEATHS_WITHIN_SECONDS = 10, 10.0
"""More deaths than this in this time: replacing workers does not help, so the process fails."""

_MARGIN_SECONDS = 2.0
"""How much longer than its own bounds a worker may take to stop before it is killed."""


def serve(settings: Settings, catalog: Catalog) -> int:
    """Serve with as many processes as the settings say, then leave with the exit status.

    Raises OSError when the port is taken; never returns.
    """
    listeners = bind_for_workers(settings)
    metrics = metrics_for(catalog, slabs=settings.workers)
    app = create_app(settings, catalog, metrics)
    _settle_memory()
    host, port = listeners[0].getsockname()[:2]
    logger.info(
        "listening", extra={"fields": {"host": host, "port": port, "workers": settings.workers}}
    )
    states = {entry.name: entry.engine_state for entry in catalog}
    logger.info("fast engine", extra={"fields": {"tokenizers": states}})
    if settings.workers > 1:
        _leave(_Supervisor(settings, app, metrics, listeners).run())
    _leave(serve_on(listeners[0], settings, app))


def _settle_memory() -> None:
    """Make what is loaded fit to be shared: workers have it in common until one writes to it.

    The collector writes to every object that it visits, so it is told to leave these alone. The
    allocator gives what loading freed back to the system, where workers can't write to it.
    """
    # It was off while all of this was made. Collecting takes 0.13 s for a thousand objects.
    gc.freeze()
    gc.enable()
    with contextlib.suppress(AttributeError):  # glibc has it, other C libraries don't
        ctypes.CDLL(None).malloc_trim(0)


def _leave(status: int) -> NoReturn:
    """End this process at once.

    Python's own way out would wait for a call in the engine's thread, for ever if it hangs, and
    would free piece by piece the tables that the system frees in one go.
    """
    sys.stderr.flush()
    os._exit(status)


class _Supervisor:
    """The parent of the workers. It holds their sockets, so none is lost when a worker dies."""

    def __init__(
        self,
        settings: Settings,
        app: Application,
        metrics: Metrics,
        listeners: list[socket.socket],
    ) -> None:
        self._settings = settings
        self._app = app
        self._metrics = metrics
        self._listeners = listeners
        self._number_of: dict[int, int] = {}
        """Worker's pid to its number, which is that of its socket and of its slab of metrics."""
        self._heartbeats = Heartbeats(settings.workers)
        self._pid = os.getpid()
        self._deaths: list[float] = []
        self._status = 0
        self._stopping = False
        self._deadline: float | None = None
        """When workers that are to stop are killed."""

    def run(self) -> int:
        """Start the workers and replace those that die, until told to stop."""
        # Where it is ignored, which a process inherits, a child leaves no status to wait for.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED.union(_TO_WORKERS.values()))
        for number in range(self._settings.workers):
            self._start(number)
        while self._number_of:
            received = self._wait()
            if received is None:
                self._look()
            elif received == signal.SIGCHLD:
                self._reap()
            elif received == signal.SIGHUP:
                self._signal_all(received)
            else:
                self._stop(received)
        return self._status

    def _wait(self) -> int | None:
        """The next signal, or None when it is time to look."""
        received = signal.sigtimedwait(_WATCHED, _LOOK_SECONDS)
        return None if received is None else received.si_signo

    def _look(self) -> None:
        """Kill workers that do not stop in time, or whose loop hangs in a call of a library."""
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self._kill()
        for pid, number in self._number_of.items():
            if self._heartbeats.silent(number, self._settings.engine_timeout_seconds):
                logger.error("worker hangs", extra={"fields": {"pid": pid}})
                self._heartbeats.forget(number)
                os.kill(pid, signal.SIGKILL)

    def _start(self, number: int) -> None:
        """Fork a worker. A process that can't is at its limits: a new one may fare better."""
        if self._stopping:
            return
        try:
            pid = os.fork()
        except OSError as error:
            self._fail(str(error.strerror))
            return
        if pid:
            self._number_of[pid] = number
            return
        status = 1
        try:
            status = self._work(number)
        except Exception as error:  # noqa: BLE001 - whatever it is, the log is all that tells
            logger.error("worker can't serve", exc_info=error)
        finally:
            # Never back into the parent's code: its finalizers are not this process's.
            _leave(status)

    def _work(self, number: int) -> int:
        """In the child: serve on the socket of this number."""
        if sys.platform == "linux":
            gone = _TO_WORKERS[signal.SIGTERM]
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, gone)
        if os.getppid() != self._pid:
            return 1  # it died before the line above
        for other, listener in enumerate(self._listeners):
            if other != number:
                listener.close()
        self._metrics.bind(number)
        listens_to = {sent: meant for meant, sent in _TO_WORKERS.items()}
        beat = functools.partial(self._heartbeats.beat, number)
        return serve_on(self._listeners[number], self._settings, self._app, listens_to, beat)

    def _reap(self) -> None:
        """Replace the workers that died, unless all are to stop."""
        while self._number_of:
            pid, wait_status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            number = self._number_of.pop(pid, None)
            if number is None:
                continue  # the first process of a container inherits the orphans of all others
            self._metrics.clear_gauges(number)
            self._heartbeats.forget(number)
            if self._stopping:
                continue
            exit_code = os.waitstatus_to_exitcode(wait_status)
            logger.error("worker died", extra={"fields": {"pid": pid, "exit_code": exit_code}})
            now = time.monotonic()
            self._deaths = [*self._deaths, now]
            self._deaths = [died for died in self._deaths if now - died < _DEATHS_WITHIN_SECONDS]
            # A worker that ends by itself could not start: the next one could not, either.
            ends_itself = exit_code >= 0 and exit_code != EXIT_HANGS
            if ends_itself or len(self._deaths) > _MAX_DEATHS:
                self._fail("they end by themselves" if ends_itself else "they die too often")
            else:
                self._start(number)

    def _fail(self, reason: str) -> None:
        """Stop all, and say that it went wrong."""
        logger.error("workers can't be kept running", extra={"fields": {"reason": reason}})
        self._status = 1
        self._stop(signal.SIGTERM)

    def _stop(self, received: int) -> None:
        """Pass on what was received, and give the workers as long as their own bounds."""
        bounds = self._settings.shutdown_seconds + _MARGIN_SECONDS
        if received == signal.SIGTERM and not self._stopping:
            bounds += self._settings.drain_seconds
        self._deadline = time.monotonic() + bounds
        self._stopping = True
        self._signal_all(_TO_WORKERS[received])
        # Workers hold their own copies; one left here would take connections nobody accepts.
        for listener in self._listeners:
            listener.close()

    def _kill(self) -> None:
        """End the workers that did not stop in time."""
        logger.error("workers did not stop", extra={"fields": {"pids": list(self._number_of)}})
        self._status = 1
        self._deadline = None
        self._signal_all(signal.SIGKILL)

    def _signal_all(self, number: int) -> None:
        for pid in self._number_of:
            os.kill(pid, number)
