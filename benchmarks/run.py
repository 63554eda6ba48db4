"""Measure the service beside what people run instead, and print the table of goals.

Servers run on one core of loopback and the load on another; every figure that counts is a ratio
inside one run. CONTRIBUTING.md says how to get figures worth keeping.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import machine, table  # noqa: E402 - found by the line above
from benchmarks.bench import FULL, QUICK, Bench  # noqa: E402
from benchmarks.goals import MEASURES, goals_of, parse_rows  # noqa: E402
from benchmarks.measure import CannotRunError, Outcome  # noqa: E402
from benchmarks.rows.all_rows import ROWS  # noqa: E402
from benchmarks.servers import Fleet  # noqa: E402
from benchmarks.subjects import peers_python  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PAGE = ROOT / "docs" / "performance.md"

BY_WEIGHT = (1, 2, 3, 5, 6, 7, 8, 10, 11, 14, 4, 13, 12, 9)
"""The order in which rows are measured: where time runs out, the last ones are left out."""


def _rows(chosen: str) -> list[int]:
    try:
        return parse_rows(chosen)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _positive(number: str) -> int:
    if not number.isdecimal() or int(number) < 1:
        raise argparse.ArgumentTypeError(f"expected a number above 0, found {number!r}")
    return int(number)


def arguments_of(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under two minutes, rough figures")
    parser.add_argument("--rows", type=_rows, default=list(MEASURES), help="such as 1,2,7 or 1-3")
    parser.add_argument("--rounds", type=_positive, help="how often each server is measured")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    arguments = parser.parse_args(given)
    if arguments.write and set(arguments.rows) != set(MEASURES):
        parser.error("--write writes the whole table: leave out --rows")
    return arguments


def measured(row: Callable[[], Iterator[Outcome]], number: int) -> Iterator[Outcome]:
    """The outcomes of a row; for the goals that it does not get to, why."""
    left = goals_of(number)
    reason = "the row ended before this"
    try:
        for outcome in row():
            left.remove(outcome.goal)
            yield outcome
    except CannotRunError as error:
        reason = str(error)
    except Exception as error:  # noqa: BLE001 - the other rows are worth having all the same
        reason = f"{type(error).__name__}: {error}"
    for goal in left:
        yield Outcome(goal, reason=reason)


def run(arguments: argparse.Namespace) -> list[Outcome]:
    """Measure the chosen rows, telling on the way what comes out."""
    plan = (QUICK if arguments.quick else FULL).with_rounds(arguments.rounds)
    cores = machine.two_cores()
    if cores is None:
        reason = "needs two cores: one for the server, one for the load"
        return [Outcome(goal, reason=reason) for row in arguments.rows for goal in goals_of(row)]
    os.sched_setaffinity(0, {cores.load})
    outcomes = []
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        Fleet(cores, Path(folder), hurries=arguments.quick) as fleet,
    ):
        bench = Bench(plan, fleet, Path(folder))
        for number in sorted(arguments.rows, key=BY_WEIGHT.index):
            spent = time.monotonic() - started
            if spent > plan.limit_seconds:
                reason = f"{spent:.0f} s had passed before it"
                outcomes += [Outcome(goal, reason=reason) for goal in goals_of(number)]
                continue
            outcomes += list(measured(lambda: ROWS[number](bench), number))  # noqa: B023 - now
            took = time.monotonic() - started - spent
            print(f"row {number}: {took:.1f} s", file=sys.stderr, flush=True)
    return sorted(outcomes, key=lambda outcome: outcome.goal.row)


def main() -> int:
    arguments = arguments_of()
    # However it is told to stop, servers are stopped on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    facts = machine.described(peers_python())
    outcomes = run(arguments)
    shown = table.rendered(outcomes, facts)
    if arguments.write:
        table.write(PAGE, shown)
        print(f"written to {PAGE.relative_to(ROOT)}")
    else:
        print(shown)
    return 0 if any(outcome.value is not None for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
