"""The parts of the benchmark that compute: goals, medians, ratios, the table. No server starts."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import pathlib
import statistics
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks import bench, flood, load, machine, run, table, texts, usage
from benchmarks.goals import GOALS, MEASURES, Goal, goal, goals_of, parse_rows
from benchmarks.measure import (
    CannotRunError,
    Outcome,
    Sample,
    Series,
    compared,
    interleaved,
    outcome_of,
    ratios,
)
from benchmarks.rows.all_rows import ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[1]

MORE = Goal(1, "one worker", must=2.0, aim=3.0, unit="x")
LESS = Goal(7, "p99", must=10.0, aim=5.0, unit="ms", smaller_is_better=True)


def series(name: str, *figures: tuple[float, float]) -> Series:
    return Series(name, [Sample(rate, cpu_us) for rate, cpu_us in figures])


# ---- goals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "value", "verdict"),
    [
        (MORE, 1.99, "missed"),
        (MORE, 2.0, "must"),
        (MORE, 3.0, "aim"),
        (LESS, 10.1, "missed"),
        (LESS, 10.0, "must"),
        (LESS, 5.0, "aim"),
        (LESS, 0.0, "aim"),
    ],
)
def test_a_verdict_says_how_far_a_value_got(wanted: Goal, value: float, verdict: str) -> None:
    assert wanted.verdict(value) == verdict


@pytest.mark.parametrize(
    ("unit", "value", "shown"),
    [
        ("", 0.853, "0.85"),
        ("x", 7.04, "7.04x"),
        ("x", 31.26, "31.3x"),
        ("MB", 512.4, "512 MB"),
        ("ms", 4.6, "4.60 ms"),
    ],
)
def test_values_are_shown_with_their_unit(unit: str, value: float, shown: str) -> None:
    assert Goal(1, "part", 1, 1, unit).shown(value) == shown


def test_every_row_has_goals_a_measure_and_a_place_in_the_order() -> None:
    assert {one.row for one in GOALS} == set(MEASURES) == set(ROWS) == set(range(1, 15))
    assert sorted(run.BY_WEIGHT) == sorted(MEASURES)


def test_no_goal_stands_twice_and_no_aim_is_below_its_must() -> None:
    assert len({(one.row, one.part) for one in GOALS}) == len(GOALS)
    assert all(one.verdict(one.aim) == "aim" for one in GOALS)
    assert all(one.verdict(one.must) == "must" for one in GOALS)


def test_a_goal_is_found_by_its_names() -> None:
    assert goal(8, "texts a second").must == 1.4
    with pytest.raises(KeyError):
        goal(8, "texts a minute")


@pytest.mark.parametrize(
    ("chosen", "rows"),
    [("1", [1]), ("7,1,2", [1, 2, 7]), ("1-3,7", [1, 2, 3, 7]), (" 14 ,14", [14])],
)
def test_rows_are_chosen_by_number(chosen: str, rows: list[int]) -> None:
    assert parse_rows(chosen) == rows


@pytest.mark.parametrize("chosen", ["", "x", "1,", "0", "15", "1-99", "1-", "-3", "1.5"])
def test_what_is_no_row_is_refused(chosen: str) -> None:
    with pytest.raises(ValueError, match=r"expected numbers|there are rows"):
        parse_rows(chosen)


# ---- the command line ---------------------------------------------------------------------


def test_without_options_all_rows_are_measured() -> None:
    arguments = run.arguments_of([])
    assert (arguments.rows, arguments.quick, arguments.write) == (list(MEASURES), False, False)


def test_options_are_read() -> None:
    arguments = run.arguments_of(["--quick", "--rows", "1,2", "--rounds", "3"])
    assert (arguments.rows, arguments.quick, arguments.rounds) == ([1, 2], True, 3)
    assert bench.QUICK.with_rounds(arguments.rounds).rounds == 3
    assert bench.QUICK.with_rounds(None) is bench.QUICK


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--rows", "99"], "there are rows 1 to 14"),
        (["--rounds", "0"], "above 0"),
        (["--rows", "1", "--write"], "leave out --rows"),
    ],
)
def test_wrong_options_are_refused(
    given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run.arguments_of(given)
    assert said in capsys.readouterr().err


# ---- rounds, medians, ratios --------------------------------------------------------------


def test_rounds_are_interleaved_and_every_second_goes_backwards() -> None:
    order: list[str] = []

    def taker(name: str) -> Sample:
        order.append(name)
        return Sample(rate=len(order), cpu_us=1)

    taken = interleaved({name: lambda name=name: taker(name) for name in "abc"}, 3)
    assert "".join(order) == "abccbaabc"
    assert [sample.rate for sample in taken["a"].samples] == [1, 6, 7]


def test_ratios_are_taken_round_by_round() -> None:
    mine = series("mine", (100, 10), (50, 20), (90, 10))
    other = series("other", (50, 30), (25, 40), (30, 50))
    assert ratios(mine, other) == [2.0, 2.0, 3.0]
    assert ratios(mine, other, "cpu_us") == [3.0, 2.0, 5.0]


def test_a_comparison_has_the_median_the_extremes_and_the_ratio_by_cpu() -> None:
    mine = series("mine", (100, 10), (50, 20), (90, 10))
    other = series("other", (50, 30), (25, 40), (30, 50))
    found = compared(MORE, mine, other)
    assert (found.value, found.low, found.high, found.by_cpu) == (2.0, 2.0, 3.0, 3.0)
    assert found.service == "90.0/s, 10.0 us"
    assert found.other == "other: 30.0/s, 40.0 us"
    by_cpu = compared(MORE, mine, other, by="cpu_us")
    assert (by_cpu.value, by_cpu.low, by_cpu.high) == (3.0, 2.0, 5.0)


def test_rates_can_be_shown_in_another_unit() -> None:
    found = compared(MORE, series("a", (9000, 5)), series("b", (300, 50)), scale=0.05, unit=" MB/s")
    assert found.service == "450 MB/s, 5.0 us"


def test_a_sample_is_counted_in_items() -> None:
    assert Sample(rate=10, cpu_us=5000).of_items(1000) == Sample(rate=10_000, cpu_us=5)


def test_the_median_is_that_of_all_rounds() -> None:
    values = [3.0, 1.0, 2.5]
    assert outcome_of(MORE, values).value == statistics.median(values)
    assert outcome_of(MORE, []).reason == "no answer came in time"


# ---- rows that can't run ------------------------------------------------------------------


def one_then(error: Exception | None) -> Iterator[Outcome]:
    yield Outcome(goals_of(10)[0], 0.5)
    if error is not None:
        raise error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (CannotRunError("wrk is not installed"), "wrk is not installed"),
        (OSError("no more"), "OSError: no more"),
        (None, "the row ended before this"),
    ],
)
def test_what_a_row_does_not_get_to_says_why(error: Exception | None, reason: str) -> None:
    first, *others = run.measured(lambda: one_then(error), 10)
    assert first.value == 0.5
    assert [(other.goal, other.reason) for other in others] == [
        (missing, reason) for missing in goals_of(10)[1:]
    ]


def test_with_one_core_every_row_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "two_cores", lambda: None)
    outcomes = run.run(run.arguments_of(["--quick", "--rows", "1,5"]))
    assert [outcome.goal for outcome in outcomes] == [*goals_of(1), *goals_of(5)]
    assert all("two cores" in outcome.reason for outcome in outcomes)


# ---- the table ----------------------------------------------------------------------------

OUTCOMES = [
    Outcome(MORE, 2.5, 2.4, 2.6, 2.45, "10/s, 5.0 us", "bare: 4/s, 9 | 10 us"),
    Outcome(LESS, reason="wrk is not installed"),
]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.replace("\\|", "/").strip("|").split("|")]


def test_the_table_has_a_line_for_every_goal_under_the_facts() -> None:
    facts, blank, head, rule, first, second = table.rendered(OUTCOMES, ["A machine."]).split("\n")
    assert (facts, blank) == ("A machine.", "")
    assert len({len(cells(line)) for line in (head, rule, first, second)}) == 1
    assert cells(first)[:9] == [
        *("1", MEASURES[1], "one worker", "2.00x", "3.00x", "2.50x", "2.40x to 2.60x", "2.45"),
        "must",
    ]
    assert cells(second)[4:7] == ["5.00 ms", "not run: wrk is not installed", ""]


def test_a_row_of_several_goals_is_named_once() -> None:
    lines = table.rendered([Outcome(one, 1.0) for one in goals_of(10)], []).split("\n")[3:]
    assert [cells(line)[0] for line in lines] == ["10", "", ""]


def test_the_table_replaces_what_stands_between_the_markers() -> None:
    page = f"# Title\n\n{table.BEGIN}\n\nold\n\n{table.END}\n\nafter\n"
    once = table.with_table(page, "new")
    assert once == f"# Title\n\n{table.BEGIN}\n\nnew\n\n{table.END}\n\nafter\n"
    assert table.with_table(once, "new") == once


@pytest.mark.parametrize(
    "page",
    [
        "",
        table.BEGIN,
        f"{table.END}{table.BEGIN}",
        f"{table.BEGIN}{table.BEGIN}{table.END}",
        f"{table.BEGIN}{table.END}{table.END}",
    ],
)
def test_a_page_without_its_markers_is_left_alone(page: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(page, encoding="utf-8")
    with pytest.raises(table.MarkersError):
        table.write(path, "new")
    assert path.read_text(encoding="utf-8") == page


def test_the_page_can_take_the_table() -> None:
    page = run.PAGE.read_text(encoding="utf-8")
    assert "new table" in table.with_table(page, "new table")


def test_the_facts_name_the_machine_and_the_versions(tmp_path: pathlib.Path) -> None:
    where, versions, peers = machine.described(tmp_path / "no-python")
    assert "cores" in where
    assert "CPython" in versions
    assert "uvicorn" in versions
    assert peers == "Peers: not installed."


# ---- texts and loads ----------------------------------------------------------------------


@pytest.mark.parametrize("size", [160, 2_000, 1_000_000])
def test_english_texts_are_ascii_of_the_size_and_differ(size: int) -> None:
    chosen = texts.english(size, 2)
    assert [len(text) for text in chosen] == [size, size]
    assert all(text.isascii() for text in chosen)
    assert chosen[0] != chosen[1]
    assert chosen == texts.english(size, 2)


def test_mixed_texts_have_many_scripts_and_at_most_the_size() -> None:
    first, second = texts.mixed(50_000, 2)
    assert first != second
    assert 49_990 <= len(first.encode()) <= 50_000
    assert len({ord(character) >> 8 for character in first}) > 20


def test_new_words_do_not_come_again() -> None:
    words = texts.new_words(100_000, seed=1)
    seen = [word for _ in range(3) for word in next(words).split()]
    assert len(set(seen)) == len(seen) == 30_000


def test_bodies_are_one_line_each() -> None:
    bodies = [*texts.single("a", ["b\nc", "ö"]), *texts.batch("a", ["b\n", "c"])]
    assert not any(b"\n" in body for body in bodies)
    assert json.loads(bodies[0]) == {"tokenizer": "a", "text": "b\nc"}
    assert json.loads(bodies[2]) == {"tokenizer": "a", "texts": ["b\n", "c"]}


def test_what_wrk_counted_is_read() -> None:
    counted = load.parsed("Running 1s test\n  ...\n5000 2000000 1500 9000 0 0\n", "server")
    assert counted == load.Counted(5000, 2.0, 1.5, 9.0)


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("", "nothing"),
        ("unable to connect", "unable to connect"),
        ("10 1000000 1 1 0 3", "3 of 10 answers are not 2xx"),
        ("10 1000000 1 1 2 0", "2 errors of sockets"),
    ],
)
def test_a_load_that_failed_says_how(output: str, said: str) -> None:
    with pytest.raises(CannotRunError, match=said):
        load.parsed(output, "server")


class Transport:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.closed = True


async def called(
    *chunks: bytes, until: float = float("inf")
) -> tuple[flood._Caller, Transport, list[float]]:
    latencies: list[float] = []
    caller = flood._Caller(iter([b"one", b"two"]), latencies, until)
    transport: Any = Transport()
    caller.connection_made(transport)
    for chunk in chunks:
        caller.data_received(chunk)
    return caller, transport, latencies


ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody"


@pytest.mark.parametrize("cut", [1, 12, 30, len(ANSWER) - 6, len(ANSWER) - 4, len(ANSWER) - 1])
def test_an_answer_in_two_pieces_is_one_answer(cut: int) -> None:
    _, transport, latencies = asyncio.run(called(ANSWER[:cut], ANSWER[cut:]))
    assert len(latencies) == 1
    assert transport.written == [b"one", b"two"]


def test_no_request_begins_when_the_time_is_over() -> None:
    caller, transport, latencies = asyncio.run(called(until=0.0))
    assert caller.done.done()
    assert (transport.written, transport.closed, latencies) == ([], True, [])


def test_another_status_ends_the_load() -> None:
    caller, transport, _ = asyncio.run(called(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n"))
    assert transport.closed
    with pytest.raises(CannotRunError, match="503 Busy"):
        caller.done.result()


# ---- processes ----------------------------------------------------------------------------


def test_cpu_time_and_memory_of_this_process_are_read() -> None:
    own = usage.family(os.getpid())
    assert usage.cpu_seconds(own) > 0
    memory = usage.memory_mb(own[0])
    assert memory["Rss"] >= memory["Pss"] >= usage.private_mb(own[0]) > 0


def test_a_process_that_is_gone_has_used_nothing() -> None:
    assert usage.cpu_seconds([2**22 + 1]) == 0


# ---- the bare app -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["service", "reference"])
def test_the_bare_app_counts_and_encodes(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_ENGINE", kind)
    monkeypatch.setenv("BENCH_NAMES", "r50k_base")
    path = ROOT / "benchmarks" / "peers" / "bare.py"
    spec = importlib.util.spec_from_file_location(f"bare_{kind}", path)
    assert spec is not None
    assert spec.loader is not None
    bare = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bare)
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        body = b'{"tokenizer": "r50k_base", "text": "Hello world"}'
        return {"type": "http.request", "body": body}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    for path_asked in ("/count", "/encode"):
        asyncio.run(bare.app({"type": "http", "path": path_asked}, receive, send))
    answers = [json.loads(message["body"]) for message in sent if "body" in message]
    assert answers == [{"count": 2}, {"ids": [15496, 995], "count": 2}]


# ---- the peers' environment ---------------------------------------------------------------


def pins(*path: str) -> dict[str, str]:
    lines = ROOT.joinpath(*path).read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))


def test_the_peers_have_the_versions_of_the_service_where_both_have_a_library() -> None:
    own, theirs = pins("requirements", "runtime.in"), pins("benchmarks", "peers.txt")
    shared = own.keys() & theirs.keys()
    assert {"uvicorn", "uvloop", "httptools", "tiktoken", "tokenizers"} <= shared
    assert {name: theirs[name] for name in shared} == {name: own[name] for name in shared}
