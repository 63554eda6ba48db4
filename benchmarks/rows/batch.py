"""Row 8: a thousand texts in one request against a thousand requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import load as loads
from benchmarks import subjects, texts
from benchmarks.bench import warmed
from benchmarks.goals import goal
from benchmarks.measure import compared, interleaved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.bench import Bench
    from benchmarks.load import Load
    from benchmarks.measure import Outcome, Sample
    from benchmarks.servers import Running

_TOKENIZER = "cl100k_base"
_TEXT_BYTES, _ITEMS, _CONNECTIONS = 500, 1000, 2


def _per_text(running: Running, load: Load, seconds: float, items: int) -> Sample:
    sample = loads.run(running, load, seconds)
    return sample.of_items(items)


def row_8(bench: Bench) -> Iterator[Outcome]:
    chosen = texts.english(_TEXT_BYTES, _ITEMS)
    batch = bench.load("/count", texts.batch(_TOKENIZER, chosen), _CONNECTIONS, long=True)
    single = bench.load("/count", texts.single(_TOKENIZER, chosen[:64]))
    running = bench.fleet.get(subjects.service())
    warmed(running, single)
    warmed(running, batch)
    takers = {
        "batch": lambda: _per_text(running, batch, 2 * bench.seconds_of(batch), _ITEMS),
        "single": lambda: _per_text(running, single, bench.seconds_of(single), 1),
    }
    raced = interleaved(takers, bench.plan.rounds)
    yield compared(goal(8, "texts a second"), raced["batch"], raced["single"])
