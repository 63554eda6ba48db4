"""The thread behind the event loop: one at a time, in order, and in memory of its own."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from typing import TYPE_CHECKING, Any

import pytest

from service.api.engine_thread import EngineThread

if TYPE_CHECKING:
    from collections.abc import Callable

Outcome = tuple[object, object, BaseException | None]


@dataclasses.dataclass(frozen=True)
class Given:
    """Something to do."""

    work: Callable[[], Any]


async def outcomes(*work: Callable[[], Any]) -> list[Outcome]:
    """What the thread tells of each."""
    told: list[Outcome] = []
    all_told = asyncio.Event()

    def ended(given: Given, result: object, error: BaseException | None) -> None:
        told.append((given, result, error))
        if len(told) == len(work):
            all_told.set()

    thread: EngineThread[Given] = EngineThread(ended)
    given = [Given(each) for each in work]
    for each in given:
        thread.do(each, asyncio.get_running_loop())
    await asyncio.wait_for(all_told.wait(), 20)
    thread.close()
    assert [done for done, _, _ in told] == given
    return told


def fails() -> None:
    raise KeyboardInterrupt


def test_results_and_errors_in_order() -> None:
    first, second, third = asyncio.run(outcomes(lambda: 1, fails, lambda: 3))
    assert (first[1:], third[1:]) == ((1, None), (3, None))
    assert isinstance(second[2], KeyboardInterrupt), "and the thread goes on"


def new_threads(before: set[threading.Thread]) -> list[threading.Thread]:
    """Those that live on after some time to end."""
    new = [thread for thread in threading.enumerate() if thread not in before]
    for thread in new:
        thread.join(5)
    return [thread for thread in new if thread.is_alive()]


def test_there_is_one_thread_and_it_ends() -> None:
    before = set(threading.enumerate())
    (first, second) = asyncio.run(outcomes(threading.get_ident, threading.get_ident))
    assert first[1] == second[1] != threading.get_ident()
    assert new_threads(before) == [], "those that held other memory have left as well"


def test_none_is_started_before_there_is_work() -> None:
    """A process that has threads can't fork."""
    before = threading.active_count()
    thread: EngineThread[Given] = EngineThread(lambda *_: None)
    thread.close()
    assert threading.active_count() == before


def test_a_loop_that_is_closed_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    before = set(threading.enumerate())
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        go_on.wait(20)

    async def give() -> None:
        thread.do(Given(slow), asyncio.get_running_loop())
        thread.close()
        assert begun.wait(20)

    thread: EngineThread[Given] = EngineThread(lambda *_: pytest.fail("nobody waits"))
    asyncio.run(give())
    go_on.set()
    assert new_threads(before) == []
    assert capsys.readouterr().err == ""
