"""Row 12: what a worker keeps of words that never come again."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

from benchmarks import subjects, texts, usage
from benchmarks.client import connected
from benchmarks.goals import goal
from benchmarks.measure import Outcome, outcome_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.bench import Bench
    from benchmarks.client import Client

_TOKENIZERS = ("cl100k_base", "o200k_base", "gpt2")
_TEXT_BYTES = 1_000_000
_WARM_TEXTS = 3
_ENOUGH_MEGABYTES = 100
"""Less text than this does not show whether the growth ends."""


def row_12(bench: Bench) -> Iterator[Outcome]:
    running = bench.fleet.start(subjects.service())
    try:
        with connected(running) as (client,):
            resident, seconds = _resident(client, running.process.pid, bench.plan.megabytes)
    finally:
        bench.fleet.stop(running)
    told = f"{resident[0]:.0f} MB at first, {bench.plan.megabytes / seconds:.1f} MB/s"
    yield outcome_of(goal(12, "growth"), [max(resident) - resident[0]], service=told)
    last = goal(12, "growth over the last quarter")
    if bench.plan.megabytes < _ENOUGH_MEGABYTES:
        yield Outcome(last, reason="needs the whole 200 MB: leave out --quick")
        return
    before = max(resident[: len(resident) * 3 // 4])
    yield outcome_of(last, [max(resident) - before], service=told)


def _resident(client: Client, pid: int, megabytes: int) -> tuple[list[float], float]:
    """Resident memory after each text, first when three had been sent, and the seconds it took."""
    words = texts.new_words(_TEXT_BYTES, seed=1)
    names = itertools.cycle(_TOKENIZERS)
    resident = []
    started = time.perf_counter()
    for number in range(_WARM_TEXTS + megabytes):
        client.post("/count", *texts.single(next(names), [next(words)]))
        if number >= _WARM_TEXTS - 1:
            resident.append(usage.memory_mb(pid)["Rss"])
    return resident, time.perf_counter() - started
