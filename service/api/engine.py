"""The engine thread: which work is admitted to it, in what order, and what happens when it hangs.

Large work waits here, bounded by its bytes and by time; small work is done on the event loop and
never waits for it. There is one thread, because the libraries use a whole core each, and it yields
the core to the loop (docs/decisions/0003).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import heapq
import itertools
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from service.api.uploads import Uploads
from service.errors import EngineFailure, Overloaded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from service.metrics import Metrics
    from service.settings import Settings

Worked = TypeVar("Worked")

NICENESS = 10
"""On a shared core the loop then has nine tenths of it while there are small requests to answer,
and they kept 0.4 of their rate beside two of 1 MB without it."""

OVERTAKEN_BYTES_PER_SECOND = 4 * 1024 * 1024
"""The rule of the queue: work waits as if it had come later by its weight over this. So small work
overtakes large work, but none that has waited for that long already."""


_WATCH_AFTER_SECONDS = 0.05
"""From when on it is watched whether anybody still waits: the watching costs a tenth of counting
50 KB, and most work waits less."""


class AbandonedError(Exception):
    """Nobody waits for the work any longer, and it was not done."""


class _Job:
    """Work that waits or is being done."""

    def __init__(self, work: Callable[[], Any], weight: int) -> None:
        self.work = work
        self.weight = weight
        self.started = False
        self.outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def fail(self, error: BaseException) -> None:
        """Tell whoever waits, unless the outcome is known already."""
        if not self.outcome.done():
            self.outcome.set_exception(error)


class Engine:
    """Admits work to one thread. Used on the event loop alone."""

    def __init__(
        self, settings: Settings, metrics: Metrics, on_hang: Callable[[], None] = lambda: None
    ) -> None:
        """`on_hang` is called when work has taken longer than the engine's time-out."""
        self._max_pending = settings.max_pending_bytes
        self._wait_seconds = settings.request_timeout_seconds
        self._hang_seconds = settings.engine_timeout_seconds
        self._metrics = metrics
        self.uploads = Uploads(settings, metrics)
        """What is on its way to become work."""
        self._pool = ThreadPoolExecutor(1, "engine", initializer=_yield_to_loop)
        self._queue: list[tuple[float, int, _Job]] = []
        self._numbers = itertools.count()
        self._running: _Job | None = None
        self._hangs = False
        self.on_hang = on_hang
        self.pending = 0
        """The weight of all work that waits or is being done, in bytes."""

    def refuses(self, weight: int) -> bool:
        """Whether work of this weight would be more than may be pending.

        What is alone is never refused for its weight: trying again would not help.
        """
        return self._hangs or (self.pending > 0 and self.pending + weight > self._max_pending)

    async def run(
        self,
        work: Callable[[], Worked],
        weight: int = 0,
        gone: Callable[[], Awaitable[None]] | None = None,
    ) -> Worked:
        """Do the work in the thread. Raises Overloaded, AbandonedError and what the work raises.

        `gone` returns when nobody waits for the outcome any longer; work that has not begun by
        then is not done.
        """
        if self.refuses(weight):
            raise Overloaded
        loop = asyncio.get_running_loop()
        job = _Job(work, weight)
        self._add_pending(weight)
        turn = loop.time() + weight / OVERTAKEN_BYTES_PER_SECOND
        heapq.heappush(self._queue, (turn, next(self._numbers), job))
        self._start_next()
        if job.started:
            outcome: Worked = await job.outcome
            return outcome
        timers = [loop.call_later(self._wait_seconds, self._gave_up, job, Overloaded())]
        watch: asyncio.Future[None] | None = None

        def begin_to_watch() -> None:
            nonlocal watch
            if gone is not None and not job.started:
                watch = asyncio.ensure_future(gone())
                watch.add_done_callback(lambda _: self._gave_up(job, AbandonedError()))

        timers.append(loop.call_later(_WATCH_AFTER_SECONDS, begin_to_watch))
        try:
            outcome = await job.outcome
        finally:
            for timer in timers:
                timer.cancel()
            if watch is not None:
                watch.cancel()
            if not job.started:
                self._add_pending(-job.weight)
        return outcome

    def _gave_up(self, job: _Job, error: Exception) -> None:
        if not job.started:
            job.fail(error)

    def _start_next(self) -> None:
        while self._queue and self._running is None and not self._hangs:
            *_, job = heapq.heappop(self._queue)
            if job.outcome.done():
                continue
            job.started = True
            self._running = job
            loop = asyncio.get_running_loop()
            timer = loop.call_later(self._hang_seconds, self._hung, job)
            done = loop.run_in_executor(self._pool, job.work)
            done.add_done_callback(functools.partial(self._ended, job, timer))

    def _ended(self, job: _Job, timer: asyncio.TimerHandle, done: asyncio.Future[Any]) -> None:
        timer.cancel()
        self._running = None
        self._add_pending(-job.weight)
        if done.cancelled():
            job.outcome.cancel()
        elif (error := done.exception()) is not None:
            job.fail(error)
        elif not job.outcome.done():
            job.outcome.set_result(done.result())
        self._start_next()

    def _hung(self, job: _Job) -> None:
        """Nothing can end a native call: this process has to end, and says so to all who wait."""
        self._hangs = True
        job.fail(EngineFailure())
        for *_, waiting in self._queue:
            waiting.fail(Overloaded())
        self.on_hang()

    def _add_pending(self, change: int) -> None:
        self.pending += change
        self._metrics.add_pending(change)

    def close(self) -> None:
        """Begin no more work."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _yield_to_loop() -> None:
    """Give this thread a low priority; on Linux each thread has its own."""
    thread = threading.get_native_id()
    with contextlib.suppress(OSError, AttributeError):
        lower = os.getpriority(os.PRIO_PROCESS, thread) + NICENESS
        os.setpriority(os.PRIO_PROCESS, thread, lower)
