"""service.core.budget over a tokenizer of three letters whose counts are as unruly as real ones."""

from __future__ import annotations

import itertools

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from service.core.alignment import ByteAlignment, Offset, RangeAlignment
from service.core.budget import BudgetedText, Plan
from service.errors import BudgetTooSmall, TooManyItems
from tests.fuzzing import property_settings
from tests.slowly import cluster_around, cluster_edges

PIECES = regex.compile(r"aba|ab|bcab|bc|ca|cc| a| b|\S|\s")
"""The leftmost longest piece first: what comes before a text decides how it is cut."""


class Counted:
    """A text with its alignment, and a count that notes how much it was given."""

    def __init__(self, text: str, pieces: regex.Pattern[str] = PIECES) -> None:
        self.text = text
        self.characters_counted = 0
        self._pieces = pieces
        self.ranges = [Offset(*found.span()) for found in pieces.finditer(text)]

    def count(self, part: str) -> int:
        self.characters_counted += len(part)
        return len(self._pieces.findall(part))

    def budgeted(self, budget: int) -> BudgetedText:
        alignment = RangeAlignment(self.text, list(range(len(self.ranges))), self.ranges)
        return BudgetedText(self.text, alignment, self.count, budget)


def plan(budget: int, overlap: int = 0, *, auto: bool = False, max_chunks: int = 10**6) -> Plan:
    return Plan(budget=budget, overlap=overlap, by_meaning=auto, max_chunks=max_chunks)


TEXTS = st.one_of(
    st.text(st.sampled_from("abc "), max_size=40),
    st.text(st.sampled_from("abc \n.A"), max_size=40),
    st.text(st.sampled_from("ab\u0301\u0308\U0001f1e9\r\n"), max_size=40),
)
BUDGETS = st.integers(1, 12)


def test_counts_here_do_not_add_and_prefixes_do_not_rise() -> None:
    """Else the tests below would show nothing."""
    counts = [Counted("").count("bcab"[:size]) for size in range(5)]
    assert counts == [0, 1, 1, 2, 1]
    assert Counted("").count("ab") + Counted("").count("a") > Counted("").count("aba")


# ---- the beginning and the end -----------------------------------------------------------------


@property_settings(500)
@given(TEXTS, BUDGETS)
def test_the_longest_beginning(text: str, budget: int) -> None:
    counted = Counted(text)
    start, end, tokens = counted.budgeted(budget).first()
    edges = cluster_edges(text)
    assert start == 0
    assert tokens == counted.count(text[:end]) <= budget
    assert end in edges
    for index, (_, stop) in enumerate(counted.ranges[:budget]):
        if stop in edges and counted.count(text[:stop]) <= budget:
            assert end >= stop, index
    first = min((edge for edge in edges if edge), default=0)
    assert end or counted.count(text[:first]) > budget or not text


@property_settings(500)
@given(TEXTS, BUDGETS)
def test_the_longest_end(text: str, budget: int) -> None:
    counted = Counted(text)
    start, end, tokens = counted.budgeted(budget).last()
    edges = cluster_edges(text)
    assert end == len(text)
    assert tokens == counted.count(text[start:]) <= budget
    assert start in edges
    for begin, _ in counted.ranges[max(len(counted.ranges) - budget, 0) :]:
        if begin in edges and counted.count(text[begin:]) <= budget:
            assert start <= begin


def test_marks_that_are_of_no_id_go_with_the_letter_before_them() -> None:
    """A normalizer that drops them leaves no id that ends where a cluster does."""
    text = "e\u0301 " * 10
    counted = Counted(text, regex.compile("e"))
    assert counted.budgeted(4).first().tokens == 4
    assert counted.budgeted(4).last().tokens == 4
    assert [chunk.tokens for chunk in counted.budgeted(4).chunks(plan(4))] == [4, 4, 2]


def test_a_first_cluster_that_ends_with_no_id() -> None:
    """Alone it may be fewer ids than the text begins with."""
    crossing = regex.compile("e(?=\u0301x)|\u0301x|e\u0301|.")
    text = "e\u0301x"
    assert Counted(text, crossing).count(text) == 2
    assert Counted(text, crossing).budgeted(1).first() == (0, 2, 1)
    single = regex.compile("e(?=\u0301x)|\u0301x|.")
    assert Counted(text, single).budgeted(1).first() == (0, 0, 0)
    assert Counted(text, single).budgeted(2).first() == (0, 3, 2)


# ---- chunks ------------------------------------------------------------------------------------


def check_chunks(text: str, budget: int, overlap: int, *, auto: bool) -> None:
    counted = Counted(text)
    chunks = counted.budgeted(budget).chunks(plan(budget, overlap, auto=auto))
    edges = cluster_edges(text)
    end = 0
    for chunk in chunks:
        piece = text[chunk.start : chunk.end]
        assert counted.count(piece) == chunk.tokens <= budget
        assert chunk.start <= end < chunk.end
        if chunk.start < end:
            assert counted.count(text[chunk.start : end]) <= overlap
        for place in (chunk.start, chunk.end):
            if place not in edges:
                assert counted.count(cluster_around(text, place)) > budget
        end = chunk.end
    assert end == len(text)
    starts = [chunk.start for chunk in chunks]
    assert starts == sorted(set(starts))


@property_settings(600)
@given(TEXTS, BUDGETS, st.integers(0, 6), st.booleans())
def test_chunks(text: str, budget: int, overlap: int, auto: bool) -> None:  # noqa: FBT001
    check_chunks(text, budget, min(overlap, budget // 2), auto=auto)


def test_an_empty_text_has_no_chunks() -> None:
    assert Counted("").budgeted(3).chunks(plan(3)) == []
    assert Counted("").budgeted(3).first() == (0, 0, 0)
    assert Counted("").budgeted(3).last() == (0, 0, 0)


def test_text_of_no_ids_is_one_chunk() -> None:
    counted = Counted("   ", regex.compile("a"))
    assert counted.budgeted(1).chunks(plan(1)) == [(0, 3, 0)]
    assert Counted("a   ", regex.compile("a")).budgeted(1).chunks(plan(1)) == [(0, 4, 1)]
    assert Counted("a   ", regex.compile("a")).budgeted(1).first() == (0, 4, 1)
    assert Counted("   a", regex.compile("a")).budgeted(1).last() == (0, 4, 1)


def test_a_cluster_over_the_budget_is_cut_between_code_points() -> None:
    text = "a" + "\u0301" * 7
    chunks = Counted(text).budgeted(3).chunks(plan(3))
    assert [(chunk.start, chunk.end) for chunk in chunks] == [(0, 3), (3, 6), (6, 8)]


def test_a_code_point_over_the_budget() -> None:
    counted = Counted("\U0001f389x", regex.compile("."))
    three = BudgetedText(
        "\U0001f389x",
        RangeAlignment("\U0001f389x", [0, 1, 2, 3], [Offset(0, 1)] * 3 + [Offset(1, 2)]),
        lambda part: counted.count(part) + 2 * part.count("\U0001f389"),
        2,
    )
    with pytest.raises(BudgetTooSmall):
        three.chunks(plan(2))
    assert three.first() == (0, 0, 0)


@pytest.mark.parametrize("max_chunks", [1, 2, 3])
def test_more_chunks_than_are_allowed(max_chunks: int) -> None:
    counted = Counted("b" * 30)
    with pytest.raises(TooManyItems) as refused:
        counted.budgeted(5).chunks(plan(5, max_chunks=max_chunks))
    assert refused.value.members == {"limit": max_chunks}
    assert counted.characters_counted < 30 * 2  # it stops there, it does not cut all first
    assert len(Counted("b" * 30).budgeted(5).chunks(plan(5, max_chunks=6))) == 6


def test_token_fills_to_the_brim_and_auto_looks_for_meaning() -> None:
    text = "aa aa. Aa aa\n\naa aa aa"
    brim = Counted(text).budgeted(9).chunks(plan(9))
    assert text[brim[0].start : brim[0].end] == "aa aa. Aa a"
    read_well = Counted(text).budgeted(9).chunks(plan(9, auto=True))
    assert text[read_well[0].start : read_well[0].end] == "aa aa. "


def test_an_overlap_begins_at_a_word_where_meaning_counts() -> None:
    text = "caabc caabc caabc caabc caabc"
    for auto in (False, True):
        chunks = Counted(text).budgeted(9).chunks(plan(9, 4, auto=auto))
        for one, other in itertools.pairwise(chunks):
            shared = text[other.start : one.end]
            assert shared, chunks
            if auto:
                assert text[other.start - 1] == " "


@property_settings(400)
@given(
    st.text(st.sampled_from("a \n\u00e9\u6771\U0001f600"), max_size=24),
    st.integers(4, 12),
    st.integers(0, 5),
    st.booleans(),
)
def test_chunks_of_ids_that_end_inside_characters(
    text: str,
    budget: int,
    overlap: int,
    auto: bool,  # noqa: FBT001 - drawn
) -> None:
    """An id a byte: most places between ids are inside a character, where nothing is cut."""

    def count(part: str) -> int:
        return len(part.encode())

    size = count(text)
    alignment = ByteAlignment(text, [0] * size, [1] * size)
    overlap = min(overlap, budget // 2)
    chunks = BudgetedText(text, alignment, count, budget).chunks(plan(budget, overlap, auto=auto))
    end = 0
    for chunk in chunks:
        assert chunk.tokens == count(text[chunk.start : chunk.end]) <= budget
        assert chunk.start <= end < chunk.end
        assert count(text[chunk.start : end]) <= overlap
        if not auto and chunk.end < len(text):
            assert count(text[chunk.start : chunk.end + 1]) > budget, "filled to the brim"
        end = chunk.end
    assert end == len(text)


def test_later_chunks_look_for_meaning_as_the_first_does() -> None:
    """In the last half of what fits, counted from where the chunk begins."""
    text = "aa aa. Aa aa" * 6
    chunks = Counted(text, SINGLE).budgeted(20).chunks(plan(20, auto=True))
    ends = [text[: chunk.end] for chunk in chunks[:-1]]
    assert len(ends) > 2
    assert all(end.endswith(". ") for end in ends), ends


# ---- work --------------------------------------------------------------------------------------

SINGLE = regex.compile(r"(?s).")
LONG = {
    "one letter": "a" * 6000,
    "words": "abc " * 1500,
    "line ends": "\r\n" * 3000,
    "flags": "\U0001f1e9" * 6000,
    "one cluster of marks": "\u0301" * 6000,
    "leading Hangul": "\u1100" * 6000,
    "joiners": "\u200d" * 6000,
    "clusters over the budget": ("a" + "\u0301" * 99) * 60,
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("auto", [False, True])
@pytest.mark.parametrize("overlap", [0, 16])
def test_what_is_counted_grows_with_the_text_alone(name: str, overlap: int, *, auto: bool) -> None:
    """A count is what costs: of all characters, several times at most, whatever they are."""
    text = LONG[name]
    counted = Counted(text, SINGLE)
    counted.budgeted(64).chunks(plan(64, overlap, auto=auto))
    assert counted.characters_counted <= 8 * len(text)


class Watched(RangeAlignment):
    """Notes how often it is asked where its text may be cut."""

    asked = 0

    def gap_after(self, index: int) -> Offset | None:
        self.asked += 1
        return super().gap_after(index)


@pytest.mark.parametrize("auto", [False, True])
def test_ids_that_all_hang_together_are_not_looked_through_for_each_chunk(*, auto: bool) -> None:
    """U+FDFA in t5-base: one character becomes eighteen, whose words reach into the next."""
    text = "\ufdfa" * 800
    ranges = [Offset(at // 6, min(at // 6 + 2, len(text))) for at in range(6 * len(text))]
    alignment = Watched(text, list(range(len(ranges))), ranges)
    budgeted = BudgetedText(text, alignment, lambda part: 6 * len(part), 64)
    chunks = budgeted.chunks(plan(64, auto=auto))
    assert "".join(text[start:end] for start, end, _ in chunks) == text
    assert alignment.asked <= 4 * len(ranges)
