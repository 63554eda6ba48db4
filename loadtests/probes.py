"""How long the pages for probes take while eight texts of 1 MB are worked on, and after a kill -9.

    python loadtests/probes.py [SECONDS]

Starts the service with one worker and asks /healthz, /readyz and /metrics in turn, each on a new
connection, while eight connections send texts of 1 MB without a pause. Then it starts two workers,
kills one, and measures the time until another one serves. Exits with 1 when a p99 is 100 ms or
more, or the new worker takes over 2 s.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from balancers import free_ports
from observers import get, workers_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("/healthz", "/readyz", "/metrics")
SENDERS = 8
BODY = json.dumps({"tokenizer": "cl100k_base", "text": "A word and another. " * 50_000}).encode()
MAX_P99_SECONDS = 0.1
MAX_RECOVERY_SECONDS = 2.0
START_SECONDS = 120


@contextlib.contextmanager
def service(workers: int) -> Iterator[tuple[int, int]]:
    """A running service: its port and pid."""
    (port,) = free_ports(1)
    variables = os.environ | {"TOKENIZER_DRAIN_SECONDS": "0", "TOKENIZER_LOG_REQUESTS": "off"}
    options = ("serve", "--port", str(port), "--workers", str(workers))
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "service", *options],
        cwd=ROOT,
        env=variables,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + START_SECONDS
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                get(port, "/readyz")
                break
            if time.monotonic() > until:
                raise SystemExit("the service is not ready")
            time.sleep(0.1)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()


def send(port: int, stop: threading.Event, answered: list[int]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while not stop.is_set():
        connection.request("POST", "/count", BODY, {"content-type": "application/json"})
        response = connection.getresponse()
        response.read()
        answered.append(response.status)
    connection.close()


def under_load(seconds: float) -> bool:
    """Print the latencies of each page; whether all are below the bound."""
    stop, answered = threading.Event(), []
    latencies: dict[str, list[float]] = {page: [] for page in PAGES}
    with service(1) as (port, _):
        senders = [
            threading.Thread(target=send, args=(port, stop, answered)) for _ in range(SENDERS)
        ]
        for sender in senders:
            sender.start()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for page in PAGES:
                began = time.perf_counter()
                get(port, page)
                latencies[page].append(time.perf_counter() - began)
                time.sleep(0.005)
        stop.set()
        for sender in senders:
            sender.join()
    print(f"{len(answered) / seconds:.0f} texts of 1 MB a second, statuses {set(answered)}")
    good = set(answered) == {200}
    for page, taken in latencies.items():
        taken.sort()
        p50, p99 = (taken[int(len(taken) * part)] for part in (0.5, 0.99))
        good &= p99 < MAX_P99_SECONDS
        print(
            f"{page:9} {len(taken)} asked, p50 {p50 * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms, "
            f"longest {taken[-1] * 1e3:.1f} ms"
        )
    return good


def recovery() -> bool:
    """Print how long a worker that is killed is missed; whether that is below the bound."""
    with service(2) as (port, pid):
        while len(workers_of(pid)) < 2:
            time.sleep(0.01)
        victim = workers_of(pid)[0]
        began = time.perf_counter()
        os.kill(victim, signal.SIGKILL)
        while victim in workers_of(pid) or len(workers_of(pid)) < 2:
            time.sleep(0.002)
        for _ in range(20):  # some of them wait at the socket of the worker that comes
            get(port, "/readyz")
        taken = time.perf_counter() - began
    print(f"a killed worker is replaced, and 20 new connections answered, after {taken:.2f} s")
    return taken < MAX_RECOVERY_SECONDS


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    results = [under_load(seconds), recovery()]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
