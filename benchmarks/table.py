"""The table of goals and figures, printed or put between its markers in a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.goals import MEASURES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from benchmarks.measure import Outcome

BEGIN = "<!-- table of benchmarks/run.py: begin -->"
END = "<!-- table of benchmarks/run.py: end -->"

_HEAD = (
    "#",
    "measure",
    "part",
    "must",
    "aim",
    "measured",
    "lowest to highest",
    "by CPU",
    "",
    "service",
    "beside it",
)
_VERDICTS = {"aim": "**aim**", "must": "must", "missed": "missed"}


class MarkersError(Exception):
    """The page has not exactly one pair of markers, in order."""


def rendered(outcomes: Iterable[Outcome], facts: Sequence[str]) -> str:
    """The facts and the table as Markdown, without a line end at the end."""
    lines = [*facts, "", _line(_HEAD), _line(["---"] * len(_HEAD))]
    last_row = None
    for outcome in outcomes:
        goal = outcome.goal
        first = goal.row != last_row
        last_row = goal.row
        lines.append(
            _line(
                [
                    str(goal.row) if first else "",
                    MEASURES[goal.row] if first else "",
                    goal.part,
                    goal.shown(goal.must),
                    goal.shown(goal.aim),
                    *_measured(outcome),
                    outcome.service,
                    outcome.other,
                ]
            )
        )
    return "\n".join(lines)


def _measured(outcome: Outcome) -> list[str]:
    """Value, extremes, ratio by CPU, verdict; or why there are none."""
    goal = outcome.goal
    if outcome.value is None:
        return [f"not run: {outcome.reason}", "", "", ""]
    spread = ""
    if outcome.low is not None and outcome.high is not None and outcome.low != outcome.high:
        spread = f"{goal.shown(outcome.low)} to {goal.shown(outcome.high)}"
    by_cpu = "" if outcome.by_cpu is None else f"{outcome.by_cpu:.2f}"
    return [goal.shown(outcome.value), spread, by_cpu, _VERDICTS[goal.verdict(outcome.value)]]


def _line(cells: Iterable[str]) -> str:
    shown = " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
    return f"| {shown} |"


def with_table(page: str, table: str) -> str:
    """The page with another table between its markers. Raises MarkersError."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in before + after:
        raise MarkersError(f"expected {BEGIN} and then {END}, once each")
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


def write(path: Path, table: str) -> None:
    """Put the table into a page. Raises MarkersError."""
    path.write_text(with_table(path.read_text(encoding="utf-8"), table), encoding="utf-8")
