"""Finding control spellings in a text: leftmost, then longest."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import ahocorasick_rs

from service.core.tokenizer import ControlSpan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_FINDERS_KEPT = 256
"""How many finders for `allowed_special` sets a tokenizer keeps; a caller may send any set."""

_CHARACTERS_A_TRY = 512
"""A look at what follows a first character takes a third of the time of searching so much text."""


class SpellingFinder:
    """Finds the spellings of a fixed set in a text; of two at one place the longest wins."""

    def __init__(self, spellings: Iterable[str]) -> None:
        self._spellings = sorted(spellings)
        # A text without any first character of a spelling holds none of them, and `find` on a
        # str costs a hundredth of the search. Past three characters the search is cheaper.
        first = {spelling[0] for spelling in self._spellings}
        self._first = sorted(first) if len(first) <= 3 else None  # noqa: PLR2004 - said above
        self._starts = tuple({spelling[:2] for spelling in self._spellings})
        self._automaton = ahocorasick_rs.AhoCorasick(
            self._spellings, matchkind=ahocorasick_rs.MatchKind.LeftmostLongest
        )

    def find(self, text: str) -> list[ControlSpan]:
        """All spellings in `text`, in order, without overlap; offsets in code points."""
        if not self.may_hold(text):
            return []
        return [
            ControlSpan(start, end, self._spellings[which])
            for which, start, end in self._automaton.find_matches_as_indexes(text)
        ]

    def count(self, text: str) -> int:
        """How many spellings stand in `text`."""
        if not self.may_hold(text):
            return 0
        return len(self._automaton.find_matches_as_indexes(text))

    def may_hold(self, text: str) -> bool:
        """False when `text` certainly holds no spelling; cheap."""
        if self._first is None:
            return True
        tries = len(text) // _CHARACTERS_A_TRY
        for character in self._first:
            place = text.find(character)
            while place >= 0:
                if tries == 0 or text.startswith(self._starts, place):
                    return True
                tries -= 1
                place = text.find(character, place + 1)
        return False


class Finders:
    """The finder of all control spellings, and those of the narrower sets asked for."""

    def __init__(self, spellings: Iterable[str]) -> None:
        self.all = SpellingFinder(spellings)
        self._narrow = functools.lru_cache(maxsize=_FINDERS_KEPT)(SpellingFinder)

    def find(self, text: str, allowed: frozenset[str] | None) -> list[ControlSpan]:
        """Spans in `text` of the spellings in `allowed`, or of all when it is None."""
        return (self.all if allowed is None else self._narrow(allowed)).find(text)


def split_at(text: str, spans: Sequence[ControlSpan]) -> Iterator[tuple[str, ControlSpan | None]]:
    """The stretches between `spans`, each with the span that ends it (None for the last)."""
    position = 0
    for span in spans:
        yield text[position : span.start], span
        position = span.end
    yield text[position:], None


def encode_stretches(
    text: str,
    spans: Sequence[ControlSpan],
    encode: Callable[[str], list[int]],
    ids_of: Callable[[str], int],
) -> list[int]:
    """Encode each stretch between control spellings alone and put the control ids between.

    Right for the formats whose reference library does the same: tiktoken and minbpe split at
    special tokens first, and SentencePiece never sees them.
    """
    ids: list[int] = []
    for stretch, span in split_at(text, spans):
        if stretch:
            ids += encode(stretch)
        if span is not None:
            ids.append(ids_of(span.spelling))
    return ids
