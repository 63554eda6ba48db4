"""What a soak showed: which of its failures are excused by a kill, and what is wrong."""

from __future__ import annotations

import collections
import dataclasses
import statistics
from typing import TYPE_CHECKING, Any

from soak_notes import quantile_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from observers import Counters, Killer, Memory, Pulse
    from soak_notes import Failure, Notes

BROKEN = (
    "HTTPConnectionClosed",
    "RetriesExceeded",
    "ConnectionResetError",
    "BrokenPipeError",
    "RemoteDisconnected",
    "status  instead of",
)
"""How a connection that its worker's death broke shows: by nothing else."""

EXCUSED_SECONDS = 2.0
"""How long after a kill a client may still come upon a connection that it broke."""

MAX_GROWTH, MAX_GROWTH_KIB = 0.10, 16 * 1024
"""In the last half of the time: this share, or so much where that is more."""

KEPT = 200
"""How many requests and lines of the log the report has."""

SERIES = 40
"""About how many samples of a process's memory the report has."""

JUDGED_SECONDS = 60
"""In less time memory says nothing."""

_PART = 5
"""The first and the last of so many parts of the last half are compared, by their medians."""


@dataclasses.dataclass
class Soak:
    """All that was seen."""

    seconds: int
    half: float
    """When half of the time was over."""
    notes: Notes
    pulse: Pulse
    memory: Memory
    counters: Counters
    killer: Killer
    exit_status: int = 0
    log: str = ""
    """What the service wrote."""


def excused(began: float, ended: float, what: str, kills: Sequence[float]) -> bool:
    """Whether a kill is why a connection broke: while it was in use, or just before."""
    broke = any(name in what for name in BROKEN)
    return broke and any(began - EXCUSED_SECONDS <= kill <= ended for kill in kills)


def growth(samples: Sequence[tuple[float, int]], since: float) -> tuple[int, int] | None:
    """Memory early and late in the time since then; None of a process not there all the time."""
    late = [sample for sample in samples if sample[0] >= since]
    if len(late) < 2 * _PART or len(late) == len(samples):
        return None
    part = len(late) // _PART
    before, after = (
        int(statistics.median(kib for _, kib in some)) for some in (late[:part], late[-part:])
    )
    return before, after


def judge(soak: Soak) -> dict[str, Any]:
    """The report, with its `violations`."""
    kills = soak.killer.kills
    began = soak.half - soak.seconds / 2
    reset, overloaded = 0, 0
    wrong: collections.Counter[str] = collections.Counter()
    for failure in soak.notes.failures:
        if excused(failure.began, failure.ended, failure.what, kills):
            reset += 1
            continue
        overloaded += "overloaded" in failure.what
        wrong[f"{failure.kind}: {failure.what}"] += 1
    silent = [
        what for start, end, what in soak.pulse.failures if not excused(start, end, what, kills)
    ]
    answered = sum(map(len, soak.notes.seconds.values()))
    counted = soak.counters.total("tokenizer_request_duration_seconds_count")
    violations = [f"{count} times {what}" for what, count in wrong.most_common()]
    violations += [f"/healthz: {what}" for what in silent[:10]]
    violations += [f"a counter fell: {what}" for what in soak.counters.fell[:10]]
    if not answered or soak.notes.failed > len(soak.notes.failures):
        violations.append(f"{answered} requests were answered, {soak.notes.failed} were not")
    if counted < _work_answered(soak.notes):
        violations.append(f"{counted:g} requests are counted, fewer than were answered")
    if soak.exit_status:
        violations.append(f"exit status {soak.exit_status}")
    memory = _memory(soak, violations)
    return {
        "seconds": soak.seconds,
        "kinds": {
            kind: _quantiles(seconds) for kind, seconds in sorted(soak.notes.seconds.items())
        },
        "healthz": _quantiles(soak.pulse.seconds),
        "kills": len(kills),
        "reset_by_kills": reset + len(soak.pulse.failures) - len(silent),
        "overloaded": overloaded,
        "requests_answered": answered,
        "requests_counted": counted,
        "scrapes": soak.counters.scrapes,
        "memory": memory,
        "killed_at": [round(kill - began, 1) for kill in kills],
        "not_answered": [_timed(failure, began) for failure in soak.notes.failures[:KEPT]],
        "slow": [_timed(slow, began) for slow in soak.notes.slow[:KEPT]],
        "errors_in_log": [line for line in soak.log.splitlines() if '"level":"error"' in line][
            :KEPT
        ],
        "exit_status": soak.exit_status,
        "violations": violations,
    }


def _timed(request: Failure, since: float) -> dict[str, Any]:
    times = {"began": request.began - since, "ended": request.ended - since}
    rounded = {name: round(time, 2) for name, time in times.items()}
    return {"kind": request.kind, "what": request.what, **rounded}


def _work_answered(notes: Notes) -> int:
    """Requests that surely had a 200: of bad ones some never became a request."""
    return sum(len(seconds) for kind, seconds in notes.seconds.items() if "bad:" not in kind)


def _quantiles(seconds: Sequence[float]) -> dict[str, float]:
    named = (("p50_ms", 0.5), ("p99_ms", 0.99), ("max_ms", 1.0))
    return {
        "requests": len(seconds),
        **{name: round(quantile_ms(seconds, share), 2) for name, share in named},
    }


def _memory(soak: Soak, violations: list[str]) -> dict[str, Any]:
    """By process; what grew goes to the violations."""
    memory = {}
    judged = 0
    for pid, samples in soak.memory.samples.items():
        kib = [size for _, size in samples]
        report: dict[str, Any] = {"seconds": round(samples[-1][0] - samples[0][0], 1)}
        report |= {"first_kib": kib[0], "last_kib": kib[-1], "max_kib": max(kib)}
        report["series_kib"] = kib[:: max(1, len(kib) // SERIES)]
        grown = growth(samples, soak.half)
        lives = samples[-1][0] > soak.half + soak.seconds / 2 - 5
        if grown is not None and lives:
            judged += 1
            before, after = grown
            report |= {"half_kib": before, "end_kib": after}
            if after - before > max(MAX_GROWTH * before, MAX_GROWTH_KIB):
                violations.append(f"memory of {pid} grew from {before} to {after} KiB")
        memory[str(pid)] = report
    if judged < 2 and soak.seconds >= JUDGED_SECONDS:  # the supervisor, the worker that was spared
        violations.append("no worker lived long enough for its memory to be judged")
    return memory


def table(report: dict[str, Any]) -> str:
    """The report as a person reads it."""
    lines = [f"{'kind':28} {'answered':>9} {'p50 ms':>9} {'p99 ms':>9} {'max ms':>9}"]
    for kind, row in [*report["kinds"].items(), ("/healthz", report["healthz"])]:
        quantiles = " ".join(f"{row[name]:9.1f}" for name in ("p50_ms", "p99_ms", "max_ms"))
        lines.append(f"{kind:28} {row['requests']:9} {quantiles}")
    lines.append(f"{'process':28} {'seconds':>9} {'half MiB':>9} {'end MiB':>9} {'max MiB':>9}")
    for pid, row in report["memory"].items():
        sizes = " ".join(
            f"{row[name] / 1024:9.1f}" if name in row else f"{'':9}"
            for name in ("half_kib", "end_kib", "max_kib")
        )
        lines.append(f"{pid:28} {row['seconds']:9} {sizes}")
    names = ("kills", "reset_by_kills", "overloaded", "requests_answered", "requests_counted")
    lines += [f"{name.replace('_', ' ')}: {report[name]:g}" for name in names]
    lines += [f"violation: {violation}" for violation in report["violations"]]
    return "\n".join([*lines, "failed" if report["violations"] else "nothing went wrong"])
