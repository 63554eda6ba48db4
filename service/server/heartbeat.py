"""A sign of life of each worker's event loop, which the supervisor looks at."""

from __future__ import annotations

import mmap
import time

_DOUBLE_BYTES = 8


class Heartbeats:
    """One time a worker, in memory that is shared with those that are forked later."""

    def __init__(self, workers: int) -> None:
        self._mapping = mmap.mmap(-1, workers * _DOUBLE_BYTES)
        self._times = memoryview(self._mapping).cast("d")

    def beat(self, number: int) -> None:
        """Worker `number` is alive now, by a clock that all processes share and nobody sets."""
        self._times[number] = time.monotonic()

    def silent(self, number: int, seconds: float) -> bool:
        """Whether a worker that was alive once has not been for so long."""
        last = self._times[number]
        return last > 0 and time.monotonic() - last > seconds

    def forget(self, number: int) -> None:
        """The worker is gone; its successor has yet to show itself."""
        self._times[number] = 0.0
