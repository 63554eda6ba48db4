"""service.core.alignment against slow conversions of every offset."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.alignment import (
    Alignment,
    ByteAlignment,
    MarkedText,
    Measure,
    Offset,
    RangeAlignment,
    Unit,
)
from service.core.tokenizer import ControlSpan
from tests.fuzzing import property_settings
from tests.mixed_texts import mixed_texts
from tests.slowly import codepoint_ranges, in_unit, joining_texts, pairs_in_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

UNITS = st.sampled_from(Unit)
TEXTS = st.one_of(
    mixed_texts([], max_fragments=5),
    joining_texts(20),
    st.text(st.sampled_from("a\u00e9\u20ac\U0001f389"), max_size=12),
    st.text(st.characters(max_codepoint=0x7F), max_size=12),
)
PLACES = st.lists(st.integers(0, 200), max_size=40)
"""Where to ask, in any order; reduced to the size of what is asked."""

# ---- Measure -----------------------------------------------------------------------------------


@property_settings(300)
@given(TEXTS, UNITS, PLACES)
def test_offsets_are_measured_in_any_order(text: str, unit: Unit, places: list[int]) -> None:
    measure = Measure(text, unit)
    for place in (place % (len(text) + 1) for place in places):
        assert measure.at(place) == in_unit(text, place, unit)


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        (Unit.CODEPOINT, [0, 1, 2, 3, 4]),
        (Unit.BYTE, [0, 1, 3, 6, 10]),
        (Unit.UTF16, [0, 1, 2, 3, 5]),
    ],
)
def test_the_three_units(unit: Unit, expected: list[int]) -> None:
    measure = Measure("a\u00e9\u20ac\U0001f389", unit)
    assert [measure.at(place) for place in range(5)] == expected
    back = [measure.at(place) for place in reversed(range(5))]
    assert repr(back) == repr(expected[::-1]), "whole numbers, as JSON shows them"


# ---- ByteAlignment -----------------------------------------------------------------------------


def cut_bytes(text: str, places: Sequence[int]) -> list[bytes]:
    """The bytes of a text in parts, characters cut where it comes so."""
    data = text.encode()
    inner = {place % len(data) for place in places} if data else set()
    edges = sorted({0, len(data)} | inner)
    return [data[start:end] for start, end in itertools.pairwise(edges)]


def aligned(text: str, parts: Sequence[bytes]) -> ByteAlignment:
    return ByteAlignment(text, list(range(len(parts))), [len(part) for part in parts])


@property_settings(300)
@given(TEXTS.filter(bool), PLACES)
def test_ranges_of_parts_of_bytes(text: str, places: list[int]) -> None:
    parts = cut_bytes(text, places)
    alignment = aligned(text, parts)
    ranges = codepoint_ranges(text, parts)
    assert alignment.offsets(Unit.CODEPOINT) == ranges
    assert alignment.offsets(Unit.UTF16) == pairs_in_unit(text, ranges, Unit.UTF16)
    ends = list(itertools.accumulate(map(len, parts)))
    assert alignment.offsets(Unit.BYTE) == list(zip([0, *ends[:-1]], ends, strict=True))


@pytest.mark.parametrize("unit", Unit)
def test_no_ids_have_no_ranges(unit: Unit) -> None:
    """An empty text is one that can be encoded, and asked about."""
    assert ByteAlignment("", [], []).offsets(unit) == []
    assert RangeAlignment("", [], []).offsets(unit) == []


QUESTIONS = st.lists(
    st.tuples(
        st.sampled_from(["cut_after", "cut_before", "first_from", "last_until"]),
        st.integers(0, 200),
    ),
    max_size=30,
)


def asked(alignment: Alignment, question: str, value: int) -> int | None:
    """The answer to a question; a cut after an id is the nearest one, before it the last one."""
    if question == "cut_after":
        gap = alignment.gap_after(value)
        return None if gap is None else gap.start
    if question == "cut_before":
        gap = alignment.gap_before(value)
        return None if gap is None else gap.end
    answer: int = getattr(alignment, question)(value)
    return answer


def slow_byte_answer(text: str, parts: Sequence[bytes], question: str, value: int) -> int | None:
    """What a ByteAlignment is asked, from the bytes before each id."""
    before = [b"".join(parts[:index]) for index in range(len(parts) + 1)]
    if question in ("cut_after", "cut_before"):
        head = before[value + (question == "cut_after")]
        try:
            return len(head.decode())
        except UnicodeDecodeError:
            return None
    offset = len(text[:value].encode())
    sizes = list(map(len, before))
    if question == "first_from":
        return next(index for index, size in enumerate(sizes) if size >= offset)
    return max(index for index, size in enumerate(sizes) if size <= offset)


@property_settings(300)
@given(TEXTS.filter(bool), PLACES, QUESTIONS)
def test_cuts_between_parts_of_bytes_in_any_order(
    text: str, places: list[int], questions: list[tuple[str, int]]
) -> None:
    parts = cut_bytes(text, places)
    alignment = aligned(text, parts)
    for question, number in questions:
        value = number % (len(text) + 1 if question in ("first_from", "last_until") else len(parts))
        answer = asked(alignment, question, value)
        assert answer == slow_byte_answer(text, parts, question, value), (question, value)


def test_a_character_of_several_ids_is_cut_nowhere() -> None:
    # cl100k_base gives a party popper three ids, the first with the blank before it.
    parts = [b"a", b" \xf0\x9f", b"\x8e", b"\x89", b"b"]
    alignment = aligned("a \U0001f389b", parts)
    assert alignment.offsets(Unit.CODEPOINT) == [(0, 1), (1, 3), (2, 3), (2, 3), (3, 4)]
    assert alignment.offsets(Unit.BYTE) == [(0, 1), (1, 4), (4, 5), (5, 6), (6, 7)]
    assert alignment.offsets(Unit.UTF16) == [(0, 1), (1, 4), (2, 4), (2, 4), (4, 5)]
    assert [asked(alignment, "cut_after", index) for index in range(5)] == [1, None, None, 3, 4]
    assert [asked(alignment, "cut_before", index) for index in range(5)] == [0, 1, None, None, 3]
    assert [alignment.first_from(offset) for offset in range(5)] == [0, 1, 2, 4, 5]
    assert [alignment.last_until(offset) for offset in range(5)] == [0, 1, 1, 4, 5]


# ---- RangeAlignment ----------------------------------------------------------------------------


def rising(steps: list[tuple[int, int, bool]], text: str) -> list[Offset]:
    """Ranges as libraries give them: rising, at times empty, at times twice the same."""
    ranges: list[Offset] = []
    position = 0
    for gap, size, again in steps:
        if again and ranges:
            ranges.append(ranges[-1])
            continue
        start = min(position + gap, len(text))
        position = min(start + size, len(text))
        ranges.append(Offset(start, position))
    return ranges


STEPS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.booleans()), max_size=12)


def slow_range_answer(ranges: Sequence[Offset], question: str, value: int) -> int | None:
    count = len(ranges)
    if question == "cut_after":
        end = max(pair.end for pair in ranges[: value + 1])
        return end if all(pair.start >= end for pair in ranges[value + 1 :]) else None
    if question == "cut_before":
        start = min(pair.start for pair in ranges[value:])
        return start if all(pair.end <= start for pair in ranges[:value]) else None
    if question == "first_from":
        return next(
            index
            for index in range(count + 1)
            if all(pair.start >= value for pair in ranges[index:])
        )
    return max(
        index for index in range(count + 1) if all(pair.end <= value for pair in ranges[:index])
    )


@property_settings(300)
@given(TEXTS, STEPS, QUESTIONS)
def test_cuts_between_ranges(
    text: str, steps: list[tuple[int, int, bool]], questions: list[tuple[str, int]]
) -> None:
    ranges = rising(steps, text)
    alignment = RangeAlignment(text, list(range(len(ranges))), ranges)
    for question, number in questions:
        by_offset = question in ("first_from", "last_until")
        if not by_offset and not ranges:
            continue
        value = number % (len(text) + 1 if by_offset else len(ranges))
        answer = asked(alignment, question, value)
        assert answer == slow_range_answer(ranges, question, value), (question, value, ranges)


@property_settings(200)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), min_size=1, max_size=30))
def test_the_last_gap_is_the_nearest_before(steps: list[tuple[int, int]]) -> None:
    ranges = [Offset(start, start + length) for start, length in steps]
    spread = RangeAlignment("x" * 14, list(range(len(ranges))), ranges)
    sizes = [1 + start % 3 for start, _ in steps]
    joined = ByteAlignment("\u00e9" * sum(sizes), list(range(2 * sum(sizes))), [1] * 2 * sum(sizes))
    for alignment in (spread, joined):
        for index in range(len(alignment.ids)):
            before = [at for at in range(index + 1) if alignment.gap_after(at) is not None]
            assert alignment.last_gap(index) == (before[-1] if before else -1)


def test_a_gap_is_what_no_id_has() -> None:
    """A normalizer that drops blanks or marks leaves room for the cut."""
    alignment = RangeAlignment("a  b c", [1, 2], [Offset(0, 1), Offset(3, 4)])
    assert alignment.gap_before(0) == (0, 0)
    assert alignment.gap_after(0) == alignment.gap_before(1) == (1, 3)
    assert alignment.gap_after(1) == (4, 6), "to the end of the text"


@property_settings(200)
@given(TEXTS, STEPS, UNITS)
def test_ranges_in_every_unit(text: str, steps: list[tuple[int, int, bool]], unit: Unit) -> None:
    ranges = rising(steps, text)
    alignment = RangeAlignment(text, list(range(len(ranges))), ranges)
    assert alignment.offsets(unit) == pairs_in_unit(text, ranges, unit)


def test_before_the_first_id_is_the_start_of_the_text() -> None:
    assert ByteAlignment("\u00e9a", [1, 2], [2, 1]).gap_before(0) == Offset(0, 0)
    assert ByteAlignment("\u00e9a", [1, 2], [2, 1]).gap_before(1) == Offset(1, 1)
    assert RangeAlignment(" a", [1], [Offset(1, 2)]).gap_before(0) == Offset(0, 1)


# ---- MarkedText --------------------------------------------------------------------------------


@property_settings(300)
@given(
    st.text("ab \u00e9", max_size=20),
    st.lists(st.integers(0, 20), max_size=8, unique=True),
    st.integers(1, 5),
)
def test_the_way_back_from_a_marked_text(text: str, edges: list[int], longer: int) -> None:
    edges = sorted(edge for edge in edges if edge <= len(text))
    spans = [
        ControlSpan(start, end, text[start:end])
        for start, end in zip(edges[::2], edges[1::2], strict=False)
    ]
    marked = MarkedText(text, spans, lambda spelling: spelling + "#" * longer)
    expected = text
    for start, end, spelling in reversed(spans):
        expected = expected[:start] + spelling + "#" * longer + expected[end:]
    assert marked.text == expected
    # Slowly: walk both texts side by side, a replaced span as one step.
    place = in_marked = 0
    steps = {span.start: span for span in spans}
    while place < len(text):
        span = steps.get(place)
        size = span.end - span.start if span else 1
        marked_size = size + longer if span else 1
        there = Offset(in_marked, in_marked + marked_size)
        assert marked.original(there) == Offset(place, place + size)
        if span is None:
            assert marked.marked(Offset(place, place + 1)) == there
        place, in_marked = place + size, there.end
    assert in_marked == len(marked.text)


def test_inside_a_replaced_span_is_where_the_span_begins() -> None:
    """The library may give a token that is the stand-in any range of it."""
    spans = [ControlSpan(1, 4, "<x>"), ControlSpan(6, 9, "<y>")]
    marked = MarkedText("a<x>bc<y>d", spans, lambda spelling: f"<{spelling * 2}>")
    assert marked.text == "a<<x><x>>bc<<y><y>>d"
    assert [marked.original(Offset(place, place)).start for place in range(21)] == [
        *(0, *[1] * 8, 4, 5),
        *(*[6] * 8, 9, 10),
    ]
