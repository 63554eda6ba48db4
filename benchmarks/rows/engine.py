"""Rows 5 and 6: what is left of the engine's speed once the service is around it.

And how much could be left at the most: the floor reads the same bodies, and does nothing else.
"""

from __future__ import annotations

import dataclasses
import functools
import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import load as loads
from benchmarks import subjects, texts
from benchmarks.bench import warmed
from benchmarks.client import is_fast
from benchmarks.goals import goals_of
from benchmarks.measure import CannotRunError, Sample, Series, compared, interleaved, ratios

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.bench import Bench
    from benchmarks.load import Load
    from benchmarks.measure import Outcome
    from benchmarks.servers import Fleet

_SCRIPT = Path(__file__).resolve().parent.parent / "raw_engine.py"
_TOKENIZER = "cl100k_base"
_TEXT_BYTES, _NUMBER, _CONNECTIONS = 1_000_000, 2, 4


def row_5(bench: Bench) -> Iterator[Outcome]:
    yield from _against_raw(bench, 5, "count")


def row_6(bench: Bench) -> Iterator[Outcome]:
    yield from _against_raw(bench, 6, "encode")


def _against_raw(bench: Bench, row: int, kind: str) -> Iterator[Outcome]:
    chosen = texts.english(_TEXT_BYTES, _NUMBER)
    load, packed = (
        bench.load(f"/{kind}", bodies, _CONNECTIONS, long=True)
        for bodies in (texts.single(_TOKENIZER, chosen), texts.packed(_TOKENIZER, chosen))
    )
    service = bench.fleet.get(subjects.service())
    floor = bench.fleet.get(subjects.floor(_TOKENIZER))
    warmed(service, load)
    warmed(floor, load)
    library = "fastokens" if is_fast(service, _TOKENIZER) else "tiktoken"
    seconds = 2 * bench.plan.long_seconds
    takers = {
        "JSON": functools.partial(loads.run, service, load, seconds),
        "JSON, floor": functools.partial(loads.run, floor, load, seconds),
        "MessagePack": functools.partial(loads.run, service, packed, seconds),
        "MessagePack, floor": functools.partial(loads.run, floor, packed, seconds),
        "raw": functools.partial(_raw, bench.fleet, (library, kind), load, seconds),
    }
    raced = interleaved(takers, bench.plan.rounds)
    raw = Series(f"{library} in process", raced["raw"].samples)
    for wanted in goals_of(row):
        outcome = compared(wanted, raced[wanted.part], raw)
        floors = statistics.median(ratios(raced[f"{wanted.part}, floor"], raw))
        yield dataclasses.replace(outcome, other=f"{outcome.other}; floor: {floors:.2f}")


def _raw(fleet: Fleet, call: tuple[str, str], load: Load, seconds: float) -> Sample:
    library, kind = call
    with fleet.on_server_core():
        process = subprocess.Popen(
            [
                *(sys.executable, str(_SCRIPT), library, kind, _TOKENIZER),
                *(str(load.bodies), str(seconds)),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
    try:
        output, _ = process.communicate(timeout=seconds + 60)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if process.returncode:
        raise CannotRunError(f"{library} in process fails")
    calls, wall, cpu = map(float, output.split())
    return Sample(rate=calls / wall, cpu_us=cpu / calls * 1e6, share=cpu / wall)
