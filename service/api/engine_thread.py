"""The thread that works for the event loop, one piece of work after the other."""

from __future__ import annotations

import contextlib
import queue
import threading
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from service.catalog.building import BUILDERS, step_back

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

_LARGE_BYTES = 4096
"""Python takes smaller objects from memory of its own, which all threads share."""


class Work(Protocol):
    """What can be done."""

    def work(self) -> object:
        """Do it. Raises whatever it raises."""


Given = TypeVar("Given", bound=Work)


class EngineThread(Generic[Given]):
    """Begins with the first work: a process that has threads can't fork.

    An executor would do the same, and its futures and their locks cost 0.1 ms for each work.
    """

    def __init__(self, ended: Callable[[Given, object, BaseException | None], None]) -> None:
        """`ended` is called on the event loop with the work, its result and what it raised."""
        self._ended = ended
        self._given: queue.SimpleQueue[tuple[Given, asyncio.AbstractEventLoop] | None]
        self._given = queue.SimpleQueue()
        self._started = False

    def do(self, work: Given, loop: asyncio.AbstractEventLoop) -> None:
        """Do this when all that was given before is done, and tell the loop."""
        if not self._started:
            self._started = True
            _start_apart(self._serve)
        self._given.put((work, loop))

    def close(self) -> None:
        """End when what was given is done."""
        self._given.put(None)

    def _serve(self) -> None:
        # Small requests kept 0.4 of their rate beside two of 1 MB without it.
        step_back()
        while (given := self._given.get()) is not None:
            work, loop = given
            result: object = None
            error: BaseException | None = None
            try:
                result = work.work()
            except BaseException as raised:  # noqa: BLE001 - whoever waits for the work is told
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(self._ended, work, result, error)
            del given, work, result, error


def _start_apart(serve: Callable[[], None]) -> None:
    """Start a thread that allocates from memory that no thread had before.

    glibc gives a new thread the memory of one that has ended. What the builders leave is in pieces:
    the libraries took a quarter longer for the same text in it. So others take it meanwhile.
    """
    begun, leave = threading.Semaphore(0), threading.Event()

    def begin() -> None:
        bytearray(_LARGE_BYTES)
        begun.release()

    def hold() -> None:
        begin()
        leave.wait()

    def run() -> None:
        begin()
        serve()

    for target in (*[hold] * BUILDERS, run):
        threading.Thread(target=target, name="engine", daemon=True).start()
        begun.acquire()
    leave.set()
