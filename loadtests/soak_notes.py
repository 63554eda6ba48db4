"""What became of the requests of a soak, as locust writes it and soak.py reads it."""

from __future__ import annotations

import collections
import dataclasses
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MAX_FAILURES = 10_000
"""More are counted and not kept."""

SLOW_SECONDS = 5.0
"""Requests that took longer from when they were sent are kept, to be looked into."""


@dataclasses.dataclass(frozen=True)
class Failure:
    """A request that did not get its answer, or late. Times are of the monotonic clock."""

    kind: str
    began: float
    ended: float
    what: str


class Notes:
    """Collected while the load runs."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = collections.defaultdict(list)
        """By kind, of those that got their answer: from when each was due."""
        self.failures: list[Failure] = []
        self.failed = 0
        self.slow: list[Failure] = []
        """Those that got their answer late."""

    def note(self, kind: str, due: float, began: float, ended: float, what: str | None) -> None:
        """One request; `what` was wrong with its answer, if anything was."""
        if what is None:
            self.seconds[kind].append(ended - due)
            if ended - began > SLOW_SECONDS:
                self.slow.append(Failure(kind, began, ended, "slow"))
            return
        self.failed += 1
        if len(self.failures) < MAX_FAILURES:
            self.failures.append(Failure(kind, began, ended, what))

    def write(self, path: Path) -> None:
        """Into a file that read_notes reads."""
        kept = {
            "seconds": self.seconds,
            "failed": self.failed,
            "failures": [dataclasses.asdict(failure) for failure in self.failures],
            "slow": [dataclasses.asdict(slow) for slow in self.slow],
        }
        path.write_text(json.dumps(kept), encoding="utf-8")


def read_notes(path: Path) -> Notes:
    """What was written."""
    kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    notes = Notes()
    notes.seconds.update(kept["seconds"])
    notes.failed = kept["failed"]
    notes.failures = [Failure(**failure) for failure in kept["failures"]]
    notes.slow = [Failure(**slow) for slow in kept["slow"]]
    return notes


def quantile_ms(seconds: Sequence[float], share: float) -> float:
    """The nearest rank, in milliseconds: 1.0 is the slowest. 0 of nothing."""
    ordered = sorted(seconds)
    return 1000 * ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0
