"""Rows 7 and 14: what becomes of small requests while large ones are worked on, on one core."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

from benchmarks import load as loads
from benchmarks import subjects, texts
from benchmarks.bench import warmed
from benchmarks.goals import goal
from benchmarks.measure import compared, interleaved, outcome_of, ratios

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.bench import Bench
    from benchmarks.load import Load
    from benchmarks.measure import Outcome, Sample
    from benchmarks.servers import Running

_TOKENIZER = "cl100k_base"
_SMALL_CONNECTIONS, _LARGE_CONNECTIONS = 16, 2
"""As the peers were measured: with 64, small requests wait for each other for longer than the
goals allow, whatever runs beside them."""


def _small(bench: Bench) -> Load:
    bodies = texts.single(_TOKENIZER, texts.english(160, 64))
    return bench.load("/count", bodies, _SMALL_CONNECTIONS)


def _large(bench: Bench) -> Load:
    bodies = texts.single(_TOKENIZER, texts.english(1_000_000, 2))
    return bench.load("/count", bodies, _LARGE_CONNECTIONS)


def _together(running: Running, small: Load, large: Load, seconds: int) -> Sample:
    with loads.beside(running, large, seconds + 30):
        return loads.run(running, small, seconds, rests=False)


def row_7(bench: Bench) -> Iterator[Outcome]:
    small, large = _small(bench), _large(bench)
    servers = {
        "service": subjects.service(),
        "all inline": subjects.bare_reference([_TOKENIZER]),
        "all inline, the service's engine": subjects.bare([_TOKENIZER]),
    }
    takers = {}
    for name, spec in servers.items():
        running = bench.fleet.get(spec)
        warmed(running, small)
        takers[name] = functools.partial(_together, running, small, large, bench.plan.seconds)
    raced = interleaved(takers, bench.plan.rounds)
    service, inline, fast_inline = raced.values()
    told = ", ".join(f"{one.name}: {one.median('p99_ms'):.0f} ms" for one in (inline, fast_inline))
    yield outcome_of(
        goal(7, "p99 of the small"),
        [sample.p99_ms for sample in service.samples],
        service=service.shown(),
        other=told,
    )
    found = compared(goal(7, "their rate against all-inline"), service, inline)
    told = f"{found.other}; {fast_inline.name}: {fast_inline.shown()}"
    yield dataclasses.replace(found, other=told)


def row_14(bench: Bench) -> Iterator[Outcome]:
    small, large = _small(bench), _large(bench)
    running = bench.fleet.get(subjects.service())
    warmed(running, small)
    seconds = bench.plan.seconds
    takers = {
        "with the large": functools.partial(_together, running, small, large, seconds),
        "alone": functools.partial(loads.run, running, small, seconds),
    }
    raced = interleaved(takers, bench.plan.rounds)
    loaded, alone = raced["with the large"], raced["alone"]
    shown = {"service": loaded.shown(), "other": f"alone: {alone.shown()}"}
    yield outcome_of(goal(14, "rate kept"), ratios(loaded, alone), **shown)
    yield outcome_of(
        goal(14, "p99 of the small"),
        [sample.p99_ms for sample in loaded.samples],
        **{**shown, "other": f"alone: {alone.median('p99_ms'):.1f} ms"},
    )
