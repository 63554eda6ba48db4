"""What processes use: CPU time to the nanosecond, memory as the kernel divides it."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_PROC = Path("/proc")
_CPUCLOCK_SCHED = 2
"""linux/posix-timers.h: the clock of a process that counts what the scheduler gave it."""


def threads(pid: int) -> list[int]:
    """The threads of a process."""
    return [int(thread.name) for thread in (_PROC / str(pid) / "task").iterdir()]


def family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    pids = [pid]
    for parent in pids:
        with contextlib.suppress(OSError):
            for thread in threads(parent):
                children = _PROC / str(parent) / "task" / str(thread) / "children"
                pids += map(int, children.read_text().split())
    return pids


def cpu_seconds(pids: Iterable[int]) -> float:
    """CPU time of these processes since they began, threads that ended included.

    /proc/PID/schedstat knows the main thread alone and /proc/PID/stat counts in ticks of 10 ms.
    """
    total = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            total += time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)
    return total


def memory_mb(pid: int) -> dict[str, float]:
    """Rss, Pss, Private_Clean, Private_Dirty and what else smaps_rollup tells, in MB."""
    found: dict[str, float] = {}
    for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()[1:]:
        name, _, rest = line.partition(":")
        found[name] = int(rest.split()[0]) / 1024
    return found


def private_mb(pid: int) -> float:
    """Memory that no other process shares."""
    memory = memory_mb(pid)
    return memory["Private_Clean"] + memory["Private_Dirty"]


def sockets(pid: int) -> int:
    """How many sockets a process has open."""
    number = 0
    for link in (_PROC / str(pid) / "fd").iterdir():
        with contextlib.suppress(OSError):
            number += link.readlink().name.startswith("socket:")
    return number


def settle(pids: Iterable[int], seconds: float) -> bool:
    """Wait until these processes rest. False when they still work after `seconds`."""
    pids = list(pids)
    deadline = time.monotonic() + seconds
    before, quiet = cpu_seconds(pids), 0
    while quiet < 2:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
        after = cpu_seconds(pids)
        quiet = quiet + 1 if after - before < 0.003 else 0
        before = after
    return True
