"""service.core.spelling: leftmost, then longest, beside a search that is slow and obvious."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.spelling import Finders, SpellingFinder, encode_stretches, split_at
from service.core.tokenizer import ControlSpan
from tests.fuzzing import property_settings

if TYPE_CHECKING:
    from collections.abc import Iterable

LETTERS = "<a\U0001f600|\u00e9>"
SPELLINGS = st.sets(st.text(LETTERS, min_size=1, max_size=3), min_size=1, max_size=6)
TEXTS = st.text(LETTERS + "x", max_size=30)


def found_slowly(text: str, spellings: Iterable[str]) -> list[ControlSpan]:
    found: list[ControlSpan] = []
    place = 0
    while place < len(text):
        here = [spelling for spelling in spellings if text.startswith(spelling, place)]
        if here:
            longest = max(here, key=len)
            found.append(ControlSpan(place, place + len(longest), longest))
        place += len(max(here, key=len)) if here else 1
    return found


@property_settings(500)
@given(TEXTS, SPELLINGS)
def test_leftmost_then_longest(text: str, spellings: set[str]) -> None:
    finder = SpellingFinder(spellings)
    expected = found_slowly(text, spellings)
    assert finder.find(text) == expected
    assert finder.count(text) == len(expected)
    assert finder.may_hold(text) or not expected


LONG = 16_000
"""Characters after which more first characters are looked at than the texts here have."""


@property_settings(300)
@given(TEXTS, SPELLINGS)
def test_no_spelling_is_missed_in_a_long_text(text: str, spellings: set[str]) -> None:
    """There a look at what follows each first character may save the search."""
    finder = SpellingFinder(spellings)
    expected = found_slowly(text, spellings)
    assert finder.find(text + "." * LONG) == expected
    assert finder.count(text + "." * LONG) == len(expected)


def test_a_spelling_right_after_its_own_first_character() -> None:
    for before in ("<", "<<", "<<<"):
        text = f"{before}<|a|>" + "." * LONG
        span = ControlSpan(len(before), len(before) + 5, "<|a|>")
        assert SpellingFinder(["<|a|>"]).find(text) == [span]


def test_a_text_without_a_first_character_is_known_to_hold_none() -> None:
    few, many = SpellingFinder(["<a>", "|b|"]), SpellingFinder(["<", "|", ">", "a"])
    assert not few.may_hold("plain, a > b")
    assert few.may_hold("a < b")
    assert few.may_hold("a | b")
    assert many.may_hold("plain")
    assert SpellingFinder(["<a>", "|b|", "c"]).may_hold("abc")
    assert not SpellingFinder(["<a>", "|b|", "c"]).may_hold("xyz")


def test_a_look_at_some_first_characters() -> None:
    """Code and markup have many of them, and no search is made for a few."""
    finder = SpellingFinder(["<|a|>", "<s>"])
    assert not finder.may_hold("x" * 2000 + "if a < b < c")
    assert finder.may_hold("x" * 2000 + "if a < b <s")
    assert finder.may_hold("< " * 1000), "more of them than it is worth"
    assert finder.may_hold("a < b"), "short texts are searched at once"


@property_settings(300)
@given(TEXTS, SPELLINGS, st.data())
def test_a_narrower_set_is_a_search_of_its_own(
    text: str, spellings: set[str], data: st.DataObject
) -> None:
    finders = Finders(spellings)
    allowed = frozenset(data.draw(st.sets(st.sampled_from(sorted(spellings)), min_size=1)))
    assert finders.find(text, None) == found_slowly(text, spellings)
    for _ in range(2):  # the second time it is known
        assert finders.find(text, allowed) == found_slowly(text, allowed)


def test_finders_of_sets_that_a_caller_sends_are_not_kept_without_end() -> None:
    finders = Finders(["<a>"])
    for number in range(300):
        assert finders.find("<a>", frozenset({"<a>", f"<{number}>"})) == [ControlSpan(0, 3, "<a>")]
    assert finders._narrow.cache_info().currsize == 256


def test_nothing_is_allowed() -> None:
    assert Finders(["<a>"]).find("<a>", frozenset()) == []
    assert SpellingFinder([]).find("<a>") == []
    assert SpellingFinder([]).count("<a>") == 0


@property_settings(300)
@given(TEXTS, SPELLINGS)
def test_stretches_and_spans_are_the_whole_text(text: str, spellings: set[str]) -> None:
    spans = SpellingFinder(spellings).find(text)
    parts = list(split_at(text, spans))
    assert [span for _, span in parts] == [*spans, None]
    assert "".join(stretch + (span.spelling if span else "") for stretch, span in parts) == text
    encoded: list[str] = []

    def encode(stretch: str) -> list[int]:
        encoded.append(stretch)
        return [ord(character) for character in stretch]

    ids = encode_stretches(text, spans, encode, lambda spelling: -len(spelling))
    expected: list[int] = []
    for stretch, span in parts:
        expected += [*map(ord, stretch), *([-len(span.spelling)] if span else [])]
    assert ids == expected
    assert "" not in encoded, "a library need not be asked of nothing"


@pytest.mark.parametrize("text", ["", "x"])
def test_a_text_without_spans_is_one_stretch(text: str) -> None:
    assert list(split_at(text, [])) == [(text, None)]
    assert encode_stretches(text, [], lambda stretch: [len(stretch)], len) == [1] * len(text)
