"""What is admitted to the engine thread, in which order, and what ends without having begun."""

from __future__ import annotations

import asyncio
import functools
import math
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from service.api import engine as module
from service.api.app import metrics_for
from service.api.engine import AbandonedError, Engine
from service.catalog.building import NICENESS
from service.errors import EngineFailure, Overloaded
from service.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

    from service.catalog.catalog import Catalog
    from service.metrics import Metrics

MIB = 1024 * 1024
RATE = module.OVERTAKEN_BYTES_PER_SECOND


class Gate:
    """Work that begins when it is its turn and ends when the test lets it."""

    def __init__(self) -> None:
        self._opened = threading.Event()
        self.begun = threading.Event()

    def __call__(self) -> str:
        self.begun.set()
        assert self._opened.wait(20)
        return "passed"

    def open(self) -> None:
        self._opened.set()


@pytest.fixture
def metrics(catalog: Catalog) -> Metrics:
    return metrics_for(catalog)


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.open()


def pending(metrics: Metrics) -> float:
    (line,) = (
        line
        for line in metrics.render().decode().splitlines()
        if line.startswith("tokenizer_pending_bytes ")
    )
    return float(line.split()[1])


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 30))


async def settled() -> None:
    """Let everything that can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_the_outcome_of_the_work(metrics: Metrics) -> None:
    async def test() -> None:
        engine = Engine(Settings(), metrics)
        assert await engine.run(lambda: 7, 5) == 7
        with pytest.raises(ZeroDivisionError):
            await engine.run(lambda: 1 // 0, 5)
        assert engine.pending == pending(metrics) == 0
        assert await engine.run(threading.get_ident) != threading.get_ident()

    run(test())


@pytest.mark.skipif(not hasattr(os, "getpriority"), reason="no priorities on this system")
def test_the_thread_yields_the_core_to_the_loop(metrics: Metrics) -> None:
    async def test() -> None:
        def priority() -> int:
            return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

        before = priority()
        assert await Engine(Settings(), metrics).run(priority) == before + NICENESS
        assert priority() == before

    run(test())


def test_more_than_may_be_pending_is_refused_at_once(metrics: Metrics, gate: Gate) -> None:
    async def test() -> None:
        engine = Engine(Settings(max_pending_bytes=100), metrics)
        first = asyncio.create_task(engine.run(gate, 60))
        second = asyncio.create_task(engine.run(lambda: 2, 40))
        await settled()
        assert engine.pending == pending(metrics) == 100
        with pytest.raises(Overloaded):
            await engine.run(lambda: 3, 1)
        gate.open()
        assert (await first, await second) == ("passed", 2)
        assert engine.pending == pending(metrics) == 0
        assert await engine.run(lambda: 4, 90) == 4

    run(test())


def test_what_is_alone_is_not_refused_for_its_weight(metrics: Metrics) -> None:
    """Nobody could ever send it."""

    async def test() -> None:
        engine = Engine(Settings(max_pending_bytes=100), metrics)
        assert await engine.run(lambda: 1, 1000) == 1

    run(test())


def test_work_that_waits_too_long_is_refused_and_never_done(metrics: Metrics, gate: Gate) -> None:
    done: list[str] = []

    async def test() -> None:
        engine = Engine(Settings(request_timeout_seconds=0.05), metrics)
        first = asyncio.create_task(engine.run(gate, 10))
        await settled()
        with pytest.raises(Overloaded):
            await engine.run(lambda: done.append("waited"), 10)
        assert engine.pending == 10
        gate.open()
        # What was begun is answered, however long it takes.
        assert await first == "passed"
        await engine.run(lambda: done.append("last"))

    run(test())
    assert done == ["last"]


def test_a_client_that_went_away_costs_no_engine_time(metrics: Metrics, gate: Gate) -> None:
    done: list[str] = []

    async def test() -> None:
        engine = Engine(Settings(), metrics)
        first = asyncio.create_task(engine.run(gate, 10))
        left = False
        second = asyncio.create_task(engine.run(lambda: done.append("gone"), 10, lambda: left))
        third = asyncio.create_task(engine.run(lambda: done.append("stayed"), 10))
        await settled()
        left = True
        gate.open()
        await first
        with pytest.raises(AbandonedError):
            await second
        await third
        assert engine.pending == 0

    run(test())
    assert done == ["stayed"]


async def order_of(engine: Engine, gate: Gate, weights: list[int]) -> list[int]:
    """In which order work of these weights is done that comes in the order of the list."""
    done: list[int] = []
    first = asyncio.create_task(engine.run(gate))
    await settled()

    def work(number: int) -> Callable[[], None]:
        return lambda: done.append(number)

    waiting: list[Awaitable[None]] = []
    for number, weight in enumerate(weights):
        waiting.append(asyncio.create_task(engine.run(work(number), weight)))
        await settled()
    gate.open()
    await asyncio.gather(first, *waiting)
    return done


def test_small_work_overtakes_large_work(metrics: Metrics, gate: Gate) -> None:
    async def test() -> None:
        weights = [8 * MIB, MIB, 20_000, 20_000]
        assert await order_of(Engine(Settings(), metrics), gate, weights) == [2, 3, 1, 0]

    run(test())


def test_large_work_is_not_overtaken_for_ever(
    metrics: Metrics, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes later than a weight's worth of waiting comes after it, however small."""

    async def test() -> None:
        loop = asyncio.get_running_loop()
        came = iter([loop.time(), loop.time() + 2.1, loop.time() + 2.1])
        engine = Engine(Settings(), metrics)
        first = asyncio.create_task(engine.run(gate))
        await settled()
        done: list[str] = []
        waiting = []
        for name, weight in (("large", 2 * RATE), ("small", 20_000), ("smaller", 10_000)):
            with monkeypatch.context() as patch:
                # Only the call that gives the work its turn sees another time.
                now = next(came)
                patch.setattr(module.asyncio, "get_running_loop", lambda now=now: Later(loop, now))
                work = engine.run(lambda name=name: done.append(name), weight)
                task = loop.create_task(work)
                await settled()
                waiting.append(task)
        gate.open()
        await asyncio.gather(first, *waiting)
        assert done == ["large", "smaller", "small"]

    run(test())


class Later:
    """A loop on which it is another time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, now: float) -> None:
        self._loop = loop
        self._now = now

    def time(self) -> float:
        return self._now

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


def test_work_that_hangs_is_told_to_all_who_wait(metrics: Metrics, gate: Gate) -> None:
    hung: list[str] = []

    async def test() -> None:
        engine = Engine(Settings(engine_timeout_seconds=0.05), metrics)
        engine.on_hang = lambda: hung.append("hung")
        first = asyncio.create_task(engine.run(gate, 10))
        second = asyncio.create_task(engine.run(lambda: 2, 10))
        with pytest.raises(EngineFailure):
            await first
        with pytest.raises(Overloaded):
            await second
        with pytest.raises(Overloaded):
            await engine.run(lambda: 3)
        gate.open()
        await asyncio.sleep(0.1)

    run(test())
    assert hung == ["hung"]


def test_brief_work_is_done_on_the_loop(metrics: Metrics) -> None:
    async def test() -> None:
        engine = Engine(Settings(), metrics)
        place = threading.get_ident
        assert await engine.run(place, brief=place) == place()
        with pytest.raises(ZeroDivisionError):
            await engine.run(place, brief=lambda: 1 // 0)
        assert engine.pending == pending(metrics) == 0

    run(test())


def test_work_that_is_not_brief_after_all_is_done_in_the_thread(metrics: Metrics) -> None:
    async def test() -> None:
        engine = Engine(Settings(), metrics)
        place = threading.get_ident
        assert await engine.run(place, brief=lambda: None) != place()
        engine.pace.busy_at = math.inf
        assert await engine.run(place, brief=place) != place(), "small requests come"

    run(test())


def test_brief_work_waits_for_its_turn(metrics: Metrics, gate: Gate) -> None:
    """And one piece for the next, so that what else the loop has to do comes between."""
    done: list[int] = []

    async def test() -> None:
        engine = Engine(Settings(), metrics)
        assert engine.has_time()
        first = asyncio.create_task(engine.run(gate, 10))
        await settled()
        assert not engine.has_time(), "the thread works"
        others = [
            asyncio.create_task(
                engine.run(lambda: 0, 10, brief=functools.partial(append, done, number))
            )
            for number in range(3)
        ]
        await settled()
        assert not done
        gate.open()
        assert await first == "passed"
        while len(done) < len(others):
            before = len(done)
            await asyncio.sleep(0)
            assert len(done) - before <= 1
        assert await asyncio.gather(*others) == [1, 2, 3]
        assert engine.has_time()
        assert engine.pending == pending(metrics) == 0

    run(test())


def append(done: list[int], number: int) -> int:
    done.append(number)
    return len(done)
