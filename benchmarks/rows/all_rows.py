"""Which function measures which row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.rows import batch, beside, engine, hot, memory, processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.bench import Bench
    from benchmarks.measure import Outcome

ROWS: dict[int, Callable[[Bench], Iterator[Outcome]]] = {
    1: hot.row_1,
    2: hot.row_2,
    3: hot.row_3,
    4: hot.row_4,
    5: engine.row_5,
    6: engine.row_6,
    7: beside.row_7,
    8: batch.row_8,
    9: hot.row_9,
    10: processes.row_10,
    11: processes.row_11,
    12: memory.row_12,
    13: hot.row_13,
    14: beside.row_14,
}
