"""Threads that look at a running service from outside while it is loaded."""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from collections.abc import Iterator

WAIT_SECONDS = 30.0

COUNTERS = ("counter", "histogram")
"""The types whose samples never fall."""

PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024


def get(port: int, path: str) -> bytes:
    """A 200's body, on a new connection. Raises OSError or HTTPException."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
    if response.status != 200:
        raise http.client.HTTPException(f"status {response.status}")
    return body


def workers_of(pid: int) -> list[int]:
    """The children of a process."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(child) for child in children.split()]


def rss_kib(pid: int) -> int | None:
    """Resident memory; None of a process that is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * PAGE_KIB
    except OSError:
        return None


class Observer:
    """Does a thing at a steady pace, on a thread of its own, while a block runs."""

    every_seconds = 1.0

    def observe(self) -> None:
        """Look once."""
        raise NotImplementedError

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Look again and again until the block ends."""
        over = threading.Event()

        def work() -> None:
            due = time.monotonic() + self.every_seconds
            while not over.wait(max(0.0, due - time.monotonic())):
                self.observe()
                due = max(due + self.every_seconds, time.monotonic())

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


class Pulse(Observer):
    """How soon /healthz answers, each time on a new connection."""

    every_seconds = 0.1

    def __init__(self, port: int) -> None:
        self._port = port
        self.seconds: list[float] = []
        self.failures: list[tuple[float, float, str]] = []
        """When each began and ended, and what it was."""

    def observe(self) -> None:
        began = time.monotonic()
        try:
            get(self._port, "/healthz")
        except (OSError, http.client.HTTPException) as error:
            self.failures.append((began, time.monotonic(), f"{type(error).__name__} {error}"))
        else:
            self.seconds.append(time.monotonic() - began)


class Memory(Observer):
    """Resident memory of the service's processes, by pid."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.samples: dict[int, list[tuple[float, int]]] = {}

    def observe(self) -> None:
        now = time.monotonic()
        for pid in (self._pid, *workers_of(self._pid)):
            kib = rss_kib(pid)
            if kib:
                self.samples.setdefault(pid, []).append((now, kib))


class Counters(Observer):
    """Whether what a scrape counts ever falls."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.last: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        self.scrapes = 0
        self.fell: list[str] = []

    def observe(self) -> None:
        try:
            text = get(self._port, "/metrics").decode()
        except (OSError, http.client.HTTPException):
            return  # its worker was killed; what it would have shown, the next scrape shows
        self.take(text)

    def take(self, text: str) -> None:
        """Compare one scrape with those before it."""
        self.scrapes += 1
        shown = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            if family.type in COUNTERS
            for sample in family.samples
            if not sample.name.endswith("_created")
        }
        for series, before in self.last.items():
            now = shown.get(series)
            if now is None or now < before:
                self.fell.append(f"{series[0]}{dict(series[1])}: {before:g} to {now}")
        self.last.update(shown)

    def total(self, name: str) -> float:
        """The sum over all series of this name."""
        return sum(value for (series, _), value in self.last.items() if series == name)


class Killer(Observer):
    """Kills a worker every now and then.

    Any worker, until half of the time is over; from then on the oldest is spared, so that there is
    one whose memory can be judged.
    """

    def __init__(self, pid: int, every_seconds: float, spare_from: float) -> None:
        self._pid = pid
        self.every_seconds = every_seconds
        self._spare_from = spare_from
        self.spared: int | None = None
        self.kills: list[float] = []

    def observe(self) -> None:
        workers = workers_of(self._pid)
        if time.monotonic() + self.every_seconds > self._spare_from and self.spared is None:
            # The other one goes now, so that this one is some time old at half of the time.
            self.spared = min(workers, default=None)
        victims = [worker for worker in workers if worker != self.spared]
        if victims:
            self.kills.append(time.monotonic())
            os.kill(random.choice(victims), signal.SIGKILL)
