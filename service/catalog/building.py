"""Building engines beside everything else, and loading without interruptions."""

from __future__ import annotations

import collections
import contextlib
import gc
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

    from service.catalog.lock import LockedArtifact

Built = TypeVar("Built")

BUILDERS = 4
"""Threads that build. The fast library lets go of the interpreter while it builds an engine, which
is half of all that a start takes, and the largest engine takes a third of that."""

NICENESS = 10
"""What a thread of low priority has: another that is busy gets nine tenths of a core they share."""

_TASK = "/proc/self/task/{}"
"""Where Linux shows a thread, by its native id."""
_LEAVE_SECONDS, _LOOK_SECONDS = 5.0, 0.001


class Builders:
    """Threads that build engines while this one loads what else there is; none is left of them."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(BUILDERS, "build", initializer=self._step_back)
        self._native: list[int] = []
        self._locks: dict[str, threading.Lock] = collections.defaultdict(threading.Lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)
        # A thread has ended for Python before it has for the system, which takes its time with one
        # of low priority, and whoever forks wants none.
        until = time.monotonic() + _LEAVE_SECONDS
        for task in map(_TASK.format, self._native):
            while os.path.exists(task) and time.monotonic() < until:  # noqa: PTH110 - no path
                time.sleep(_LOOK_SECONDS)

    def _step_back(self) -> None:
        """Leave a core to the thread that loads, and most of the other to the largest engine.

        Those two take longest, one after the other in each core; the first thread has the largest.
        """
        step_back(NICENESS if self._native else NICENESS // 2)
        self._native.append(threading.get_native_id())

    def begin(self, artifact: LockedArtifact, build: Callable[[], Built]) -> Future[Built]:
        """Have something built for an artifact.

        Artifacts that have a file in common may have tables in common, which are made by whoever
        comes first: they wait for each other.
        """
        digests = sorted({file.sha256 for file in artifact.file})
        return self._threads.submit(_alone, build, [self._locks[digest] for digest in digests])


def _alone(build: Callable[[], Built], held: Iterable[threading.Lock]) -> Built:
    with contextlib.ExitStack() as stack:
        for lock in held:
            stack.enter_context(lock)
        return build()


def step_back(niceness: int = NICENESS) -> None:
    """Give this thread a lower priority, where a thread has one of its own, as on Linux."""
    thread = threading.get_native_id()
    with contextlib.suppress(OSError, AttributeError):
        lower = os.getpriority(os.PRIO_PROCESS, thread) + niceness
        os.setpriority(os.PRIO_PROCESS, thread, lower)


def largest_first(artifacts: Iterable[LockedArtifact]) -> list[LockedArtifact]:
    """In the order to load them in: what takes longest to build is not to be left for the end."""
    return sorted(artifacts, key=lambda each: -sum(file.bytes for file in each.file))


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """No garbage collection: next to nothing of what loading makes is garbage in cycles.

    It would go through millions of objects several times, a tenth of the time that a start takes.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
