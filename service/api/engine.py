"""The engine thread: which work is admitted to it, in what order, and what happens when it hangs.

Large work waits here, bounded by its bytes and by time; small work is done on the event loop and
never waits for it. There is one thread, because the libraries use a whole core each, and it yields
the core to the loop (docs/decisions/0003).
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from service.api.engine_thread import EngineThread
from service.api.pace import Pace
from service.api.uploads import Uploads
from service.core.faults import is_fault
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

    def __init__(
        self,
        work: Callable[[], Any],
        weight: int,
        gone: Callable[[], bool],
        brief: Callable[[], Any] | None,
    ) -> None:
        self.work = work
        self.weight = weight
        self.gone = gone
        self.brief = brief
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
        self._thread: EngineThread[_Job] = EngineThread(self._done)
        self._queue: list[tuple[float, int, _Job]] = []
        self._numbers = itertools.count()
        self._running: _Job | None = None
        self._timer: asyncio.TimerHandle
        self._thread_works = self._hangs = False
        self.on_hang = on_hang
        self.pace = Pace()
        self.pending = 0
        """The weight of all work that waits or is being done, in bytes."""

    def has_time(self) -> bool:
        """Whether a long text may be done on the event loop at once.

        Not while the thread works, which has a lower priority. What waits for its turn on the loop
        gets it all the same.
        """
        return not self._thread_works and self.pace.has_time()

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
        brief: Callable[[], Worked | None] | None = None,
    ) -> Worked:
        """Do the work in the thread. Raises Overloaded, AbandonedError and what the work raises.

        `gone` tells whether nobody waits for the outcome any longer; such work is not begun.
        `brief` does the same on the event loop where there is time, or gives None if it takes long.
        """
        if self.refuses(weight):
            raise Overloaded
        loop = asyncio.get_running_loop()
        job = _Job(work, weight, gone, brief)
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
            if job.brief is not None and self.pace.has_time():
                asyncio.get_running_loop().call_soon(self._be_brief, job, job.brief)
            else:
                self._give(job)

    def _be_brief(self, job: _Job, brief: Callable[[], Any]) -> None:
        started = perf_counter()
        try:
            result = brief()
        except BaseException as error:
            if not is_fault(error):
                raise
            self._ended(job, None, error)
            return
        self.pace.took(perf_counter() - started, in_vain=result is None)
        if result is None:
            self._give(job)
        else:
            self._ended(job, result, None)

    def _give(self, job: _Job) -> None:
        self._thread_works = True
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._hang_seconds, self._hung, job)
        self._thread.do(job, loop)

    def _done(self, job: _Job, result: object, error: BaseException | None) -> None:
        self._timer.cancel()
        self._thread_works = False
        self._ended(job, result, error)

    def _ended(self, job: _Job, result: object, error: BaseException | None) -> None:
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
