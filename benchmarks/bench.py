"""What every row needs: how long to measure, the servers, the bodies, and a race between them."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import time
from typing import TYPE_CHECKING

from benchmarks import load as loads
from benchmarks.client import connected
from benchmarks.measure import CannotRunError, interleaved

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from benchmarks.load import Load
    from benchmarks.measure import Series
    from benchmarks.servers import Fleet, Running, Spec

_WARM_SECONDS = 0.3


@dataclasses.dataclass(frozen=True)
class Plan:
    """How long and how often."""

    rounds: int
    seconds: int
    """A window of small requests."""
    long_seconds: float
    """The time in which requests of milliseconds are begun."""
    starts: int
    """Row 11: how often the service is started."""
    trials: int
    """Row 10: how often 64 connections are opened."""
    megabytes: int
    """Row 12: how much text is sent."""
    certifies: bool
    """Row 13: whether the fast engine is certified anew, which takes a minute."""
    limit_seconds: float
    """No row begins after this."""

    def with_rounds(self, rounds: int | None) -> Plan:
        return self if rounds is None else dataclasses.replace(self, rounds=rounds)


QUICK = Plan(
    rounds=1,
    seconds=1,
    long_seconds=0.5,
    starts=1,
    trials=3,
    megabytes=18,
    certifies=False,
    limit_seconds=80,
)
FULL = Plan(
    rounds=5,
    seconds=3,
    long_seconds=4,
    starts=5,
    trials=11,
    megabytes=200,
    certifies=True,
    limit_seconds=3000,
)


class Bench:
    """One run of the benchmark."""

    def __init__(self, plan: Plan, fleet: Fleet, folder: Path) -> None:
        self.plan = plan
        self.fleet = fleet
        self._folder = folder
        self._numbers = itertools.count(1)

    def load(
        self, path: str, bodies: Sequence[bytes], connections: int = 64, *, long: bool = False
    ) -> Load:
        """A load with these bodies."""
        file = self._folder / f"bodies-{next(self._numbers)}"
        file.write_bytes(b"\n".join(bodies) + b"\n")
        return loads.Load(path, file, connections, long)

    def race(self, contenders: Mapping[str, tuple[Spec, Load]]) -> dict[str, Series]:
        """A series for each contender, interleaved, after all have agreed on one answer."""
        running = {name: (self.fleet.get(spec), load) for name, (spec, load) in contenders.items()}
        counts = {name: warmed(*found) for name, found in running.items()}
        if len(set(counts.values())) > 1:
            found = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise CannotRunError(f"they don't agree on the number of tokens: {found}")
        takers = {
            name: functools.partial(loads.run, server, load, self.seconds_of(load))
            for name, (server, load) in running.items()
        }
        return interleaved(takers, self.plan.rounds)

    def seconds_of(self, load: Load) -> float:
        """How long to load with it."""
        return self.plan.long_seconds if load.long else self.plan.seconds


def warmed(running: Running, load: Load) -> int:
    """Send the bodies for a moment; the number of tokens of the first."""
    bodies = load.lines()
    deadline = time.monotonic() + _WARM_SECONDS
    with connected(running) as (client,):
        count: int = client.post(load.path, bodies[0])["count"]
        for body in bodies[1:]:
            if time.monotonic() > deadline:
                break
            client.post(load.path, body)
    return count
