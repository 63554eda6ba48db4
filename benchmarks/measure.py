"""Samples, series of them, and what two series say when they are laid side by side."""

from __future__ import annotations

import dataclasses
import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.goals import Goal


class CannotRunError(Exception):
    """Why a row, or what is left of it, can't be measured here."""


@dataclasses.dataclass(frozen=True)
class Sample:
    """What one server did under one load for one window of time."""

    rate: float
    """Answers a second."""
    cpu_us: float
    """CPU time of the server's processes for each answer, in microseconds."""
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    share: float = 0.0
    """CPU time over wall time: well under 1 means that something else was in the way."""

    def of_items(self, items: int) -> Sample:
        """The same, counted in the items of which each answer held so many."""
        return dataclasses.replace(self, rate=self.rate * items, cpu_us=self.cpu_us / items)


@dataclasses.dataclass(frozen=True)
class Series:
    """One contender's samples, one a round."""

    name: str
    samples: Sequence[Sample]

    def median(self, field: str) -> float:
        return statistics.median(getattr(sample, field) for sample in self.samples)

    def shown(self, *, scale: float = 1.0, unit: str = "/s") -> str:
        """Rate, CPU for each answer, and how much of its core the server had."""
        rate = self.median("rate") * scale
        parts = [f"{rate:,.0f}{unit}" if rate >= 100 else f"{rate:.1f}{unit}"]
        if cpu_us := self.median("cpu_us"):
            parts.append(f"{cpu_us:,.0f} us" if cpu_us >= 100 else f"{cpu_us:.1f} us")
        if share := self.median("share"):
            parts.append(f"{share:.0%}")
        return ", ".join(parts)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A goal and what was measured of it, or why nothing was."""

    goal: Goal
    value: float | None = None
    low: float | None = None
    high: float | None = None
    by_cpu: float | None = None
    service: str = ""
    other: str = ""
    reason: str = ""


def interleaved(
    takers: Mapping[str, Callable[[], Sample]], rounds: int, *, discarded: int = 0
) -> dict[str, Series]:
    """A series for each: every round takes one sample of each, every second round backwards.

    What disturbs the machine for a while then disturbs all alike. The first `discarded` rounds
    only warm up.
    """
    taken: dict[str, list[Sample]] = {name: [] for name in takers}
    for number in range(rounds + discarded):
        names = list(takers) if number % 2 == 0 else list(reversed(takers))
        for name in names:
            sample = takers[name]()
            if number >= discarded:
                taken[name].append(sample)
    return {name: Series(name, samples) for name, samples in taken.items()}


def ratios(service: Series, other: Series, field: str = "rate") -> list[float]:
    """How many times better the service was in each round: more for a rate, less for CPU time."""
    pairs = [
        (getattr(mine, field), getattr(theirs, field))
        for mine, theirs in zip(service.samples, other.samples, strict=True)
    ]
    if field == "rate":
        return [mine / theirs for mine, theirs in pairs if theirs]
    return [theirs / mine for mine, theirs in pairs if mine]


def outcome_of(goal: Goal, values: Sequence[float], **more: object) -> Outcome:
    """The median of one value a round, with its extremes."""
    if not values:
        return Outcome(goal, reason="no answer came in time")
    found = Outcome(goal, statistics.median(values), min(values), max(values))
    return dataclasses.replace(found, **more)  # type: ignore[arg-type]


def compared(
    goal: Goal,
    service: Series,
    other: Series,
    *,
    by: str = "rate",
    scale: float = 1.0,
    unit: str = "/s",
) -> Outcome:
    """The service against another: round by round, by rate or by CPU for each answer."""
    by_cpu = ratios(service, other, "cpu_us")
    return outcome_of(
        goal,
        by_cpu if by == "cpu_us" else ratios(service, other),
        by_cpu=statistics.median(by_cpu) if by_cpu else None,
        service=service.shown(scale=scale, unit=unit),
        other=f"{other.name}: {other.shown(scale=scale, unit=unit)}",
    )
