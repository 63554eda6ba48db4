"""service.core.budget: single cuts, worked out by hand, and the work for the end of a text."""

from __future__ import annotations

import pytest
import regex

from service.core.alignment import ByteAlignment, Offset, RangeAlignment
from service.core.budget import BudgetedText, Plan, Slice

LETTERS = regex.compile("(?s).")


def budgeted(text: str, budget: int, pieces: regex.Pattern[str] = LETTERS) -> BudgetedText:
    """A text whose ids are the matches of a pattern, in the text and in a slice of it alone."""
    ranges = [Offset(*found.span()) for found in pieces.finditer(text)]
    alignment = RangeAlignment(text, list(range(len(ranges))), ranges)
    return BudgetedText(text, alignment, lambda part: len(pieces.findall(part)), budget)


def chunks(
    text: str, budget: int, pieces: regex.Pattern[str] = LETTERS, *, auto: bool = True
) -> list[Slice]:
    plan = Plan(budget=budget, overlap=0, by_meaning=auto, max_chunks=100)
    return budgeted(text, budget, pieces).chunks(plan)


@pytest.mark.parametrize("auto", [False, True])
def test_what_fits_as_it_is_is_not_cut(*, auto: bool) -> None:
    text = "aa. Aa"
    assert chunks(text, len(text), auto=auto) == [(0, 6, 6)]
    assert chunks("bbbbb " + text, len(text), auto=auto) == [(0, 6, 6), (6, 12, 6)]


@pytest.mark.parametrize("auto", [False, True])
def test_a_rest_that_is_more_ids_alone_than_it_was_in_the_text(*, auto: bool) -> None:
    pieces = regex.compile("(?<=a)bb|.")
    assert [found[0] for found in pieces.finditer("abb")] == ["a", "bb"]
    assert chunks("abb", 1, pieces, auto=auto) == [(0, 1, 1), (1, 2, 1), (2, 3, 1)]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("aaaa. Aaa aaaaaaaa", "aaaa. Aaa "),  # the sentence ends at the middle
        ("aaaaa. Aa aaaaaaaa", "aaaaa. "),  # and one character later
        ("aaa. Aaaa aaaaaaaa", "aaa. Aaaa "),
    ],
)
def test_a_higher_level_counts_in_the_last_half_alone(text: str, first: str) -> None:
    assert text[: chunks(text, 12)[0].end] == first


def test_the_half_is_counted_from_where_a_chunk_begins() -> None:
    text = "aaaa aaaaaa " + "bbbb. Bbb bbbbbbbb"
    assert [text[start:end] for start, end, _ in chunks(text, 12)[:2]] == [
        "aaaa aaaaaa ",
        "bbbb. Bbb ",
    ]


def test_a_cut_that_fills_the_budget_is_as_good_as_another() -> None:
    assert chunks("aa a aaaa", 5)[0] == (0, 5, 5)


def test_a_cut_by_meaning_inside_the_only_id_that_fits() -> None:
    pieces = regex.compile("aa bb|aa |.")
    assert chunks("aa bb" * 3, 1, pieces)[0] == (0, 3, 1)
    assert chunks("aa bb" * 3, 1, pieces, auto=False)[0] == (0, 5, 1)


def test_a_cluster_that_ends_with_the_marks_that_are_of_no_id() -> None:
    text = "e\u0301" * 5
    pieces = regex.compile("e")
    assert budgeted(text, 2, pieces).first() == (0, 4, 2)
    assert budgeted(text, 2, pieces).last() == (6, 10, 2)
    assert chunks(text, 2, pieces) == [(0, 4, 2), (4, 8, 2), (8, 10, 1)]


ENDS_WITH_NO_ID = regex.compile("e\u0301+\\Z|\u0301x|.")
"""In `eM...Mx` each letter is an id, but for the last mark, which is one with x."""


@pytest.mark.parametrize(
    ("budget", "marks", "first"),
    [
        (1, 1, (0, 2, 1)),  # an id in the text, before one that goes beyond the cluster
        (2, 4, (0, 5, 1)),  # twice as many ids as fit
        (2, 5, (0, 2, 1)),  # more: it is not counted alone, which might take long
    ],
)
def test_a_cluster_that_fits_alone_though_no_id_ends_with_it(
    budget: int, marks: int, first: tuple[int, int, int]
) -> None:
    text = "e" + "\u0301" * marks + "x"
    assert chunks(text, budget, ENDS_WITH_NO_ID)[0] == first


def test_a_later_cluster_that_fits_alone() -> None:
    made = chunks("aaaae\u0301x", 1, ENDS_WITH_NO_ID)
    assert [(start, end) for start, end, _ in made] == [
        (0, 1),
        (1, 2),
        (2, 3),
        (3, 4),
        (4, 6),
        (6, 7),
    ]


def test_a_text_of_no_ids_is_kept_whole() -> None:
    nothing = budgeted("   ", 1, regex.compile("a"))
    assert nothing.first() == nothing.last() == (0, 3, 0)


def test_an_end_that_would_begin_inside_a_character() -> None:
    text = "\u00e9" * 4
    alignment = ByteAlignment(text, list(range(8)), [1] * 8)
    assert BudgetedText(text, alignment, lambda part: len(part.encode()), 3).last() == (3, 4, 2)


def test_an_id_of_no_text_is_no_chunk() -> None:
    """A library may give a first id an empty range."""
    ranges = [Offset(0, 0), Offset(0, 1), Offset(1, 2)]
    text = BudgetedText("ab", RangeAlignment("ab", [7, 8, 9], ranges), len, 1)
    assert text.first() == (0, 1, 1)
    plan = Plan(budget=1, overlap=0, by_meaning=False, max_chunks=2)
    assert text.chunks(plan) == [(0, 1, 1), (1, 2, 1)]


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        ("aaaa aaaa aaaa", [0, 3, 6, 9]),  # at no word, without auto
        ("e\u0301" * 6, [0, 4, 8]),  # three ids would begin inside a cluster
    ],
)
def test_an_overlap_begins_at_the_first_id_where_it_may(text: str, starts: list[int]) -> None:
    plan = Plan(budget=6, overlap=3, by_meaning=False, max_chunks=100)
    assert [chunk.start for chunk in budgeted(text, 6).chunks(plan)] == starts


@pytest.mark.parametrize(("fitting", "start"), [(10, 10), (4, 16), (3, 17), (2, 20)])
def test_the_start_of_an_overlap_is_looked_for_at_eight_places(fitting: int, start: int) -> None:
    """Of ten ids, of nine, and so on to three; where none of them fits, there is no overlap."""

    def count(part: str) -> int:
        return 11 if fitting < len(part) <= 10 else len(part)

    text = "a" * 40
    ranges = [Offset(at, at + 1) for at in range(40)]
    alignment = RangeAlignment(text, list(range(40)), ranges)
    plan = Plan(budget=20, overlap=10, by_meaning=False, max_chunks=100)
    assert BudgetedText(text, alignment, count, 20).chunks(plan)[1].start == start


@pytest.mark.parametrize(
    "text", ["a" * 6000, "a\u0301" * 3000, "a" + "\u0301" * 5999, "\r\n" * 3000]
)
def test_the_ends_of_a_long_text_are_counted_a_few_times(text: str) -> None:
    """No id before the last `max_tokens` can begin what is kept."""
    counted = 0

    def count(part: str) -> int:
        nonlocal counted
        counted += len(part)
        return len(part)

    ranges = [Offset(at, at + 1) for at in range(len(text))]
    both = BudgetedText(text, RangeAlignment(text, list(range(len(text))), ranges), count, 50)
    both.first()
    both.last()
    assert counted <= 2 * len(text)
