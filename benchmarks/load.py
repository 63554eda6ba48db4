"""Loads a server for a bounded time and reads what the server used meanwhile.

Small requests come from wrk, long ones from flood.py, which says why.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import usage
from benchmarks.flood import flood
from benchmarks.measure import CannotRunError, Sample
from benchmarks.servers import HOST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.servers import Running

_SCRIPT = Path(__file__).with_name("load.lua")
_MARGIN_SECONDS = 40
_REST_SECONDS = 20.0


@dataclasses.dataclass(frozen=True)
class Load:
    """What is posted: the lines of a file, in turn, over connections that stay open."""

    path: str
    bodies: Path
    connections: int
    long: bool
    """Whether each takes a server so long that none may be left half done."""

    def lines(self) -> list[bytes]:
        """The bodies."""
        return self.bodies.read_bytes().splitlines()


@dataclasses.dataclass(frozen=True)
class Counted:
    """What wrk saw."""

    answers: int
    seconds: float
    p50_ms: float
    p99_ms: float


def run(running: Running, load: Load, seconds: float, *, rests: bool = True) -> Sample:
    """Load for some seconds; wrk knows whole ones alone. Raises CannotRunError.

    `rests`: wait afterwards until the server has done what nobody waits for any more.
    """
    pids = running.pids
    before, started = usage.cpu_seconds(pids), time.perf_counter()
    counted = (_by_flood if load.long else _by_wrk)(running, load, seconds)
    used, wall = usage.cpu_seconds(pids) - before, time.perf_counter() - started
    if rests:
        usage.settle(pids, _REST_SECONDS)
    if not counted.answers:
        raise CannotRunError(f"{running.spec.name} gave no answer within {seconds} s")
    return Sample(
        rate=counted.answers / counted.seconds,
        cpu_us=used / counted.answers * 1e6,
        p50_ms=counted.p50_ms,
        p99_ms=counted.p99_ms,
        share=used / wall,
    )


def _by_wrk(running: Running, load: Load, seconds: float) -> Counted:
    whole = math.ceil(seconds)
    process = _start(running, load, whole)
    try:
        output, _ = process.communicate(timeout=whole + _MARGIN_SECONDS)
    finally:
        _end(process)
    return parsed(output, running.spec.name)


def _by_flood(running: Running, load: Load, seconds: float) -> Counted:
    latencies, took = flood(
        running.port, load.path, load.lines(), connections=load.connections, seconds=seconds
    )
    latencies.sort()
    p50, p99 = (1e3 * latencies[int(len(latencies) * part)] for part in (0.5, 0.99))
    return Counted(len(latencies), took, p50, p99)


@contextlib.contextmanager
def beside(running: Running, load: Load, seconds: int) -> Iterator[None]:
    """Load the server while the block runs, at most for `seconds`."""
    process = _start(running, load, seconds)
    time.sleep(0.3)  # its first requests are in flight
    try:
        yield
        if process.poll() is not None:
            raise CannotRunError("the load beside ended too early")
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=_MARGIN_SECONDS)
    finally:
        _end(process)
    parsed(output, running.spec.name)
    usage.settle(running.pids, _REST_SECONDS)


def parsed(output: str, name: str) -> Counted:
    """The last line of load.lua. Raises CannotRunError for answers or sockets that failed."""
    lines = output.strip().splitlines()
    try:
        answers, micros, p50, p99, sockets, refused = map(int, lines[-1].split())
    except (IndexError, ValueError):
        raise CannotRunError(f"wrk said: {lines[-1] if lines else 'nothing'}") from None
    if sockets or refused:
        raise CannotRunError(
            f"{name}: {refused} of {answers} answers are not 2xx, {sockets} errors of sockets"
        )
    return Counted(answers, micros / 1e6, p50 / 1e3, p99 / 1e3)


def _start(running: Running, load: Load, seconds: int) -> subprocess.Popen[str]:
    wrk = shutil.which("wrk")
    if wrk is None:
        raise CannotRunError("wrk is not installed (Debian's package wrk)")
    return subprocess.Popen(
        [
            *(wrk, "--threads", "1", "--connections", str(load.connections)),
            *("--duration", f"{seconds}s", "--timeout", "60s", "--script", str(_SCRIPT)),
            *(f"http://{HOST}:{running.port}{load.path}", "--", str(load.bodies)),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()
