"""What the service is to reach, as data: the table of the issue that asked for it."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Goal:
    """One figure. A row of the table has one or several."""

    row: int
    part: str
    must: float
    aim: float
    unit: str = ""
    smaller_is_better: bool = False

    def verdict(self, value: float) -> str:
        """How far a measured value got."""
        sign = -1 if self.smaller_is_better else 1
        if sign * value >= sign * self.aim:
            return "aim"
        return "must" if sign * value >= sign * self.must else "missed"

    def shown(self, value: float) -> str:
        """A value with the goal's unit, with as many digits as mean something."""
        places = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
        blank = "" if self.unit in ("", "x") else " "
        return f"{value:.{places}f}{blank}{self.unit}"


MEASURES = {
    1: "`/count`, 160 B, against a bare ASGI app with msgspec and the same engine",
    2: "`/count`, 160 B, against other frameworks with tiktoken",
    3: "`/count`, ASCII, MB/s against FastAPI (`def`) with tiktoken",
    4: "`/count`, 50 KB of ASCII, gpt2's tokenizer.json, against FastAPI on `Tokenizer.encode`",
    5: "`/count`, 1 MB, against the raw engine in process (count from a buffer)",
    6: "`/encode`, 1 MB, against the raw engine in process (a Python list)",
    7: "small requests with two of 1 MB in flight, one core",
    8: "a batch of 1,000 texts of 500 B against 1,000 requests",
    9: "`/count`, 50 KB of mixed scripts, against the reference library in a bare ASGI app",
    10: "two workers",
    11: "start to ready, the embedded artifacts",
    12: "memory of a worker over never-repeating words, three artifacts",
    13: "`/encode`, Qwen3's tokenizer.json, CPU against FastAPI on `Tokenizer.encode`",
    14: "small requests kept while two of 1 MB run, one core",
}
"""What each row measures, by its number."""

FORMATS_OF_MIXED = (
    "cl100k_base",
    "gpt2",
    "all-minilm-l6-v2",
    "bert-base-uncased",
    "mistral-7b-v0.3",
    "t5-base",
    "clip-vit-large-patch14",
    "minbpe-service",
)
"""Row 9: an artifact of each format, and of each kind of model in it."""

GOALS: tuple[Goal, ...] = (
    Goal(1, "one worker", 0.85, 0.93),
    Goal(1, "two workers on the core", 0.80, 0.90),
    Goal(2, "Litestar handler", 2.0, 2.3, "x"),
    Goal(2, "FastAPI async", 3.0, 3.5, "x"),
    Goal(2, "FastAPI def", 7.0, 8.0, "x"),
    Goal(3, "2 KB, cl100k_base", 4.0, 6.0, "x"),
    Goal(3, "50 KB, cl100k_base", 8.0, 12.0, "x"),
    Goal(3, "2 KB, o200k_base", 4.0, 6.0, "x"),
    Goal(3, "50 KB, o200k_base", 8.0, 12.0, "x"),
    Goal(4, "50 KB", 12.0, 25.0, "x"),
    *(Goal(5, form, 0.80, 0.90) for form in ("JSON", "MessagePack")),
    *(Goal(6, form, 0.75, 1.0) for form in ("JSON", "MessagePack")),
    Goal(7, "p99 of the small", 10.0, 5.0, "ms", smaller_is_better=True),
    Goal(7, "their rate against all-inline", 25.0, 30.0, "x"),
    Goal(8, "texts a second", 1.4, 3.0, "x"),
    *(Goal(9, name, 1.0, 5.0, "x") for name in FORMATS_OF_MIXED),
    Goal(10, "PSS against `uvicorn --workers 2`", 0.55, 0.5, smaller_is_better=True),
    Goal(10, "private memory of a worker", 15.0, 8.0, "MB", smaller_is_better=True),
    Goal(10, "64 connections, max/min", 1.5, 1.3, smaller_is_better=True),
    Goal(11, "seconds", 3.0, 1.0, "s", smaller_is_better=True),
    Goal(12, "growth", 512.0, 256.0, "MB", smaller_is_better=True),
    Goal(12, "growth over the last quarter", 16.0, 8.0, "MB", smaller_is_better=True),
    Goal(13, "200 B", 6.0, 12.0, "x"),
    Goal(13, "2 KB", 8.0, 25.0, "x"),
    Goal(13, "50 KB", 10.0, 40.0, "x"),
    Goal(14, "rate kept", 0.6, 0.9),
    Goal(14, "p99 of the small", 8.0, 5.0, "ms", smaller_is_better=True),
)


def goals_of(row: int) -> list[Goal]:
    """The goals of one row."""
    return [goal for goal in GOALS if goal.row == row]


def goal(row: int, part: str) -> Goal:
    """One goal by its names. Raises KeyError."""
    for candidate in goals_of(row):
        if candidate.part == part:
            return candidate
    raise KeyError((row, part))


def parse_rows(chosen: str) -> list[int]:
    """Numbers of rows from "1,2,7" or "1-3,7". Raises ValueError naming what it can't read."""
    rows: set[int] = set()
    for piece in chosen.split(","):
        first, dash, last = piece.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"expected numbers of rows such as 1,2,7 or 1-3, found {piece!r}")
        rows.update(range(int(first), int(last or first) + 1))
    unknown = sorted(rows.difference(MEASURES))
    if unknown:
        raise ValueError(f"there are rows 1 to {max(MEASURES)}, none {unknown[0]}")
    return sorted(rows)
