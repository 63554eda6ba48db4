"""Starts servers on the server's core of loopback and stops each by its pid."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from benchmarks import usage
from benchmarks.measure import CannotRunError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.machine import Cores

ROOT = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"

_READY_SECONDS = 90.0
_STOP_SECONDS = 10.0
_IS_THERE = (http.HTTPStatus.OK, http.HTTPStatus.NOT_FOUND, http.HTTPStatus.METHOD_NOT_ALLOWED)
"""Answers to GET /readyz: the service says 503 until it is ready, the others don't know it."""


@dataclasses.dataclass(frozen=True)
class Spec:
    """How a server is started. `{port}` in the command is the port it listens on."""

    name: str
    command: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()


@dataclasses.dataclass(frozen=True)
class Running:
    """A server that answers."""

    spec: Spec
    process: subprocess.Popen[bytes]
    port: int
    seconds_to_ready: float

    @property
    def pids(self) -> list[int]:
        """The server's processes."""
        return usage.family(self.process.pid)


class Fleet:
    """The servers of one run: started when first asked for, all stopped at its end."""

    def __init__(self, cores: Cores, folder: Path, *, hurries: bool = False) -> None:
        """`hurries`: servers may start on both cores, and libraries may count these."""
        self._hurries = hurries
        self._cores = cores
        self._folder = folder
        self._running: dict[Spec, Running] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for running in list(self._running.values()):
            self.stop(running)

    def get(self, spec: Spec) -> Running:
        """The running server, started now if it is not running yet. Raises CannotRunError."""
        running = self._running.get(spec)
        if running is None or running.process.poll() is not None:
            self._running[spec] = running = self.start(spec, both_cores=self._hurries)
            if self._hurries:
                self._pin(running)
            usage.settle(running.pids, 20.0)
        return running

    def start(self, spec: Spec, *, both_cores: bool = False) -> Running:
        """Start a server that the caller stops, and wait until it answers.

        `both_cores`: it has the machine to itself, because nothing loads it.
        """
        port = _free_port()
        log = self._folder / f"{spec.name.replace(' ', '-').replace('/', '-')}-{port}.log"
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TOKENIZER_", "BENCH_"))}
        started = time.perf_counter()
        with log.open("wb") as output, self._on_cores(both=both_cores):
            try:
                process = subprocess.Popen(
                    [part.format(port=port) for part in spec.command],
                    cwd=ROOT,
                    env={**kept, **dict(spec.variables)},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                )
            except OSError as error:
                raise CannotRunError(f"{spec.name} does not start: {error.strerror}") from None
        try:
            _wait_until_ready(spec, process, port, log)
        except BaseException:
            _stop(process)
            raise
        return Running(spec, process, port, time.perf_counter() - started)

    def stop(self, running: Running) -> None:
        """Stop a server and wait for its end."""
        if self._running.get(running.spec) is running:
            del self._running[running.spec]
        _stop(running.process)

    def _pin(self, running: Running) -> None:
        """Keep a server on its core from now on."""
        for pid in running.pids:
            for thread in usage.threads(pid):
                with contextlib.suppress(ProcessLookupError):  # it has ended
                    os.sched_setaffinity(thread, {self._cores.server})

    def on_server_core(self) -> contextlib.AbstractContextManager[None]:
        """A child begun here runs on the server's core from its first instruction."""
        return self._on_cores(both=False)

    @contextlib.contextmanager
    def _on_cores(self, *, both: bool) -> Iterator[None]:
        os.sched_setaffinity(0, {self._cores.server, *([self._cores.load] if both else [])})
        try:
            yield
        finally:
            os.sched_setaffinity(0, {self._cores.load})


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        port: int = listener.getsockname()[1]
        return port


def _wait_until_ready(spec: Spec, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            why = lines[-1] if lines else f"exit status {process.returncode}"
            raise CannotRunError(f"{spec.name} does not start: {why[:120]}")
        if _answers(port):
            return
        time.sleep(0.005)
    raise CannotRunError(f"{spec.name} is not ready in {_READY_SECONDS:.0f} s")


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status in _IS_THERE
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask the process to stop, and kill what is left of its family."""
    if process.poll() is not None:
        return
    pids = usage.family(process.pid)
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pid in pids[1:]:
        # Its children end with it; one that does not, and is still the same process, is killed.
        with contextlib.suppress(OSError):
            if os.getpgid(pid) == os.getpgid(0):
                os.kill(pid, signal.SIGKILL)
