"""The engine thread: which work is admitted to it, in what order, and what happens when it hangs.

Large work waits here, bounded by its bytes and by time; small work is done on the event loop and
never waits for it. There is one thread, because the libraries use a whole core each, and it yields
the core to the loop (docs/decisions/0003).
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from typing import TYPE_CHECKING, Any, TypeVar

from service.api.engine_thread import EngineThread
from service.api.uploads import Uploads
from service.errors import EngineFailure, Overloaded

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.metrics import Metrics
    from service.settings import Settings

Worked = TypeVar("Worked")

OVERTAKEN_BYTES_PER_SECOND = 4 * 1024 * 1024
"""The rule of the queue: work waits as if it had come later by its weight over this. So small work
overtakes large work, but none that has waited for that long already."""

LEAST_WEIGHT = 16 * 1024
"""Of any work, in bytes: what waits takes memory beside its body. So no more than 4,096 wait with
the default of 64 MiB."""

GONE = "gone"
"""Key of the scope's state under which the protocol says how to ask whether the client left."""


class AbandonedError(Exception):
    """Nobody waits for the work any longer, and it was not done."""


def stays() -> bool:
    """Nobody tells whether the client left."""
    return False


class _Job:
    """Work that waits or is being done."""

    def __init__(self, work: Callable[[], Any], weight: int, gone: Callable[[], bool]) -> None:
        self.work = work
        self.weight = weight
        self.gone = gone
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
        self._thread: EngineThread[_Job] = EngineThread(self._ended)
        self._queue: list[tuple[float, int, _Job]] = []
        self._numbers = itertools.count()
        self._running: _Job | None = None
        self._timer: asyncio.TimerHandle
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
        weight: int = LEAST_WEIGHT,
        gone: Callable[[], bool] = stays,
    ) -> Worked:
        """Do the work in the thread. Raises Overloaded, AbandonedError and what the work raises.

        `gone` tells whether nobody waits for the outcome any longer; such work is not begun.
        """
        if self.refuses(weight):
            raise Overloaded
        loop = asyncio.get_running_loop()
        job = _Job(work, weight, gone)
        self._add_pending(weight)
        turn = loop.time() + weight / OVERTAKEN_BYTES_PER_SECOND
        heapq.heappush(self._queue, (turn, next(self._numbers), job))
        self._start_next()
        if job.started:
            outcome: Worked = await job.outcome
            return outcome
        timer = loop.call_later(self._wait_seconds, self._gave_up, job, Overloaded())
        try:
            outcome = await job.outcome
        finally:
            timer.cancel()
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
            if job.gone():
                job.fail(AbandonedError())
                continue
            job.started = True
            self._running = job
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._hang_seconds, self._hung, job)
            self._thread.do(job, loop)

    def _ended(self, job: _Job, result: object, error: BaseException | None) -> None:
        self._timer.cancel()
        self._running = None
        self._add_pending(-job.weight)
        if error is not None:
            job.fail(error)
        elif not job.outcome.done():
            job.outcome.set_result(result)
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
        self._thread.close()
